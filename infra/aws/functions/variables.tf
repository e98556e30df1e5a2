variable "name" {
  description = "Prefix of the names of all that is created: functions, roles, queues, alarms."
  type        = string
  default     = "leasehold"

  validation {
    condition     = can(regex("^[a-z][a-z0-9-]{0,38}[a-z0-9]$", var.name))
    error_message = "name must have 2 to 40 lower-case letters, digits and \"-\", begin with a letter and not end with \"-\"."
  }
}

variable "table_name" {
  description = "Name of the table, in the account and region of the provider: the output `name` of the module table."
  type        = string

  validation {
    condition     = can(regex("^[A-Za-z0-9_.-]{3,255}$", var.table_name))
    error_message = "table_name must have 3 to 255 letters, digits, \"_\", \".\" or \"-\": it is the name of a DynamoDB table, not its ARN."
  }
}

variable "kms_key_arn" {
  description = "ARN of the customer managed key that encrypts the table: the output of the module table. null is none."
  type        = string
  default     = null

  validation {
    condition     = var.kms_key_arn == null ? true : can(regex("^arn:aws[a-z-]*:kms:[a-z0-9-]+:[0-9]{12}:key/[A-Za-z0-9-]+$", var.kms_key_arn))
    error_message = "kms_key_arn must be the ARN of a key, such as arn:aws:kms:eu-west-1:123456789012:key/…, and not an alias."
  }
}

variable "package" {
  description = "Path of the zip with the program: leasehold-VERSION-lambda-arm64.zip of a release, or a zip of what `make lambda` builds."
  type        = string

  validation {
    condition     = endswith(var.package, ".zip") && fileexists(var.package)
    error_message = "package must be the path of a zip that is there, with the executable bootstrap in it."
  }
}

variable "architecture" {
  description = "Processors that the program in package is for: arm64, or x86_64 for leasehold-VERSION-lambda-amd64.zip."
  type        = string
  default     = "arm64"

  validation {
    condition     = contains(["arm64", "x86_64"], var.architecture)
    error_message = "architecture must be arm64 or x86_64."
  }
}

variable "versions" {
  description = "Published versions that are called, by function, such as { api = \"7\" } to go back to the seventh. null is the newest."
  type = object({
    api    = optional(string)
    worker = optional(string)
    sweep  = optional(string)
  })
  default  = {}
  nullable = false

  validation {
    condition     = alltrue([for v in values(var.versions) : v == null ? true : can(regex("^[1-9][0-9]*$", v))])
    error_message = "versions must be numbers of published versions, such as \"7\"."
  }
}

variable "front_door" {
  description = "What hands requests to the function api: http-api, an HTTP API of API Gateway; or url, a function URL with IAM. LEASEHOLD_FRONT_DOOR of Lambda api."
  type        = string
  default     = "http-api"

  validation {
    condition     = contains(["http-api", "url"], var.front_door)
    error_message = "front_door must be http-api or url."
  }
}

variable "jwt" {
  description = "Tokens that API Gateway verifies before the function: their issuer, with https://, and audiences. Only with front_door http-api."
  type = object({
    issuer   = string
    audience = list(string)
  })
  default = null

  validation {
    condition     = var.jwt == null ? true : startswith(var.jwt.issuer, "https://") && length(var.jwt.audience) > 0 && alltrue([for a in var.jwt.audience : a != ""])
    error_message = "jwt must have an issuer that begins with https:// and at least one audience: without one, tokens for other services would be accepted."
  }

  validation {
    condition     = var.jwt == null || var.front_door == "http-api"
    error_message = "jwt needs front_door http-api: a function URL verifies no tokens. Use iam, or an HTTP API."
  }
}

variable "iam" {
  description = "AWS verifies callers by IAM. They sign their requests and need the policy `caller_policy_arn`; their tenant is LEASEHOLD_AUTH_TENANT."
  type        = bool
  default     = false
  nullable    = false

  validation {
    condition     = var.jwt != null || var.iam || contains(keys(local.set), "LEASEHOLD_AUTH_ISSUER")
    error_message = "Nothing would verify callers: set jwt (API Gateway verifies tokens), iam (AWS verifies callers), or LEASEHOLD_AUTH_ISSUER and LEASEHOLD_AUTH_AUDIENCE in settings (the function verifies tokens)."
  }

  validation {
    condition     = !(var.iam && var.jwt != null)
    error_message = "iam and jwt cannot both be set: a route has one authorizer."
  }

  validation {
    condition     = !(var.iam && contains(keys(local.set), "LEASEHOLD_AUTH_ISSUER"))
    error_message = "iam and LEASEHOLD_AUTH_ISSUER cannot both be set: the header Authorization holds the signature, and so no token."
  }

  validation {
    condition     = !var.iam || contains(keys(local.set), "LEASEHOLD_AUTH_TENANT")
    error_message = "iam needs LEASEHOLD_AUTH_TENANT in settings: the tenant of callers that IAM verified."
  }

  validation {
    condition     = var.iam || var.front_door != "url"
    error_message = "front_door url needs iam = true: without it the URL would be open to the world."
  }
}

variable "throttle" {
  description = "Requests that API Gateway lets through: rate a second, and burst at once. More are 429."
  type = object({
    rate  = number
    burst = number
  })
  default = { rate = 500, burst = 1000 }

  validation {
    condition     = var.throttle == null ? false : var.throttle.rate >= 1 && var.throttle.burst >= 1
    error_message = "throttle must have a rate and a burst of at least 1."
  }
}

variable "analyses" {
  description = "Create the queue of analyses and the worker behind it, which calls LEASEHOLD_TARGET_URL, and let the sweep queue stale analyses again."
  type        = bool
  default     = false
  nullable    = false

  validation {
    condition     = !var.analyses || contains(keys(local.set), "LEASEHOLD_TARGET_URL")
    error_message = "analyses needs LEASEHOLD_TARGET_URL in settings: the URL that runs an analysis."
  }

  validation {
    condition     = var.analyses || !contains(keys(local.set), "LEASEHOLD_TARGET_URL")
    error_message = "LEASEHOLD_TARGET_URL needs analyses = true: without a worker nothing would call it."
  }
}

variable "batch_size" {
  description = "Messages that one invocation of the worker gets, 1 to 10; all are worked on at once and share the memory."
  type        = number
  default     = 10

  validation {
    condition     = floor(var.batch_size) == var.batch_size && var.batch_size >= 1 && var.batch_size <= 10
    error_message = "batch_size must be a whole number from 1 to 10."
  }
}

variable "max_receives" {
  description = "Deliveries of a message until it goes to the dead-letter queue, those that find the analysis locked included; at least twice LEASEHOLD_MAX_FAILURES."
  type        = number
  default     = 20

  validation {
    condition     = floor(var.max_receives) == var.max_receives && var.max_receives >= 2 * lookup(local.amount, "LEASEHOLD_MAX_FAILURES", 5) && var.max_receives <= 1000
    error_message = "max_receives must be a whole number up to 1000 and at least twice LEASEHOLD_MAX_FAILURES: otherwise messages are dropped before their analysis is FAILED."
  }
}

variable "queue_retention_days" {
  description = "Days for which messages wait for a worker, 1 to 14."
  type        = number
  default     = 4

  validation {
    condition     = floor(var.queue_retention_days) == var.queue_retention_days && var.queue_retention_days >= 1 && var.queue_retention_days <= 14
    error_message = "queue_retention_days must be a whole number from 1 to 14."
  }
}

variable "max_message_age" {
  description = "Seconds that a message may wait before an alarm is raised."
  type        = number
  default     = 3600

  validation {
    condition     = var.max_message_age >= 60
    error_message = "max_message_age must be at least 60 seconds."
  }
}

variable "api_timeout" {
  description = "Seconds that an invocation of the function api may take. It must leave room for LEASEHOLD_REQUEST_TIMEOUT, and for callers that wait for a lock (wait_seconds)."
  type        = number
  default     = 31

  validation {
    condition     = floor(var.api_timeout) == var.api_timeout && var.api_timeout >= 3 && var.api_timeout <= 900
    error_message = "api_timeout must be a whole number of seconds from 3 to 900."
  }

  validation {
    condition     = var.api_timeout * 1000000000 > lookup(local.amount, "LEASEHOLD_REQUEST_TIMEOUT", 10000000000)
    error_message = "api_timeout must be longer than LEASEHOLD_REQUEST_TIMEOUT."
  }
}

variable "worker_timeout" {
  description = "Seconds that an invocation of the worker may take: the longest run. A message is hidden for six times as long."
  type        = number
  default     = 900

  validation {
    condition     = floor(var.worker_timeout) == var.worker_timeout && var.worker_timeout >= 10 && var.worker_timeout <= 900
    error_message = "worker_timeout must be a whole number of seconds from 10 to 900."
  }
}

variable "sweep_timeout" {
  description = "Seconds that a sweep may take; the next one does what is left."
  type        = number
  default     = 60

  validation {
    condition     = floor(var.sweep_timeout) == var.sweep_timeout && var.sweep_timeout >= 10 && var.sweep_timeout <= 900
    error_message = "sweep_timeout must be a whole number of seconds from 10 to 900."
  }
}

variable "sweep_minutes" {
  description = "Minutes between sweeps."
  type        = number
  default     = 5

  validation {
    condition     = floor(var.sweep_minutes) == var.sweep_minutes && var.sweep_minutes >= 1 && var.sweep_minutes <= 60
    error_message = "sweep_minutes must be a whole number from 1 to 60."
  }
}

variable "memory_size" {
  description = "Memory of each function, in MB. Processor time grows with it."
  type = object({
    api    = optional(number, 256)
    worker = optional(number, 256)
    sweep  = optional(number, 256)
  })
  default  = {}
  nullable = false

  validation {
    condition     = alltrue([for m in values(var.memory_size) : floor(m) == m && m >= 128 && m <= 10240])
    error_message = "memory_size must be whole numbers from 128 to 10240."
  }
}

variable "concurrency" {
  description = "Instances of each function at most, reserved for it. null is no bound, for the function api only. The worker's is also the maximum concurrency of its queue, at least 2."
  type = object({
    api    = optional(number)
    worker = optional(number, 10)
    sweep  = optional(number, 1)
  })
  default  = {}
  nullable = false

  validation {
    condition     = coalesce(var.concurrency.api, 1) >= 1 && var.concurrency.worker >= 2 && var.concurrency.worker <= 1000 && var.concurrency.sweep >= 1
    error_message = "concurrency must be at least 1 for api and sweep, and 2 to 1000 for worker."
  }
}

variable "reserve_concurrency" {
  description = "Whether instances are reserved as concurrency says. An account must have ten more than are reserved; a new one has ten in all, and AWS refuses any reservation there. Without it the functions share the account's instances, and the queue's maximum stays."
  type        = bool
  default     = true
  nullable    = false
}

variable "log_retention_days" {
  description = "Days for which logs are kept."
  type        = number
  default     = 30

  validation {
    condition     = contains([1, 3, 5, 7, 14, 30, 60, 90, 120, 150, 180, 365, 400, 545, 731, 1096, 1827, 2192, 2557, 2922, 3288, 3653], var.log_retention_days)
    error_message = "log_retention_days must be one of the numbers that CloudWatch Logs knows: 1, 3, 5, 7, 14, 30, 60, 90, 120, 150, 180, 365, 400, …"
  }
}

variable "audit_retention_days" {
  description = "Days for which audit events of all functions are kept in a bucket of their own, whatever log_retention_days is. null is none: they are in the functions' logs alone."
  type        = number
  default     = null

  validation {
    condition     = var.audit_retention_days == null ? true : var.audit_retention_days >= 1 && floor(var.audit_retention_days) == var.audit_retention_days
    error_message = "audit_retention_days must be a whole number from 1 on."
  }
}

variable "audit_locked" {
  description = "Whether nobody can remove an audit event before audit_retention_days have passed: S3 Object Lock in compliance mode. It cannot be taken back: until then neither root nor terraform destroy removes the bucket."
  type        = bool
  default     = false
  nullable    = false

  validation {
    condition     = !var.audit_locked || var.audit_retention_days != null
    error_message = "audit_locked needs audit_retention_days: a bucket is locked for some days."
  }
}

variable "audit_kms_key_arn" {
  description = "ARN of a KMS key that encrypts the bucket of audit events. null is the service's own key."
  type        = string
  default     = null

  validation {
    condition     = var.audit_kms_key_arn == null ? true : can(regex("^arn:aws[a-z-]*:kms:[a-z0-9-]+:[0-9]{12}:key/[A-Za-z0-9-]+$", var.audit_kms_key_arn))
    error_message = "audit_kms_key_arn must be the ARN of a key, such as arn:aws:kms:eu-west-1:123456789012:key/…, and not an alias."
  }
}

variable "log_kms_key_arn" {
  description = "ARN of a KMS key that encrypts the logs. Its policy must let CloudWatch Logs use it. null is the service's own key."
  type        = string
  default     = null

  validation {
    condition     = var.log_kms_key_arn == null ? true : can(regex("^arn:aws[a-z-]*:kms:[a-z0-9-]+:[0-9]{12}:key/[A-Za-z0-9-]+$", var.log_kms_key_arn))
    error_message = "log_kms_key_arn must be the ARN of a key, such as arn:aws:kms:eu-west-1:123456789012:key/…, and not an alias."
  }
}

variable "permissions_boundary_arn" {
  description = "ARN of the policy that bounds what the functions' roles may do. null is none."
  type        = string
  default     = null

  validation {
    condition     = var.permissions_boundary_arn == null ? true : can(regex("^arn:aws[a-z-]*:iam::([0-9]{12}|aws):policy/.+$", var.permissions_boundary_arn))
    error_message = "permissions_boundary_arn must be the ARN of a policy."
  }
}

variable "alarm_topic_arns" {
  description = "ARNs of the SNS topics that alarms are sent to."
  type        = list(string)
  default     = []
  nullable    = false

  validation {
    condition     = alltrue([for arn in var.alarm_topic_arns : can(regex("^arn:aws[a-z-]*:sns:[a-z0-9-]+:[0-9]{12}:.+$", arn))])
    error_message = "alarm_topic_arns must be ARNs of SNS topics."
  }
}

variable "metrics_alarms" {
  description = "Create the alarms of observability/cloudwatch/alarms.json, and the dashboard beside it, on what the functions measure with LEASEHOLD_METRICS_EMF. The metrics are in the namespace Leasehold/TABLE, so that deployments are apart."
  type        = bool
  default     = false
  nullable    = false

  validation {
    condition     = !var.metrics_alarms || contains(["true", "1"], lookup(local.set, "LEASEHOLD_METRICS_EMF", "false"))
    error_message = "metrics_alarms needs LEASEHOLD_METRICS_EMF = true in settings: without it the functions write no metrics."
  }
}

variable "budget" {
  description = "A monthly budget in USD, who is told by mail at 80 % of it and when it will be exceeded, and the tag whose costs count, such as user:Service$leasehold; without a tag, all of the account."
  type = object({
    monthly_usd = number
    emails      = list(string)
    tag         = optional(string)
  })
  default = null

  validation {
    condition     = var.budget == null ? true : var.budget.monthly_usd > 0 && length(var.budget.emails) > 0 && alltrue([for e in var.budget.emails : strcontains(e, "@")])
    error_message = "budget must have a monthly_usd above 0 and at least one address in emails."
  }
}

variable "tags" {
  description = "Tags of all that is created."
  type        = map(string)
  default     = {}
  nullable    = false
}
