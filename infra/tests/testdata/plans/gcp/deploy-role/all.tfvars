project         = "my-project-1"
region          = "europe-west1"
name            = "locks"
enable_services = false
services        = { api = "locks-api", tasks = "locks-tasks" }
accounts        = { api = "locks-api@my-project-1.iam.gserviceaccount.com", tasks = "locks-tasks@my-project-1.iam.gserviceaccount.com" }
repository      = { location = "europe-west1", name = "leasehold" }
issuer          = "https://gitlab.example.com"
audiences       = ["google"]
subjects        = ["project_path:acme/deployment:ref_type:branch:ref:main"]
pool            = "projects/123456789012/locations/global/workloadIdentityPools/pool"
