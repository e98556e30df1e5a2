module github.com/leasehold-dev/leasehold

go 1.26.0
