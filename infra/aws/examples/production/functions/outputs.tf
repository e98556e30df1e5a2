output "url" {
  description = "LEASEHOLD_SERVER of clients."
  value       = module.functions.url
}

output "queue_url" {
  description = "Queue that takes analyses."
  value       = module.functions.queue_url
}

output "functions" {
  description = "Of each function: its name, its ARN, the newest version and the one that is called."
  value       = module.functions.functions
}

output "deploy_role_arn" {
  description = "ARN of the role that deployments assume."
  value       = module.deploy_role.arn
}
