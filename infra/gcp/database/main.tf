resource "google_project_service" "firestore" {
  count = var.enable_services ? 1 : 0

  project            = var.project
  service            = "firestore.googleapis.com"
  disable_on_destroy = false
}

resource "google_firestore_database" "this" {
  project     = var.project
  name        = var.name
  location_id = var.location
  type        = "FIRESTORE_NATIVE"

  # Locks are conditional writes: of two that meet, one must fail, and not wait.
  concurrency_mode                  = "OPTIMISTIC"
  app_engine_integration_mode       = "DISABLED"
  point_in_time_recovery_enablement = var.point_in_time_recovery ? "POINT_IN_TIME_RECOVERY_ENABLED" : "POINT_IN_TIME_RECOVERY_DISABLED"
  delete_protection_state           = var.delete_protection ? "DELETE_PROTECTION_ENABLED" : "DELETE_PROTECTION_DISABLED"

  # "terraform destroy" asks Firestore to delete the database, which refuses as long as it is protected. With ABANDON it would be forgotten in silence.
  deletion_policy = "DELETE"

  depends_on = [google_project_service.firestore]
}

resource "google_firestore_backup_schedule" "daily" {
  count = var.backup_retention_days > 0 ? 1 : 0

  project   = var.project
  database  = google_firestore_database.this.name
  retention = "${var.backup_retention_days * 24 * 60 * 60}s"

  daily_recurrence {}
}

# Which fields have no index, and which are times to live, stands in one file: a copy of adapters/gcpfirestore/firestore.indexes.json.
locals {
  rules = jsondecode(file("${path.module}/firestore.indexes.json"))

  overrides = { for o in local.rules.fieldOverrides : "${o.collectionGroup}/${o.fieldPath}" => o }
}

resource "google_firestore_field" "this" {
  for_each = local.overrides

  project    = var.project
  database   = google_firestore_database.this.name
  collection = each.value.collectionGroup
  field      = each.value.fieldPath

  # The program queries none of these fields, so that none needs an index: one on times would bound the writes.
  index_config {}

  # The field * may not have this block, not even an empty one.
  dynamic "ttl_config" {
    for_each = try(each.value.ttl, false) ? [1] : []
    content {}
  }

  lifecycle {
    precondition {
      condition     = length(each.value.indexes) == 0
      error_message = "firestore.indexes.json asks for an index on ${each.key}, which this module does not make."
    }
  }
}
