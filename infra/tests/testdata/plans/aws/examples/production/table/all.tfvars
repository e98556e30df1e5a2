environment     = "staging"
region          = "eu-north-1"
account_id      = "123456789012"
kms_key_arn     = "arn:aws:kms:eu-north-1:123456789012:key/0000"
max_write_units = 500
