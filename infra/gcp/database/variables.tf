variable "project" {
  description = "ID of the Google Cloud project that the database is made in, such as my-project-123."
  type        = string

  validation {
    condition     = can(regex("^[a-z][a-z0-9-]{4,28}[a-z0-9]$", var.project))
    error_message = "project must be the ID of a project: 6 to 30 lower-case letters, digits and dashes, which begin with a letter. A project's number is not its ID, and projects with a domain in it are not supported."
  }
}

variable "location" {
  description = "Location of the database: a region such as europe-west1, or eur3 or nam5, which are several regions and survive the loss of one. It can never be changed."
  type        = string

  validation {
    condition     = contains(["eur3", "nam5", "nam7"], var.location) || can(regex("^[a-z]+-[a-z]+[0-9]{1,2}$", var.location))
    error_message = "location must be a region such as europe-west1, or eur3, nam5 or nam7. A zone such as europe-west1-b is none."
  }
}

variable "name" {
  description = "ID of the database. It is Leasehold's own: its rules for indexes apply to all collections of the same names."
  type        = string
  default     = "leasehold"

  validation {
    condition     = can(regex("^[a-z][a-z0-9-]{2,61}[a-z0-9]$", var.name)) && !can(regex("^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$", var.name))
    error_message = "name must have 4 to 63 lower-case letters, digits and dashes, begin with a letter, not end with a dash, and not be a UUID. The database (default) is shared with other programs of the project, and is not allowed."
  }
}

variable "delete_protection" {
  description = "Whether Firestore refuses to delete the database. To delete it: set this to false, apply, then destroy. A database that is lost has forgotten all fencing tokens."
  type        = bool
  default     = true
  nullable    = false
}

variable "point_in_time_recovery" {
  description = "Whether the state of each minute of the last 7 days can be read and exported."
  type        = bool
  default     = true
  nullable    = false
}

variable "backup_retention_days" {
  description = "For how many days the backups of each day are kept, up to 98; 0 makes none."
  type        = number
  default     = 14
  nullable    = false

  validation {
    condition     = floor(var.backup_retention_days) == var.backup_retention_days && var.backup_retention_days >= 0 && var.backup_retention_days <= 98
    error_message = "backup_retention_days must be a whole number from 0 to 98: Firestore keeps a backup for 14 weeks at most."
  }
}

variable "enable_services" {
  description = "Whether to enable Firestore's API in the project. They stay enabled when this is destroyed."
  type        = bool
  default     = true
  nullable    = false
}
