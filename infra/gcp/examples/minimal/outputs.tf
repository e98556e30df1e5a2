output "server" {
  description = "URL of the API: LEASEHOLD_SERVER of clients."
  value       = module.functions.server
}
