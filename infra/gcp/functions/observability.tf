# Alerts and a dashboard over what the platform measures. They need no exporter.

locals {
  of_api   = "resource.type = \"cloud_run_revision\" AND resource.labels.service_name = \"${var.name}-api\""
  of_all   = "resource.type = \"cloud_run_revision\" AND resource.labels.service_name = monitoring.regex.full_match(\"${var.name}-(api|tasks|sweep)\")"
  of_sweep = "resource.type = \"cloud_run_revision\" AND resource.labels.service_name = \"${var.name}-sweep\""
  of_queue = "resource.type = \"cloud_tasks_queue\" AND resource.labels.queue_id = \"${var.name}-analyses\""

  # A response that is held for a caller that waits is not a slow one.
  held = local.seconds.wait

  # Minutes between sweeps. A schedule with hours or days of its own has pauses that mean nothing, and then none is noticed.
  sweep_minutes = try(
    endswith(var.sweep_schedule, " * * * *") ? try(tonumber(regex("^[*]/([0-9]+) ", var.sweep_schedule)[0]), startswith(var.sweep_schedule, "* ") ? 1 : 60) : null,
    null,
  )

  alerts = { for name, alert in {
    api-errors = {
      title     = "the API fails"
      filter    = "${local.of_api} AND metric.type = \"run.googleapis.com/request_count\" AND metric.labels.response_code_class = \"5xx\""
      aligner   = "ALIGN_RATE"
      reducer   = "REDUCE_SUM"
      threshold = 0.1
      duration  = "300s"
      severity  = "CRITICAL"
      content   = "More than one request in ten seconds fails with 5xx. Look at the log of ${var.name}-api: CONTENTION and UNAVAILABLE name the database, \"cannot start\" names a setting. Holders keep their locks until they expire."
      wanted    = true
    }
    api-slow = {
      title     = "the API is slow"
      filter    = "${local.of_api} AND metric.type = \"run.googleapis.com/request_latencies\""
      aligner   = "ALIGN_PERCENTILE_95"
      reducer   = "REDUCE_MAX"
      threshold = 2000 + 1000 * local.held
      duration  = "600s"
      severity  = "WARNING"
      content   = "One request in twenty takes longer than ${2 + local.held} s, of which a caller that waits is held for up to ${local.held} s. Look for cold starts (api_scaling.min_instances) and for one document that many write."
      wanted    = true
    }
    queue-deep = {
      title     = "analyses wait"
      filter    = "${local.of_queue} AND metric.type = \"cloudtasks.googleapis.com/queue/depth\""
      aligner   = "ALIGN_MEAN"
      reducer   = "REDUCE_SUM"
      threshold = 1000
      duration  = "900s"
      severity  = "WARNING"
      content   = "More than 1000 messages wait for a quarter of an hour. Is the target slower than before, or down? Raise queue.max_concurrent and tasks_scaling together."
      wanted    = local.queued
    }
    tasks-failing = {
      title     = "deliveries of analyses fail"
      filter    = "${local.of_queue} AND metric.type = \"cloudtasks.googleapis.com/queue/task_attempt_count\" AND metric.labels.response_code = monitoring.regex.full_match(\"5..|403|404|unauthenticated|permission_denied|unavailable|internal\")"
      aligner   = "ALIGN_RATE"
      reducer   = "REDUCE_SUM"
      threshold = 0.1
      duration  = "900s"
      severity  = "CRITICAL"
      content   = "Cloud Tasks cannot deliver, or ${var.name}-tasks fails. 403: the queue's account lacks roles/run.invoker. 404: ingress or URL. 5xx: the log of ${var.name}-tasks has the reason."
      wanted    = local.queued
    }
  } : name => alert if alert.wanted && var.alerts }

  # Lines of the log that mean that something does not work at all.
  log_alerts = { for name, alert in {
    cannot-start = {
      title   = "a function cannot start"
      filter  = "resource.type=\"cloud_run_revision\" AND resource.labels.service_name=~\"^${var.name}-(api|tasks|sweep)$\" AND severity>=ERROR AND jsonPayload.message=\"cannot start\""
      content = "Settings or the database are wrong: err in the line says what. Every request is answered with UNAVAILABLE until then."
      wanted  = true
    }
    sweep-fails = {
      title   = "the sweep is not called, or fails"
      filter  = "resource.type=\"cloud_scheduler_job\" AND resource.labels.job_id=\"${var.name}-sweep\" AND severity>=ERROR"
      content = "Analyses whose run has died wait until the sweep works again. PERMISSION_DENIED: the scheduler's account lacks roles/run.invoker. Otherwise look at the log of ${var.name}-sweep."
      wanted  = true
    }
  } : name => alert if alert.wanted && var.alerts }
}

resource "google_monitoring_alert_policy" "metrics" {
  for_each = local.alerts

  project               = var.project
  display_name          = "Leasehold ${var.name}: ${each.value.title}"
  combiner              = "OR"
  severity              = each.value.severity
  notification_channels = var.notification_channels
  user_labels           = var.labels

  conditions {
    display_name = each.value.title

    condition_threshold {
      filter          = each.value.filter
      comparison      = "COMPARISON_GT"
      threshold_value = each.value.threshold
      duration        = each.value.duration

      aggregations {
        alignment_period     = "60s"
        per_series_aligner   = each.value.aligner
        cross_series_reducer = each.value.reducer
      }
    }
  }

  documentation {
    content   = each.value.content
    mime_type = "text/markdown"
  }

  depends_on = [google_project_service.this]
}

# A scheduler that is paused, or was deleted, writes no line and makes no request.
resource "google_monitoring_alert_policy" "no_sweep" {
  count = var.alerts && local.sweep_minutes != null ? 1 : 0

  project               = var.project
  display_name          = "Leasehold ${var.name}: there is no sweep"
  combiner              = "OR"
  severity              = "CRITICAL"
  notification_channels = var.notification_channels
  user_labels           = var.labels

  conditions {
    display_name = "there is no sweep"

    condition_absent {
      filter   = "${local.of_sweep} AND metric.type = \"run.googleapis.com/request_count\""
      duration = "${max(15, 3 * local.sweep_minutes) * 60}s"

      aggregations {
        alignment_period     = "60s"
        per_series_aligner   = "ALIGN_RATE"
        cross_series_reducer = "REDUCE_SUM"
      }
    }
  }

  documentation {
    content   = "The sweep has not been called for three times as long as it should be: is the job ${var.name}-sweep of Cloud Scheduler paused? Analyses whose run has died wait until it is resumed."
    mime_type = "text/markdown"
  }

  depends_on = [google_project_service.this]
}

resource "google_monitoring_alert_policy" "logs" {
  for_each = local.log_alerts

  project               = var.project
  display_name          = "Leasehold ${var.name}: ${each.value.title}"
  combiner              = "OR"
  severity              = "CRITICAL"
  notification_channels = var.notification_channels
  user_labels           = var.labels

  conditions {
    display_name = each.value.title

    condition_matched_log {
      filter = each.value.filter
    }
  }

  alert_strategy {
    auto_close = "3600s"

    notification_rate_limit {
      period = "900s"
    }
  }

  documentation {
    content   = each.value.content
    mime_type = "text/markdown"
  }

  depends_on = [google_project_service.this]
}

resource "google_monitoring_dashboard" "this" {
  count = var.alerts ? 1 : 0

  project = var.project
  dashboard_json = jsonencode({
    displayName = "Leasehold ${var.name}"
    mosaicLayout = {
      columns = 12
      tiles = [for i, chart in [
        { title = "Requests a second, by class of response", filter = "${local.of_all} AND metric.type = \"run.googleapis.com/request_count\"", aligner = "ALIGN_RATE", reducer = "REDUCE_SUM", by = ["resource.labels.service_name", "metric.labels.response_code_class"] },
        { title = "95th percentile of latency, ms", filter = "${local.of_all} AND metric.type = \"run.googleapis.com/request_latencies\"", aligner = "ALIGN_PERCENTILE_95", reducer = "REDUCE_MAX", by = ["resource.labels.service_name"] },
        { title = "Instances", filter = "${local.of_all} AND metric.type = \"run.googleapis.com/container/instance_count\"", aligner = "ALIGN_MAX", reducer = "REDUCE_SUM", by = ["resource.labels.service_name"] },
        { title = "Memory of an instance, 99th percentile", filter = "${local.of_all} AND metric.type = \"run.googleapis.com/container/memory/utilizations\"", aligner = "ALIGN_PERCENTILE_99", reducer = "REDUCE_MAX", by = ["resource.labels.service_name"] },
        { title = "Messages in the queue", filter = "${local.of_queue} AND metric.type = \"cloudtasks.googleapis.com/queue/depth\"", aligner = "ALIGN_MEAN", reducer = "REDUCE_SUM", by = [] },
        { title = "Deliveries a second, by response", filter = "${local.of_queue} AND metric.type = \"cloudtasks.googleapis.com/queue/task_attempt_count\"", aligner = "ALIGN_RATE", reducer = "REDUCE_SUM", by = ["metric.labels.response_code"] },
        { title = "Documents written a second", filter = "resource.type = \"firestore.googleapis.com/Database\" AND resource.labels.database_id = \"${var.database}\" AND metric.type = \"firestore.googleapis.com/document/write_ops_count\"", aligner = "ALIGN_RATE", reducer = "REDUCE_SUM", by = ["metric.labels.op"] },
        { title = "Documents read a second", filter = "resource.type = \"firestore.googleapis.com/Database\" AND resource.labels.database_id = \"${var.database}\" AND metric.type = \"firestore.googleapis.com/document/read_ops_count\"", aligner = "ALIGN_RATE", reducer = "REDUCE_SUM", by = ["metric.labels.type"] },
        ] : {
        xPos   = i % 2 * 6
        yPos   = floor(i / 2) * 4
        width  = 6
        height = 4
        widget = {
          title = chart.title
          xyChart = {
            dataSets = [{
              plotType = "LINE"
              timeSeriesQuery = {
                timeSeriesFilter = {
                  filter      = chart.filter
                  aggregation = { alignmentPeriod = "60s", perSeriesAligner = chart.aligner, crossSeriesReducer = chart.reducer, groupByFields = chart.by }
                }
              }
            }]
          }
        }
      }]
    }
  })

  depends_on = [google_project_service.this]
}

# What the program itself measures: the alerts and the dashboard that are there for those without Terraform, too.

locals {
  observability    = "${path.module}/../../observability/cloudmonitoring"
  jobs             = "job=~\"${var.name}-(api|tasks|sweep)\"" # of this deployment, in place of all
  metrics_policies = { for policy in jsondecode(var.metrics_alerts ? file("${local.observability}/policies.json") : "[]") : policy.displayName => policy }
}

resource "google_monitoring_alert_policy" "program" {
  for_each = local.metrics_policies

  project               = var.project
  display_name          = "Leasehold ${var.name}: ${each.key}"
  combiner              = each.value.combiner
  severity              = lookup(each.value, "severity", null)
  notification_channels = var.notification_channels
  user_labels           = merge(each.value.userLabels, var.labels)

  dynamic "conditions" {
    for_each = each.value.conditions

    content {
      display_name = conditions.value.displayName

      condition_prometheus_query_language {
        query                     = replace(conditions.value.conditionPrometheusQueryLanguage.query, "job=~\".+\"", local.jobs)
        duration                  = conditions.value.conditionPrometheusQueryLanguage.duration
        evaluation_interval       = conditions.value.conditionPrometheusQueryLanguage.evaluationInterval
        disable_metric_validation = true # a metric is there after the first event of its kind
      }
    }
  }

  documentation {
    content   = each.value.documentation.content
    mime_type = each.value.documentation.mimeType
  }

  depends_on = [google_project_service.this]
}

resource "google_monitoring_dashboard" "program" {
  count = var.metrics_alerts ? 1 : 0

  project        = var.project
  dashboard_json = jsonencode(merge(jsondecode(replace(file("${local.observability}/dashboard.json"), "job=~\\\".+\\\"", replace(local.jobs, "\"", "\\\""))), { displayName = "Leasehold ${var.name}: the program" }))

  depends_on = [google_project_service.this]
}
