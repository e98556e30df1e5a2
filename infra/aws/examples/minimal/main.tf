terraform {
  required_version = ">= 1.9"

  required_providers {
    aws = {
      source  = "hashicorp/aws"
      version = ">= 5.100, < 7.0"
    }
  }
}

provider "aws" {
  region = var.region

  default_tags {
    tags = { Service = var.name }
  }
}

module "table" {
  source = "../../table"
  name   = var.name
}

module "functions" {
  source     = "../../functions"
  name       = var.name
  table_name = module.table.name
  package    = var.package

  # Callers are verified by IAM, and share one tenant.
  front_door = "url"
  iam        = true
  settings   = { LEASEHOLD_AUTH_TENANT = var.name }

  # A new account has ten instances in all, and can reserve none.
  reserve_concurrency = false
}
