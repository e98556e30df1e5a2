# One of the three services, as a function that is built of sources or as a container of an image. Both are services of Cloud Run.

locals {
  # Go frees memory before Cloud Run ends an instance for using too much.
  environment = merge(
    var.environment,
    { GOMEMLIMIT = "${floor(var.scaling.memory_mib * 9 / 10)}MiB" },
    contains(keys(var.environment), "OTEL_EXPORTER_OTLP_ENDPOINT") ? { OTEL_SERVICE_NAME = var.name } : {}, # the job of its metrics
  )
}

resource "google_cloudfunctions2_function" "this" {
  count = var.image == null ? 1 : 0

  project     = var.project
  location    = var.region
  name        = var.name
  description = var.description
  labels      = var.labels

  build_config {
    runtime           = var.source_code.runtime
    entry_point       = var.entry_point
    service_account   = var.source_code.build_account
    docker_repository = var.source_code.repository

    source {
      storage_source {
        bucket = var.source_code.bucket
        object = var.source_code.object
      }
    }
  }

  service_config {
    service_account_email            = var.account
    environment_variables            = local.environment
    ingress_settings                 = { all = "ALLOW_ALL", internal = "ALLOW_INTERNAL_ONLY", internal-and-load-balancer = "ALLOW_INTERNAL_AND_GCLB" }[var.ingress]
    all_traffic_on_latest_revision   = true
    timeout_seconds                  = var.timeout_seconds
    min_instance_count               = var.scaling.min_instances
    max_instance_count               = var.scaling.max_instances
    max_instance_request_concurrency = var.scaling.concurrency
    available_cpu                    = tostring(var.scaling.cpu)
    available_memory                 = "${var.scaling.memory_mib}Mi"

    dynamic "secret_volumes" {
      for_each = var.secret_files
      content {
        project_id = var.project
        secret     = secret_volumes.key
        mount_path = secret_volumes.value.folder
        versions {
          version = "latest"
          path    = secret_volumes.value.file
        }
      }
    }
  }
}

resource "google_cloud_run_v2_service" "this" {
  count = var.image == null ? 0 : 1

  project             = var.project
  location            = var.region
  name                = var.name
  description         = var.description
  labels              = var.labels
  ingress             = { all = "INGRESS_TRAFFIC_ALL", internal = "INGRESS_TRAFFIC_INTERNAL_ONLY", internal-and-load-balancer = "INGRESS_TRAFFIC_INTERNAL_LOAD_BALANCER" }[var.ingress]
  deletion_protection = false # it has no data

  # An apply ends what a rollback by hand has pinned, which would keep requests from every later revision.
  traffic {
    type    = "TRAFFIC_TARGET_ALLOCATION_TYPE_LATEST"
    percent = 100
  }

  template {
    service_account                  = var.account
    timeout                          = "${var.timeout_seconds}s"
    max_instance_request_concurrency = var.scaling.concurrency

    scaling {
      min_instance_count = var.scaling.min_instances
      max_instance_count = var.scaling.max_instances
    }

    containers {
      image = var.image

      # PORT is Cloud Run's; the program listens on it.
      dynamic "env" {
        for_each = local.environment
        content {
          name  = env.key
          value = env.value
        }
      }

      resources {
        limits            = { cpu = tostring(var.scaling.cpu), memory = "${var.scaling.memory_mib}Mi" }
        cpu_idle          = true
        startup_cpu_boost = true
      }

      # Both do not ask the database: an instance is not better after a restart if the database is away.
      startup_probe {
        period_seconds    = 2
        timeout_seconds   = 1
        failure_threshold = 15
        http_get {
          path = "/healthz"
        }
      }

      liveness_probe {
        period_seconds    = 30
        timeout_seconds   = 5
        failure_threshold = 3
        http_get {
          path = "/healthz"
        }
      }

      dynamic "volume_mounts" {
        for_each = var.secret_files
        content {
          name       = volume_mounts.key
          mount_path = volume_mounts.value.folder
        }
      }
    }

    dynamic "volumes" {
      for_each = var.secret_files
      content {
        name = volumes.key
        secret {
          secret = volumes.key
          items {
            version = "latest"
            path    = volumes.value.file
          }
        }
      }
    }
  }
}

locals {
  service = one(concat(google_cloudfunctions2_function.this[*].name, google_cloud_run_v2_service.this[*].name))
  uri     = one(concat(google_cloudfunctions2_function.this[*].service_config[0].uri, google_cloud_run_v2_service.this[*].uri))
}

resource "google_cloud_run_v2_service_iam_member" "invoker" {
  for_each = var.invokers

  project  = var.project
  location = var.region
  name     = local.service
  role     = "roles/run.invoker"
  member   = each.value
}
