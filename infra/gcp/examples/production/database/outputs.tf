output "name" {
  description = "ID of the database."
  value       = module.database.name
}

output "project" {
  description = "ID of its project."
  value       = module.database.project
}
