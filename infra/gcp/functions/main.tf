locals {
  services = var.enable_services ? toset(concat(
    ["artifactregistry", "cloudscheduler", "cloudtasks", "iam", "logging", "monitoring", "run", "secretmanager"],
    var.image == null ? ["cloudbuild", "cloudfunctions"] : [],
  )) : toset([])

  # Without a target there is nothing to deliver: no queue and no worker. The sweep then looks after clusters of placement, alarms and tallies. A
  # container needs it as a function does: between requests it has no processor for what the program does by itself elsewhere.
  queued = contains(keys(local.set), "LEASEHOLD_TARGET_URL")

  # Times of the settings in seconds, or the program's defaults.
  seconds = {
    request = ceil(try(local.amount.LEASEHOLD_REQUEST_TIMEOUT / 1000000000, 10))
    task    = ceil(try(local.amount.LEASEHOLD_TASK_TIMEOUT / 1000000000, 600))
    wait    = ceil(try(local.amount.LEASEHOLD_MAX_WAIT / 1000000000, var.image == null ? 0 : 20))
  }

  # Cloud Run must not cut off what the program itself would end and answer: a request of the API, which waits for events for up to 20 s; a run; a sweep.
  margin          = 15
  event_wait      = 20
  sweep_limit     = 120
  api_timeout     = local.seconds.request + local.event_wait + local.margin
  tasks_timeout   = local.seconds.task + 2 * local.margin
  sweep_timeout   = local.sweep_limit + 2 * local.margin
  task_path       = "/internal/tasks/analysis"
  sweep_path      = "/internal/sweep"
  target_folder   = "/secrets/target"
  target_file     = "token"
  public_issuers  = concat(keys(local.organizations), ["https://appleid.apple.com", "https://login.microsoftonline.com/9188040d-6c67-4c5b-b112-36a304b66dad/v2.0"])
  task_audience   = "leasehold-tasks" # what token mode compares; with platform the audience is the service's URL
  verifies_tokens = var.task_auth == "token"

  # Issuers of which everybody can get a token, with the claims that name an organization.
  organizations = {
    "https://accounts.google.com"                 = ["hd"]
    "https://gitlab.com"                          = ["namespace_id", "namespace_path"]
    "https://token.actions.githubusercontent.com" = ["repository_owner", "repository_owner_id", "enterprise", "enterprise_id"]
  }

  # The environment of all three.
  environment = merge(
    { LEASEHOLD_PROJECT = var.project, LEASEHOLD_DATABASE = var.database },
    var.image == null ? {} : { LEASEHOLD_STORE = "firestore", LEASEHOLD_LOG = "cloud-logging" },
    var.otlp_endpoint == null ? {} : { OTEL_EXPORTER_OTLP_ENDPOINT = var.otlp_endpoint },
  )
  authentication = { LEASEHOLD_AUTH_ISSUER = var.auth_issuer, LEASEHOLD_AUTH_AUDIENCE = var.auth_audience }

  # A container is always the whole program: without an issuer it does not start, and its API is behind the same IAM as the endpoint.
  internal = merge(local.environment, var.image == null ? {} : local.authentication, { LEASEHOLD_TASK_AUTH = var.task_auth })

  everybody = { everybody = "allUsers" }

  source_code = var.image == null ? {
    runtime       = var.runtime
    bucket        = google_storage_bucket.sources[0].name
    object        = google_storage_bucket_object.sources[0].name
    repository    = google_artifact_registry_repository.functions[0].id
    build_account = google_service_account.build[0].id
  } : null
}

resource "google_project_service" "this" {
  for_each = local.services

  project            = var.project
  service            = "${each.key}.googleapis.com"
  disable_on_destroy = false
}

module "api" {
  source = "./service"

  project     = var.project
  region      = var.region
  name        = "${var.name}-api"
  description = "Leasehold's HTTP API"
  entry_point = "API"
  source_code = local.source_code
  image       = var.image
  account     = google_service_account.this["api"].email
  environment = merge(
    local.environment, local.settings.api, local.authentication,
    var.image == null ? {} : { LEASEHOLD_CONSOLE = lookup(local.set, "LEASEHOLD_CONSOLE", "false") }, # the functions' default
  )
  ingress         = var.api_ingress
  invokers        = var.api_public ? local.everybody : { for member in var.api_invokers : member => member }
  timeout_seconds = local.api_timeout
  scaling         = var.api_scaling
  labels          = var.labels

  depends_on = [google_project_iam_member.store, google_project_service.this, terraform_data.can_build]
}

module "tasks" {
  source = "./service"
  count  = local.queued ? 1 : 0

  project     = var.project
  region      = var.region
  name        = "${var.name}-tasks"
  description = "Leasehold: runs analyses that the queue delivers"
  entry_point = "Tasks"
  source_code = local.source_code
  image       = var.image
  account     = google_service_account.this["tasks"].email
  environment = merge(
    local.internal, local.settings.tasks,
    var.target_token_secret == null ? {} : { LEASEHOLD_TARGET_TOKEN_FILE = "${local.target_folder}/${local.target_file}" },
    local.verifies_tokens ? { LEASEHOLD_TASK_ACCOUNT = google_service_account.this["queue"].email, LEASEHOLD_TASK_AUDIENCE = local.task_audience } : {},
  )
  secret_files    = var.target_token_secret == null ? {} : { (var.target_token_secret) = { folder = local.target_folder, file = local.target_file } }
  ingress         = var.task_ingress
  invokers        = local.verifies_tokens ? local.everybody : { queue = google_service_account.this["queue"].member }
  timeout_seconds = local.tasks_timeout
  scaling         = var.tasks_scaling
  labels          = var.labels

  depends_on = [google_project_iam_member.store, google_project_service.this, terraform_data.can_build, google_secret_manager_secret_iam_member.target_token]
}

module "sweep" {
  source = "./service"

  project     = var.project
  region      = var.region
  name        = "${var.name}-sweep"
  description = "Leasehold: queues analyses again whose run has died, and frees what members of clusters have left"
  entry_point = "Sweep"
  source_code = local.source_code
  image       = var.image
  account     = google_service_account.this["sweep"].email
  environment = merge(
    local.internal, local.settings.sweep,
    local.queued ? {
      LEASEHOLD_TASK_QUEUE    = google_cloud_tasks_queue.analyses[0].id
      LEASEHOLD_TASK_URL      = "${module.tasks[0].uri}${local.task_path}"
      LEASEHOLD_TASK_ACCOUNT  = google_service_account.this["queue"].email
      LEASEHOLD_TASK_AUDIENCE = local.verifies_tokens ? local.task_audience : module.tasks[0].uri
    } : {},
    local.verifies_tokens ? { LEASEHOLD_SWEEP_ACCOUNT = google_service_account.this["scheduler"].email, LEASEHOLD_TASK_AUDIENCE = local.task_audience } : {},
  )
  ingress         = var.task_ingress
  invokers        = local.verifies_tokens ? local.everybody : { scheduler = google_service_account.this["scheduler"].member }
  timeout_seconds = local.sweep_timeout
  scaling         = { min_instances = 0, max_instances = 1, concurrency = 1, cpu = 1, memory_mib = 512 } # two sweeps at once are safe, and a waste
  labels          = var.labels

  depends_on = [
    google_project_iam_member.store, google_project_service.this, terraform_data.can_build, google_cloud_tasks_queue_iam_member.sweep_enqueues, google_service_account_iam_member.sweep_names_queue,
  ]
}
