data "aws_caller_identity" "current" {}
data "aws_partition" "current" {}
data "aws_region" "current" {}

locals {
  # ARNs and the queue's URL are made of names, so that a plan shows each policy and each environment in full, and nothing waits for a queue that need not.
  region    = data.aws_region.current.id
  account   = data.aws_caller_identity.current.account_id
  partition = data.aws_partition.current.partition
  table_arn = "arn:${local.partition}:dynamodb:${local.region}:${local.account}:table/${var.table_name}"
  index_arn = "${local.table_arn}/index/due-sharded-lockExpiresAt"
  queue_arn = "arn:${local.partition}:sqs:${local.region}:${local.account}:${var.name}-analyses"
  queue_url = "https://sqs.${local.region}.${data.aws_partition.current.dns_suffix}/${local.account}/${var.name}-analyses"
  audience  = lookup(local.set, "LEASEHOLD_TARGET_AUDIENCE", null) # of tokens for the target
  swept_arn = "arn:${local.partition}:sqs:${local.region}:${local.account}:${var.name}-sweep-dead"

  functions = merge(
    {
      api = {
        description = "The HTTP API of Leasehold"
        timeout     = var.api_timeout
        memory      = var.memory_size.api
        concurrency = var.concurrency.api
        environment = merge(local.settings.api, { LEASEHOLD_FRONT_DOOR = var.front_door })
        statements = [{
          Sid      = "Table"
          Effect   = "Allow"
          Action   = ["dynamodb:ConditionCheckItem", "dynamodb:GetItem", "dynamodb:Query", "dynamodb:UpdateItem"]
          Resource = [local.table_arn]
        }]
      }
      sweep = {
        description = "Queues stale analyses of Leasehold again and sweeps clusters"
        timeout     = var.sweep_timeout
        memory      = var.memory_size.sweep
        concurrency = var.concurrency.sweep
        environment = merge(local.settings.sweep, var.analyses ? { LEASEHOLD_QUEUE_URL = local.queue_url } : {})
        statements = concat(
          [
            {
              Sid      = "Table"
              Effect   = "Allow"
              Action   = ["dynamodb:DeleteItem", "dynamodb:DescribeTable", "dynamodb:GetItem", "dynamodb:Query", "dynamodb:UpdateItem"]
              Resource = [local.table_arn]
            },
            {
              Sid      = "DeadLetters"
              Effect   = "Allow"
              Action   = ["sqs:SendMessage"]
              Resource = [local.swept_arn]
            },
          ],
          var.analyses ? [
            {
              Sid      = "Index"
              Effect   = "Allow"
              Action   = ["dynamodb:Query"]
              Resource = [local.index_arn]
            },
            {
              Sid      = "Queue"
              Effect   = "Allow"
              Action   = ["sqs:GetQueueAttributes", "sqs:SendMessage"]
              Resource = [local.queue_arn]
            },
          ] : [],
        )
      }
    },
    var.analyses ? {
      worker = {
        description = "Takes messages of the queue through the run-once guard to the work"
        timeout     = var.worker_timeout
        memory      = var.memory_size.worker
        concurrency = var.concurrency.worker
        environment = local.settings.worker
        statements = concat(
          [
            {
              Sid      = "Table"
              Effect   = "Allow"
              Action   = ["dynamodb:GetItem", "dynamodb:UpdateItem"]
              Resource = [local.table_arn]
            },
            {
              Sid      = "Queue"
              Effect   = "Allow"
              Action   = ["sqs:ChangeMessageVisibility", "sqs:DeleteMessage", "sqs:GetQueueAttributes", "sqs:GetQueueUrl", "sqs:ReceiveMessage"]
              Resource = [local.queue_arn]
            },
            {
              Sid      = "DeadLetters"
              Effect   = "Allow"
              Action   = ["sqs:GetQueueUrl", "sqs:SendMessage"]
              Resource = ["${local.queue_arn}-dead"]
            },
          ],
          local.audience == null ? [] : [{
            Sid       = "TokenForTarget"
            Effect    = "Allow"
            Action    = ["sts:GetWebIdentityToken"]
            Resource  = ["*"]
            Condition = { "ForAllValues:StringEquals" = { "sts:IdentityTokenAudience" = [local.audience] } }
          }],
        )
      }
    } : {},
  )

  # A table with a customer managed key is read and written with the caller's right to that key, through DynamoDB alone.
  key_statements = var.kms_key_arn == null ? [] : [{
    Sid       = "Key"
    Effect    = "Allow"
    Action    = ["kms:Decrypt", "kms:DescribeKey"]
    Resource  = [var.kms_key_arn]
    Condition = { StringEquals = { "kms:ViaService" = "dynamodb.${local.region}.amazonaws.com" } }
  }]
}

resource "aws_cloudwatch_log_group" "function" {
  for_each = local.functions

  name              = "/aws/lambda/${var.name}-${each.key}"
  retention_in_days = var.log_retention_days
  kms_key_id        = var.log_kms_key_arn
  tags              = var.tags
}

resource "aws_iam_role" "function" {
  for_each = local.functions

  name                 = "${var.name}-${each.key}"
  description          = each.value.description
  permissions_boundary = var.permissions_boundary_arn
  tags                 = var.tags

  assume_role_policy = jsonencode({
    Version = "2012-10-17"
    Statement = [{
      Effect    = "Allow"
      Action    = ["sts:AssumeRole"]
      Principal = { Service = "lambda.amazonaws.com" }
    }]
  })
}

resource "aws_iam_role_policy" "function" {
  for_each = local.functions

  name = "leasehold"
  role = aws_iam_role.function[each.key].id

  policy = jsonencode({
    Version = "2012-10-17"
    Statement = concat(each.value.statements, local.key_statements, [{
      Sid      = "Log"
      Effect   = "Allow"
      Action   = ["logs:CreateLogStream", "logs:PutLogEvents"]
      Resource = ["arn:${local.partition}:logs:${local.region}:${local.account}:log-group:/aws/lambda/${var.name}-${each.key}:*"]
    }])
  })
}

resource "aws_lambda_function" "this" {
  for_each = local.functions

  function_name = "${var.name}-${each.key}"
  description   = each.value.description
  role          = aws_iam_role.function[each.key].arn
  tags          = var.tags

  runtime          = "provided.al2023"
  architectures    = [var.architecture]
  handler          = each.key
  filename         = var.package
  source_code_hash = filebase64sha256(var.package)
  publish          = true

  timeout                        = each.value.timeout
  memory_size                    = each.value.memory
  reserved_concurrent_executions = var.reserve_concurrency ? coalesce(each.value.concurrency, -1) : -1

  # The program writes JSON then, and alarms count its errors. It leaves out lines by LEASEHOLD_LOG_LEVEL: by a level above INFO here, Lambda would leave out audit events and metrics.
  logging_config {
    log_format            = "JSON"
    log_group             = aws_cloudwatch_log_group.function[each.key].name
    application_log_level = "INFO"
    system_log_level      = "WARN"
  }

  environment {
    variables = merge(each.value.environment, { LEASEHOLD_TABLE = var.table_name })
  }

  depends_on = [aws_iam_role_policy.function]
}

# What calls the functions calls this alias. An alias that is put back to an earlier version is a rollback, of code and settings.
resource "aws_lambda_alias" "live" {
  for_each = local.functions

  name             = "live"
  description      = "The version that is called"
  function_name    = aws_lambda_function.this[each.key].function_name
  function_version = coalesce(var.versions[each.key], aws_lambda_function.this[each.key].version)
}
