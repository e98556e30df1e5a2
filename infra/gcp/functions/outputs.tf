output "server" {
  description = "URL of the API: LEASEHOLD_SERVER of clients and of the command line."
  value       = "${module.api.uri}${lookup(local.set, "LEASEHOLD_BASE_PATH", "")}"
}

output "client_environment" {
  description = "Settings of the command line and of clients, without a token."
  value       = { LEASEHOLD_SERVER = "${module.api.uri}${lookup(local.set, "LEASEHOLD_BASE_PATH", "")}" }
}

output "producer" {
  description = "Settings of programs that queue analyses: the queue, the URL that it delivers to, the account and the audience of its tokens. null without LEASEHOLD_TARGET_URL."
  value = local.queued ? {
    queue    = google_cloud_tasks_queue.analyses[0].id
    url      = "${module.tasks[0].uri}${local.task_path}"
    account  = google_service_account.this["queue"].email
    audience = local.verifies_tokens ? local.task_audience : module.tasks[0].uri
  } : null
}

output "accounts" {
  description = "Email addresses of the service accounts: api, sweep, scheduler, and, if they exist, tasks and queue. The target must let tasks call it."
  value       = { for name, account in google_service_account.this : name => account.email }
}

output "names" {
  description = "Names of the services in Cloud Run: api, sweep, and tasks if it exists."
  value       = merge({ api = module.api.name, sweep = module.sweep.name }, { for s in module.tasks : "tasks" => s.name })
}

output "audit_bucket" {
  description = "Name of the bucket of Cloud Logging with audit events; null if there is none."
  value       = one([for bucket in google_logging_project_bucket_config.audit : bucket.bucket_id])
}
