# The queue of analyses and the worker behind it.

locals {
  tls_only = { for arn in [local.queue_arn, "${local.queue_arn}-dead"] : arn => jsonencode({
    Version = "2012-10-17"
    Statement = [{
      Sid       = "TLSOnly"
      Effect    = "Deny"
      Principal = { AWS = "*" }
      Action    = ["sqs:*"]
      Resource  = [arn]
      Condition = { Bool = { "aws:SecureTransport" = "false" } }
    }]
  }) }
}

resource "aws_sqs_queue" "analyses" {
  count = var.analyses ? 1 : 0

  name                       = "${var.name}-analyses"
  visibility_timeout_seconds = 6 * var.worker_timeout
  message_retention_seconds  = var.queue_retention_days * 86400
  receive_wait_time_seconds  = 20
  sqs_managed_sse_enabled    = true
  policy                     = local.tls_only[local.queue_arn]
  tags                       = var.tags

  redrive_policy = jsonencode({
    deadLetterTargetArn = "${local.queue_arn}-dead"
    maxReceiveCount     = var.max_receives
  })

  depends_on = [aws_sqs_queue.analyses_dead]
}

resource "aws_sqs_queue" "analyses_dead" {
  count = var.analyses ? 1 : 0

  name                      = "${var.name}-analyses-dead"
  message_retention_seconds = 14 * 86400
  sqs_managed_sse_enabled   = true
  policy                    = local.tls_only["${local.queue_arn}-dead"]
  tags                      = var.tags
}

resource "aws_sqs_queue_redrive_allow_policy" "analyses_dead" {
  count = var.analyses ? 1 : 0

  queue_url = aws_sqs_queue.analyses_dead[0].url
  redrive_allow_policy = jsonencode({
    redrivePermission = "byQueue"
    sourceQueueArns   = [local.queue_arn]
  })
}

resource "aws_lambda_event_source_mapping" "analyses" {
  count = var.analyses ? 1 : 0

  event_source_arn        = aws_sqs_queue.analyses[0].arn
  function_name           = aws_lambda_alias.live["worker"].arn
  batch_size              = var.batch_size
  function_response_types = ["ReportBatchItemFailures"]
  tags                    = var.tags

  # More would be received and throttled, and come closer to the dead-letter queue each time.
  scaling_config {
    maximum_concurrency = var.concurrency.worker
  }
}
