# Audit events in a bucket of Cloud Logging of their own: the sink passes the entries of the API and of the internal endpoints that are some on, and no code is in the way of requests.

locals {
  audited = var.audit_retention_days == null ? {} : { this = var.audit_retention_days }

  # What functions/httpapi writes.
  audit_filter = "resource.type=\"cloud_run_revision\" AND resource.labels.service_name=~\"^${var.name}-(api|tasks|sweep)$\" AND jsonPayload.message=\"audit\" AND jsonPayload.audit.schema>=1"
}

resource "google_logging_project_bucket_config" "audit" {
  for_each = local.audited

  project        = var.project
  location       = var.region
  bucket_id      = "${var.name}-audit"
  description    = "Audit events of ${var.name}"
  retention_days = each.value
  locked         = var.audit_locked

  depends_on = [google_project_service.this]
}

# A sink to a bucket of its own project needs no right of its own.
resource "google_logging_project_sink" "audit" {
  for_each = local.audited

  project                = var.project
  name                   = "${var.name}-audit"
  description            = "Audit events of ${var.name}"
  destination            = "logging.googleapis.com/${google_logging_project_bucket_config.audit[each.key].id}"
  filter                 = local.audit_filter
  unique_writer_identity = true
}
