variable "project" {
  description = "ID of the environment's project."
  type        = string
}

variable "environment" {
  description = "Name of the environment, such as production or staging, for labels."
  type        = string
}

variable "region" {
  description = "Region near the database, such as europe-west1 for eur3."
  type        = string
}

variable "database" {
  description = "ID of the database: the output name of the folder database."
  type        = string
  default     = "leasehold"
}

variable "image" {
  description = "Leasehold's image with its digest."
  type        = string
}

variable "auth_issuer" {
  description = "OpenID Connect issuer of the callers' tokens."
  type        = string
}

variable "auth_audience" {
  description = "Audience of the callers' tokens."
  type        = string
}

variable "target_url" {
  description = "URL that runs analyses."
  type        = string
}

variable "producers" {
  description = "Members of IAM that queue analyses."
  type        = set(string)
  default     = []
}

variable "repository" {
  description = "Repository on GitHub whose workflows deploy, OWNER/NAME, in the environment of the same name as environment."
  type        = string
}

variable "on_call" {
  description = "Email address that alerts go to."
  type        = string
}

variable "otlp_endpoint" {
  description = "URL of a collector that brings metrics to Managed Service for Prometheus, such as http://collector.internal:4318. null is no metrics of the program, and no alerts on them."
  type        = string
  default     = null
}

variable "audit_locked" {
  description = "Whether nobody, terraform destroy included, can remove an audit event for 400 days. true in production; false where all of it must be removable again, such as staging."
  type        = bool
}
