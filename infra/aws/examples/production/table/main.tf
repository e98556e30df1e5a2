# The table, in a state of its own: apply it once for each environment, and rarely again.

terraform {
  required_version = ">= 1.10"

  required_providers {
    aws = {
      source  = "hashicorp/aws"
      version = ">= 5.100, < 7.0"
    }
  }

  # terraform init -backend-config=../ENVIRONMENT.s3.tfbackend -backend-config=key=leasehold/ENVIRONMENT/table.tfstate
  backend "s3" {
    encrypt      = true
    use_lockfile = true
  }
}

provider "aws" {
  region              = var.region
  allowed_account_ids = [var.account_id]

  default_tags {
    tags = { Service = "leasehold", Environment = var.environment }
  }
}

module "table" {
  source          = "../../../table"
  name            = "leasehold-${var.environment}"
  kms_key_arn     = var.kms_key_arn
  max_write_units = var.max_write_units
}
