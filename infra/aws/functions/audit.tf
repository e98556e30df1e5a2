# Audit events in a bucket of their own: CloudWatch Logs passes the lines of all functions that are some on, and no code is in the way of requests.

locals {
  audited      = var.audit_retention_days == null ? {} : { this = var.audit_retention_days }
  audit_locked = var.audit_locked ? local.audited : {}
  audit_bucket = "${var.name}-audit-${local.account}-${local.region}"
  audit_arn    = "arn:${local.partition}:s3:::${local.audit_bucket}"
  audit_stream = "arn:${local.partition}:firehose:${local.region}:${local.account}:deliverystream/${var.name}-audit"
  audit_roles = var.audit_retention_days == null ? {} : {
    audit-delivery = { service = "firehose.amazonaws.com", condition = { StringEquals = { "aws:SourceAccount" = local.account } } }
    audit-logs     = { service = "logs.amazonaws.com", condition = { ArnLike = { "aws:SourceArn" = "arn:${local.partition}:logs:${local.region}:${local.account}:*" } } }
  }
}

resource "aws_s3_bucket" "audit" {
  for_each = local.audited

  bucket = local.audit_bucket
  tags   = var.tags
}

resource "aws_s3_bucket_public_access_block" "audit" {
  for_each = local.audited

  bucket                  = aws_s3_bucket.audit[each.key].id
  block_public_acls       = true
  block_public_policy     = true
  ignore_public_acls      = true
  restrict_public_buckets = true
}

resource "aws_s3_bucket_server_side_encryption_configuration" "audit" {
  for_each = local.audited

  bucket = aws_s3_bucket.audit[each.key].id

  rule {
    bucket_key_enabled = var.audit_kms_key_arn != null

    apply_server_side_encryption_by_default {
      sse_algorithm     = var.audit_kms_key_arn == null ? "AES256" : "aws:kms"
      kms_master_key_id = var.audit_kms_key_arn
    }
  }
}

resource "aws_s3_bucket_lifecycle_configuration" "audit" {
  for_each = local.audited

  bucket = aws_s3_bucket.audit[each.key].id

  rule {
    id     = "retention"
    status = "Enabled"

    filter {}

    expiration {
      days = each.value
    }

    # Where there are versions, an expiration only hides an object.
    dynamic "noncurrent_version_expiration" {
      for_each = local.audit_locked

      content {
        noncurrent_days = 1
      }
    }

    abort_incomplete_multipart_upload {
      days_after_initiation = 7
    }
  }
}

# What is locked are versions of objects.
resource "aws_s3_bucket_versioning" "audit" {
  for_each = local.audit_locked

  bucket = aws_s3_bucket.audit[each.key].id

  versioning_configuration {
    status = "Enabled"
  }
}

# The mode in which no one can remove an object before its time, nor shorten that: not root, and no destroy of this. A bucket that is there already can have it, too.
resource "aws_s3_bucket_object_lock_configuration" "audit" {
  for_each = local.audit_locked

  bucket = aws_s3_bucket_versioning.audit[each.key].bucket

  rule {
    default_retention {
      mode = "COMPLIANCE"
      days = each.value
    }
  }
}

resource "aws_iam_role" "audit" {
  for_each = local.audit_roles

  name                 = "${var.name}-${each.key}"
  description          = "Passes audit events of ${var.name} on"
  permissions_boundary = var.permissions_boundary_arn
  tags                 = var.tags

  assume_role_policy = jsonencode({
    Version = "2012-10-17"
    Statement = [{
      Effect    = "Allow"
      Action    = ["sts:AssumeRole"]
      Principal = { Service = each.value.service }
      Condition = each.value.condition
    }]
  })
}

resource "aws_iam_role_policy" "audit_logs" {
  for_each = local.audited

  name = "leasehold"
  role = aws_iam_role.audit["audit-logs"].id

  policy = jsonencode({
    Version = "2012-10-17"
    Statement = [{
      Sid      = "Deliver"
      Effect   = "Allow"
      Action   = ["firehose:PutRecord", "firehose:PutRecordBatch"]
      Resource = [local.audit_stream]
    }]
  })
}

resource "aws_iam_role_policy" "audit_delivery" {
  for_each = local.audited

  name = "leasehold"
  role = aws_iam_role.audit["audit-delivery"].id

  policy = jsonencode({
    Version = "2012-10-17"
    Statement = concat(
      [
        {
          Sid      = "Bucket"
          Effect   = "Allow"
          Action   = ["s3:GetBucketLocation", "s3:ListBucket", "s3:ListBucketMultipartUploads"]
          Resource = [local.audit_arn]
        },
        {
          Sid      = "Objects"
          Effect   = "Allow"
          Action   = ["s3:AbortMultipartUpload", "s3:PutObject"]
          Resource = ["${local.audit_arn}/*"]
        },
      ],
      var.audit_kms_key_arn == null ? [] : [{
        Sid       = "Key"
        Effect    = "Allow"
        Action    = ["kms:Decrypt", "kms:GenerateDataKey"]
        Resource  = [var.audit_kms_key_arn]
        Condition = { StringEquals = { "kms:ViaService" = "s3.${local.region}.amazonaws.com" } }
      }],
    )
  })
}

resource "aws_kinesis_firehose_delivery_stream" "audit" {
  for_each = local.audited

  name        = "${var.name}-audit"
  destination = "extended_s3"
  tags        = var.tags

  server_side_encryption {
    enabled = true
  }

  extended_s3_configuration {
    role_arn            = aws_iam_role.audit["audit-delivery"].arn
    bucket_arn          = aws_s3_bucket.audit[each.key].arn
    prefix              = "audit/!{timestamp:yyyy/MM/dd}/"
    error_output_prefix = "failed/!{firehose:error-output-type}/!{timestamp:yyyy/MM/dd}/"
    buffering_interval  = 300
    buffering_size      = 5
    compression_format  = "GZIP"

    # A line of an object is then an event, as a function wrote it.
    processing_configuration {
      enabled = true

      processors {
        type = "Decompression"

        parameters {
          parameter_name  = "CompressionFormat"
          parameter_value = "GZIP"
        }
      }

      processors {
        type = "AppendDelimiterToRecord"
      }

      processors {
        type = "CloudWatchLogProcessing"

        parameters {
          parameter_name  = "DataMessageExtraction"
          parameter_value = "true"
        }
      }
    }
  }

  depends_on = [aws_iam_role_policy.audit_delivery, aws_s3_bucket_object_lock_configuration.audit]
}

# The worker's log has the events of runs from the queue.
resource "aws_cloudwatch_log_subscription_filter" "audit" {
  for_each = toset(var.audit_retention_days == null ? [] : keys(local.functions))

  name            = "${var.name}-audit"
  log_group_name  = aws_cloudwatch_log_group.function[each.key].name
  filter_pattern  = "{ $.message = \"audit\" && $.audit.schema = * }"
  destination_arn = aws_kinesis_firehose_delivery_stream.audit["this"].arn
  role_arn        = aws_iam_role.audit["audit-logs"].arn

  depends_on = [aws_iam_role_policy.audit_logs]
}
