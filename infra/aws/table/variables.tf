variable "name" {
  description = "Name of the table."
  type        = string
  default     = "leasehold"

  validation {
    condition     = can(regex("^[A-Za-z0-9_.-]{3,255}$", var.name))
    error_message = "name must have 3 to 255 letters, digits, \"_\", \".\" or \"-\": it is the name of a DynamoDB table."
  }
}

variable "recovery_days" {
  description = "Days that point-in-time recovery can go back. A restored table needs `leasehold store raise-tokens` before it is used."
  type        = number
  default     = 35

  validation {
    condition     = floor(var.recovery_days) == var.recovery_days && var.recovery_days >= 1 && var.recovery_days <= 35
    error_message = "recovery_days must be a whole number from 1 to 35."
  }
}

variable "kms_key_arn" {
  description = "ARN of a customer managed KMS key that encrypts the table. Give it to the module functions too. null is the key `aws/dynamodb` of the account."
  type        = string
  default     = null

  validation {
    condition     = var.kms_key_arn == null ? true : can(regex("^arn:aws[a-z-]*:kms:[a-z0-9-]+:[0-9]{12}:key/[A-Za-z0-9-]+$", var.kms_key_arn))
    error_message = "kms_key_arn must be the ARN of a key, such as arn:aws:kms:eu-west-1:123456789012:key/…, and not an alias."
  }
}

variable "max_read_units" {
  description = "Read units a second that the table accepts, as a bound of what it can cost; more are throttled. null is no bound."
  type        = number
  default     = null

  validation {
    condition     = var.max_read_units == null ? true : floor(var.max_read_units) == var.max_read_units && var.max_read_units >= 1
    error_message = "max_read_units must be a whole number from 1."
  }
}

variable "max_write_units" {
  description = "Write units a second that the table accepts, as a bound of what it can cost; more are throttled. null is no bound."
  type        = number
  default     = null

  validation {
    condition     = var.max_write_units == null ? true : floor(var.max_write_units) == var.max_write_units && var.max_write_units >= 1
    error_message = "max_write_units must be a whole number from 1."
  }
}

variable "tags" {
  description = "Tags of the table."
  type        = map(string)
  default     = {}
}
