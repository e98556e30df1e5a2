package tests

import (
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// mistake is a change of a file below infra/, and what must be said about it.
type mistake struct {
	file, old, changed, says string
}

// make changes the copy, all at once: a plan of Terraform costs seconds, and each mistake has words of its own.
func mistaken(c *configuration, all []mistake) {
	c.tb.Helper()
	for _, m := range all {
		c.change(m.file, m.old, m.changed)
	}
}

// found reports the mistakes that nothing was said about.
func found(t *testing.T, all []mistake, said string) {
	t.Helper()
	missed := 0
	for _, m := range all {
		if !strings.Contains(said, m.says) {
			missed++
			t.Errorf("not found: %s: %q instead of %q: nothing says %q", m.file, m.changed, m.old, m.says)
		}
	}
	t.Logf("%d of %d mistakes are found", len(all)-missed, len(all))
	if missed > 0 {
		t.Logf("what is said:\n%s", said)
	}
}

// What Terraform finds by itself, with the schema of the provider and its checks: in groups, as it does not look at
// what depends on a mistake.
var refusedByTerraform = [][]mistake{
	{
		{"aws/table/main.tf", `deletion_protection_enabled = true`, `deletion_protection = true`, `"deletion_protection"`},
		{"aws/functions/front.tf", `protocol_type = "HTTP"`, `protocol_type = "HTTPS"`, "HTTPS"},
		{"aws/functions/main.tf", `publish          = true`, `published        = true`, `"published"`},
		{"aws/functions/outputs.tf", `aws_sqs_queue.sweep_dead.url }`, `aws_sqs_queue.sweep_deaf.url }`, "sweep_deaf"},
		{"aws/functions/sweep.tf", "  message_retention_seconds = 14 * 86400\n", "  message_retention_seconds = 28 * 86400\n",
			"2419200"},
		{"aws/deploy-role/main.tf", `max_session_duration = 3600`, `max_session_duration = 60`, "max_session_duration"},
	},
	{
		{"aws/table/main.tf", `billing_mode = "PAY_PER_REQUEST"`, `billing_mode = "ON_DEMAND"`, "ON_DEMAND"},
		{"aws/functions/main.tf", `runtime          = "provided.al2023"`, `runtime          = "provided.al2024"`,
			"provided.al2024"},
	},
	{
		{"aws/table/main.tf", `    projection_type = "ALL"`, `    projection_type = "EVERYTHING"`, "EVERYTHING"},
		{"aws/functions/front.tf", "  authorization_type = \"AWS_IAM\"\n}", "  authorization_type = \"IAM\"\n}", "got IAM"},
		{"aws/functions/outputs.tf", `aws_sqs_queue.sweep_dead.url }`, `aws_sqs_queue.sweep_dead.uri }`, `"uri"`},
		{"aws/functions/analyses.tf", `maximum_concurrency = var.concurrency.worker`, `maximum_concurrency = 1`,
			"maximum_concurrency"},
		{"aws/functions/analyses.tf", `["ReportBatchItemFailures"]`, `["ReportBatchItemFailure"]`, "ReportBatchItemFailure"},
		{"aws/functions/alarms.tf", `comparison_operator = "GreaterThanThreshold"`, `comparison_operator = "Above"`, "Above"},
	},
	{
		{"aws/table/main.tf", `enabled     = true
    kms_key_arn = var.kms_key_arn`, `kms_key_arn = var.kms_key_arn`, `"enabled" is required`},
		{"aws/functions/sweep.tf", `  dead_letter_config {`, `  dead_letter_conf {`, "dead_letter_conf"},
	},
}

// TestMistakesThatTerraformFinds: the provider of the mirror refuses each.
func TestMistakesThatTerraformFinds(t *testing.T) {
	t.Parallel()
	planted(t)
	c, _ := example(t, productionExample)
	c.in(mirror(t, awsProvider), "aws/table")
	for i, all := range refusedByTerraform {
		t.Run(strconv.Itoa(i), func(t *testing.T) {
			t.Parallel()
			c := c.clone(t)
			mistaken(c, all)
			table := *c
			table.dir = filepath.Join(c.root, "aws/table")
			found(t, all, strings.Join(append(c.validate(), table.validate()...), "\n"))
		})
	}
}

// What Terraform takes for right, and only a comparison with the program finds.
var foundInPlans = map[string][]mistake{
	"aws/table": {
		{"aws/table/main.tf", `attribute_name = "_keep_until"`, `attribute_name = "lockExpiresAt"`,
			"what expires has a time to live of its own: it is lockExpiresAt"},
		{"aws/table/main.tf", `hash_key        = "_due"
    range_key       = "lockExpiresAt"
    projection_type = "ALL"`, `hash_key        = "lockExpiresAt"
    range_key       = "_due"
    projection_type = "KEYS_ONLY"`, `index due-sharded-lockExpiresAt HASH is "lockExpiresAt"`},
		{"aws/table/main.tf", `deletion_protection_enabled = true`, `deletion_protection_enabled = false`,
			"deletion protection"},
		{"aws/table/main.tf", `enabled                 = true
    recovery`, `enabled                 = false
    recovery`, "point_in_time_recovery"},
		{"aws/table/main.tf", `enabled     = true
    kms`, `enabled     = false
    kms`, "server_side_encryption"},
		{"aws/table/main.tf", `hash_key  = "_pk"
  range_key = "_sk"`, `hash_key  = "_sk"
  range_key = "_pk"`, `key RANGE is "_pk"`},
		{"aws/table/main.tf", "    name = \"_sk\"\n    type = \"S\"", "    name = \"_sk\"\n    type = \"B\"",
			`type of _sk is "B"`},
		{"aws/table/main.tf", `billing_mode = "PAY_PER_REQUEST"`,
			"billing_mode = \"PROVISIONED\"\n  read_capacity = 5\n  write_capacity = 5", "billing_mode is PROVISIONED"},
	},
	minimalExample: {
		{"aws/functions/front.tf", `function_name      = aws_lambda_function.this["api"].function_name
  qualifier          = aws_lambda_alias.live["api"].name`, `function_name      = aws_lambda_function.this["api"].function_name
  qualifier          = "$LATEST"`, "it is about $LATEST"},
		{"aws/functions/front.tf", `Condition = { Bool = { "lambda:InvokedViaFunctionUrl" = "true" } }`, `Condition = {}`,
			"no lambda:InvokedViaFunctionUrl"},
		{"aws/functions/front.tf", `function:${var.name}-api:live"]
        Condition = { StringEquals`, `function:${var.name}-api"]
        Condition = { StringEquals`, "not about the alias"},
		{"aws/functions/main.tf", `log_format            = "JSON"`, `log_format            = "Text"`,
			"as Text"},
		{"aws/functions/main.tf", `architectures    = [var.architecture]`, `architectures    = ["x86_64"]`, "x86_64"},
		{"aws/functions/main.tf", `publish          = true`, `publish          = false`, "no version is published"},
		{"aws/functions/main.tf", `"dynamodb:GetItem", "dynamodb:Query", "dynamodb:UpdateItem"]`,
			`"dynamodb:GetItem", "dynamodb:PutItem", "dynamodb:Query", "dynamodb:UpdateItem"]`,
			"function api may dynamodb:PutItem, and never does it"},
		{"aws/functions/main.tf", `"dynamodb:DeleteItem", "dynamodb:DescribeTable",`, `"dynamodb:DeleteItem",`,
			"function sweep may not dynamodb:DescribeTable"},
		{"aws/functions/main.tf", `Principal = { Service = "lambda.amazonaws.com" }`, `Principal = { AWS = "*" }`,
			"may assume it"},
		{"aws/functions/main.tf", `  retention_in_days = var.log_retention_days`, `  retention_in_days = 0`, "kept for ever"},
		{"aws/functions/main.tf", `{ LEASEHOLD_FRONT_DOOR = var.front_door })`,
			`{ LEASEHOLD_FRONT_DOOR = var.front_door, LEASEHOLD_FRONTDOOR = "url" })`, "LEASEHOLD_FRONTDOOR"},
		{"aws/functions/sweep.tf", `"rate(${var.sweep_minutes} minutes)"`, `"rate(${var.sweep_minutes} minute)"`,
			"no expression of EventBridge"},
		{"aws/functions/sweep.tf", `  target_id = "sweep"`,
			"  target_id = \"sweep\"\n  input = jsonencode({ source = \"schedule\" })", "rejects an event that is changed"},
		{"aws/functions/sweep.tf", `source_arn    = aws_cloudwatch_event_rule.sweep.arn`, "", "no source_arn"},
		{"aws/functions/sweep.tf", `Condition = { Bool = { "aws:SecureTransport" = "false" } }`,
			`Condition = { Bool = { "aws:SecureTransport" = "true" } }`, "requests without TLS are refused: they are accepted"},
		{"aws/functions/sweep.tf", "maximum_event_age_in_seconds = 300\n    maximum_retry_attempts",
			"maximum_event_age_in_seconds = 30\n    maximum_retry_attempts", "after 30 s"},
		{"aws/functions/sweep.tf", `maximum_retry_attempts       = 2`, `maximum_retry_attempts       = 0`,
			"it is not tried again"},
		{"aws/functions/alarms.tf", `metric = "Throttles", dimensions`, `metric = "Throtles", dimensions`,
			"no alarm on Throttles"},
	},
	productionExample: {
		{"aws/functions/main.tf", `application_log_level = "INFO"`, `application_log_level = "ERROR"`,
			"Lambda leaves them out at ERROR"},
		{"aws/functions/audit.tf", `$.message = \"audit\"`, `$.msg = \"audit\"`, "are passed on"},
		{"aws/functions/audit.tf", `keys(local.functions)`, `["api", "sweep"]`,
			"nothing passes those of /aws/lambda/leasehold-staging-worker on"},
		{"aws/functions/audit.tf", `restrict_public_buckets = true`, `restrict_public_buckets = false`,
			"restrict_public_buckets is false"},
		{"aws/examples/production/functions/main.tf", "  audit_locked         = var.audit_locked\n", "",
			"it has no aws_s3_bucket_object_lock_configuration"},
		{"aws/functions/analyses.tf", `6 * var.worker_timeout`, `300`, "before six times the timeout"},
		{"aws/functions/analyses.tf", `visibility_timeout_seconds = 300`, `visibility_timeout_seconds = 200`,
			"it waits for 200, and leasehold-staging-worker may take 900 s"},
		{"aws/functions/analyses.tf", `  function_response_types = ["ReportBatchItemFailures"]
`, "", "without ReportBatchItemFailures messages are lost"},
		{"aws/functions/analyses.tf", `maximum_concurrency = var.concurrency.worker`, `maximum_concurrency = 50`,
			"the rest is throttled"},
		{"aws/functions/analyses.tf", `function_name           = aws_lambda_alias.live["worker"].arn`,
			`function_name           = aws_lambda_function.this["worker"].arn`,
			"aws_lambda_event_source_mapping.analyses[0]: functions are called by their alias"},
		{"aws/functions/analyses.tf", `  redrive_policy = jsonencode({
    deadLetterTargetArn = "${local.queue_arn}-dead"
    maxReceiveCount     = var.max_receives
  })
`, "", "it has no dead-letter queue"},
		{"aws/functions/analyses.tf", `sqs_managed_sse_enabled   = true`, `sqs_managed_sse_enabled   = false`,
			"messages are in the clear"},
		{"aws/functions/front.tf", `authorization_type = local.authorization`,
			`authorization_type = local.authorization == "JWT" ? "NONE" : "AWS_IAM"`, "$default does not ask for a token"},
		{"aws/functions/front.tf", `["GET /healthz", "GET /readyz"],`,
			`["GET /healthz", "GET /readyz", "POST /v1/{proxy+}"],`, "POST /v1/{proxy+} asks for no token"},
		{"aws/functions/front.tf", `timeout_milliseconds   = 30000`, `timeout_milliseconds   = 60000`, "60000 ms"},
		{"aws/functions/front.tf", `payload_format_version = "2.0"`, `payload_format_version = "1.0"`,
			"the program reads format 2.0"},
		{"aws/functions/front.tf", `["$request.header.Authorization"]`, `["$request.querystring.token"]`, "tokens are in"},
		{"aws/functions/front.tf", `integration_uri        = aws_lambda_alias.live["api"].invoke_arn`,
			`integration_uri        = aws_lambda_function.this["api"].invoke_arn`,
			"aws_apigatewayv2_integration.this[0]: functions are called by their alias"},
		{"aws/functions/front.tf", `requestId   = "$context.requestId"`, `token = "$request.header.Authorization"`,
			"with their tokens"},
		{"aws/functions/alarms.tf", `threshold           = each.value.Threshold`,
			`threshold           = 2 * each.value.Threshold`, "alarm LeaseholdStoreSlow is"},
		{
			"aws/functions/alarms.tf", `replace(file("${local.observability}/dashboard.json"), "\"us-east-1\"", "\"${local.region}\"")`, `file("${local.observability}/dashboard.json")`, "in its own region"},
		{"aws/functions/main.tf", `handler          = each.key`,
			`handler          = each.key == "sweep" ? "sweeper" : each.key`, `no handler "sweeper"`},
		{"aws/functions/main.tf", `{ LEASEHOLD_TABLE = var.table_name })`, `{ LEASEHOLD_TABLES = var.table_name })`,
			"LEASEHOLD_TABLES"},
		{"aws/functions/main.tf", `"sqs:ChangeMessageVisibility", `, ``,
			"function worker may not sqs:ChangeMessageVisibility"},
		{"aws/functions/main.tf", `"sqs:ReceiveMessage"]
              Resource = [local.queue_arn]`, `"sqs:ReceiveMessage"]
              Resource = ["*"]`, "statement Queue is about *"},
		{"aws/functions/alarms.tf", `  ok_actions          = var.alarm_topic_arns
  tags                = var.tags
}

resource "aws_cloudwatch_metric_alarm" "no_sweep"`, `  tags                = var.tags
}

resource "aws_cloudwatch_metric_alarm" "no_sweep"`, `this["api-errors"]: an alarm acts`},
		{"aws/functions/alarms.tf", `each.value.above`, `each.value.above + 1000`,
			`this["api-errors"]: an alarm is raised by what can be: GreaterThanThreshold 1000`},
		{"aws/functions/alarms.tf", `$.level`, `$.lvl`, "a filter finds errors of the program"},
		{"aws/functions/alarms.tf", `dimensions = { QueueName = queue }`,
			`dimensions = { QueueName = trimsuffix(queue, "-dead") }`, "no alarm is about its dead letters"},
		{"aws/functions/alarms.tf", `alarm_name          = "${var.name}-no-sweep"
  alarm_description   = "The sweep has not been called for three times as long as it should be"
  namespace           = "AWS/Lambda"
  metric_name         = "Invocations"
  dimensions          = { FunctionName = "${var.name}-sweep" }`, `alarm_name          = "${var.name}-no-sweep"
  namespace           = "AWS/Lambda"
  metric_name         = "Invocations"
  dimensions          = { FunctionName = "${var.name}-api" }`, "Invocations of map[FunctionName:leasehold-staging-api]"},
		{"aws/functions/main.tf", `"kms:DescribeKey"]`, `"kms:DescribeKey", "kms:PutKeyPolicy"]`, "kms:PutKeyPolicy"},
		{"aws/functions/main.tf", `= [local.audience]`, `= ["*"]`, "its condition is met by everything"},
		{"aws/functions/main.tf", "  source_code_hash = filebase64sha256(var.package)\n", "", "no source_code_hash"},
		{"aws/functions/analyses.tf", `  batch_size `, "  enabled = false\n  batch_size ", "nothing is turned off"},
		{"aws/functions/main.tf", `"sqs:ReceiveMessage"]
              Resource = ["*"]`, `"sqs:ReceiveMessage"]
              Resource = ["*", local.swept_arn]`, "it receives what is not tried again: arn:"},
		{"aws/functions/main.tf", `"dynamodb:UpdateItem"]
          Resource = [local.table_arn]`, `"dynamodb:UpdateItem"]
          Resource = ["${local.table_arn}*"]`, "it is about others, too: "},
		{"aws/functions/main.tf", `"dynamodb.${local.region}.amazonaws.com"`, `"dynamodb.amazonaws.com"`,
			"it allows kms:Decrypt"},
		{"observability/cloudwatch/alarms.json", `"leasehold.store.throttled"`, `"leasehold.store.throttles"`,
			"the program writes no leasehold.store.throttles of "},
		{"observability/cloudwatch/alarms.json", `"Threshold": 0.5,`, `"Threshold": 500,`,
			"GreaterThanThreshold 1000 in"},
		{"aws/functions/sweep.tf", `  source_arn    = aws_cloudwatch_event_rule.sweep.arn
`, "", "events.amazonaws.com may call it for every account"},
		{"aws/functions/main.tf", `coalesce(var.versions[each.key], aws_lambda_function.this[each.key].version)`,
			`"$LATEST"`, "it is $LATEST, and must be what was published"},
		{"aws/functions/sweep.tf", `arn       = aws_lambda_alias.live["sweep"].arn`,
			`arn       = "arn:aws:lambda:eu-north-1:123456789012:function:${var.name}-sweep"`,
			"it calls arn:aws:lambda:eu-north-1:123456789012:function:leasehold-staging-sweep"},
		{"aws/functions/audit.tf", `status = "Enabled"`, `status = "Disabled"`, "status is Disabled"},
		{"aws/functions/alarms.tf", `"ApproximateAgeOfOldestMessage"`, `"NumberOfMessagesReceived"`,
			"aws_lambda_event_source_mapping.analyses[0]: no alarm is about calls that are missing"},
		{"aws/functions/main.tf", `timeout     = var.api_timeout`, `timeout     = 10`, "its timeout of 10 s is less"},
	},
}

// TestMistakesInPlans: a comparison of the plan with the program finds each.
func TestMistakesInPlans(t *testing.T) {
	t.Parallel()
	planted(t)
	for dir, all := range foundInPlans {
		t.Run(dir, func(t *testing.T) {
			t.Parallel()
			if dir == "aws/table" {
				c := configured(t, mirror(t, awsProvider), dir, accountless)
				mistaken(c, all)
				p, refused := c.plan()
				if p == nil {
					t.Fatal(refused)
				}
				found(t, all, strings.Join(checkTable(p, shape(t)), "\n"))
				return
			}
			c, variables := example(t, dir)
			mistaken(c, all)
			p, refused := c.plan(variables...)
			if p == nil {
				t.Fatal(refused)
			}
			found(t, all, strings.Join(checkFunctions(p), "\n"))
		})
	}
}
