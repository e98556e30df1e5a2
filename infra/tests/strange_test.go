package tests

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// strange is a mistake in a plan: an argument of resources that has another value, or is gone.
type strange struct {
	what    string
	plan    string // the file below planFiles
	address string // what the addresses of the resources begin with, or end with
	path    []any  // of the argument; none: the resource is gone
	to      any    // its value; nil: it is gone
}

// swapped is a value in which a text is replaced.
type swapped struct{ old, made string }

const (
	onAWS      = "aws/functions/http-api"
	onURL      = "aws/functions/url"
	onTable    = "aws/table/all"
	onImage    = "gcp/functions/image"
	onToken    = "gcp/functions/token"
	onSources  = "gcp/functions/defaults"
	onDatabase = "gcp/database/defaults"
)

func steps(path ...any) []any { return path }

// strangeMistakes were written after the rules, as someone makes them who does not know these.
var strangeMistakes = []strange{
	{"a function may not decrypt the table", onAWS, `aws_iam_role_policy.function["api"]`, steps("policy"),
		swapped{`"kms:Decrypt",`, ""}},
	{"the stream may not make data keys", onAWS, "aws_iam_role_policy.audit_delivery", steps("policy"),
		swapped{`,"kms:GenerateDataKey"`, ""}},
	{"a key through another service", onAWS, "aws_iam_role_policy.audit_delivery", steps("policy"),
		swapped{`"s3.eu-north-1.amazonaws.com"`, `"sqs.eu-north-1.amazonaws.com"`}},
	{"records in the clear", onAWS, "aws_kinesis_firehose_delivery_stream",
		steps("server_side_encryption", 0, "enabled"), false},
	{"a bucket with another algorithm than its key", onAWS, "aws_s3_bucket_server_side_encryption_configuration",
		steps("rule", 0, "apply_server_side_encryption_by_default", 0, "sse_algorithm"), "AES256"},
	{"a bucket without encryption", onAWS, "aws_s3_bucket_server_side_encryption_configuration", nil, nil},
	{"a bucket that may be public", onAWS, "aws_s3_bucket_public_access_block", steps("block_public_policy"), false},
	{"a bucket that goes with all that is in it", onAWS, "aws_s3_bucket.audit", steps("force_destroy"), true},
	{"only some objects have an end", onAWS, "aws_s3_bucket_lifecycle_configuration", steps("rule", 0, "filter", 0, "prefix"),
		"failed/"},
	{"objects without an end", onAWS, "aws_s3_bucket_lifecycle_configuration", steps("rule", 0, "expiration"), nil},
	{"a lock that root can open", onAWS, "aws_s3_bucket_object_lock_configuration",
		steps("rule", 0, "default_retention", 0, "mode"), "GOVERNANCE"},
	{"a lock for a day", onAWS, "aws_s3_bucket_object_lock_configuration",
		steps("rule", 0, "default_retention", 0, "days"), 1.0},
	{"a lock of nothing", onAWS, "aws_s3_bucket_object_lock_configuration", nil, nil},
	{"versions that are suspended", onAWS, "aws_s3_bucket_versioning", steps("versioning_configuration", 0, "status"),
		"Suspended"},
	{"versions that have no end", onAWS, "aws_s3_bucket_lifecycle_configuration",
		steps("rule", 0, "noncurrent_version_expiration"), nil},
	{"only grants are audited", onAWS, "aws_cloudwatch_log_subscription_filter", steps("filter_pattern"),
		swapped{" }", ` && $.audit.outcome = "granted" }`}},
	{"the worker is not audited", onAWS, `aws_cloudwatch_log_subscription_filter.audit["worker"]`, nil, nil},
	{"audit events are below the level", onAWS, `aws_lambda_function.this["api"]`,
		steps("logging_config", 0, "application_log_level"), "WARN"},
	{"lines that are no JSON", onAWS, `aws_lambda_function.this["worker"]`, steps("logging_config", 0, "log_format"), "Text"},
	{"a log without an end", onAWS, "aws_cloudwatch_log_group.access", steps("retention_in_days"), nil},
	{"the least of errors", onAWS, `aws_cloudwatch_metric_alarm.this["api-errors"]`, steps("statistic"), "Minimum"},
	{"an operation of another store", onAWS, `metrics["LeaseholdStoreSlow"]`, steps("dimensions", "db.operation.name"), "put"},
	{"an outcome that there is none of", onAWS, `metrics["LeaseholdRunsFail"]`, steps("dimensions", "leasehold.outcome"),
		"failure"},
	{"a dimension too many", onAWS, `metrics["LeaseholdMembersDie"]`, steps("dimensions"),
		map[string]any{"leasehold.kind": "lock"}},
	{"a dimension too few", onAWS, `metrics["LeaseholdSweepStopped"]`, steps("dimensions", "leasehold.what"), nil},
	{"more data than there are periods", onAWS, `metrics["LeaseholdTakeovers"]`, steps("datapoints_to_alarm"), 9.0},
	{"the sum of times", onAWS, `metrics["LeaseholdSweepLate"]`, steps("extended_statistic"), nil},
	{"lines that count as nothing", onAWS, `aws_cloudwatch_log_metric_filter.errors["sweep"]`,
		steps("metric_transformation", 0, "value"), "0"},
	{"no function writes metrics", onAWS, "aws_lambda_function.this",
		steps("environment", 0, "variables", "LEASEHOLD_METRICS_EMF"), nil},
	{"every origin, with credentials", onAWS, "aws_apigatewayv2_api.this", steps("cors_configuration"),
		[]any{map[string]any{"allow_origins": []any{"*"}, "allow_credentials": true}}},
	{"a permission for everyone", onAWS, "aws_lambda_permission.api", steps("principal"), "*"},
	{"a route whose authorizer is gone", onAWS, "aws_apigatewayv2_route.api", steps("authorizer_id"), nil},
	{"messages in the clear", onAWS, "aws_sqs_queue.analyses[0]", steps("sqs_managed_sse_enabled"), false},
	{"requests without TLS", onAWS, "aws_sqs_queue.sweep_dead", steps("policy"), swapped{`"sqs:*"`, `"sqs:SendMessage"`}},
	{"a batch fails as a whole", onAWS, "aws_lambda_event_source_mapping", steps("function_response_types"), nil},
	{"messages come back while they are worked on", onAWS, "aws_sqs_queue.analyses[0]",
		steps("visibility_timeout_seconds"), 901.0},
	{"tokens in the log", onAWS, "aws_apigatewayv2_stage", steps("access_log_settings", 0, "format"),
		swapped{"$context.path", "$request.header.Authorization"}},
	{"no bound of requests", onAWS, "aws_apigatewayv2_stage", steps("default_route_settings"), nil},
	{"a setting in another form", onAWS, `aws_lambda_function.this["api"]`,
		steps("environment", 0, "variables", "LEASEHOLD_MAX_WAIT"), "5 seconds"},
	{"a secret in the environment", onURL, `aws_lambda_function.this["worker"]`,
		steps("environment", 0, "variables", "LEASEHOLD_TARGET_TOKEN"), "secret"},
	{"memory for half", onAWS, `aws_lambda_function.this["api"]`, steps("memory_size"), 128.0},
	{"a role for an hour's work", onAWS, "aws_apigatewayv2_integration", steps("payload_format_version"), "1.0"},
	{"no tags", onAWS, "aws_sqs_queue.analyses_dead", steps("tags"), nil},

	{"no protection", onTable, "aws_dynamodb_table", steps("deletion_protection_enabled"), nil},
	{"no time to live", onTable, "aws_dynamodb_table", steps("ttl", 0, "enabled"), false},
	{"no encryption of one's own", onTable, "aws_dynamodb_table", steps("server_side_encryption"), nil},
	{"an index of keys only", onTable, "aws_dynamodb_table", steps("global_secondary_index", 0, "projection_type"),
		"KEYS_ONLY"},

	{"memory is freed too late", onImage, "module.api.google_cloud_run_v2_service",
		steps("template", 0, "containers", 0, "env", 0, "value"), "1100MiB"},
	{"an old version of a secret", onImage, "module.tasks[0].google_cloud_run_v2_service",
		steps("template", 0, "volumes", 0, "secret", 0, "items", 0, "version"), "3"},
	{"warnings alone are audited", onImage, "google_logging_project_sink", steps("filter"),
		swapped{"jsonPayload.message", `severity>=WARNING AND jsonPayload.message`}},
	{"a sink with an exclusion", onImage, "google_logging_project_sink", steps("exclusions"),
		[]any{map[string]any{"filter": "jsonPayload.audit.outcome=\"ok\""}}},
	{"audit events for 30 days", onImage, "google_logging_project_bucket_config", steps("retention_days"), nil},
	{"audit events that an owner can remove", onImage, "google_logging_project_bucket_config", steps("locked"), false},
	{"the average of a counter", onImage, `metrics["api-errors"]`,
		steps("conditions", 0, "condition_threshold", 0, "aggregations", 0, "per_series_aligner"), "ALIGN_NONE"},
	{"a code that there is none of", onImage, `program["LeaseholdLimitsHit"]`,
		steps("conditions", 0, "condition_prometheus_query_language", 0, "query"), swapped{"LOCK_LIMIT", "LOCKS_LIMIT"}},
	{"instances without a bound", onImage, "module.api.google_cloud_run_v2_service",
		steps("template", 0, "scaling", 0, "max_instance_count"), nil},
	{"requests stay at a revision", onImage, "module.api.google_cloud_run_v2_service", steps("traffic", 0, "type"),
		"TRAFFIC_TARGET_ALLOCATION_TYPE_REVISION"},
	{"a sweep that is asked for, and not done", onImage, "google_cloud_scheduler_job", steps("http_target", 0, "uri"),
		swapped{"/internal/sweep", "/healthz"}},
	{"a queue that gives up", onImage, "google_cloud_tasks_queue.analyses", steps("retry_config", 0, "max_attempts"), 2.0},
	{"no sweep", onImage, "google_cloud_scheduler_job", nil, nil},
	{"a probe that is seldom", onImage, "module.api.google_cloud_run_v2_service",
		steps("template", 0, "containers", 0, "liveness_probe", 0, "period_seconds"), 240.0},

	{"images without an end", onSources, "google_artifact_registry_repository.functions", steps("cleanup_policies"), nil},
	{"a lock that no one asked for", onToken, "google_logging_project_bucket_config", steps("locked"), true},
	{"versions of sources without an end", onSources, "google_storage_bucket.sources", steps("lifecycle_rule"), nil},
	{"a function with the settings of another", onSources, "module.api.google_cloudfunctions2_function",
		steps("service_config", 0, "environment_variables", "LEASEHOLD_REQUEUE_EVERY"), "5m"},

	{"a database without protection", onDatabase, "google_firestore_database", steps("delete_protection_state"), nil},
	{"a database of the other mode", onDatabase, "google_firestore_database", steps("type"), "DATASTORE_MODE"},
}

// changedAt returns a value with a mistake in it; nil is nothing.
func changedAt(v any, path []any, to any) any {
	if len(path) == 0 {
		if s, ok := to.(swapped); ok {
			return strings.ReplaceAll(text(v), s.old, s.made)
		}
		return to
	}
	switch step := path[0].(type) {
	case string:
		m := maps.Clone(asMap(v))
		if m == nil {
			m = map[string]any{}
		}
		if made := changedAt(m[step], path[1:], to); made == nil {
			delete(m, step)
		} else {
			m[step] = made
		}
		return m
	case int:
		list, _ := v.([]any)
		list = slices.Clone(list)
		for len(list) <= step {
			list = append(list, map[string]any{})
		}
		list[step] = changedAt(list[step], path[1:], to)
		return list
	}
	return v
}

// with is the plan with a mistake, and whether it has what that is about.
func (p *plan) with(m strange) (*plan, bool) {
	made := *p
	made.resources = nil
	matched := false
	for _, r := range p.resources {
		if !strings.HasPrefix(r.address, m.address) && !strings.HasSuffix(r.address, m.address) {
			made.resources = append(made.resources, r)
			continue
		}
		matched = true
		if m.path != nil {
			r.values = asMap(changedAt(r.values, m.path, m.to))
			made.resources = append(made.resources, r)
		}
	}
	return &made, matched
}

// TestStrangeMistakes: rules find four of five mistakes that a stranger made in plans, and rules and reviewed plans all.
// For each rule for kinds there is one that no other rule finds.
func TestStrangeMistakes(t *testing.T) {
	t.Parallel()
	program(t)
	of := map[string]*plan{}
	for _, name := range []string{onAWS, onURL, onTable, onImage, onToken, onSources, onDatabase} {
		c := plannable(t, filepath.Dir(name))
		p, refused := c.planOfFile(filepath.Join(planFiles, name+".tfvars"))
		if p == nil {
			t.Fatal(refused)
		}
		of[name] = p
	}
	alone := map[string]bool{}
	byRules := 0
	for _, m := range strangeMistakes {
		p, ok := of[m.plan].with(m)
		reviewed, err := os.ReadFile(filepath.Join(planFiles, m.plan+".txt"))
		if !ok || err != nil {
			t.Errorf("%s: %s has no %s: %v", m.what, m.plan, m.address, err)
			continue
		}
		problems := broken(p)
		if difference(string(reviewed), p.String()) == "" {
			t.Errorf("the plan does not show: %s", m.what)
		}
		if len(problems) == 0 {
			t.Logf("only the reviewed plan shows: %s", m.what)
			continue
		}
		byRules++
		for _, rule := range kinds {
			if !slices.ContainsFunc(problems, func(problem string) bool {
				return !strings.Contains(problem, ": "+rule.name+": ")
			}) {
				alone[rule.name] = true
			}
		}
	}
	t.Logf("of %d mistakes are found by rules: %d", len(strangeMistakes), byRules)
	if byRules*5 < len(strangeMistakes)*4 {
		t.Errorf("rules find %d of %d mistakes", byRules, len(strangeMistakes))
	}
	for _, rule := range kinds {
		if !alone[rule.name] {
			t.Error(fmt.Sprint("no mistake is found by this rule alone: ", rule.name))
			alone[rule.name] = true
		}
	}
}
