terraform {
  required_version = ">= 1.9"

  # terraform init -backend-config=../environments/ENVIRONMENT.backend.hcl -backend-config=prefix=leasehold/database
  backend "gcs" {}

  required_providers {
    google = {
      source  = "hashicorp/google"
      version = ">= 6.50, < 8.0"
    }
  }
}

provider "google" {
  project = var.project
}

# A state of its own: nothing that is done to the functions can touch what has the locks.
module "database" {
  source = "../../../database"

  project               = var.project
  location              = var.location
  backup_retention_days = var.backup_retention_days
}
