project               = "my-staging-project"
location              = "europe-west1"
backup_retention_days = 0
