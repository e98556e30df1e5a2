# An account that a deployment acts as with a token of its CI system, so that no key of Google Cloud is kept there. It may bring another image to the services and move
# requests between their revisions; it may not read the database, change a role, or open the API.

locals {
  pool = coalesce(var.pool, one(google_iam_workload_identity_pool.this[*].name))
}

# What exchanges a token of the CI system for one of the account.
resource "google_project_service" "this" {
  for_each = toset(var.enable_services ? ["iam", "iamcredentials", "sts"] : [])

  project            = var.project
  service            = "${each.key}.googleapis.com"
  disable_on_destroy = false
}

resource "google_iam_workload_identity_pool" "this" {
  count = var.pool == null ? 1 : 0

  project                   = var.project
  workload_identity_pool_id = "${var.name}-deploy"
  display_name              = "Deployments of ${var.name}"

  depends_on = [google_project_service.this]
}

resource "google_iam_workload_identity_pool_provider" "this" {
  count = var.pool == null ? 1 : 0

  project                            = var.project
  workload_identity_pool_id          = google_iam_workload_identity_pool.this[0].workload_identity_pool_id
  workload_identity_pool_provider_id = "ci"
  display_name                       = "Tokens of the CI system"
  attribute_mapping                  = { "google.subject" = "assertion.sub" }

  # Every repository of the world has tokens of such an issuer: all but these subjects are rejected here, and again by the grant below.
  attribute_condition = "assertion.sub in ${jsonencode(var.subjects)}"

  oidc {
    issuer_uri        = var.issuer
    allowed_audiences = var.audiences
  }
}

resource "google_service_account" "deploy" {
  project      = var.project
  account_id   = "${var.name}-deploy"
  display_name = "Leasehold: deployments"

  depends_on = [google_project_service.this]
}

resource "google_service_account_iam_member" "deploys" {
  for_each = toset(var.subjects)

  service_account_id = google_service_account.deploy.name
  role               = "roles/iam.workloadIdentityUser"
  member             = "principal://iam.googleapis.com/${local.pool}/subject/${each.value}"
}

resource "google_project_iam_custom_role" "deploy" {
  project     = var.project
  role_id     = "${replace(var.name, "-", "_")}_deploy"
  title       = "Leasehold: deployments"
  description = "Makes new revisions of services, and moves requests between revisions."
  permissions = ["run.revisions.get", "run.revisions.list", "run.services.get", "run.services.update"]
}

resource "google_cloud_run_v2_service_iam_member" "deploys" {
  for_each = var.services

  project  = var.project
  location = var.region
  name     = each.value
  role     = google_project_iam_custom_role.deploy.name
  member   = google_service_account.deploy.member
}

# A new revision runs as the account of its service, which whoever makes it must be allowed to name.
resource "google_service_account_iam_member" "names_account" {
  for_each = var.services

  service_account_id = "projects/${var.project}/serviceAccounts/${var.accounts[each.key]}"
  role               = "roles/iam.serviceAccountUser"
  member             = google_service_account.deploy.member
}

# Cloud Run asks whether who deploys an image may read it.
resource "google_artifact_registry_repository_iam_member" "deploys" {
  count = var.repository == null ? 0 : 1

  project    = var.project
  location   = var.repository.location
  repository = var.repository.name
  role       = "roles/artifactregistry.reader"
  member     = google_service_account.deploy.member
}
