project  = "my-project-1"
region   = "europe-west1"
services = { api = "leasehold-api" }
accounts = { api = "leasehold-api@my-project-1.iam.gserviceaccount.com" }
subjects = ["repo:acme/deployment:environment:production"]
