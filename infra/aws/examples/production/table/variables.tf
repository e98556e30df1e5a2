variable "environment" {
  description = "Name of the environment, such as staging."
  type        = string

  validation {
    condition     = can(regex("^[a-z][a-z0-9]{1,15}$", var.environment))
    error_message = "environment must have 2 to 16 lower-case letters and digits, and begin with a letter."
  }
}

variable "region" {
  description = "AWS region of everything."
  type        = string

  validation {
    condition     = can(regex("^[a-z]{2}(-[a-z]+)+-[0-9]+$", var.region))
    error_message = "region must be a region of AWS, such as eu-west-1."
  }
}

variable "account_id" {
  description = "AWS account of the environment. An apply with credentials of another account is refused."
  type        = string

  validation {
    condition     = can(regex("^[0-9]{12}$", var.account_id))
    error_message = "account_id must have 12 digits."
  }
}

variable "kms_key_arn" {
  description = "ARN of a customer managed KMS key that encrypts the table; null is the key aws/dynamodb of the account."
  type        = string
  default     = null
}

variable "max_write_units" {
  description = "Write units a second that the table accepts, as a bound of what it can cost; null is no bound."
  type        = number
  default     = null
}
