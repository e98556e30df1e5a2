terraform {
  required_version = ">= 1.9"

  required_providers {
    google = {
      source  = "hashicorp/google"
      version = ">= 6.50, < 8.0"
    }
  }
}

provider "google" {
  project = var.project
  region  = var.region
}

# The database has the locks. Apart from it everything can be destroyed and made again.
module "database" {
  source = "../../database"

  project  = var.project
  location = var.region
}

# The API for service accounts of Google: their tokens, for the audience "leasehold".
module "functions" {
  source = "../../functions"

  project        = var.project
  region         = var.region
  database       = module.database.name
  source_archive = var.source_archive

  auth_issuer   = "https://accounts.google.com"
  auth_audience = "leasehold"

  settings = {
    LEASEHOLD_AUTH_TENANT   = "default"
    LEASEHOLD_AUTH_SUBJECTS = join(",", var.callers)
  }
}
