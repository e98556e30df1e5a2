# terraform test: without an account, on a provider that makes everything up.
mock_provider "google" {}

variables {
  project       = "my-project-1"
  region        = "europe-west1"
  database      = "leasehold"
  image         = "europe-west1-docker.pkg.dev/my-project-1/leasehold/leasehold@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
  auth_issuer   = "https://login.example.com"
  auth_audience = "https://locks.example.com"
}

# Without a target there is no queue. A container has a sweep all the same: it has no processor between requests.
run "without_a_queue" {
  assert {
    condition     = length(module.tasks) == 0 && google_cloud_scheduler_job.sweep.schedule == "* * * * *" && length(google_cloud_tasks_queue.analyses) == 0
    error_message = "Without LEASEHOLD_TARGET_URL there is nothing to queue."
  }

  assert {
    condition     = join(" ", keys(google_service_account.this)) == "api scheduler sweep" && length(google_service_account.build) == 0
    error_message = "Only what exists has an account."
  }

  assert {
    condition     = output.producer == null && output.server != ""
    error_message = "The outputs are those of what exists."
  }
}

run "with_a_queue" {
  variables {
    settings  = { LEASEHOLD_TARGET_URL = "https://target.example.com/run", LEASEHOLD_TASK_TIMEOUT = "90s" }
    producers = ["user:a@example.com"]
  }

  assert {
    condition     = output.producer.url == "${module.tasks[0].uri}/internal/tasks/analysis" && output.producer.audience == module.tasks[0].uri
    error_message = "The queue delivers to Tasks, with tokens for it."
  }

  assert {
    condition     = google_cloud_scheduler_job.sweep.http_target[0].uri == "${module.sweep.uri}/internal/sweep"
    error_message = "The scheduler calls Sweep."
  }

  assert {
    condition     = length(google_cloud_tasks_queue_iam_member.producer_enqueues) == 1 && length(google_service_account_iam_member.producer_names_queue) == 1
    error_message = "Producers may queue."
  }

  assert {
    condition     = local.tasks_timeout == 120 && local.api_timeout == 45
    error_message = "Cloud Run waits longer than the program."
  }
}

run "without_alerts" {
  command = plan

  variables {
    alerts = false
  }

  assert {
    condition     = length(google_monitoring_alert_policy.metrics) + length(google_monitoring_alert_policy.logs) + length(google_monitoring_dashboard.this) == 0
    error_message = "alerts = false makes none."
  }
}

run "some_callers" {
  command = plan

  variables {
    api_public   = false
    api_invokers = ["serviceAccount:web@my-project-1.iam.gserviceaccount.com"]
  }

  assert {
    condition     = length(google_project_iam_member.store) == 2
    error_message = "Two accounts use the database."
  }
}

run "no_issuer" {
  command = plan

  variables {
    auth_issuer = null
  }

  expect_failures = [var.auth_issuer]
}

run "no_caller" {
  command = plan

  variables {
    api_public = false
  }

  expect_failures = [var.api_invokers]
}

run "a_public_listener_that_trusts_the_platform" {
  command = plan

  variables {
    task_ingress = "all"
  }

  expect_failures = [var.task_ingress]
}

run "a_public_issuer_for_everybody" {
  command = plan

  variables {
    auth_issuer = "https://accounts.google.com"
  }

  expect_failures = [var.auth_issuer]
}

run "a_lock_without_an_end" {
  command = plan

  variables {
    audit_locked = true
  }

  expect_failures = [var.audit_locked]
}
