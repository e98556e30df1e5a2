variable "project" {
  description = "ID of the Google Cloud project, such as my-project-123: that of the services."
  type        = string

  validation {
    condition     = can(regex("^[a-z][a-z0-9-]{4,28}[a-z0-9]$", var.project))
    error_message = "project must be the ID of a project: 6 to 30 lower-case letters, digits and dashes, which begin with a letter."
  }
}

variable "region" {
  description = "Region of the services, such as europe-west1: `region` of the module functions."
  type        = string

  validation {
    condition     = can(regex("^[a-z]+-[a-z]+[0-9]{1,2}$", var.region))
    error_message = "region must be one region such as europe-west1."
  }
}

variable "name" {
  description = "What the names of account, role and pool begin with: `name` of the module functions."
  type        = string
  default     = "leasehold"

  validation {
    condition     = can(regex("^[a-z][a-z0-9-]{0,18}[a-z0-9]$", var.name))
    error_message = "name must have 2 to 20 lower-case letters, digits and dashes, begin with a letter, and not end with a dash."
  }
}

variable "enable_services" {
  description = "Whether to enable the APIs that are needed in the project. They stay enabled when this is destroyed."
  type        = bool
  default     = true
  nullable    = false
}

variable "services" {
  description = "Names of the services in Cloud Run that may be deployed: the output `names` of the module functions, with `image`."
  type        = map(string)

  validation {
    condition     = length(var.services) > 0
    error_message = "services must have at least one service: the output names of the module functions."
  }
}

variable "accounts" {
  description = "Email addresses of the accounts that the services run as, under the same keys: the output `accounts` of the module functions."
  type        = map(string)

  validation {
    condition     = alltrue([for key in keys(var.services) : contains(keys(var.accounts), key)])
    error_message = "accounts must have the account of each of services, under the same key: the output accounts of the module functions."
  }
}

variable "repository" {
  description = "Repository of Artifact Registry in the project that has the image: its location and name. null if the account gets to read it elsewhere."
  type = object({
    location = string
    name     = string
  })
  default = null
}

variable "issuer" {
  description = "Issuer of the CI system's tokens, with https://."
  type        = string
  default     = "https://token.actions.githubusercontent.com"
  nullable    = false

  validation {
    condition     = can(regex("^https://[a-z0-9.-]+(/[A-Za-z0-9._/-]+)?$", var.issuer))
    error_message = "issuer must be the URL of an issuer and begin with https://."
  }
}

variable "audiences" {
  description = "Audiences of these tokens. The default is the full name of the provider, which google-github-actions/auth asks for."
  type        = list(string)
  default     = []
  nullable    = false

  validation {
    condition     = alltrue([for a in var.audiences : trimspace(a) != ""])
    error_message = "audiences must not be empty texts."
  }
}

variable "subjects" {
  description = "Subjects that may deploy, in full, such as repo:OWNER/NAME:environment:production. There are no wildcards."
  type        = list(string)

  validation {
    condition     = length(var.subjects) > 0 && alltrue([for s in var.subjects : can(regex("^[A-Za-z0-9._:/@-]{1,127}$", s))])
    error_message = "subjects must have at least one subject of 1 to 127 letters, digits and ._:/@-, and no wildcards: with one, other repositories or pull requests could deploy."
  }
}

variable "pool" {
  description = "Full name of a workload identity pool with a provider for issuer that is there, projects/NUMBER/locations/global/workloadIdentityPools/ID: it must map google.subject to assertion.sub. null makes both."
  type        = string
  default     = null

  validation {
    condition     = var.pool == null ? true : can(regex("^projects/[0-9]+/locations/global/workloadIdentityPools/[a-z0-9-]{4,32}$", var.pool))
    error_message = "pool must be a full name, projects/NUMBER/locations/global/workloadIdentityPools/ID."
  }
}
