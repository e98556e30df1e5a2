output "account" {
  description = "Email address of the account that deployments act as: service_account of google-github-actions/auth."
  value       = google_service_account.deploy.email
}

output "workload_identity_provider" {
  description = "Full name of the provider in the pool: workload_identity_provider of google-github-actions/auth; null if the pool was there before."
  value       = one(google_iam_workload_identity_pool_provider.this[*].name)
}
