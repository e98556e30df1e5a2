# What stands before the function api: an HTTP API of API Gateway, or a function URL with IAM.

locals {
  http_api = var.front_door == "http-api"

  # Routes without an authorizer. Health checks have no token; a browser sends none with a preflight request, and none to load a page.
  open_routes = concat(
    ["GET /healthz", "GET /readyz"],
    !contains(keys(local.set), "LEASEHOLD_CORS_ORIGINS") ? [] : ["OPTIONS /{proxy+}"],
    contains(["true", "1"], lookup(local.set, "LEASEHOLD_CONSOLE", "false")) ? ["GET /console/{proxy+}"] : [],
  )
  authorization = var.iam ? "AWS_IAM" : var.jwt != null ? "JWT" : "NONE"
}

resource "aws_apigatewayv2_api" "this" {
  count = local.http_api ? 1 : 0

  name          = var.name
  description   = "The HTTP API of Leasehold"
  protocol_type = "HTTP"
  tags          = var.tags
}

resource "aws_apigatewayv2_integration" "this" {
  count = local.http_api ? 1 : 0

  api_id                 = aws_apigatewayv2_api.this[0].id
  integration_type       = "AWS_PROXY"
  integration_method     = "POST"
  integration_uri        = aws_lambda_alias.live["api"].invoke_arn
  payload_format_version = "2.0"
  timeout_milliseconds   = 30000
}

resource "aws_apigatewayv2_authorizer" "jwt" {
  count = local.http_api && var.jwt != null ? 1 : 0

  name             = "jwt"
  api_id           = aws_apigatewayv2_api.this[0].id
  authorizer_type  = "JWT"
  identity_sources = ["$request.header.Authorization"]

  jwt_configuration {
    issuer   = var.jwt.issuer
    audience = var.jwt.audience
  }
}

resource "aws_apigatewayv2_route" "api" {
  count = local.http_api ? 1 : 0

  api_id             = aws_apigatewayv2_api.this[0].id
  route_key          = "$default"
  target             = "integrations/${aws_apigatewayv2_integration.this[0].id}"
  authorization_type = local.authorization
  authorizer_id      = one(aws_apigatewayv2_authorizer.jwt[*].id)
}

resource "aws_apigatewayv2_route" "open" {
  for_each = local.http_api ? toset(local.open_routes) : []

  api_id             = aws_apigatewayv2_api.this[0].id
  route_key          = each.key
  target             = "integrations/${aws_apigatewayv2_integration.this[0].id}"
  authorization_type = "NONE"
}

resource "aws_cloudwatch_log_group" "access" {
  count = local.http_api ? 1 : 0

  name              = "/aws/vendedlogs/${var.name}-access"
  retention_in_days = var.log_retention_days
  kms_key_id        = var.log_kms_key_arn
  tags              = var.tags
}

resource "aws_apigatewayv2_stage" "this" {
  count = local.http_api ? 1 : 0

  api_id      = aws_apigatewayv2_api.this[0].id
  name        = "$default"
  auto_deploy = true
  tags        = var.tags

  default_route_settings {
    throttling_rate_limit    = var.throttle.rate
    throttling_burst_limit   = var.throttle.burst
    detailed_metrics_enabled = true
  }

  # Names and times, and no tokens.
  access_log_settings {
    destination_arn = aws_cloudwatch_log_group.access[0].arn
    format = jsonencode({
      requestId   = "$context.requestId"
      time        = "$context.requestTime"
      ip          = "$context.identity.sourceIp"
      method      = "$context.httpMethod"
      path        = "$context.path"
      route       = "$context.routeKey"
      status      = "$context.status"
      bytes       = "$context.responseLength"
      ms          = "$context.responseLatency"
      integration = "$context.integrationErrorMessage"
      authorizer  = "$context.authorizer.error"
    })
  }
}

resource "aws_lambda_permission" "api" {
  count = local.http_api ? 1 : 0

  statement_id  = "http-api"
  action        = "lambda:InvokeFunction"
  function_name = aws_lambda_function.this["api"].function_name
  qualifier     = aws_lambda_alias.live["api"].name
  principal     = "apigateway.amazonaws.com"
  source_arn    = "${aws_apigatewayv2_api.this[0].execution_arn}/*"
}

resource "aws_lambda_function_url" "this" {
  count = local.http_api ? 0 : 1

  function_name      = aws_lambda_function.this["api"].function_name
  qualifier          = aws_lambda_alias.live["api"].name
  authorization_type = "AWS_IAM"
}

# What a caller's role needs. A principal that may invoke the function in another way than by its URL could write the whole event, and be any caller.
resource "aws_iam_policy" "callers" {
  count = var.iam ? 1 : 0

  name        = "${var.name}-callers"
  description = "Callers of Leasehold"
  tags        = var.tags

  policy = jsonencode({
    Version = "2012-10-17"
    Statement = local.http_api ? [{
      Sid       = "Call"
      Effect    = "Allow"
      Action    = ["execute-api:Invoke"]
      Resource  = ["arn:${local.partition}:execute-api:${local.region}:${local.account}:${aws_apigatewayv2_api.this[0].id}/*"]
      Condition = {}
      }] : [
      {
        Sid       = "Call"
        Effect    = "Allow"
        Action    = ["lambda:InvokeFunctionUrl"]
        Resource  = ["arn:${local.partition}:lambda:${local.region}:${local.account}:function:${var.name}-api:live"]
        Condition = { StringEquals = { "lambda:FunctionUrlAuthType" = "AWS_IAM" } }
      },
      {
        Sid       = "ByURLOnly"
        Effect    = "Allow"
        Action    = ["lambda:InvokeFunction"]
        Resource  = ["arn:${local.partition}:lambda:${local.region}:${local.account}:function:${var.name}-api:live"]
        Condition = { Bool = { "lambda:InvokedViaFunctionUrl" = "true" } }
      },
    ]
  })
}
