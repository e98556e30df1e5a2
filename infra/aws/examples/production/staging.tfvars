environment = "staging"
region      = "eu-west-1"
account_id  = "111111111111"
