output "url" {
  description = "URL of the API: LEASEHOLD_SERVER of clients."
  value       = trimsuffix(local.http_api ? aws_apigatewayv2_api.this[0].api_endpoint : aws_lambda_function_url.this[0].function_url, "/")
}

output "caller_policy_arn" {
  description = "ARN of the policy that callers' roles need; null if IAM does not verify callers."
  value       = one(aws_iam_policy.callers[*].arn)
}

output "queue_url" {
  description = "URL of the queue of analyses, for those who send messages; null without analyses."
  value       = one(aws_sqs_queue.analyses[*].url)
}

output "queue_arn" {
  description = "ARN of the queue of analyses; null without analyses."
  value       = one(aws_sqs_queue.analyses[*].arn)
}

output "dead_letter_queue_urls" {
  description = "URLs of the dead-letter queues: of the sweep, and of analyses if there are any."
  value       = merge({ sweep = aws_sqs_queue.sweep_dead.url }, { for queue in aws_sqs_queue.analyses_dead : "analyses" => queue.url })
}

output "functions" {
  description = "Of each function: its name, its ARN, the published version that is the newest, and the version that is called."
  value = { for name, f in aws_lambda_function.this : name => {
    name   = f.function_name
    arn    = f.arn
    newest = f.version
    called = aws_lambda_alias.live[name].function_version
  } }
}

output "role_arns" {
  description = "ARN of each function's role."
  value       = { for name, role in aws_iam_role.function : name => role.arn }
}

output "log_groups" {
  description = "Name of each function's log group, and of the log of requests."
  value       = merge({ for name, group in aws_cloudwatch_log_group.function : name => group.name }, { for group in aws_cloudwatch_log_group.access : "access" => group.name })
}

output "alarms" {
  description = "Names of the alarms."
  value       = concat([for alarm in merge(aws_cloudwatch_metric_alarm.this, aws_cloudwatch_metric_alarm.metrics) : alarm.alarm_name], [aws_cloudwatch_metric_alarm.no_sweep.alarm_name])
}

output "audit_bucket" {
  description = "Name of the bucket of audit events; null if there is none."
  value       = one([for bucket in aws_s3_bucket.audit : bucket.bucket])
}
