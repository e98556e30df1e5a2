environment       = "staging"
region            = "eu-north-1"
account_id        = "123456789012"
kms_key_arn       = "arn:aws:kms:eu-north-1:123456789012:key/0000"
package           = "package.zip"
versions          = { worker = "3" }
issuer            = "https://issuer.example"
audience          = "leasehold"
target_url        = "https://target.example.com/run"
target_audience   = "work"
alarm_topic_arns  = ["arn:aws:sns:eu-north-1:123456789012:alarms"]
monthly_usd       = 50
budget_emails     = ["operations@example.com"]
repository        = "acme/deployment"
oidc_provider_arn = "arn:aws:iam::123456789012:oidc-provider/token.actions.githubusercontent.com"
audit_locked      = true
