output "name" {
  description = "ID of the database: the variable database of the module functions, LEASEHOLD_DATABASE of other programs."
  value       = google_firestore_database.this.name

  # What uses the database finds its rules.
  depends_on = [google_firestore_field.this]
}

output "project" {
  description = "ID of its project: LEASEHOLD_PROJECT of other programs."
  value       = var.project
}

output "resource_name" {
  description = "Full name of the database, projects/PROJECT/databases/NAME, as conditions of IAM compare it."
  value       = "projects/${var.project}/databases/${google_firestore_database.this.name}"
}
