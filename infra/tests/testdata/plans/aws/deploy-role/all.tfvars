name         = "locks"
issuer       = "gitlab.example.com"
audience     = "aws"
subjects     = ["project_path:acme/deployment:ref_type:branch:ref:main"]
provider_arn = "arn:aws:iam::123456789012:oidc-provider/gitlab.example.com"
tags         = { Team = "platform" }
