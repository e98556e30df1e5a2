# One account for each program, and one for each caller. None has a role that it does not use.

locals {
  accounts = merge(
    { api = "Leasehold: the function API", sweep = "Leasehold: the function Sweep", scheduler = "Leasehold: calls Sweep" },
    local.queued ? { tasks = "Leasehold: the function Tasks", queue = "Leasehold: delivers to Tasks" } : {},
  )
}

resource "google_service_account" "this" {
  for_each = local.accounts

  project      = var.project
  account_id   = "${var.name}-${each.key}"
  display_name = each.value

  depends_on = [google_project_service.this]
}

# What the program does with Firestore: reads by name and by query, and conditional writes of one document. It begins no transactions.
resource "google_project_iam_custom_role" "store" {
  project     = var.project
  role_id     = "${replace(var.name, "-", "_")}_store"
  title       = "Leasehold: documents"
  description = "Reads and writes documents of Firestore, as Leasehold does."
  permissions = [
    "datastore.entities.create",
    "datastore.entities.delete",
    "datastore.entities.get",
    "datastore.entities.list",
    "datastore.entities.update",
  ]

  depends_on = [google_project_service.this]
}

resource "google_project_iam_member" "store" {
  for_each = setintersection(toset(["api", "tasks", "sweep"]), keys(local.accounts))

  project = var.project
  role    = google_project_iam_custom_role.store.name
  member  = google_service_account.this[each.key].member

  condition {
    title       = "Leasehold's database"
    description = "The role is for one database of the project."
    expression  = "resource.name == \"projects/${var.project}/databases/${var.database}\""
  }
}

# Sweep puts messages into the queue, and says in them which account the queue is to call Tasks as.
resource "google_cloud_tasks_queue_iam_member" "sweep_enqueues" {
  count = local.queued ? 1 : 0

  project  = var.project
  location = var.region
  name     = google_cloud_tasks_queue.analyses[0].name
  role     = "roles/cloudtasks.enqueuer"
  member   = google_service_account.this["sweep"].member
}

resource "google_service_account_iam_member" "sweep_names_queue" {
  count = local.queued ? 1 : 0

  service_account_id = google_service_account.this["queue"].name
  role               = "roles/iam.serviceAccountUser"
  member             = google_service_account.this["sweep"].member
}

# Producers of analyses put messages into the queue as Sweep does.
resource "google_cloud_tasks_queue_iam_member" "producer_enqueues" {
  for_each = local.queued ? var.producers : toset([])

  project  = var.project
  location = var.region
  name     = google_cloud_tasks_queue.analyses[0].name
  role     = "roles/cloudtasks.enqueuer"
  member   = each.value
}

resource "google_service_account_iam_member" "producer_names_queue" {
  for_each = local.queued ? var.producers : toset([])

  service_account_id = google_service_account.this["queue"].name
  role               = "roles/iam.serviceAccountUser"
  member             = each.value
}

resource "google_secret_manager_secret_iam_member" "target_token" {
  count = var.target_token_secret == null ? 0 : 1

  project   = var.project
  secret_id = var.target_token_secret
  role      = "roles/secretmanager.secretAccessor"
  member    = google_service_account.this["tasks"].member

  depends_on = [google_project_service.this]
}
