# The bucket is made once, by hand: gcloud storage buckets create gs://my-staging-project-terraform --location eu --uniform-bucket-level-access --public-access-prevention; then
# gcloud storage buckets update gs://my-staging-project-terraform --versioning
bucket = "my-staging-project-terraform"
