variable "project" {
  description = "ID of the Google Cloud project."
  type        = string
}

variable "region" {
  description = "Region of database and functions, such as europe-west1."
  type        = string
}

variable "source_archive" {
  description = "Path of leasehold-VERSION-functions-source.zip."
  type        = string
}

variable "callers" {
  description = "Unique IDs (numbers) of the Google accounts that may use locks, as `gcloud iam service-accounts describe ADDRESS --format='value(uniqueId)'` prints them."
  type        = list(string)
}
