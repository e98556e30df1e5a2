# A role that a deployment assumes with a token of its CI system, so that no key of AWS is kept there. It may publish code, move the alias and look at what happens;
# it may not touch the table, roles, or who may call what.

data "aws_caller_identity" "current" {}
data "aws_partition" "current" {}
data "aws_region" "current" {}

locals {
  # Each with its versions. NAME-* would be those of deployments whose names begin with this one, too.
  arns = [for function in ["api", "sweep", "worker"] :
    "arn:${data.aws_partition.current.partition}:lambda:${data.aws_region.current.id}:${data.aws_caller_identity.current.account_id}:function:${var.name}-${function}"
  ]
  functions = concat(local.arns, [for arn in local.arns : "${arn}:*"])

  provider = coalesce(var.provider_arn, one(aws_iam_openid_connect_provider.this[*].arn))
}

resource "aws_iam_openid_connect_provider" "this" {
  count = var.provider_arn == null ? 1 : 0

  url            = "https://${var.issuer}"
  client_id_list = [var.audience]
  tags           = var.tags
}

resource "aws_iam_role" "this" {
  name                 = "${var.name}-deploy"
  description          = "Deployments of Leasehold"
  max_session_duration = 3600
  tags                 = var.tags

  assume_role_policy = jsonencode({
    Version = "2012-10-17"
    Statement = [{
      Effect    = "Allow"
      Action    = ["sts:AssumeRoleWithWebIdentity"]
      Principal = { Federated = local.provider }
      Condition = {
        StringEquals = {
          "${var.issuer}:aud" = [var.audience]
          "${var.issuer}:sub" = var.subjects
        }
      }
    }]
  })
}

resource "aws_iam_role_policy" "this" {
  name = "deploy"
  role = aws_iam_role.this.id

  policy = jsonencode({
    Version = "2012-10-17"
    Statement = [{
      Sid    = "Functions"
      Effect = "Allow"
      Action = [
        "lambda:GetAlias", "lambda:GetFunction", "lambda:GetFunctionConfiguration", "lambda:ListVersionsByFunction", "lambda:PublishVersion", "lambda:UpdateAlias",
        "lambda:UpdateFunctionCode",
      ]
      Resource = local.functions
    }]
  })
}
