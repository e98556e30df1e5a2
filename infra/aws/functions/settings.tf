# Generated from functions/settings, the table of settings. To write it again: make generate

variable "console" {
  description = "Serve the console, a web page for people who operate the server, at /console/, and remember for it how the last requests to the process ended. See docs/guides/console.md. LEASEHOLD_CONSOLE of Lambda api; null is false."
  type        = bool
  default     = null
}

variable "cors_origins" {
  description = "Origins whose web pages may call the API, such as https://app.example.com. Without it only pages of the server's own origin may. No path, no wildcards. Leave it out where an API Gateway answers for it. LEASEHOLD_CORS_ORIGINS of Lambda api."
  type        = list(string)
  default     = null

  validation {
    condition     = var.cors_origins == null ? true : length(var.cors_origins) > 0 && alltrue([for item in var.cors_origins : trimspace(item) != "" && !strcontains(item, ",")])
    error_message = "cors_origins must have items, which are not empty and have no comma: leave it null instead."
  }
}

variable "request_timeout" {
  description = "Time limit of one request. LEASEHOLD_REQUEST_TIMEOUT of Lambda api; null is 10s."
  type        = string
  default     = null

  validation {
    condition     = var.request_timeout == null ? true : can(regex("^([0-9]+([.][0-9]+)?(ms|s|m|h))+$", var.request_timeout))
    error_message = "request_timeout must be a duration such as 300ms, 30s, 5m, 2h."
  }

  validation {
    condition     = var.request_timeout == null ? true : can(regex("[1-9]", var.request_timeout))
    error_message = "request_timeout must be above 0."
  }
}

variable "max_concurrent" {
  description = "Requests of authenticated callers, other than lists, that one process works on at once. A tenant has three quarters of them, and a subject half. As many more wait for half a second at most, and tenants take turns; the rest is OVERLOADED. 0 is no bound. LEASEHOLD_MAX_CONCURRENT of Lambda api; null is 256."
  type        = number
  default     = null

  validation {
    condition     = var.max_concurrent == null ? true : floor(var.max_concurrent) == var.max_concurrent && var.max_concurrent >= 0
    error_message = "max_concurrent must be a whole number from 0."
  }
}

variable "max_wait" {
  description = "How long a response is held for a caller that waits, for a lock or for events, whatever it asks for. One that would wait for longer is told when to come again, and keeps its place in line until then. 0s holds no response. An instance that serves one request at a time keeps others waiting meanwhile; raise it where instances serve many: docs/guides/gcp.md#waiting. LEASEHOLD_MAX_WAIT of Lambda api; null is 0s."
  type        = string
  default     = null

  validation {
    condition     = var.max_wait == null ? true : can(regex("^([0-9]+([.][0-9]+)?(ms|s|m|h))+$", var.max_wait))
    error_message = "max_wait must be a duration such as 300ms, 30s, 5m, 2h."
  }

  validation {
    condition     = var.max_wait == null ? true : try(timecmp(timeadd("2000-01-01T00:00:00Z", var.max_wait), timeadd("2000-01-01T00:00:00Z", "20s")) <= 0, true)
    error_message = "max_wait must be at most 20s."
  }
}

variable "max_waiting" {
  description = "Responses that one process holds at once for callers that wait, for locks and for events each. A tenant has a quarter of them, and a subject half of its tenant's. 0 is no bound. LEASEHOLD_MAX_WAITING of Lambda api; null is 1024."
  type        = number
  default     = null

  validation {
    condition     = var.max_waiting == null ? true : floor(var.max_waiting) == var.max_waiting && var.max_waiting >= 0
    error_message = "max_waiting must be a whole number from 0."
  }
}

variable "tenant_rate" {
  description = "Requests a second that all processes together accept for one tenant; more is RATE_LIMITED. Two seconds' worth may come at once. A page of a list counts as one request for each 64 KiB that are read for it. 0 is no bound. LEASEHOLD_TENANT_RATE of Lambda api; null is 0."
  type        = number
  default     = null

  validation {
    condition     = var.tenant_rate == null ? true : floor(var.tenant_rate) == var.tenant_rate && var.tenant_rate >= 0
    error_message = "tenant_rate must be a whole number from 0."
  }
}

variable "subject_rate" {
  description = "The same for one subject of a tenant. LEASEHOLD_SUBJECT_RATE of Lambda api; null is 0."
  type        = number
  default     = null

  validation {
    condition     = var.subject_rate == null ? true : floor(var.subject_rate) == var.subject_rate && var.subject_rate >= 0
    error_message = "subject_rate must be a whole number from 0."
  }
}

variable "rate_without_store" {
  description = "What becomes of requests while the store cannot be asked for the rate of their callers: \"accept\" holds callers to the rate in each process by itself, \"refuse\" responds UNAVAILABLE. LEASEHOLD_RATE_WITHOUT_STORE of Lambda api; null is accept."
  type        = string
  default     = null

  validation {
    condition     = var.rate_without_store == null ? true : contains(["accept", "refuse"], var.rate_without_store)
    error_message = "rate_without_store must be accept or refuse."
  }
}

variable "max_locks_per_tenant" {
  description = "Locks that one tenant may have, also free ones that are still kept; another one is LOCK_LIMIT. The same for its fences. All processes share one tally, which the sweep corrects. 0 is no bound. LEASEHOLD_MAX_LOCKS_PER_TENANT of Lambda api; null is 0."
  type        = number
  default     = null

  validation {
    condition     = var.max_locks_per_tenant == null ? true : floor(var.max_locks_per_tenant) == var.max_locks_per_tenant && var.max_locks_per_tenant >= 0
    error_message = "max_locks_per_tenant must be a whole number from 0."
  }
}

variable "max_runs_per_tenant" {
  description = "Runs that one tenant may have a record of, as each Idempotency-Key is one, also those that have finished and are still kept; another one is RUN_LIMIT. All processes share one tally, which the sweep corrects. 0 is no bound. LEASEHOLD_MAX_RUNS_PER_TENANT of Lambda api; null is 0."
  type        = number
  default     = null

  validation {
    condition     = var.max_runs_per_tenant == null ? true : floor(var.max_runs_per_tenant) == var.max_runs_per_tenant && var.max_runs_per_tenant >= 0
    error_message = "max_runs_per_tenant must be a whole number from 0."
  }
}

variable "max_clusters_per_tenant" {
  description = "Clusters of placement that one tenant can set up; the join to another one is PLACEMENT_LIMIT. All processes share one tally, which the sweep corrects. 0 is no bound. LEASEHOLD_MAX_CLUSTERS_PER_TENANT of Lambda api; null is 0."
  type        = number
  default     = null

  validation {
    condition     = var.max_clusters_per_tenant == null ? true : floor(var.max_clusters_per_tenant) == var.max_clusters_per_tenant && var.max_clusters_per_tenant >= 0
    error_message = "max_clusters_per_tenant must be a whole number from 0."
  }
}

variable "max_identities_per_cluster" {
  description = "Identities that one cluster of placement may have, also free ones that are still kept; the claim of another one is PLACEMENT_LIMIT. All processes share one tally, which the sweep corrects. 0 is no bound. LEASEHOLD_MAX_IDENTITIES_PER_CLUSTER of Lambda api; null is 0."
  type        = number
  default     = null

  validation {
    condition     = var.max_identities_per_cluster == null ? true : floor(var.max_identities_per_cluster) == var.max_identities_per_cluster && var.max_identities_per_cluster >= 0
    error_message = "max_identities_per_cluster must be a whole number from 0."
  }
}

variable "log_level" {
  description = "Lines of a lower level are not written. Audit events are, whatever this is. Leave AWS_LAMBDA_LOG_LEVEL at INFO: a higher one drops audit events and metrics. LEASEHOLD_LOG_LEVEL of Lambda api, Lambda worker, Lambda sweep; null is info."
  type        = string
  default     = null

  validation {
    condition     = var.log_level == null ? true : contains(["info", "warn", "error", "none"], var.log_level)
    error_message = "log_level must be info or warn or error or none."
  }
}

variable "log_sample" {
  description = "One in this many requests that were carried out has a line in the log, by chance; 0 is none. Requests that were rejected or failed always have one, and so do audit events. LEASEHOLD_LOG_SAMPLE of Lambda api; null is 1."
  type        = number
  default     = null

  validation {
    condition     = var.log_sample == null ? true : floor(var.log_sample) == var.log_sample && var.log_sample >= 0 && var.log_sample <= 1000000
    error_message = "log_sample must be a whole number from 0 to 1000000."
  }
}

variable "metrics_emf" {
  description = "Write metrics as lines of the log, in the embedded metric format, after each invocation: CloudWatch makes metrics of them in the namespace Leasehold/TABLE, that of the table. CloudWatch bills the lines, and each combination of dimensions: docs/reference/metrics.md#cloudwatch. LEASEHOLD_METRICS_EMF of Lambda api, Lambda worker, Lambda sweep."
  type        = bool
  default     = null
}

variable "retention" {
  description = "How long a lock is kept after its lease has ended, and of placement an activation that is free and a member that is gone; then the store may remove it. Tokens of what comes back are higher all the same. The value off keeps them for ever. An activation with a state stays; see LEASEHOLD_STATE_RETENTION. DynamoDB and Firestore need time to live set up for it: see docs/guides/stores.md#what-is-kept-and-for-how-long. LEASEHOLD_RETENTION of Lambda api, Lambda sweep; null is 720h."
  type        = string
  default     = null

  validation {
    condition     = var.retention == null ? true : var.retention == "off" || can(regex("^([0-9]+([.][0-9]+)?(ms|s|m|h))+$", var.retention))
    error_message = "retention must be a duration such as 300ms, 30s, 5m, 2h, or off."
  }

  validation {
    condition     = var.retention == null ? true : var.retention == "off" || try(timecmp(timeadd("2000-01-01T00:00:00Z", var.retention), timeadd("2000-01-01T00:00:00Z", "1h")) >= 0, true)
    error_message = "retention must be at least 1h."
  }
}

variable "state_retention" {
  description = "How long the state of an identity is kept in placement once no member has it; then the store may remove it. Without it, or with the value off, states are kept for ever, unless they are empty. What is shorter than LEASEHOLD_RETENTION is as long as that. LEASEHOLD_STATE_RETENTION of Lambda api, Lambda sweep."
  type        = string
  default     = null

  validation {
    condition     = var.state_retention == null ? true : var.state_retention == "off" || can(regex("^([0-9]+([.][0-9]+)?(ms|s|m|h))+$", var.state_retention))
    error_message = "state_retention must be a duration such as 300ms, 30s, 5m, 2h, or off."
  }

  validation {
    condition     = var.state_retention == null ? true : var.state_retention == "off" || try(timecmp(timeadd("2000-01-01T00:00:00Z", var.state_retention), timeadd("2000-01-01T00:00:00Z", "1h")) >= 0, true)
    error_message = "state_retention must be at least 1h."
  }
}

variable "record_refusals" {
  description = "Keep with each lock who was refused it last, and when. That costs a write when a request is refused, for each lock once in this time at the most, by each process. 0s records nothing. LEASEHOLD_RECORD_REFUSALS of Lambda api; null is 0s."
  type        = string
  default     = null

  validation {
    condition     = var.record_refusals == null ? true : can(regex("^([0-9]+([.][0-9]+)?(ms|s|m|h))+$", var.record_refusals))
    error_message = "record_refusals must be a duration such as 300ms, 30s, 5m, 2h."
  }
}

variable "max_skew" {
  description = "How far this machine's clock may be from DynamoDB's before requests fail with CLOCK_SKEW. LEASEHOLD_MAX_SKEW of Lambda api, Lambda worker, Lambda sweep; null is 1s."
  type        = string
  default     = null

  validation {
    condition     = var.max_skew == null ? true : can(regex("^([0-9]+([.][0-9]+)?(ms|s|m|h))+$", var.max_skew))
    error_message = "max_skew must be a duration such as 300ms, 30s, 5m, 2h."
  }

  validation {
    condition     = var.max_skew == null ? true : can(regex("[1-9]", var.max_skew))
    error_message = "max_skew must be above 0."
  }
}

variable "index_shards" {
  description = "Shards that analyses are spread over in the table's index. Each takes some 500 acquires a second. It can be raised at any time, in one process after the other; a sweep sends a request for each shard of the highest number that was ever used. LEASEHOLD_INDEX_SHARDS of Lambda api, Lambda worker, Lambda sweep; null is 8."
  type        = number
  default     = null

  validation {
    condition     = var.index_shards == null ? true : floor(var.index_shards) == var.index_shards && var.index_shards >= 8 && var.index_shards <= 64
    error_message = "index_shards must be a whole number from 8 to 64."
  }
}

variable "auth_issuer" {
  description = "OpenID Connect issuer whose tokens are accepted. Without it, `leasehold serve` runs in development mode, for callers on the same machine only; a Cloud Function rejects all callers; a Lambda function accepts the callers that API Gateway or IAM has verified, as front_door says. LEASEHOLD_AUTH_ISSUER of Lambda api."
  type        = string
  default     = null

  validation {
    condition     = var.auth_issuer == null ? true : trimspace(var.auth_issuer) != ""
    error_message = "auth_issuer must not be empty: leave it null instead."
  }
}

variable "auth_audience" {
  description = "Audience that tokens must be meant for. Required with auth_issuer. LEASEHOLD_AUTH_AUDIENCE of Lambda api."
  type        = string
  default     = null

  validation {
    condition     = var.auth_audience == null ? true : trimspace(var.auth_audience) != ""
    error_message = "auth_audience must not be empty: leave it null instead."
  }

  validation {
    condition     = var.auth_issuer == null || var.auth_audience != null
    error_message = "auth_issuer needs auth_audience: the name of this server in the claim aud; without it, tokens that were issued for other servers would be accepted."
  }

  validation {
    condition     = var.auth_audience == null || var.auth_issuer != null
    error_message = "auth_audience needs auth_issuer: without an issuer no token is accepted."
  }
}

variable "auth_clients" {
  description = "Clients whose tokens are accepted without an audience, by the claim client_id. The default is none. For Amazon Cognito, whose access tokens have no audience. A token that has one must be meant for auth_audience, whatever its client. LEASEHOLD_AUTH_CLIENTS of Lambda api."
  type        = list(string)
  default     = null

  validation {
    condition     = var.auth_clients == null ? true : length(var.auth_clients) > 0 && alltrue([for item in var.auth_clients : trimspace(item) != "" && !strcontains(item, ",")])
    error_message = "auth_clients must have items, which are not empty and have no comma: leave it null instead."
  }

  validation {
    condition     = var.auth_clients == null || var.auth_issuer != null
    error_message = "auth_clients needs auth_issuer: without an issuer no token is accepted."
  }
}

variable "auth_jwks_url" {
  description = "URL of the issuer's keys. The default is the one in its discovery document. LEASEHOLD_AUTH_JWKS_URL of Lambda api."
  type        = string
  default     = null

  validation {
    condition     = var.auth_jwks_url == null ? true : trimspace(var.auth_jwks_url) != ""
    error_message = "auth_jwks_url must not be empty: leave it null instead."
  }

  validation {
    condition     = var.auth_jwks_url == null || var.auth_issuer != null
    error_message = "auth_jwks_url needs auth_issuer: without an issuer no token is accepted."
  }
}

variable "auth_tenant_claim" {
  description = "Claim with the caller's tenant. LEASEHOLD_AUTH_TENANT_CLAIM of Lambda api; null is tenant_id."
  type        = string
  default     = null

  validation {
    condition     = var.auth_tenant_claim == null ? true : trimspace(var.auth_tenant_claim) != ""
    error_message = "auth_tenant_claim must not be empty: leave it null instead."
  }
}

variable "auth_tenant" {
  description = "Tenant of all callers, if their tokens have no claim for it. Lambda api without an issuer: the tenant of IAM callers; with auth_subjects, of all callers that it lists, whatever their tokens claim. LEASEHOLD_AUTH_TENANT of Lambda api."
  type        = string
  default     = null

  validation {
    condition     = var.auth_tenant == null ? true : trimspace(var.auth_tenant) != ""
    error_message = "auth_tenant must not be empty: leave it null instead."
  }
}

variable "auth_subjects" {
  description = "Subjects that belong to auth_tenant; all others are rejected. The default is all. Required with a public issuer, such as https://accounts.google.com. The subject of an IAM caller is its ARN; that of a role is without the session name. LEASEHOLD_AUTH_SUBJECTS of Lambda api."
  type        = list(string)
  default     = null

  validation {
    condition     = var.auth_subjects == null ? true : length(var.auth_subjects) > 0 && alltrue([for item in var.auth_subjects : trimspace(item) != "" && !strcontains(item, ",")])
    error_message = "auth_subjects must have items, which are not empty and have no comma: leave it null instead."
  }

  validation {
    condition     = var.auth_subjects == null || var.auth_tenant != null
    error_message = "auth_subjects needs auth_tenant: it lists the subjects of that tenant."
  }

  validation {
    condition     = var.auth_subjects == null || var.auth_tenant_claim == null
    error_message = "auth_subjects and auth_tenant_claim cannot both be set: one is the tenant of all callers, the other names the claim with each caller's own."
  }
}

variable "auth_required_scope" {
  description = "Scope that every token must have. The default is none. For an issuer that gives tokens to accounts which Leasehold is not meant for. LEASEHOLD_AUTH_REQUIRED_SCOPE of Lambda api."
  type        = string
  default     = null

  validation {
    condition     = var.auth_required_scope == null ? true : trimspace(var.auth_required_scope) != ""
    error_message = "auth_required_scope must not be empty: leave it null instead."
  }

  validation {
    condition     = var.auth_required_scope == null || var.auth_issuer != null
    error_message = "auth_required_scope needs auth_issuer: without an issuer no token is accepted."
  }
}

variable "auth_admin_scope" {
  description = "Scope of administrators, who may do everything in their tenant. LEASEHOLD_AUTH_ADMIN_SCOPE of Lambda api; null is leasehold:admin."
  type        = string
  default     = null

  validation {
    condition     = var.auth_admin_scope == null ? true : trimspace(var.auth_admin_scope) != ""
    error_message = "auth_admin_scope must not be empty: leave it null instead."
  }
}

variable "auth_admins" {
  description = "Subjects that are administrators of their tenant without that scope. The subject of an IAM caller is its ARN. LEASEHOLD_AUTH_ADMINS of Lambda api."
  type        = list(string)
  default     = null

  validation {
    condition     = var.auth_admins == null ? true : length(var.auth_admins) > 0 && alltrue([for item in var.auth_admins : trimspace(item) != "" && !strcontains(item, ",")])
    error_message = "auth_admins must have items, which are not empty and have no comma: leave it null instead."
  }
}

variable "auth_operate_scope" {
  description = "Scope of operators, who may mend what belongs to no tenant, and see the clusters and the audit of all tenants. LEASEHOLD_AUTH_OPERATE_SCOPE of Lambda api; null is leasehold:operate."
  type        = string
  default     = null

  validation {
    condition     = var.auth_operate_scope == null ? true : trimspace(var.auth_operate_scope) != ""
    error_message = "auth_operate_scope must not be empty: leave it null instead."
  }
}

variable "auth_operators" {
  description = "Subjects that are operators without that scope. The subject of an IAM caller is its ARN. LEASEHOLD_AUTH_OPERATORS of Lambda api."
  type        = list(string)
  default     = null

  validation {
    condition     = var.auth_operators == null ? true : length(var.auth_operators) > 0 && alltrue([for item in var.auth_operators : trimspace(item) != "" && !strcontains(item, ",")])
    error_message = "auth_operators must have items, which are not empty and have no comma: leave it null instead."
  }
}

variable "auth_worker_scope" {
  description = "Scope of callers that may run analyses. LEASEHOLD_AUTH_WORKER_SCOPE of Lambda api; null is leasehold:worker."
  type        = string
  default     = null

  validation {
    condition     = var.auth_worker_scope == null ? true : trimspace(var.auth_worker_scope) != ""
    error_message = "auth_worker_scope must not be empty: leave it null instead."
  }
}

variable "auth_workers" {
  description = "Subjects that may run analyses without that scope. The subject of an IAM caller is its ARN. LEASEHOLD_AUTH_WORKERS of Lambda api."
  type        = list(string)
  default     = null

  validation {
    condition     = var.auth_workers == null ? true : length(var.auth_workers) > 0 && alltrue([for item in var.auth_workers : trimspace(item) != "" && !strcontains(item, ",")])
    error_message = "auth_workers must have items, which are not empty and have no comma: leave it null instead."
  }
}

variable "auth_id_scope" {
  description = "Scope of callers that may lease machine IDs. LEASEHOLD_AUTH_ID_SCOPE of Lambda api; null is leasehold:ids."
  type        = string
  default     = null

  validation {
    condition     = var.auth_id_scope == null ? true : trimspace(var.auth_id_scope) != ""
    error_message = "auth_id_scope must not be empty: leave it null instead."
  }
}

variable "auth_id_subjects" {
  description = "Subjects that may lease machine IDs without that scope. The subject of an IAM caller is its ARN. LEASEHOLD_AUTH_ID_SUBJECTS of Lambda api."
  type        = list(string)
  default     = null

  validation {
    condition     = var.auth_id_subjects == null ? true : length(var.auth_id_subjects) > 0 && alltrue([for item in var.auth_id_subjects : trimspace(item) != "" && !strcontains(item, ",")])
    error_message = "auth_id_subjects must have items, which are not empty and have no comma: leave it null instead."
  }
}

variable "auth_leeway" {
  description = "How far the issuer's clock may be from this machine's. LEASEHOLD_AUTH_LEEWAY of Lambda api; null is 30s."
  type        = string
  default     = null

  validation {
    condition     = var.auth_leeway == null ? true : can(regex("^([0-9]+([.][0-9]+)?(ms|s|m|h))+$", var.auth_leeway))
    error_message = "auth_leeway must be a duration such as 300ms, 30s, 5m, 2h."
  }

  validation {
    condition     = var.auth_leeway == null ? true : try(timecmp(timeadd("2000-01-01T00:00:00Z", var.auth_leeway), timeadd("2000-01-01T00:00:00Z", "5m")) <= 0, true)
    error_message = "auth_leeway must be at most 5m."
  }

  validation {
    condition     = var.auth_leeway == null ? true : can(regex("[1-9]", var.auth_leeway))
    error_message = "auth_leeway must be above 0."
  }

  validation {
    condition     = var.auth_leeway == null || var.auth_issuer != null
    error_message = "auth_leeway needs auth_issuer: without an issuer no token is accepted."
  }
}

variable "id_services" {
  description = "Layouts of services that lease machine IDs: a JSON list, or a file with one. The default is one service, default. LEASEHOLD_ID_SERVICES of Lambda api."
  type        = string
  default     = null

  validation {
    condition     = var.id_services == null ? true : can(jsondecode(var.id_services))
    error_message = "id_services must be JSON, such as jsonencode(…) returns."
  }
}

variable "id_services_closed" {
  description = "Reject services that id_services does not name. Otherwise they lease as the service default does, if there is one. LEASEHOLD_ID_SERVICES_CLOSED of Lambda api."
  type        = bool
  default     = null
}

variable "id_max_leases" {
  description = "Leases of machine IDs that one request gets at most. LEASEHOLD_ID_MAX_LEASES of Lambda api; null is 64."
  type        = number
  default     = null

  validation {
    condition     = var.id_max_leases == null ? true : floor(var.id_max_leases) == var.id_max_leases && var.id_max_leases >= 1 && var.id_max_leases <= 32768
    error_message = "id_max_leases must be a whole number from 1 to 32768."
  }
}

variable "id_max_leases_per_subject" {
  description = "Leases of machine IDs that one authenticated subject has at most; each server process counts those that it granted. LEASEHOLD_ID_MAX_LEASES_PER_SUBJECT of Lambda api; null is 2048."
  type        = number
  default     = null

  validation {
    condition     = var.id_max_leases_per_subject == null ? true : floor(var.id_max_leases_per_subject) == var.id_max_leases_per_subject && var.id_max_leases_per_subject >= 1 && var.id_max_leases_per_subject <= 32768
    error_message = "id_max_leases_per_subject must be a whole number from 1 to 32768."
  }
}

variable "queue_tenant_separator" {
  description = "What ends the tenant in the ID of an analysis, such as : in acme:report-7: the tenant becomes the message group, and a standard queue a fair one, which delivers the messages of quiet tenants first. The default is none. LEASEHOLD_QUEUE_TENANT_SEPARATOR of Lambda sweep."
  type        = string
  default     = null

  validation {
    condition     = var.queue_tenant_separator == null ? true : trimspace(var.queue_tenant_separator) != ""
    error_message = "queue_tenant_separator must not be empty: leave it null instead."
  }
}

variable "target_url" {
  description = "URL that runs an analysis: it receives a POST for each run. It begins with https://, unless it is on this machine. Without it, the endpoint for tasks of `leasehold serve` and of the function Tasks responds NOT_CONFIGURED. LEASEHOLD_TARGET_URL of Lambda worker."
  type        = string
  default     = null

  validation {
    condition     = var.target_url == null ? true : trimspace(var.target_url) != ""
    error_message = "target_url must not be empty: leave it null instead."
  }
}

variable "target_token" {
  description = "Bearer token for the target. LEASEHOLD_TARGET_TOKEN of Lambda worker."
  type        = string
  default     = null
  sensitive   = true

  validation {
    condition     = var.target_token == null ? true : trimspace(var.target_token) != ""
    error_message = "target_token must not be empty: leave it null instead."
  }
}

variable "target_audience" {
  description = "Audience of an ID token for the target, instead of a bearer token. The token comes from Google Cloud's metadata server; for `leasehold worker` and the Lambda worker from AWS STS (`sts:GetWebIdentityToken`). LEASEHOLD_TARGET_AUDIENCE of Lambda worker."
  type        = string
  default     = null

  validation {
    condition     = var.target_audience == null ? true : trimspace(var.target_audience) != ""
    error_message = "target_audience must not be empty: leave it null instead."
  }

  validation {
    condition     = var.target_token == null || var.target_audience == null
    error_message = "target_token and target_audience cannot both be set: they are two ways to get the target's token."
  }
}

variable "ttl" {
  description = "How long the lock of a run lasts without a heartbeat, in whole seconds. LEASEHOLD_TTL of Lambda worker; null is 5m."
  type        = string
  default     = null

  validation {
    condition     = var.ttl == null ? true : can(regex("^([0-9]+(s|m|h))+$", var.ttl))
    error_message = "ttl must be a duration in whole seconds such as 30s, 5m, 2h."
  }

  validation {
    condition     = var.ttl == null ? true : try(timecmp(timeadd("2000-01-01T00:00:00Z", var.ttl), timeadd("2000-01-01T00:00:00Z", "1s")) >= 0 && timecmp(timeadd("2000-01-01T00:00:00Z", var.ttl), timeadd("2000-01-01T00:00:00Z", "24h")) <= 0, true)
    error_message = "ttl must be at least 1s and at most 24h."
  }
}

variable "heartbeat" {
  description = "Time between heartbeats, at most half of ttl. The default is a fifth of it. LEASEHOLD_HEARTBEAT of Lambda worker."
  type        = string
  default     = null

  validation {
    condition     = var.heartbeat == null ? true : can(regex("^([0-9]+([.][0-9]+)?(ms|s|m|h))+$", var.heartbeat))
    error_message = "heartbeat must be a duration such as 300ms, 30s, 5m, 2h."
  }
}

variable "max_failures" {
  description = "Failed runs after which an analysis becomes FAILED. LEASEHOLD_MAX_FAILURES of Lambda worker; null is 5."
  type        = number
  default     = null

  validation {
    condition     = var.max_failures == null ? true : floor(var.max_failures) == var.max_failures && var.max_failures >= 1
    error_message = "max_failures must be a whole number from 1."
  }
}

variable "task_grace" {
  description = "How long a message is retried whose analysis does not exist yet, or whose document cannot be read. Then it goes to the dead-letter queue. Cloud Tasks has none and drops it; an SQS queue without one keeps it until its retention period ends. LEASEHOLD_TASK_GRACE of Lambda worker; null is 10m."
  type        = string
  default     = null

  validation {
    condition     = var.task_grace == null ? true : can(regex("^([0-9]+([.][0-9]+)?(ms|s|m|h))+$", var.task_grace))
    error_message = "task_grace must be a duration such as 300ms, 30s, 5m, 2h."
  }

  validation {
    condition     = var.task_grace == null ? true : try(timecmp(timeadd("2000-01-01T00:00:00Z", var.task_grace), timeadd("2000-01-01T00:00:00Z", "1s")) >= 0, true)
    error_message = "task_grace must be at least 1s."
  }
}

variable "on_locked" {
  description = "What to do with a message whose analysis is already running: retry or ack. After ack, no message is left to retry the analysis if that run fails. LEASEHOLD_ON_LOCKED of Lambda worker; null is retry."
  type        = string
  default     = null

  validation {
    condition     = var.on_locked == null ? true : contains(["retry", "ack"], var.on_locked)
    error_message = "on_locked must be retry or ack."
  }
}

variable "create_analyses" {
  description = "Make the document of an analysis that a message names and that is not there, instead of waiting for it: for queues whose senders keep no such documents. LEASEHOLD_CREATE_ANALYSES of Lambda worker."
  type        = bool
  default     = null
}

variable "max_takeovers" {
  description = "Takeovers after which an analysis becomes FAILED, by the next acquire or by a sweep. LEASEHOLD_MAX_TAKEOVERS of Lambda api, Lambda worker, Lambda sweep; null is 5."
  type        = number
  default     = null

  validation {
    condition     = var.max_takeovers == null ? true : floor(var.max_takeovers) == var.max_takeovers && var.max_takeovers >= 1
    error_message = "max_takeovers must be a whole number from 1."
  }
}

variable "requeue_every" {
  description = "Time after which a queued analysis that no worker has started is queued again. LEASEHOLD_REQUEUE_EVERY of Lambda sweep; null is 15m."
  type        = string
  default     = null

  validation {
    condition     = var.requeue_every == null ? true : can(regex("^([0-9]+([.][0-9]+)?(ms|s|m|h))+$", var.requeue_every))
    error_message = "requeue_every must be a duration such as 300ms, 30s, 5m, 2h."
  }

  validation {
    condition     = var.requeue_every == null ? true : can(regex("[1-9]", var.requeue_every))
    error_message = "requeue_every must be above 0."
  }
}

variable "sweep_grace" {
  description = "How long a lock must have been expired, so that the queue can redeliver first. LEASEHOLD_SWEEP_GRACE of Lambda sweep; null is 0s."
  type        = string
  default     = null

  validation {
    condition     = var.sweep_grace == null ? true : can(regex("^([0-9]+([.][0-9]+)?(ms|s|m|h))+$", var.sweep_grace))
    error_message = "sweep_grace must be a duration such as 300ms, 30s, 5m, 2h."
  }
}

# The environment of each function. A variable that is null is not set: the program's default applies.
locals {
  settings_api = merge({
    for name, value in {
      LEASEHOLD_CONSOLE                    = var.console == null ? null : tostring(var.console)
      LEASEHOLD_CORS_ORIGINS               = var.cors_origins == null ? null : join(",", var.cors_origins)
      LEASEHOLD_REQUEST_TIMEOUT            = var.request_timeout
      LEASEHOLD_MAX_CONCURRENT             = var.max_concurrent == null ? null : tostring(var.max_concurrent)
      LEASEHOLD_MAX_WAIT                   = var.max_wait
      LEASEHOLD_MAX_WAITING                = var.max_waiting == null ? null : tostring(var.max_waiting)
      LEASEHOLD_TENANT_RATE                = var.tenant_rate == null ? null : tostring(var.tenant_rate)
      LEASEHOLD_SUBJECT_RATE               = var.subject_rate == null ? null : tostring(var.subject_rate)
      LEASEHOLD_RATE_WITHOUT_STORE         = var.rate_without_store
      LEASEHOLD_MAX_LOCKS_PER_TENANT       = var.max_locks_per_tenant == null ? null : tostring(var.max_locks_per_tenant)
      LEASEHOLD_MAX_RUNS_PER_TENANT        = var.max_runs_per_tenant == null ? null : tostring(var.max_runs_per_tenant)
      LEASEHOLD_MAX_CLUSTERS_PER_TENANT    = var.max_clusters_per_tenant == null ? null : tostring(var.max_clusters_per_tenant)
      LEASEHOLD_MAX_IDENTITIES_PER_CLUSTER = var.max_identities_per_cluster == null ? null : tostring(var.max_identities_per_cluster)
      LEASEHOLD_LOG_LEVEL                  = var.log_level
      LEASEHOLD_LOG_SAMPLE                 = var.log_sample == null ? null : tostring(var.log_sample)
      LEASEHOLD_METRICS_EMF                = var.metrics_emf == null ? null : tostring(var.metrics_emf)
      LEASEHOLD_RETENTION                  = var.retention
      LEASEHOLD_STATE_RETENTION            = var.state_retention
      LEASEHOLD_RECORD_REFUSALS            = var.record_refusals
      LEASEHOLD_MAX_SKEW                   = var.max_skew
      LEASEHOLD_INDEX_SHARDS               = var.index_shards == null ? null : tostring(var.index_shards)
      LEASEHOLD_AUTH_ISSUER                = var.auth_issuer
      LEASEHOLD_AUTH_AUDIENCE              = var.auth_audience
      LEASEHOLD_AUTH_CLIENTS               = var.auth_clients == null ? null : join(",", var.auth_clients)
      LEASEHOLD_AUTH_JWKS_URL              = var.auth_jwks_url
      LEASEHOLD_AUTH_TENANT_CLAIM          = var.auth_tenant_claim
      LEASEHOLD_AUTH_TENANT                = var.auth_tenant
      LEASEHOLD_AUTH_SUBJECTS              = var.auth_subjects == null ? null : join(",", var.auth_subjects)
      LEASEHOLD_AUTH_REQUIRED_SCOPE        = var.auth_required_scope
      LEASEHOLD_AUTH_ADMIN_SCOPE           = var.auth_admin_scope
      LEASEHOLD_AUTH_ADMINS                = var.auth_admins == null ? null : join(",", var.auth_admins)
      LEASEHOLD_AUTH_OPERATE_SCOPE         = var.auth_operate_scope
      LEASEHOLD_AUTH_OPERATORS             = var.auth_operators == null ? null : join(",", var.auth_operators)
      LEASEHOLD_AUTH_WORKER_SCOPE          = var.auth_worker_scope
      LEASEHOLD_AUTH_WORKERS               = var.auth_workers == null ? null : join(",", var.auth_workers)
      LEASEHOLD_AUTH_ID_SCOPE              = var.auth_id_scope
      LEASEHOLD_AUTH_ID_SUBJECTS           = var.auth_id_subjects == null ? null : join(",", var.auth_id_subjects)
      LEASEHOLD_AUTH_LEEWAY                = var.auth_leeway
      LEASEHOLD_ID_SERVICES                = var.id_services
      LEASEHOLD_ID_SERVICES_CLOSED         = var.id_services_closed == null ? null : tostring(var.id_services_closed)
      LEASEHOLD_ID_MAX_LEASES              = var.id_max_leases == null ? null : tostring(var.id_max_leases)
      LEASEHOLD_ID_MAX_LEASES_PER_SUBJECT  = var.id_max_leases_per_subject == null ? null : tostring(var.id_max_leases_per_subject)
      LEASEHOLD_MAX_TAKEOVERS              = var.max_takeovers == null ? null : tostring(var.max_takeovers)
    } : name => value if value != null
  })

  settings_worker = merge({
    for name, value in {
      LEASEHOLD_LOG_LEVEL       = var.log_level
      LEASEHOLD_METRICS_EMF     = var.metrics_emf == null ? null : tostring(var.metrics_emf)
      LEASEHOLD_MAX_SKEW        = var.max_skew
      LEASEHOLD_INDEX_SHARDS    = var.index_shards == null ? null : tostring(var.index_shards)
      LEASEHOLD_TARGET_URL      = var.target_url
      LEASEHOLD_TARGET_AUDIENCE = var.target_audience
      LEASEHOLD_TTL             = var.ttl
      LEASEHOLD_HEARTBEAT       = var.heartbeat
      LEASEHOLD_MAX_FAILURES    = var.max_failures == null ? null : tostring(var.max_failures)
      LEASEHOLD_TASK_GRACE      = var.task_grace
      LEASEHOLD_ON_LOCKED       = var.on_locked
      LEASEHOLD_CREATE_ANALYSES = var.create_analyses == null ? null : tostring(var.create_analyses)
      LEASEHOLD_MAX_TAKEOVERS   = var.max_takeovers == null ? null : tostring(var.max_takeovers)
    } : name => value if value != null
  }, nonsensitive(var.target_token == null) ? {} : { LEASEHOLD_TARGET_TOKEN = var.target_token })

  settings_sweep = merge({
    for name, value in {
      LEASEHOLD_LOG_LEVEL              = var.log_level
      LEASEHOLD_METRICS_EMF            = var.metrics_emf == null ? null : tostring(var.metrics_emf)
      LEASEHOLD_RETENTION              = var.retention
      LEASEHOLD_STATE_RETENTION        = var.state_retention
      LEASEHOLD_MAX_SKEW               = var.max_skew
      LEASEHOLD_INDEX_SHARDS           = var.index_shards == null ? null : tostring(var.index_shards)
      LEASEHOLD_QUEUE_TENANT_SEPARATOR = var.queue_tenant_separator
      LEASEHOLD_MAX_TAKEOVERS          = var.max_takeovers == null ? null : tostring(var.max_takeovers)
      LEASEHOLD_REQUEUE_EVERY          = var.requeue_every
      LEASEHOLD_SWEEP_GRACE            = var.sweep_grace
    } : name => value if value != null
  })
}
