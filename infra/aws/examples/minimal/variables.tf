variable "region" {
  description = "AWS region of everything."
  type        = string

  validation {
    condition     = can(regex("^[a-z]{2}(-[a-z]+)+-[0-9]+$", var.region))
    error_message = "region must be a region of AWS, such as eu-west-1."
  }
}

variable "name" {
  description = "Name of the table, tenant of all callers, and prefix of all other names."
  type        = string
  default     = "leasehold"
}

variable "package" {
  description = "Path of leasehold-VERSION-lambda-arm64.zip."
  type        = string
}
