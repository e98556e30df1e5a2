# What Cloud Build needs to build the functions. An image needs none of it.

resource "google_storage_bucket" "sources" {
  count = var.image == null ? 1 : 0

  project                     = var.project
  name                        = "${var.project}-${var.name}-sources"
  location                    = var.region
  labels                      = var.labels
  uniform_bucket_level_access = true
  public_access_prevention    = "enforced"
  force_destroy               = true # releases have the sources

  versioning {
    enabled = true
  }

  lifecycle_rule {
    action {
      type = "Delete"
    }

    condition {
      days_since_noncurrent_time = 90
    }
  }
}

# The name has the hash, so that other sources are a new deployment, and the same ones none.
resource "google_storage_bucket_object" "sources" {
  count = var.image == null ? 1 : 0

  bucket = google_storage_bucket.sources[0].name
  name   = "functions-${filesha256(var.source_archive)}.zip"
  source = var.source_archive
}

resource "google_artifact_registry_repository" "functions" {
  count = var.image == null ? 1 : 0

  project       = var.project
  location      = var.region
  repository_id = "${var.name}-functions"
  description   = "Images that Cloud Build makes of Leasehold's functions"
  format        = "DOCKER"
  labels        = var.labels

  cleanup_policies {
    id     = "keep-last"
    action = "KEEP"
    most_recent_versions {
      keep_count = 10
    }
  }

  cleanup_policies {
    id     = "delete-old"
    action = "DELETE"
    condition {
      older_than = "2592000s"
    }
  }

  depends_on = [google_project_service.this]
}

resource "google_service_account" "build" {
  count = var.image == null ? 1 : 0

  project      = var.project
  account_id   = "${var.name}-build"
  display_name = "Leasehold: builds the functions"

  depends_on = [google_project_service.this]
}

resource "google_artifact_registry_repository_iam_member" "build" {
  count = var.image == null ? 1 : 0

  project    = var.project
  location   = var.region
  repository = google_artifact_registry_repository.functions[0].name
  role       = "roles/artifactregistry.writer"
  member     = google_service_account.build[0].member
}

resource "google_project_iam_member" "build_logs" {
  count = var.image == null ? 1 : 0

  project = var.project
  role    = "roles/logging.logWriter"
  member  = google_service_account.build[0].member
}

# Cloud Functions copies the sources to a bucket of this name, from which the build reads them.
resource "google_project_iam_member" "build_sources" {
  count = var.image == null ? 1 : 0

  project = var.project
  role    = "roles/storage.objectViewer"
  member  = google_service_account.build[0].member

  condition {
    title       = "Sources of functions"
    description = "The role is for the buckets that Cloud Functions keeps sources in."
    expression  = "resource.name.startsWith(\"projects/_/buckets/gcf-v2-sources-\")"
  }
}

# What functions wait for: a build that begins before its account has these grants fails.
resource "terraform_data" "can_build" {
  depends_on = [google_artifact_registry_repository_iam_member.build, google_project_iam_member.build_logs, google_project_iam_member.build_sources]
}
