output "url" {
  description = "LEASEHOLD_SERVER of clients."
  value       = module.functions.url
}

output "caller_policy_arn" {
  description = "Attach it to the roles of callers."
  value       = module.functions.caller_policy_arn
}
