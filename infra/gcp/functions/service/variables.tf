variable "project" {
  description = "ID of the project."
  type        = string
}

variable "region" {
  description = "Region that it runs in."
  type        = string
}

variable "name" {
  description = "Name of the service."
  type        = string
}

variable "description" {
  description = "What it is for, as the console shows it."
  type        = string
}

variable "entry_point" {
  description = "Function that the sources register: API, Tasks or Sweep."
  type        = string
}

variable "source_code" {
  description = "Sources to build a function of, or null for the image."
  type = object({
    runtime       = string
    bucket        = string
    object        = string
    repository    = string
    build_account = string
  })
}

variable "image" {
  description = "Image to run, or null for the sources."
  type        = string
}

variable "account" {
  description = "Email address of the service account that it runs as."
  type        = string
}

variable "environment" {
  description = "Environment variables."
  type        = map(string)
}

variable "secret_files" {
  description = "Secrets to mount as files: the folder and the file's name of each, by the secret's ID in the project."
  type        = map(object({ folder = string, file = string }))
  default     = {}
}

variable "ingress" {
  description = "Where requests may come from: all, internal, or internal-and-load-balancer."
  type        = string
}

variable "invokers" {
  description = "Members of IAM that may call it, by any names."
  type        = map(string)
}

variable "timeout_seconds" {
  description = "Time limit of one request."
  type        = number
}

variable "scaling" {
  description = "Instances, requests at once for each, processors and memory."
  type        = object({ min_instances = number, max_instances = number, concurrency = number, cpu = number, memory_mib = number })
}

variable "labels" {
  description = "Labels."
  type        = map(string)
}
