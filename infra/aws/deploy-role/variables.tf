variable "name" {
  description = "Prefix of the functions that the role deploys: `name` of the module functions."
  type        = string
  default     = "leasehold"

  validation {
    condition     = can(regex("^[a-z][a-z0-9-]{0,38}[a-z0-9]$", var.name))
    error_message = "name must have 2 to 40 lower-case letters, digits and \"-\", begin with a letter and not end with \"-\"."
  }
}

variable "issuer" {
  description = "Issuer of the CI system's tokens, without https://."
  type        = string
  default     = "token.actions.githubusercontent.com"

  validation {
    condition     = can(regex("^[a-z0-9.-]+(/[A-Za-z0-9._/-]+)?$", var.issuer))
    error_message = "issuer must be a host name, perhaps with a path, without https://."
  }
}

variable "audience" {
  description = "Audience of these tokens."
  type        = string
  default     = "sts.amazonaws.com"

  validation {
    condition     = trimspace(var.audience) != ""
    error_message = "audience must not be empty."
  }
}

variable "subjects" {
  description = "Subjects that may assume the role, in full, such as repo:OWNER/NAME:environment:production. There are no wildcards."
  type        = list(string)

  validation {
    condition     = length(var.subjects) > 0 && alltrue([for s in var.subjects : trimspace(s) != "" && !can(regex("[*?]", s))])
    error_message = "subjects must have at least one subject, and no wildcards: with one, other repositories or pull requests could deploy."
  }
}

variable "provider_arn" {
  description = "ARN of the account's OpenID Connect provider for issuer. null creates it; an account can have one for each issuer."
  type        = string
  default     = null

  validation {
    condition     = var.provider_arn == null ? true : can(regex("^arn:aws[a-z-]*:iam::[0-9]{12}:oidc-provider/.+$", var.provider_arn))
    error_message = "provider_arn must be the ARN of an OpenID Connect provider."
  }
}

variable "tags" {
  description = "Tags of all that is created."
  type        = map(string)
  default     = {}
  nullable    = false
}
