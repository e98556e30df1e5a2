name            = "locks"
recovery_days   = 14
kms_key_arn     = "arn:aws:kms:eu-north-1:123456789012:key/0000"
max_read_units  = 1000
max_write_units = 500
tags            = { Team = "platform" }
