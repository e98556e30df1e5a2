# Alarms, and a bound of what all of it may cost before someone is told.

locals {
  by_function = merge([for name in keys(local.functions) : {
    "${name}-errors" = {
      description = "Invocations of ${var.name}-${name} fail"
      namespace   = "AWS/Lambda", metric = "Errors", dimensions = { FunctionName = "${var.name}-${name}" }
      statistic   = "Sum", above = 0, minutes = 5, periods = 1
    }
    "${name}-throttles" = {
      description = "Invocations of ${var.name}-${name} are throttled: raise its concurrency"
      namespace   = "AWS/Lambda", metric = "Throttles", dimensions = { FunctionName = "${var.name}-${name}" }
      statistic   = "Sum", above = 0, minutes = 5, periods = 2
    }
    "${name}-log-errors" = {
      description = "${var.name}-${name} logs errors, such as events of a front end that this deployment does not have"
      namespace   = "Leasehold/${var.name}", metric = "${name}-log-errors", dimensions = {}
      statistic   = "Sum", above = 0, minutes = 5, periods = 1
    }
  }]...)

  by_table = { for kind in ["Read", "Write"] : lower("table-${kind}-throttles") => {
    description = "DynamoDB throttles requests to the table ${var.table_name}"
    namespace   = "AWS/DynamoDB", metric = "${kind}ThrottleEvents", dimensions = { TableName = var.table_name }
    statistic   = "Sum", above = 0, minutes = 5, periods = 2
  } }

  by_queue = merge(
    { for queue in concat(["${var.name}-sweep-dead"], var.analyses ? ["${var.name}-analyses-dead"] : []) : trimprefix(queue, "${var.name}-") => {
      description = "Messages are in the dead-letter queue ${queue}"
      namespace   = "AWS/SQS", metric = "ApproximateNumberOfMessagesVisible", dimensions = { QueueName = queue }
      statistic   = "Maximum", above = 0, minutes = 5, periods = 1
    } },
    { for queue in var.analyses ? ["${var.name}-analyses"] : [] : "analyses-age" => {
      description = "Messages wait for a worker"
      namespace   = "AWS/SQS", metric = "ApproximateAgeOfOldestMessage", dimensions = { QueueName = queue }
      statistic   = "Maximum", above = var.max_message_age, minutes = 5, periods = 1
    } },
  )

  by_front = local.http_api ? {
    "api-5xx" = {
      description = "Requests end with a status of 500 or above"
      namespace   = "AWS/ApiGateway", metric = "5xx", dimensions = { ApiId = aws_apigatewayv2_api.this[0].id }
      statistic   = "Sum", above = 0, minutes = 5, periods = 2
    }
    } : {
    "api-5xx" = {
      description = "Requests end with a status of 500 or above"
      namespace   = "AWS/Lambda", metric = "Url5xxCount", dimensions = { FunctionName = "${var.name}-api" }
      statistic   = "Sum", above = 0, minutes = 5, periods = 2
    }
  }

  alarms = merge(local.by_function, local.by_table, local.by_queue, local.by_front)
}

resource "aws_cloudwatch_log_metric_filter" "errors" {
  for_each = local.functions

  name           = "${var.name}-${each.key}-log-errors"
  log_group_name = aws_cloudwatch_log_group.function[each.key].name
  pattern        = "{ $.level = \"ERROR\" }"

  metric_transformation {
    namespace = "Leasehold/${var.name}"
    name      = "${each.key}-log-errors"
    value     = "1"
  }
}

resource "aws_cloudwatch_metric_alarm" "this" {
  for_each = local.alarms

  alarm_name          = "${var.name}-${each.key}"
  alarm_description   = each.value.description
  namespace           = each.value.namespace
  metric_name         = each.value.metric
  dimensions          = each.value.dimensions
  statistic           = each.value.statistic
  comparison_operator = "GreaterThanThreshold"
  threshold           = each.value.above
  period              = each.value.minutes * 60
  evaluation_periods  = each.value.periods
  treat_missing_data  = "notBreaching"
  alarm_actions       = var.alarm_topic_arns
  ok_actions          = var.alarm_topic_arns
  tags                = var.tags
}

resource "aws_cloudwatch_metric_alarm" "no_sweep" {
  alarm_name          = "${var.name}-no-sweep"
  alarm_description   = "The sweep has not been called for three times as long as it should be"
  namespace           = "AWS/Lambda"
  metric_name         = "Invocations"
  dimensions          = { FunctionName = "${var.name}-sweep" }
  statistic           = "Sum"
  comparison_operator = "LessThanThreshold"
  threshold           = 1
  period              = 60 * var.sweep_minutes
  evaluation_periods  = 3
  treat_missing_data  = "breaching"
  alarm_actions       = var.alarm_topic_arns
  ok_actions          = var.alarm_topic_arns
  tags                = var.tags
}

# What the program itself measures: the alarms and the dashboard that are there for those without Terraform, too.

locals {
  observability = "${path.module}/../../observability/cloudwatch"
  measured      = "Leasehold/${var.table_name}" # by deployment, in place of Leasehold/leasehold
  metrics_alarms = { for alarm in jsondecode(var.metrics_alarms ? file("${local.observability}/alarms.json") : "[]") : alarm.AlarmName => alarm
    if var.analyses || alarm.AlarmName != "LeaseholdSweepStopped" # without a queue there is nothing to sweep
  }
}

resource "aws_cloudwatch_metric_alarm" "metrics" {
  for_each = local.metrics_alarms

  alarm_name          = "${var.name}-${each.key}"
  alarm_description   = each.value.AlarmDescription
  namespace           = local.measured
  metric_name         = each.value.MetricName
  dimensions          = { for d in each.value.Dimensions : d.Name => d.Value }
  statistic           = lookup(each.value, "Statistic", null)
  extended_statistic  = lookup(each.value, "ExtendedStatistic", null)
  comparison_operator = each.value.ComparisonOperator
  threshold           = each.value.Threshold
  period              = each.value.Period
  treat_missing_data  = each.value.TreatMissingData
  alarm_actions       = var.alarm_topic_arns
  ok_actions          = var.alarm_topic_arns
  tags                = var.tags

  # What must happen again and again is late after three sweeps, however rare they are.
  evaluation_periods = each.value.ComparisonOperator != "LessThanThreshold" ? each.value.EvaluationPeriods : max(
    each.value.EvaluationPeriods, ceil(3 * 60 * var.sweep_minutes / each.value.Period),
  )
}

resource "aws_cloudwatch_dashboard" "metrics" {
  count = var.metrics_alarms ? 1 : 0

  dashboard_name = var.name
  dashboard_body = replace(replace(file("${local.observability}/dashboard.json"), "\"us-east-1\"", "\"${local.region}\""), "Leasehold/leasehold", local.measured)
}

resource "aws_budgets_budget" "this" {
  count = var.budget == null ? 0 : 1

  name         = var.name
  budget_type  = "COST"
  limit_amount = tostring(var.budget.monthly_usd)
  limit_unit   = "USD"
  time_unit    = "MONTHLY"

  dynamic "cost_filter" {
    for_each = var.budget.tag == null ? [] : [var.budget.tag]

    content {
      name   = "TagKeyValue"
      values = [cost_filter.value]
    }
  }

  dynamic "notification" {
    for_each = { ACTUAL = 80, FORECASTED = 100 }

    content {
      comparison_operator        = "GREATER_THAN"
      notification_type          = notification.key
      threshold                  = notification.value
      threshold_type             = "PERCENTAGE"
      subscriber_email_addresses = var.budget.emails
    }
  }
}
