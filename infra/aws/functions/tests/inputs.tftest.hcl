# What cannot work is refused when it is planned, by the variable that is wrong. No account is asked: all of the provider is made up.

mock_provider "aws" {
  mock_data "aws_caller_identity" {
    defaults = { account_id = "123456789012" }
  }

  mock_data "aws_partition" {
    defaults = { partition = "aws", dns_suffix = "amazonaws.com" }
  }

  mock_data "aws_region" {
    defaults = { id = "eu-north-1" }
  }
}

variables {
  table_name    = "leasehold"
  package       = "tests/package.zip"
  jwt           = { issuer = "https://issuer.example", audience = ["leasehold"] }
  sweep_minutes = 1
  versions      = { api = "7" }

  settings = {
    LEASEHOLD_TENANT_RATE  = 10
    LEASEHOLD_SUBJECT_RATE = null
    LEASEHOLD_RETENTION    = "240h"
    LEASEHOLD_AUTH_ADMINS  = "alice,bob"
    LEASEHOLD_CONSOLE      = true
  }
}

run "what_works" {
  command = plan

  assert {
    condition     = aws_lambda_function.this["api"].environment[0].variables["LEASEHOLD_AUTH_ADMINS"] == "alice,bob" && !contains(keys(aws_lambda_function.this["sweep"].environment[0].variables), "LEASEHOLD_AUTH_ADMINS")
    error_message = "A function has the settings that it takes."
  }

  assert {
    condition     = aws_lambda_function.this["api"].environment[0].variables["LEASEHOLD_TENANT_RATE"] == "10"
    error_message = "A number is text."
  }

  assert {
    condition     = !contains(keys(aws_lambda_function.this["api"].environment[0].variables), "LEASEHOLD_SUBJECT_RATE")
    error_message = "What is null is not set."
  }

  assert {
    condition     = aws_cloudwatch_event_rule.sweep.schedule_expression == "rate(1 minute)"
    error_message = "One minute is singular."
  }

  assert {
    condition     = length(aws_lambda_function.this) == 2 && length(aws_sqs_queue.analyses) == 0 && aws_lambda_function.this["api"].reserved_concurrent_executions == -1
    error_message = "There is no worker without analyses, and no bound without concurrency."
  }

  assert {
    condition     = aws_lambda_alias.live["api"].function_version == "7"
    error_message = "The alias goes back to the version that is named."
  }

  assert {
    condition     = aws_apigatewayv2_route.open["GET /console/{proxy+}"].authorization_type == "NONE"
    error_message = "The page of the console needs no token."
  }
}

run "rare_sweeps_in_a_new_account" {
  command = plan

  variables {
    metrics_alarms      = true
    reserve_concurrency = false
    sweep_minutes       = 60
    analyses            = true
    settings            = { LEASEHOLD_METRICS_EMF = true, LEASEHOLD_TARGET_URL = "https://work.example/run" }
  }

  assert {
    condition     = [for f in aws_lambda_function.this : f.reserved_concurrent_executions] == [-1, -1, -1] && aws_lambda_event_source_mapping.analyses[0].scaling_config[0].maximum_concurrency == 10
    error_message = "What is not reserved has its bound at the queue."
  }

  assert {
    condition     = aws_cloudwatch_metric_alarm.metrics["LeaseholdSweepStopped"].evaluation_periods == 36
    error_message = "An alarm on what must happen waits for three sweeps."
  }
}

# Each run costs seconds, so that what is independent of each other is in one.

run "names_and_choices" {
  command = plan

  variables {
    name       = "Leasehold_"
    table_name = "arn:aws:dynamodb:eu-north-1:123456789012:table/leasehold"
    package    = "tests/missing.zip"
    front_door = "alb"
  }

  expect_failures = [var.name, var.table_name, var.package, var.front_door]
}

run "nothing_verifies_callers_and_inputs_are_out_of_bounds" {
  command = plan

  variables {
    jwt                = null
    metrics_alarms     = true
    log_retention_days = 31
    worker_timeout     = 901
    sweep_minutes      = 0
    memory_size        = { api = 64 }
    versions           = { api = "$LATEST" }
    alarm_topic_arns   = ["operations@example.com"]
    budget             = { monthly_usd = 0, emails = [] }
    kms_key_arn        = "alias/leasehold"
  }

  expect_failures = [
    var.iam, var.log_retention_days, var.worker_timeout, var.sweep_minutes, var.memory_size, var.versions, var.alarm_topic_arns, var.metrics_alarms, var.budget, var.kms_key_arn,
  ]
}

run "two_authorizers_and_a_worker_without_work" {
  command = plan

  variables {
    iam         = true
    settings    = { LEASEHOLD_AUTH_TENANT = "acme" }
    analyses    = true
    api_timeout = 10
  }

  expect_failures = [var.iam, var.analyses, var.api_timeout]
}

run "a_public_url" {
  command = plan

  variables {
    front_door = "url"
    jwt        = null
    settings   = { LEASEHOLD_AUTH_ISSUER = "https://issuer.example", LEASEHOLD_AUTH_AUDIENCE = "leasehold" }
  }

  expect_failures = [var.iam]
}

run "a_url_verifies_no_tokens_and_an_issuer_has_no_audience" {
  command = plan

  variables {
    front_door = "url"
    settings   = { LEASEHOLD_AUTH_ISSUER = "https://issuer.example" }
  }

  expect_failures = [var.jwt, output.settings]
}

run "iam_without_a_tenant" {
  command = plan

  variables {
    iam = true
    jwt = null
  }

  expect_failures = [var.iam]
}

run "a_token_for_every_service_and_a_worker_out_of_bounds" {
  command = plan

  variables {
    jwt         = { issuer = "http://issuer.example", audience = [] }
    analyses    = true
    settings    = { LEASEHOLD_TARGET_URL = "https://work.example/run", LEASEHOLD_MAX_FAILURES = 11 }
    batch_size  = 20000
    concurrency = { worker = 1 }

    audit_retention_days = 0
    audit_kms_key_arn    = "alias/audit"
  }

  expect_failures = [var.jwt, var.max_receives, var.batch_size, var.concurrency, var.audit_retention_days, var.audit_kms_key_arn]
}

run "a_lock_without_an_end" {
  command = plan

  variables {
    audit_locked = true
  }

  expect_failures = [var.audit_locked]
}
