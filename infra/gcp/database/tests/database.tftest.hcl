# terraform test: without an account, on a provider that makes everything up.
mock_provider "google" {}

variables {
  project  = "my-project-1"
  location = "eur3"
}

run "defaults" {
  command = plan

  assert {
    condition     = google_firestore_database.this.type == "FIRESTORE_NATIVE" && google_firestore_database.this.name == "leasehold"
    error_message = "The database is Leasehold's own, in native mode."
  }

  assert {
    condition     = google_firestore_database.this.delete_protection_state == "DELETE_PROTECTION_ENABLED" && google_firestore_database.this.deletion_policy == "DELETE"
    error_message = "Firestore refuses to delete the database."
  }

  assert {
    condition     = alltrue([for f in google_firestore_field.this : length(f.ttl_config) == 0 || f.field == "_keep_until"])
    error_message = "Only _keep_until is a time to live."
  }

  assert {
    condition     = output.resource_name == "projects/my-project-1/databases/leasehold"
    error_message = "The name of the database is that which conditions of IAM compare."
  }
}

run "without_backups" {
  command = plan

  variables {
    backup_retention_days = 0
  }

  assert {
    condition     = length(google_firestore_backup_schedule.daily) == 0
    error_message = "0 days are no backups."
  }
}

run "the_database_of_everybody" {
  command = plan

  variables {
    name = "(default)"
  }

  expect_failures = [var.name]
}

run "a_zone" {
  command = plan

  variables {
    location = "europe-west1-b"
  }

  expect_failures = [var.location]
}
