subjects = ["repo:acme/deployment:environment:production"]
