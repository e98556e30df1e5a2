package tests

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/leasehold-dev/leasehold/contracts"
	"github.com/leasehold-dev/leasehold/functions/httpapi"
	"github.com/leasehold-dev/leasehold/functions/metrics"
	"github.com/leasehold-dev/leasehold/functions/settings"
)

// kinds are rules for kinds of resources: what holds state, a secret or an audit event, and what must be noticed, whatever
// it is called. They look at all resources of a plan, so that one that is added has them, too.
var kinds = []aRule{
	// Encryption, and the right to it.
	{"what is kept is encrypted", []string{"aws_sqs_queue"}, func(_ *plan, v map[string]any) string {
		return unless(v["sqs_managed_sse_enabled"] == true || v["kms_master_key_id"] != nil, "messages are in the clear")
	}},
	{"what is kept is encrypted", []string{"aws_sns_topic"}, func(_ *plan, v map[string]any) string {
		return unless(v["kms_master_key_id"] != nil, "messages are in the clear")
	}},
	{"what is kept is encrypted", []string{"aws_kinesis_firehose_delivery_stream"},
		func(_ *plan, v map[string]any) string {
			return unless(at(v, "server_side_encryption", 0, "enabled") == true, "records are in the clear")
		}},
	{"what is kept is encrypted", []string{"aws_dynamodb_table"}, func(_ *plan, v map[string]any) string {
		return unless(at(v, "server_side_encryption", 0, "enabled") == true, "it has AWS's own key, which no one can look at")
	}},
	{"what is kept is encrypted", []string{"aws_s3_bucket_server_side_encryption_configuration"},
		func(_ *plan, v map[string]any) string {
			by := at(v, "rule", 0, "apply_server_side_encryption_by_default", 0)
			algorithm, key := text(at(by, "sse_algorithm")), at(by, "kms_master_key_id")
			return unless(algorithm == "AES256" && key == nil || algorithm == "aws:kms" && key != nil,
				fmt.Sprintf("%q with the key %v", algorithm, key))
		}},
	{"a bucket has its guards", []string{"aws_s3_bucket"}, func(p *plan, v map[string]any) string {
		for _, kind := range []string{"aws_s3_bucket_server_side_encryption_configuration",
			"aws_s3_bucket_public_access_block", "aws_s3_bucket_lifecycle_configuration"} {
			if !slices.ContainsFunc(p.of(kind), func(r madeResource) bool {
				return strings.HasPrefix(fmt.Sprint(r.values["bucket"]), "aws_s3_bucket.") || r.values["bucket"] == v["bucket"]
			}) {
				return "it has no " + kind
			}
		}
		return ""
	}},
	{"who uses a key may", []string{"aws_iam_role_policy"}, mayUseKey},
	{"requests without TLS are refused", []string{"aws_sqs_queue"}, func(_ *plan, v map[string]any) string {
		arn := "arn:aws:sqs:" + region + ":" + account + ":" + text(v["name"])
		return unless(v["policy"] == nil && v["kms_master_key_id"] == nil && !strings.Contains(text(v["name"]), "-") ||
			slices.ContainsFunc(statements(v), func(s statement) bool {
				return s.Effect == "Deny" && slices.Contains(s.Action, "sqs:*") && slices.Contains(s.Resource, arn) &&
					jsonText(s.Principal) == `{"AWS":"*"}` && s.Condition["Bool"]["aws:SecureTransport"] == "false"
			}), "they are accepted")
	}},

	// Alarms that can fire.
	{"an alarm is driven by a datum", []string{"aws_cloudwatch_metric_alarm"}, driven},
	{"an alarm is driven by a datum", []string{"aws_cloudwatch_log_metric_filter"}, func(_ *plan, v map[string]any) string {
		n, err := strconv.ParseFloat(text(at(v, "metric_transformation", 0, "value")), 64)
		return unless(err == nil && n > 0, "each line counts as "+text(at(v, "metric_transformation", 0, "value")))
	}},
	{"an alarm is driven by a datum", []string{"google_monitoring_alert_policy"}, drivenOfGoogle},

	// What holds state.
	{"state is not destroyed by the way", []string{"aws_dynamodb_table"}, func(_ *plan, v map[string]any) string {
		return unless(v["deletion_protection_enabled"] == true && at(v, "point_in_time_recovery", 0, "enabled") == true,
			"it has no deletion protection, or no recovery")
	}},
	{"state is not destroyed by the way", []string{"google_firestore_database"}, func(p *plan, v map[string]any) string {
		return unless((v["delete_protection_state"] == "DELETE_PROTECTION_ENABLED" ||
			p.variables["delete_protection"] == false) && v["type"] == "FIRESTORE_NATIVE",
			fmt.Sprint("it is ", v["delete_protection_state"], ", ", v["type"]))
	}},
	{"state is not destroyed by the way", nil, func(_ *plan, v map[string]any) string {
		sources := strings.HasSuffix(text(v["name"]), "-sources") // releases have them
		return unless(v["force_destroy"] != true || sources, "it is removed with all that is in it")
	}},

	// Doors.
	{"no public door", []string{"aws_s3_bucket_public_access_block"}, func(_ *plan, v map[string]any) string {
		for _, name := range []string{"block_public_acls", "block_public_policy", "ignore_public_acls",
			"restrict_public_buckets"} {
			if v[name] != true {
				return fmt.Sprint(name, " is ", v[name])
			}
		}
		return ""
	}},
	{"no public door", []string{"aws_lambda_permission"}, func(_ *plan, v map[string]any) string {
		return unless(strings.HasSuffix(text(v["principal"]), ".amazonaws.com"), fmt.Sprint(v["principal"], " may call it"))
	}},
	{"no public door", []string{"aws_apigatewayv2_route"}, func(p *plan, v map[string]any) string {
		verifies := slices.ContainsFunc(p.of("aws_lambda_function"), func(f madeResource) bool {
			return f.values["handler"] == "api" && environmentOf(f.values)["LEASEHOLD_AUTH_ISSUER"] != nil
		})
		t := text(v["authorization_type"])
		return unless(v["route_key"] != "$default" || t == "AWS_IAM" || t == "JWT" && v["authorizer_id"] != nil ||
			t == "NONE" && verifies || len(p.of("aws_lambda_function")) == 0, "nothing verifies callers")
	}},
	{"no wide origin", nil, func(_ *plan, v map[string]any) string {
		for _, name := range []string{"cors_configuration", "cors"} {
			c := jsonText(at(v, name, 0))
			if strings.Contains(c, `"*"`) && strings.Contains(c, "origin") {
				return "pages of every origin may call it"
			}
		}
		for origin := range strings.SplitSeq(text(environmentOf(v)["LEASEHOLD_CORS_ORIGINS"]), ",") {
			if err := httpapi.CheckOrigin(origin); origin != "" && err != nil {
				return fmt.Sprint("the origin ", origin, " ", err)
			}
		}
		return ""
	}},

	// Audit events.
	{"audit events are passed on", []string{"aws_cloudwatch_log_subscription_filter"},
		func(_ *plan, v map[string]any) string {
			want := fmt.Sprintf(`{ $.message = %q && $.audit.schema = * }`, httpapi.AuditMessage)
			return unless(v["filter_pattern"] == want, fmt.Sprint("only ", v["filter_pattern"]))
		}},
	{"audit events are passed on", []string{"google_logging_project_sink"}, func(p *plan, v map[string]any) string {
		name, _ := strings.CutSuffix(text(v["name"]), "-audit")
		want := fmt.Sprintf(`resource.type="cloud_run_revision" AND resource.labels.service_name=~"^%s-(api|tasks|sweep)$" `+
			`AND jsonPayload.message=%q AND jsonPayload.audit.schema>=%d`, name, httpapi.AuditMessage, contracts.AuditSchema)
		if v["exclusions"] != nil || text(v["filter"]) != want {
			return fmt.Sprint("only ", v["filter"], " without ", v["exclusions"])
		}
		return unless(slices.ContainsFunc(p.of("google_logging_project_bucket_config"), func(b madeResource) bool {
			return strings.HasSuffix(text(v["destination"]), "/buckets/"+text(b.values["bucket_id"]))
		}), fmt.Sprint("they go to ", v["destination"]))
	}},
	{"audit events are locked where that was asked for", []string{"aws_s3_bucket"}, lockedBucket},
	{"audit events are locked where that was asked for", []string{"google_logging_project_bucket_config"},
		func(p *plan, v map[string]any) string {
			return unless((v["locked"] == true) == p.locksAudit(), fmt.Sprint("locked is ", v["locked"]))
		}},
	{"audit events are written", []string{"aws_lambda_function"}, func(p *plan, v map[string]any) string {
		c := asMap(at(v, "logging_config", 0))
		var wrong []string
		if level := c["application_log_level"]; level != nil && level != "INFO" && level != "DEBUG" && level != "TRACE" ||
			c["log_format"] == "Text" {
			wrong = append(wrong, fmt.Sprintf("Lambda leaves them out at %v, as %v", level, c["log_format"]))
		}
		if passed := p.of("aws_kinesis_firehose_delivery_stream"); len(passed) > 0 &&
			!p.has("aws_cloudwatch_log_subscription_filter", "log_group_name", c["log_group"]) {
			wrong = append(wrong, fmt.Sprint("nothing passes those of ", c["log_group"], " on"))
		}
		return strings.Join(wrong, "; ")
	}},

	// Size and time.
	{"memory is freed in time", []string{"google_cloud_run_v2_service", "google_cloudfunctions2_function"},
		func(_ *plan, v map[string]any) string {
			has := text(at(v, "template", 0, "containers", 0, "resources", 0, "limits", "memory"))
			if has == "" {
				has = text(at(v, "service_config", 0, "available_memory"))
			}
			limit := text(environmentOf(v)["GOMEMLIMIT"])
			return unless(mebibytes(limit) > 0 && mebibytes(limit) <= 0.95*mebibytes(has),
				fmt.Sprintf("GOMEMLIMIT is %q, and the instance has %q", limit, has))
		}},
	{"secrets are the latest", nil, func(_ *plan, v map[string]any) string { return pinned(v) }},
	{"no secret is in the state", nil, func(_ *plan, v map[string]any) string {
		for name, value := range environmentOf(v) {
			if s, ok := settings.Find(name); ok && s.Secret && value != nil {
				return name + " has its value in it"
			}
		}
		return unless(v["secret_data"] == nil && v["secret_string"] == nil, "the value is in it")
	}},
	{"what is kept ends", []string{"aws_cloudwatch_log_group"}, func(_ *plan, v map[string]any) string {
		return unless(number(v["retention_in_days"]) >= 1, "it is kept for ever")
	}},
	{"what is kept ends", []string{"aws_s3_bucket_lifecycle_configuration"}, func(_ *plan, v map[string]any) string {
		r := at(v, "rule", 0)
		return unless(number(at(r, "expiration", 0, "days")) >= 1 && at(r, "status") == "Enabled" &&
			len(asMap(at(r, "filter", 0))) == 0 && at(r, "prefix") == nil, "not all of it has an end")
	}},
	{"what is kept ends", []string{"google_artifact_registry_repository"}, func(_ *plan, v map[string]any) string {
		return unless(strings.Contains(jsonText(v["cleanup_policies"]), `"DELETE"`), "it is kept for ever")
	}},
	{"what is kept ends", []string{"google_storage_bucket"}, func(_ *plan, v map[string]any) string {
		return unless(at(v, "versioning", 0, "enabled") != true || v["lifecycle_rule"] != nil,
			"versions are kept for ever")
	}},
	{"what is kept ends", []string{"google_logging_project_bucket_config"}, func(_ *plan, v map[string]any) string {
		return unless(number(v["retention_days"]) >= 1, "it is kept for 30 days, whoever asks for more")
	}},
	{"what is kept ends", []string{"aws_dynamodb_table"}, func(_ *plan, v map[string]any) string {
		return unless(at(v, "ttl", 0, "enabled") == true, "what has expired is kept for ever")
	}},
	{"the program starts", nil, starts},
	{"work is tried again, and once", []string{"aws_lambda_event_source_mapping"}, func(p *plan, v map[string]any) string {
		var f map[string]any
		for _, r := range p.of("aws_lambda_function") {
			if r.values["function_name"] == p.referred(v["function_name"])["function_name"] { // that of the alias
				f = r.values
			}
		}
		most := number(at(v, "scaling_config", 0, "maximum_concurrency"))
		reserved := number(f["reserved_concurrent_executions"])
		queue := p.referred(v["event_source_arn"])
		var wrong []string
		if !slices.Contains(texts(v["function_response_types"]), "ReportBatchItemFailures") {
			wrong = append(wrong, "without ReportBatchItemFailures messages are lost")
		}
		if queue != nil && f != nil && number(queue["visibility_timeout_seconds"]) < 6*number(f["timeout"]) {
			wrong = append(wrong, "messages come back before six times the timeout")
		}
		if queue != nil && queue["redrive_policy"] == nil {
			wrong = append(wrong, "it has no dead-letter queue")
		}
		if reserved >= 0 && most > reserved {
			wrong = append(wrong, fmt.Sprintf("%v at once, and %v are reserved: the rest is throttled", most, reserved))
		}
		return strings.Join(wrong, "; ")
	}},
	{"a queue does not give up before the program", []string{"google_cloud_tasks_queue"},
		func(_ *plan, v map[string]any) string {
			n := number(at(v, "retry_config", 0, "max_attempts"))
			return unless(n == -1 || n >= 5, fmt.Sprint("after ", n, " attempts"))
		}},
	{"a flood has a bound", []string{"google_cloud_run_v2_service", "google_cloudfunctions2_function"},
		func(_ *plan, v map[string]any) string {
			n := at(v, "template", 0, "scaling", 0, "max_instance_count")
			if n == nil {
				n = at(v, "service_config", 0, "max_instance_count")
			}
			return unless(number(n) >= 1, "instances have no bound")
		}},
	{"a flood has a bound", []string{"aws_apigatewayv2_stage"}, func(_ *plan, v map[string]any) string {
		return unless(number(at(v, "default_route_settings", 0, "throttling_rate_limit")) >= 1, "requests have no bound")
	}},
	{"logs have no tokens", []string{"aws_apigatewayv2_stage"}, func(_ *plan, v map[string]any) string {
		return unless(!regexp.MustCompile(`(?i)authorization|header`).MatchString(
			text(at(v, "access_log_settings", 0, "format"))), "they have those of callers")
	}},
	{"requests go to what was deployed", []string{"google_cloud_run_v2_service"}, func(_ *plan, v map[string]any) string {
		return unless(at(v, "traffic", 0, "type") == "TRAFFIC_TARGET_ALLOCATION_TYPE_LATEST" &&
			number(at(v, "traffic", 0, "percent")) == 100, fmt.Sprint("they go to ", v["traffic"]))
	}},
	{"the sweep is called", []string{"google_cloud_scheduler_job"}, func(_ *plan, v map[string]any) string {
		return unless(at(v, "http_target", 0, "http_method") == "POST" && cron(text(v["schedule"])) == nil &&
			strings.HasSuffix(text(at(v, "http_target", 0, "uri")), "/internal/sweep"), fmt.Sprint(v["http_target"]))
	}},
}

func unless(ok bool, wrong string) string {
	if ok {
		return ""
	}
	return wrong
}

func asMap(v any) map[string]any {
	m, _ := v.(map[string]any)
	return m
}

// locksAudit reports whether audit events must stay for their time: where a variable says so, and in production unless
// one says no. What is locked cannot be unlocked, so that nothing else is.
func (p *plan) locksAudit() bool {
	asked := p.variables["audit_locked"] // a text, where the command line has it
	return fmt.Sprint(asked) == "true" || asked == nil && strings.Contains(p.name, "examples/production/")
}

// lockedBucket makes sure that no object of the audit's bucket can be removed before its time, and that each is then.
func lockedBucket(p *plan, _ map[string]any) string {
	locks := p.of("aws_s3_bucket_object_lock_configuration")
	if !p.locksAudit() {
		return unless(len(locks) == 0, "it is locked, and no one can take that back")
	}
	for _, kind := range []string{"aws_s3_bucket_object_lock_configuration", "aws_s3_bucket_versioning",
		"aws_s3_bucket_lifecycle_configuration"} {
		if len(p.of(kind)) == 0 {
			return "it has no " + kind
		}
	}
	rule := at(p.of("aws_s3_bucket_lifecycle_configuration")[0].values, "rule", 0)
	retention := at(locks[0].values, "rule", 0, "default_retention", 0)
	switch days := at(rule, "expiration", 0, "days"); {
	case at(retention, "mode") != "COMPLIANCE":
		return fmt.Sprint("who may do all can remove objects: the mode is ", at(retention, "mode"))
	case at(retention, "days") != days:
		return fmt.Sprint("objects are locked for ", at(retention, "days"), " of ", days, " days")
	case at(p.of("aws_s3_bucket_versioning")[0].values, "versioning_configuration", 0, "status") != "Enabled":
		return "it has no versions, and versions are what is locked"
	case number(at(rule, "noncurrent_version_expiration", 0, "noncurrent_days")) < 1:
		return "objects that have expired are kept as versions"
	}
	return ""
}

// mayUseKey makes sure that a role that reads or writes what a key encrypts may use the key.
func mayUseKey(p *plan, v map[string]any) string {
	all := jsonText(statements(v))
	may := func(key any, through string, actions ...string) string {
		for _, action := range actions {
			if !slices.ContainsFunc(statements(v), func(s statement) bool {
				return s.Effect == "Allow" && slices.Contains(s.Action, action) && slices.Contains(s.Resource, text(key)) &&
					s.Condition["StringEquals"]["kms:ViaService"] == through+"."+region+".amazonaws.com"
			}) {
				return fmt.Sprint("it may not ", action, " with ", key)
			}
		}
		return ""
	}
	if key := p.variables["kms_key_arn"]; key != nil && strings.Contains(all, `"dynamodb:`) {
		if wrong := may(key, "dynamodb", "kms:Decrypt", "kms:DescribeKey"); wrong != "" {
			return wrong
		}
	}
	for _, e := range p.of("aws_s3_bucket_server_side_encryption_configuration") {
		key := at(e.values, "rule", 0, "apply_server_side_encryption_by_default", 0, "kms_master_key_id")
		if key != nil && strings.Contains(all, `"s3:PutObject"`) {
			return may(key, "s3", "kms:Decrypt", "kms:GenerateDataKey")
		}
	}
	return ""
}

// statisticOf is the statistic by which a metric of AWS says that something is wrong.
func statisticOf(namespace, _ string) string {
	if namespace == "AWS/SQS" {
		return "Maximum"
	}
	return "Sum"
}

// driven makes sure that a metric of AWS has a datum that raises the alarm: with exactly these dimensions, with values
// that they can have, by a statistic that shows it.
func driven(p *plan, v map[string]any) string {
	dimensions, _ := v["dimensions"].(map[string]any)
	namespace, metric := text(v["namespace"]), text(v["metric_name"])
	if n := number(v["datapoints_to_alarm"]); n > number(v["evaluation_periods"]) {
		return fmt.Sprint("it waits for ", n, " data in ", v["evaluation_periods"], " periods")
	}
	i := slices.IndexFunc(metrics.Table, func(i metrics.Instrument) bool { return i.Name == metric })
	if i < 0 {
		return unless(v["extended_statistic"] == nil && v["statistic"] == statisticOf(namespace, metric),
			fmt.Sprint(metric, " by ", v["statistic"], v["extended_statistic"]))
	}
	x := metrics.Table[i]
	switch histogram := x.Kind == metrics.Histogram; {
	case !histogram && (v["statistic"] != "Sum" || v["extended_statistic"] != nil) && x.Kind != metrics.Gauge,
		histogram && v["extended_statistic"] == nil && v["statistic"] != "Maximum" && v["statistic"] != "Average":
		return fmt.Sprint(metric, " by ", v["statistic"], v["extended_statistic"])
	case !slices.ContainsFunc(p.of("aws_lambda_function"), func(f madeResource) bool {
		return environmentOf(f.values)["LEASEHOLD_METRICS_EMF"] == "true"
	}):
		return "no function writes metrics"
	}
	got := slices.Sorted(maps.Keys(dimensions))
	want := slices.Sorted(slices.Values(x.CloudWatch))
	if !slices.Equal(got, want) {
		return fmt.Sprint(metric, " has the dimensions ", want, ", and not ", got)
	}
	for name, value := range dimensions {
		if !emitted(x, name, text(value)) {
			return fmt.Sprint("no ", name, " of ", metric, " is ", value)
		}
	}
	return ""
}

// emitted reports whether an attribute of an instrument can have a value: one that the table of instruments names, or
// for outcomes of requests a code.
func emitted(x metrics.Instrument, attribute, value string) bool {
	i := slices.IndexFunc(metrics.AttributeTable, func(a metrics.Attribute) bool { return a.Name == attribute })
	if i < 0 {
		return false
	}
	said := x.Help + metrics.AttributeTable[i].Values + x.Question
	if strings.Contains(said, "`"+value+"`") {
		return true
	}
	if attribute == "leasehold.outcome" && (x.Name == "leasehold.operations" || x.Name == "leasehold.audit.events") {
		return slices.Contains(contracts.Codes(), contracts.Code(value)) || value == "ok"
	}
	return attribute == "db.operation.name" && slices.Contains([]string{"get", "write", "query"}, value)
}

var (
	ofLabels     = regexp.MustCompile(`([a-z_]+)\{([^}]*)\}`)
	outcomeIs    = regexp.MustCompile(`leasehold_outcome=~?"([A-Za-z_|]+)"`)
	aggregatesOf = map[string][2][]string{
		"run.googleapis.com/request_count":                   {{"ALIGN_RATE", "ALIGN_DELTA"}, {"REDUCE_SUM", "REDUCE_MAX"}},
		"run.googleapis.com/request_latencies":               {{"ALIGN_PERCENTILE_95", "ALIGN_PERCENTILE_99"}, {"REDUCE_MAX"}},
		"cloudtasks.googleapis.com/queue/depth":              {{"ALIGN_MEAN", "ALIGN_MAX"}, {"REDUCE_SUM", "REDUCE_MAX"}},
		"cloudtasks.googleapis.com/queue/task_attempt_count": {{"ALIGN_RATE", "ALIGN_DELTA"}, {"REDUCE_SUM", "REDUCE_MAX"}},
	}
)

// drivenOfGoogle is the same for Cloud Monitoring.
func drivenOfGoogle(_ *plan, v map[string]any) string {
	c := at(v, "conditions", 0)
	query := text(at(c, "condition_prometheus_query_language", 0, "query"))
	for _, m := range ofLabels.FindAllStringSubmatch(query, -1) {
		i := slices.IndexFunc(metrics.Table, func(i metrics.Instrument) bool {
			return strings.HasPrefix(m[1], metrics.PrometheusName(i))
		})
		for _, values := range outcomeIs.FindAllStringSubmatch(m[2], -1) {
			for value := range strings.SplitSeq(values[1], "|") {
				if i >= 0 && !emitted(metrics.Table[i], "leasehold.outcome", value) {
					return fmt.Sprint("no leasehold.outcome of ", m[1], " is ", value)
				}
			}
		}
	}
	if query != "" {
		return unless(at(c, "condition_prometheus_query_language", 0, "disable_metric_validation") == true &&
			seconds(at(c, "condition_prometheus_query_language", 0, "duration")) <= 3600,
			"it cannot be made before its metric is there, or waits for hours")
	}
	for _, name := range []string{"condition_threshold", "condition_absent"} {
		x := at(c, name, 0)
		if x == nil {
			continue
		}
		metric := regexp.MustCompile(`metric.type = "([^"]*)"`).FindStringSubmatch(text(at(x, "filter")))
		if metric == nil {
			return "it is about no metric"
		}
		aligner, reducer := text(at(x, "aggregations", 0, "per_series_aligner")),
			text(at(x, "aggregations", 0, "cross_series_reducer"))
		by := aggregatesOf[metric[1]]
		if !slices.Contains(by[0], aligner) || !slices.Contains(by[1], reducer) {
			return fmt.Sprint(metric[1], " by ", aligner, " and ", reducer)
		}
		if of := metricsOfGoogle[metric[1]]; !strings.Contains(text(at(x, "filter")), `resource.type = "`+of+`"`) {
			return fmt.Sprint(metric[1], " is not of what it is about: ", at(x, "filter"))
		}
	}
	return ""
}

// mebibytes reads 921MiB, 512Mi and 1Gi.
func mebibytes(size string) float64 {
	n := strings.TrimRight(size, "GMiB")
	f, err := strconv.ParseFloat(n, 64)
	switch unit := strings.TrimSuffix(size[len(n):], "B"); {
	case err != nil:
		return -1
	case unit == "Gi":
		return f * 1024
	case unit != "Mi":
		return -1
	}
	return f
}

// pinned names a version of a secret that stays when there is a newer one.
func pinned(v any) string {
	switch v := v.(type) {
	case map[string]any:
		_, isSecret := v["secret"]
		for name, item := range v {
			versions := []any{at(item, 0, "version"), at(item, 0, "items", 0, "version")}
			if name == "versions" || name == "items" || name == "secret" || name == "secret_key_ref" {
				for _, version := range versions {
					if version != nil && version != "latest" {
						return fmt.Sprint("its secret is version ", version)
					}
				}
				if isSecret && name == "versions" && versions[0] == nil {
					return "its secret has no version"
				}
			}
			if wrong := pinned(item); wrong != "" {
				return wrong
			}
		}
	case []any:
		for _, item := range v {
			if wrong := pinned(item); wrong != "" {
				return wrong
			}
		}
	}
	return ""
}

// starts has the program read the environment of a function, as far as a plan knows it.
func starts(p *plan, v map[string]any) string {
	environment := environmentOf(v)
	entry, ok := handlers[text(v["handler"])]
	if !ok {
		entry, ok = entries[text(at(v, "build_config", 0, "entry_point"))]
	}
	image := at(v, "template", 0, "containers", 0, "image") != nil
	if image {
		entry, ok = settings.Serve, true
	}
	if !ok || v["handler"] != nil && p.table() == nil {
		return ""
	}
	var environ []string
	for name, value := range environment {
		if _, unknown := value.(reference); unknown {
			return ""
		}
		environ = append(environ, name+"="+text(value))
	}
	if v["handler"] == nil {
		environ = append(environ, "K_SERVICE=x", "PORT=8080")
	}
	_, err := settings.Load(entry, environ, nil)
	if err != nil {
		return err.Error()
	}
	for name := range environment {
		if s, known := settings.Find(name); known && !s.Entries.Has(entry) {
			return "it does not take " + name
		}
	}
	return ""
}
