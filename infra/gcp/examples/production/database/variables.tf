variable "project" {
  description = "ID of the environment's project."
  type        = string
}

variable "location" {
  description = "Location of the database, such as eur3."
  type        = string
}

variable "backup_retention_days" {
  description = "For how many days the backups of each day are kept."
  type        = number
  default     = 35
}
