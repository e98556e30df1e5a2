variable "project" {
  description = "ID of the Google Cloud project, such as my-project-123: that of the database."
  type        = string

  validation {
    condition     = can(regex("^[a-z][a-z0-9-]{4,28}[a-z0-9]$", var.project))
    error_message = "project must be the ID of a project: 6 to 30 lower-case letters, digits and dashes, which begin with a letter. A project's number is not its ID, and projects with a domain in it are not supported."
  }
}

variable "region" {
  description = "Region of functions, queue and scheduler, such as europe-west1: near the database."
  type        = string

  validation {
    condition     = can(regex("^[a-z]+-[a-z]+[0-9]{1,2}$", var.region))
    error_message = "region must be one region such as europe-west1. Locations of several regions such as eur3 are for databases only, and europe-west1-b is a zone."
  }
}

variable "name" {
  description = "What the names of everything begin with: leasehold-api, leasehold-tasks and so on."
  type        = string
  default     = "leasehold"

  validation {
    condition     = can(regex("^[a-z][a-z0-9-]{0,18}[a-z0-9]$", var.name))
    error_message = "name must have 2 to 20 lower-case letters, digits and dashes, begin with a letter, and not end with a dash: a service account's name, which begins with it, has 30 at most."
  }
}

variable "database" {
  description = "ID of the Firestore database in the project: the output name of the module database."
  type        = string

  validation {
    condition     = can(regex("^[a-z][a-z0-9-]{2,61}[a-z0-9]$", var.database))
    error_message = "database must be the ID of a database of Leasehold's own, such as leasehold. The database (default) is shared with other programs of the project."
  }
}

variable "labels" {
  description = "Labels of everything that can have some."
  type        = map(string)
  default     = {}
  nullable    = false

  validation {
    condition     = alltrue([for k, v in var.labels : can(regex("^[a-z][a-z0-9_-]{0,62}$", k)) && can(regex("^[a-z0-9_-]{0,63}$", v))])
    error_message = "labels must have keys and values of lower-case letters, digits, dashes and underscores, up to 63; keys begin with a letter."
  }
}

variable "enable_services" {
  description = "Whether to enable the APIs that are needed in the project. They stay enabled when this is destroyed."
  type        = bool
  default     = true
  nullable    = false
}

# What runs: sources or an image.

variable "source_archive" {
  description = "Path of leasehold-VERSION-functions-source.zip of a release, or of what `git archive` makes: the functions are built of it by Cloud Build. Without it, image is needed."
  type        = string
  default     = null

  validation {
    condition     = var.source_archive == null ? true : endswith(var.source_archive, ".zip") && fileexists(var.source_archive)
    error_message = "source_archive must be a .zip file that exists: leasehold-VERSION-functions-source.zip of a release."
  }
}

variable "image" {
  description = "Leasehold's image in Artifact Registry, with its digest: the services run it instead of being built of sources. It must be in a registry that Cloud Run can read."
  type        = string
  default     = null

  validation {
    condition     = (var.image == null) != (var.source_archive == null)
    error_message = "Set either image, to run a container, or source_archive, to have functions built."
  }

  validation {
    condition     = var.image == null ? true : can(regex("^[a-z0-9.-]+/[a-z0-9./_-]+(:[A-Za-z0-9._-]+)?@sha256:[0-9a-f]{64}$", var.image))
    error_message = "image must name a registry, an image and its digest, such as europe-west1-docker.pkg.dev/my-project/leasehold/leasehold@sha256:0123…: a tag can move to another image under the services."
  }
}

variable "runtime" {
  description = "Version of the runtime that functions are built and run with. Google ends the support of each some months after that of its version of Go."
  type        = string
  default     = "go126"
  nullable    = false

  validation {
    condition     = can(regex("^go1(2[6-9]|[3-9][0-9])$", var.runtime))
    error_message = "runtime must be go126 or later: the sources need Go 1.26."
  }
}

# Who may call.

variable "auth_issuer" {
  description = "OpenID Connect issuer whose tokens the API accepts: its URL, exactly as in the claim iss of its tokens. LEASEHOLD_AUTH_ISSUER."
  type        = string

  validation {
    condition     = try(startswith(var.auth_issuer, "https://"), false)
    error_message = "auth_issuer must be the URL of an issuer and begin with https://. Without an issuer the API rejects every caller, and there is no other mode of authentication here."
  }

  validation {
    condition     = contains(local.public_issuers, coalesce(var.auth_issuer, "-")) ? contains(keys(local.set), "LEASEHOLD_AUTH_SUBJECTS") || contains(keys(local.set), "LEASEHOLD_AUTH_REQUIRED_SCOPE") || contains(lookup(local.organizations, var.auth_issuer, []), lookup(local.set, "LEASEHOLD_AUTH_TENANT_CLAIM", "-")) : true
    error_message = "auth_issuer gives tokens to every account of the world: set LEASEHOLD_AUTH_TENANT and LEASEHOLD_AUTH_SUBJECTS in settings, or LEASEHOLD_AUTH_REQUIRED_SCOPE, or a LEASEHOLD_AUTH_TENANT_CLAIM that names an organization."
  }
}

variable "auth_audience" {
  description = "Audience that the tokens must be meant for, such as https://leasehold.example.com. LEASEHOLD_AUTH_AUDIENCE."
  type        = string

  validation {
    condition     = try(trimspace(var.auth_audience) != "", false)
    error_message = "auth_audience must not be empty: tokens that were issued for other servers would be accepted."
  }
}

variable "api_public" {
  description = "Whether the API is open to the internet for every caller with a token that it accepts. If not, only api_invokers may call, who send a token of Cloud Run in X-Serverless-Authorization as well."
  type        = bool
  default     = true
  nullable    = false
}

variable "api_invokers" {
  description = "Members of IAM that may call the API if it is not public, such as serviceAccount:NAME@PROJECT.iam.gserviceaccount.com or group:ADDRESS."
  type        = set(string)
  default     = []
  nullable    = false

  validation {
    condition     = var.api_public || length(var.api_invokers) > 0
    error_message = "api_invokers must have members if api_public is false: no caller could reach the API."
  }

  validation {
    condition     = !var.api_public || length(var.api_invokers) == 0
    error_message = "api_invokers has no effect if api_public is true: set api_public to false."
  }

  validation {
    condition     = alltrue([for m in var.api_invokers : can(regex("^(user|group|serviceAccount|domain|principal|principalSet):.+$", m))])
    error_message = "api_invokers must be members of IAM such as serviceAccount:NAME@PROJECT.iam.gserviceaccount.com. For everybody set api_public instead of allUsers."
  }
}

variable "api_ingress" {
  description = "Where requests to the API may come from: all, internal (networks of the project), or internal-and-load-balancer."
  type        = string
  default     = "all"
  nullable    = false

  validation {
    condition     = contains(["all", "internal", "internal-and-load-balancer"], var.api_ingress)
    error_message = "api_ingress must be all, internal or internal-and-load-balancer."
  }
}

variable "task_auth" {
  description = "Who verifies the callers of Tasks and Sweep, which are the queue and the scheduler: platform (IAM of Cloud Run; only they may call) or token (the functions themselves, for projects in which IAM cannot). LEASEHOLD_TASK_AUTH."
  type        = string
  default     = "platform"
  nullable    = false

  validation {
    condition     = contains(["platform", "token"], var.task_auth)
    error_message = "task_auth must be platform or token: Tasks and Sweep run work for whoever calls them, so that one of the two must verify callers."
  }
}

variable "task_ingress" {
  description = "Where requests to Tasks and Sweep may come from: internal, or all, for a queue or a scheduler in another project."
  type        = string
  default     = "internal"
  nullable    = false

  validation {
    condition     = contains(["internal", "all"], var.task_ingress)
    error_message = "task_ingress must be internal or all."
  }

  validation {
    condition     = !(var.task_ingress == "all" && var.task_auth == "platform")
    error_message = "task_ingress all needs task_auth token: with platform, Tasks and Sweep verify no caller, and one wrong grant of roles/run.invoker would let the internet run tasks."
  }
}

# Analyses from a queue. Without LEASEHOLD_TARGET_URL in settings there is no worker and no queue.

variable "target_token_secret" {
  description = "ID of a secret of the project in Secret Manager with the bearer token for the target. Its latest version is read for each run, so that a new one needs no deployment. LEASEHOLD_TARGET_TOKEN_FILE."
  type        = string
  default     = null

  validation {
    condition     = var.target_token_secret == null ? true : can(regex("^[A-Za-z0-9_-]{1,255}$", var.target_token_secret))
    error_message = "target_token_secret must be the ID of a secret in the project, such as target-token, and not its full name or its value."
  }

  validation {
    condition     = var.target_token_secret == null || contains(keys(local.set), "LEASEHOLD_TARGET_URL")
    error_message = "target_token_secret needs LEASEHOLD_TARGET_URL in settings: it is the token for that URL."
  }

  validation {
    condition     = var.target_token_secret == null || !contains(keys(local.set), "LEASEHOLD_TARGET_AUDIENCE")
    error_message = "target_token_secret and LEASEHOLD_TARGET_AUDIENCE cannot both be set: they are two ways to get the target's token."
  }
}

variable "queue" {
  description = "Queue of analyses: runs at once and starts a second at most, and when a failed delivery is tried again. max_attempts -1 is no bound: the program says when an analysis has failed for good."
  type = object({
    max_concurrent = optional(number, 50)
    max_per_second = optional(number, 50)
    max_attempts   = optional(number, -1)
    min_backoff    = optional(string, "5s")
    max_backoff    = optional(string, "300s")
    max_doublings  = optional(number, 6)
    log_sampling   = optional(number, 0)
  })
  default  = {}
  nullable = false

  validation {
    condition     = var.queue.max_concurrent >= 1 && var.queue.max_concurrent <= 5000 && var.queue.max_concurrent <= var.tasks_scaling.max_instances * var.tasks_scaling.concurrency
    error_message = "queue.max_concurrent must be from 1 to what tasks_scaling can take: max_instances × concurrency. More would be refused with 429."
  }

  validation {
    condition     = var.queue.max_per_second > 0 && var.queue.max_per_second <= 500
    error_message = "queue.max_per_second must be above 0 and at most 500, which is what a queue delivers."
  }

  validation {
    condition     = var.queue.max_attempts == -1 || var.queue.max_attempts >= 5
    error_message = "queue.max_attempts must be -1 or at least 5: a message is also refused while its analysis is running elsewhere, and Cloud Tasks drops it after the last attempt."
  }

  validation {
    condition     = can(regex("^[0-9]+s$", var.queue.min_backoff)) && can(regex("^[0-9]+s$", var.queue.max_backoff)) ? tonumber(trimsuffix(var.queue.min_backoff, "s")) <= tonumber(trimsuffix(var.queue.max_backoff, "s")) : false
    error_message = "queue.min_backoff and queue.max_backoff must be whole seconds such as 5s, and the first one not above the second."
  }

  validation {
    condition     = var.queue.log_sampling >= 0 && var.queue.log_sampling <= 1
    error_message = "queue.log_sampling must be from 0 to 1: the part of deliveries that Cloud Tasks logs."
  }
}

variable "producers" {
  description = "Members of IAM that queue analyses, such as serviceAccount:NAME@PROJECT.iam.gserviceaccount.com. The output producer has their settings."
  type        = set(string)
  default     = []
  nullable    = false

  validation {
    condition     = alltrue([for m in var.producers : can(regex("^(user|group|serviceAccount|principal|principalSet):.+$", m))])
    error_message = "producers must be members of IAM such as serviceAccount:NAME@PROJECT.iam.gserviceaccount.com."
  }

  validation {
    condition     = length(var.producers) == 0 || contains(keys(local.set), "LEASEHOLD_TARGET_URL")
    error_message = "producers needs LEASEHOLD_TARGET_URL in settings: without it there is no queue."
  }
}

variable "sweep_schedule" {
  description = "How often the sweep looks for runs that have died and members that are gone, as a cron expression in UTC. It bounds how long such a run waits for its next attempt."
  type        = string
  default     = "* * * * *"
  nullable    = false

  validation {
    condition     = can(regex("^(\\*|[0-9]+(-[0-9]+)?)(/[0-9]+)?(,(\\*|[0-9]+(-[0-9]+)?)(/[0-9]+)?)*( (\\*|[0-9]+(-[0-9]+)?)(/[0-9]+)?(,(\\*|[0-9]+(-[0-9]+)?)(/[0-9]+)?)*){4}$", var.sweep_schedule))
    error_message = "sweep_schedule must be a cron expression with five fields, such as */5 * * * *. rate(5 minutes) is a form of AWS."
  }
}

# Size.

variable "api_scaling" {
  description = "Instances of the API, requests at once for each, processors and MiB of memory. One instance that always runs (min_instances = 1) spares callers cold starts."
  type = object({
    min_instances = optional(number, 0)
    max_instances = optional(number, 10)
    concurrency   = optional(number, 80)
    cpu           = optional(number, 1)
    memory_mib    = optional(number, 512)
  })
  default  = {}
  nullable = false

  validation {
    condition     = var.api_scaling.min_instances >= 0 && var.api_scaling.max_instances >= max(1, var.api_scaling.min_instances) && var.api_scaling.concurrency >= 1 && var.api_scaling.concurrency <= 1000 && contains([1, 2, 4, 8], var.api_scaling.cpu) && var.api_scaling.memory_mib >= 128
    error_message = "api_scaling must have max_instances of at least 1 and min_instances, concurrency from 1 to 1000, cpu 1, 2, 4 or 8 (less allows one request at a time only), and memory_mib of at least 128."
  }
}

variable "tasks_scaling" {
  description = "The same for Tasks. A run takes little: it waits for the target."
  type = object({
    min_instances = optional(number, 0)
    max_instances = optional(number, 10)
    concurrency   = optional(number, 10)
    cpu           = optional(number, 1)
    memory_mib    = optional(number, 512)
  })
  default  = {}
  nullable = false

  validation {
    condition     = var.tasks_scaling.min_instances >= 0 && var.tasks_scaling.max_instances >= max(1, var.tasks_scaling.min_instances) && var.tasks_scaling.concurrency >= 1 && var.tasks_scaling.concurrency <= 1000 && contains([1, 2, 4, 8], var.tasks_scaling.cpu) && var.tasks_scaling.memory_mib >= 128
    error_message = "tasks_scaling must have max_instances of at least 1 and min_instances, concurrency from 1 to 1000, cpu 1, 2, 4 or 8 (less allows one request at a time only), and memory_mib of at least 128."
  }
}

# Watching.

variable "notification_channels" {
  description = "Full names of the channels of Cloud Monitoring that alerts go to, projects/PROJECT/notificationChannels/NUMBER. Alerts without a channel are only seen in the console."
  type        = list(string)
  default     = []
  nullable    = false

  validation {
    condition     = alltrue([for c in var.notification_channels : can(regex("^projects/[^/]+/notificationChannels/[^/]+$", c))])
    error_message = "notification_channels must be full names, projects/PROJECT/notificationChannels/NUMBER: the attribute name of the resource."
  }
}

variable "alerts" {
  description = "Whether to make alerts and the dashboard."
  type        = bool
  default     = true
  nullable    = false
}

variable "otlp_endpoint" {
  description = "URL of a collector of OpenTelemetry within reach of the containers, such as http://collector.internal:4318, that they send metrics to: OTEL_EXPORTER_OTLP_ENDPOINT. Only with image: functions send none."
  type        = string
  default     = null

  validation {
    condition     = var.otlp_endpoint == null ? true : can(regex("^https?://[^/ ]+(/[^ ]*)?$", var.otlp_endpoint))
    error_message = "otlp_endpoint must be a URL that begins with http:// or https://, such as http://collector.internal:4318."
  }

  validation {
    condition     = var.otlp_endpoint == null || var.image != null
    error_message = "otlp_endpoint needs image: functions that are built of sources send no metrics."
  }
}

variable "metrics_alerts" {
  description = "Whether to make the alerts of observability/cloudmonitoring/policies.json, and the dashboard beside it, on what the program itself measures. The collector at otlp_endpoint must bring the metrics to Managed Service for Prometheus. The alerts of a deployment are about its own services, by the label job, which is service.name."
  type        = bool
  default     = false
  nullable    = false

  validation {
    condition     = !var.metrics_alerts || var.otlp_endpoint != null
    error_message = "metrics_alerts needs otlp_endpoint: without a collector no metrics of the program come to Cloud Monitoring."
  }
}

variable "audit_retention_days" {
  description = "Days for which audit events are kept in a bucket of Cloud Logging of their own, 1 to 3650. null is none: they are in the bucket _Default alone."
  type        = number
  default     = null

  validation {
    condition     = var.audit_retention_days == null ? true : var.audit_retention_days >= 1 && var.audit_retention_days <= 3650 && floor(var.audit_retention_days) == var.audit_retention_days
    error_message = "audit_retention_days must be a whole number from 1 to 3650."
  }
}

variable "audit_locked" {
  description = "Whether nobody can remove an audit event before audit_retention_days have passed, nor change these: a locked bucket of Cloud Logging. It cannot be taken back: until then neither the project's owner nor terraform destroy removes the bucket."
  type        = bool
  default     = false
  nullable    = false

  validation {
    condition     = !var.audit_locked || var.audit_retention_days != null
    error_message = "audit_locked needs audit_retention_days: a bucket is locked for some days."
  }
}
