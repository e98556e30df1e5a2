resource "google_cloud_tasks_queue" "analyses" {
  count = local.queued ? 1 : 0

  project  = var.project
  location = var.region
  name     = "${var.name}-analyses"

  rate_limits {
    max_concurrent_dispatches = var.queue.max_concurrent
    max_dispatches_per_second = var.queue.max_per_second
  }

  # The program answers 409 while a run is in progress elsewhere, and the queue comes back. How often a run may fail is the program's decision.
  retry_config {
    max_attempts  = var.queue.max_attempts
    min_backoff   = var.queue.min_backoff
    max_backoff   = var.queue.max_backoff
    max_doublings = var.queue.max_doublings
  }

  stackdriver_logging_config {
    sampling_ratio = var.queue.log_sampling
  }

  depends_on = [google_project_service.this]
}

resource "google_cloud_scheduler_job" "sweep" {
  project          = var.project
  region           = var.region
  name             = "${var.name}-sweep"
  description      = "Calls Leasehold's sweep"
  schedule         = var.sweep_schedule
  time_zone        = "Etc/UTC"
  attempt_deadline = "${local.sweep_timeout}s"

  # The next call does the same work: more tries than these would only come together with it.
  retry_config {
    retry_count          = 1
    min_backoff_duration = "5s"
  }

  http_target {
    http_method = "POST"
    uri         = "${module.sweep.uri}${local.sweep_path}"

    oidc_token {
      service_account_email = google_service_account.this["scheduler"].email
      audience              = local.verifies_tokens ? local.task_audience : module.sweep.uri
    }
  }
}
