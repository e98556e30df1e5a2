table_name           = "leasehold"
package              = "package.zip"
architecture         = "x86_64"
front_door           = "url"
iam                  = true
reserve_concurrency  = false
analyses             = true
audit_retention_days = 30

settings = {
  LEASEHOLD_AUTH_TENANT   = "acme"
  LEASEHOLD_TARGET_URL    = "https://target.example.com/run"
  LEASEHOLD_AUTH_SUBJECTS = "arn:aws:iam::123456789012:role/web"
}
