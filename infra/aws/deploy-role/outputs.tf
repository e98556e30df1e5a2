output "arn" {
  description = "ARN of the role."
  value       = aws_iam_role.this.arn
}

output "provider_arn" {
  description = "ARN of the OpenID Connect provider."
  value       = local.provider
}
