terraform {
  required_version = ">= 1.9"

  # terraform init -backend-config=../environments/ENVIRONMENT.backend.hcl -backend-config=prefix=leasehold/functions
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
  region  = var.region

  default_labels = { environment = var.environment }
}

module "functions" {
  source = "../../../functions"

  project  = var.project
  region   = var.region
  database = var.database
  labels   = { application = "leasehold" }

  # The image of a release, by its digest: what was tested is what runs.
  image = var.image

  # Callers have tokens of the company's issuer, with a tenant in each.
  auth_issuer   = var.auth_issuer
  auth_audience = var.auth_audience

  # Analyses: the queue delivers to Tasks, which calls the target with a token of Secret Manager.
  target_token_secret = google_secret_manager_secret.target_token.secret_id
  producers           = var.producers

  settings = {
    LEASEHOLD_AUTH_REQUIRED_SCOPE  = "leasehold"
    LEASEHOLD_TENANT_RATE          = 200
    LEASEHOLD_MAX_LOCKS_PER_TENANT = 100000
    LEASEHOLD_MAX_RUNS_PER_TENANT  = 1000000
    LEASEHOLD_TARGET_URL           = var.target_url
    LEASEHOLD_TASK_TIMEOUT         = "20m"
    LEASEHOLD_TTL                  = "2m"
  }

  api_scaling   = { min_instances = 1, max_instances = 20 }
  tasks_scaling = { max_instances = 10, concurrency = 20 }
  queue         = { max_concurrent = 100 }

  audit_retention_days  = 400
  audit_locked          = var.audit_locked
  notification_channels = [google_monitoring_notification_channel.on_call.name]
  otlp_endpoint         = var.otlp_endpoint
  metrics_alerts        = var.otlp_endpoint != null
}

# Who deploys: a workflow of the repository in the environment of the same name, without a key.
module "deploy_role" {
  source = "../../../deploy-role"

  project    = var.project
  region     = var.region
  services   = module.functions.names
  accounts   = module.functions.accounts
  repository = { location = var.region, name = "leasehold" }
  subjects   = ["repo:${var.repository}:environment:${var.environment}"]
}

# The secret, without a value: gcloud secrets versions add leasehold-target-token --data-file=-. The state has no secrets then.
resource "google_secret_manager_secret" "target_token" {
  project   = var.project
  secret_id = "leasehold-target-token"

  replication {
    auto {}
  }
}

resource "google_monitoring_notification_channel" "on_call" {
  project      = var.project
  display_name = "Leasehold: on call"
  type         = "email"
  labels       = { email_address = var.on_call }
}
