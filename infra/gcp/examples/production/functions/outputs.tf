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
