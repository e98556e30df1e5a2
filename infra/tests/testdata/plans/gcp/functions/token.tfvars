project              = "my-project-1"
region               = "europe-west1"
database             = "leasehold"
source_archive       = "package.zip"
runtime              = "go127"
auth_issuer          = "https://login.example.com"
auth_audience        = "https://locks.example.com"
task_auth            = "token"
task_ingress         = "all"
alerts               = false
audit_retention_days = 30

settings = {
  LEASEHOLD_AUTH_TENANT     = "acme"
  LEASEHOLD_TARGET_URL      = "https://target.example.com/run"
  LEASEHOLD_TARGET_AUDIENCE = "work"
  LEASEHOLD_AUTH_SUBJECTS   = "alice,bob"
}
