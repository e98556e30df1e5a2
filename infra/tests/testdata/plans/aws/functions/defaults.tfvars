table_name    = "leasehold"
package       = "package.zip"
auth_issuer   = "https://issuer.example"
auth_audience = "leasehold"
