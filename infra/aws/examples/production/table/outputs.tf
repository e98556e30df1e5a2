output "name" {
  description = "Name of the table."
  value       = module.table.name
}

output "kms_key_arn" {
  description = "ARN of the customer managed key that encrypts the table; null if there is none."
  value       = module.table.kms_key_arn
}
