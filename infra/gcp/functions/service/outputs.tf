output "uri" {
  description = "URL of the service."
  value       = local.uri
}

output "name" {
  description = "Name of the service in Cloud Run."
  value       = local.service
}
