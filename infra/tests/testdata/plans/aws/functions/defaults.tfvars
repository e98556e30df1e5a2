table_name = "leasehold"
package    = "package.zip"

settings = {
  LEASEHOLD_AUTH_ISSUER   = "https://issuer.example"
  LEASEHOLD_AUTH_AUDIENCE = "leasehold"
}
