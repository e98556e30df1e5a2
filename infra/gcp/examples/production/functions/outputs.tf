output "server" {
  description = "URL of the API: LEASEHOLD_SERVER of clients."
  value       = module.functions.server
}

output "producer" {
  description = "Settings of programs that queue analyses."
  value       = module.functions.producer
}

output "accounts" {
  description = "Email addresses of the service accounts."
  value       = module.functions.accounts
}

output "deployment" {
  description = "Settings of workflows that deploy: the account and the provider of its tokens."
  value       = { service_account = module.deploy_role.account, workload_identity_provider = module.deploy_role.workload_identity_provider }
}
