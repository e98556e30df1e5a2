environment = "production"
region      = "eu-west-1"
account_id  = "222222222222"
