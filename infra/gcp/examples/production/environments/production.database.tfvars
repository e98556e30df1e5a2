project  = "my-production-project"
location = "eur3"
