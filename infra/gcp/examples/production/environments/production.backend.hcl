# The bucket is made once, by hand: gcloud storage buckets create gs://my-production-project-terraform --location eu --uniform-bucket-level-access --public-access-prevention; then
# gcloud storage buckets update gs://my-production-project-terraform --versioning
bucket = "my-production-project-terraform"
