# Everything but the table. It can be destroyed and applied at will: no lease is lost.

terraform {
  required_version = ">= 1.10"

  required_providers {
    aws = {
      source  = "hashicorp/aws"
      version = ">= 5.100, < 7.0"
    }
  }

  # terraform init -backend-config=../ENVIRONMENT.s3.tfbackend -backend-config=key=leasehold/ENVIRONMENT/functions.tfstate
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

module "functions" {
  source      = "../../../functions"
  name        = "leasehold-${var.environment}"
  table_name  = "leasehold-${var.environment}"
  kms_key_arn = var.kms_key_arn
  package     = var.package
  versions    = var.versions

  # API Gateway verifies tokens first, and then the function does again: a principal that may invoke the function directly is no caller by that.
  front_door = "http-api"
  jwt        = { issuer = var.issuer, audience = [var.audience] }

  settings = {
    LEASEHOLD_AUTH_ISSUER          = var.issuer
    LEASEHOLD_AUTH_AUDIENCE        = var.audience
    LEASEHOLD_TARGET_URL           = var.target_url
    LEASEHOLD_TARGET_AUDIENCE      = var.target_audience
    LEASEHOLD_TENANT_RATE          = 100
    LEASEHOLD_MAX_LOCKS_PER_TENANT = 100000
    LEASEHOLD_MAX_RUNS_PER_TENANT  = 1000000
    LEASEHOLD_METRICS_EMF          = true
  }

  analyses    = true
  concurrency = { api = 100, worker = 20, sweep = 1 }
  throttle    = { rate = 500, burst = 1000 }

  log_retention_days   = 90
  audit_retention_days = 400
  audit_locked         = var.audit_locked
  metrics_alarms       = true
  alarm_topic_arns     = var.alarm_topic_arns
  budget               = { monthly_usd = var.monthly_usd, emails = var.budget_emails, tag = "user:Service$leasehold" }
}

module "deploy_role" {
  source       = "../../../deploy-role"
  name         = "leasehold-${var.environment}"
  issuer       = "token.actions.githubusercontent.com"
  audience     = "sts.amazonaws.com"
  subjects     = ["repo:${var.repository}:environment:${var.environment}"]
  provider_arn = var.oidc_provider_arn
}
