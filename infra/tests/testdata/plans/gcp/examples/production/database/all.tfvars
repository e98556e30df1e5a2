project               = "my-production-project"
location              = "eur3"
backup_retention_days = 21
