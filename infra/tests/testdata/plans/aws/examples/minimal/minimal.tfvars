region  = "eu-north-1"
name    = "locks"
package = "package.zip"
