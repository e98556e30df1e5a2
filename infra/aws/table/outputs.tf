output "name" {
  description = "Name of the table: LEASEHOLD_TABLE."
  value       = aws_dynamodb_table.this.name
}

output "arn" {
  description = "ARN of the table."
  value       = aws_dynamodb_table.this.arn
}

output "kms_key_arn" {
  description = "ARN of the customer managed key that encrypts the table; null if there is none."
  value       = var.kms_key_arn
}
