# The one thing of a deployment that cannot be made again. Everything else is in the module functions, which can be destroyed and applied at will.
resource "aws_dynamodb_table" "this" {
  name         = var.name
  billing_mode = "PAY_PER_REQUEST"
  table_class  = "STANDARD"

  hash_key  = "_pk"
  range_key = "_sk"

  attribute {
    name = "_pk"
    type = "S"
  }

  attribute {
    name = "_sk"
    type = "S"
  }

  attribute {
    name = "_due"
    type = "S"
  }

  attribute {
    name = "lockExpiresAt"
    type = "S"
  }

  # By which the sweep finds stale analyses. The hash key is a shard: times only rise, so that an index by the time alone would be one partition.
  global_secondary_index {
    name            = "due-sharded-lockExpiresAt"
    hash_key        = "_due"
    range_key       = "lockExpiresAt"
    projection_type = "ALL"
  }

  # Removes what has expired and was kept for its retention. On any other attribute it would remove locks that are held.
  ttl {
    attribute_name = "_keep_until"
    enabled        = true
  }

  point_in_time_recovery {
    enabled                 = true
    recovery_period_in_days = var.recovery_days
  }

  server_side_encryption {
    enabled     = true
    kms_key_arn = var.kms_key_arn
  }

  dynamic "on_demand_throughput" {
    for_each = var.max_read_units == null && var.max_write_units == null ? [] : [true]

    content {
      max_read_request_units  = coalesce(var.max_read_units, -1)
      max_write_request_units = coalesce(var.max_write_units, -1)
    }
  }

  deletion_protection_enabled = true

  tags = var.tags

  lifecycle {
    prevent_destroy = true
  }
}
