project  = "my-project-1"
location = "eur3"
