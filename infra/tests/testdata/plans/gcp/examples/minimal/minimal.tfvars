project        = "my-project-1"
region         = "europe-west1"
source_archive = "package.zip"
callers        = ["123"]
