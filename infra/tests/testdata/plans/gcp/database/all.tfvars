project                = "my-project-1"
location               = "europe-west1"
name                   = "locks"
delete_protection      = false
point_in_time_recovery = false
backup_retention_days  = 35
enable_services        = false
