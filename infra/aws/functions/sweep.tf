# The schedule of the sweep. What cannot be delivered, or fails, is tried again, and then kept for a look at it.

resource "aws_sqs_queue" "sweep_dead" {
  name                      = "${var.name}-sweep-dead"
  message_retention_seconds = 14 * 86400
  sqs_managed_sse_enabled   = true
  tags                      = var.tags

  # A policy in a resource of its own would leave the queue without it for a while.
  policy = jsonencode({
    Version = "2012-10-17"
    Statement = [
      {
        Sid       = "TLSOnly"
        Effect    = "Deny"
        Principal = { AWS = "*" }
        Action    = ["sqs:*"]
        Resource  = [local.swept_arn]
        Condition = { Bool = { "aws:SecureTransport" = "false" } }
      },
      {
        Sid       = "Schedule"
        Effect    = "Allow"
        Principal = { Service = "events.amazonaws.com" }
        Action    = ["sqs:SendMessage"]
        Resource  = [local.swept_arn]
        Condition = { ArnEquals = { "aws:SourceArn" = "arn:${local.partition}:events:${local.region}:${local.account}:rule/${var.name}-sweep" } }
      },
    ]
  })
}

resource "aws_cloudwatch_event_rule" "sweep" {
  name                = "${var.name}-sweep"
  description         = "Calls the sweep of Leasehold"
  schedule_expression = var.sweep_minutes == 1 ? "rate(1 minute)" : "rate(${var.sweep_minutes} minutes)"
  tags                = var.tags
}

resource "aws_cloudwatch_event_target" "sweep" {
  rule      = aws_cloudwatch_event_rule.sweep.name
  target_id = "sweep"
  arn       = aws_lambda_alias.live["sweep"].arn

  retry_policy {
    maximum_event_age_in_seconds = 300
    maximum_retry_attempts       = 2
  }

  dead_letter_config {
    arn = aws_sqs_queue.sweep_dead.arn
  }
}

resource "aws_lambda_permission" "sweep" {
  statement_id  = "schedule"
  action        = "lambda:InvokeFunction"
  function_name = aws_lambda_function.this["sweep"].function_name
  qualifier     = aws_lambda_alias.live["sweep"].name
  principal     = "events.amazonaws.com"
  source_arn    = aws_cloudwatch_event_rule.sweep.arn
}

resource "aws_lambda_function_event_invoke_config" "sweep" {
  function_name                = aws_lambda_function.this["sweep"].function_name
  qualifier                    = aws_lambda_alias.live["sweep"].name
  maximum_event_age_in_seconds = 300
  maximum_retry_attempts       = 1

  destination_config {
    on_failure {
      destination = aws_sqs_queue.sweep_dead.arn
    }
  }

  depends_on = [aws_iam_role_policy.function]
}
