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
  description = "ARN of the customer managed key that encrypts the table; null if there is none."
  type        = string
  default     = null
}

variable "package" {
  description = "Path of leasehold-VERSION-lambda-arm64.zip."
  type        = string
}

variable "versions" {
  description = "Published versions that are called, by function, to go back to; see the module functions."
  type        = map(string)
  default     = {}
}

variable "issuer" {
  description = "Issuer of callers' tokens."
  type        = string
}

variable "audience" {
  description = "Audience of callers' tokens."
  type        = string
}

variable "target_url" {
  description = "URL that runs an analysis."
  type        = string
}

variable "target_audience" {
  description = "Audience of the worker's tokens for it. The account needs outbound identity federation."
  type        = string
}

variable "alarm_topic_arns" {
  description = "ARNs of the SNS topics that alarms are sent to."
  type        = list(string)
}

variable "monthly_usd" {
  description = "Monthly budget in USD."
  type        = number
}

variable "budget_emails" {
  description = "Who is told of the budget."
  type        = list(string)
}

variable "repository" {
  description = "Repository whose deployments may use the deploy role, as OWNER/NAME."
  type        = string

  validation {
    condition     = can(regex("^[A-Za-z0-9-]+/[A-Za-z0-9._-]+$", var.repository))
    error_message = "repository must be OWNER/NAME, without wildcards."
  }
}

variable "oidc_provider_arn" {
  description = "ARN of the account's OpenID Connect provider for token.actions.githubusercontent.com; null creates it."
  type        = string
  default     = null
}

variable "audit_locked" {
  description = "Whether nobody, terraform destroy included, can remove an audit event for 400 days. true in production; false where all of it must be removable again, such as staging."
  type        = bool
}
