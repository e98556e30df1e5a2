package tests

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/leasehold-dev/leasehold/functions/metrics"
	"github.com/leasehold-dev/leasehold/functions/settings"
)

// aRule says what is wrong with a resource, whatever the deployment: "" is nothing.
type aRule struct {
	name  string
	kinds []string // of resources; none is all
	check func(p *plan, v map[string]any) string
}

// rules hold in each plan of both clouds.
var rules = []aRule{
	{"an alarm acts", []string{"aws_cloudwatch_metric_alarm"}, func(p *plan, v map[string]any) string {
		if v["actions_enabled"] == false || !asked(p, "alarm_topic_arns", v["alarm_actions"]) ||
			!asked(p, "alarm_topic_arns", v["ok_actions"]) {
			return fmt.Sprint("it tells ", v["alarm_actions"])
		}
		return ""
	}},
	{"an alarm acts", []string{"google_monitoring_alert_policy"}, func(p *plan, v map[string]any) string {
		_, channel := p.variables["on_call"]
		if v["notification_channels"] == nil && channel || !asked(p, "notification_channels", v["notification_channels"]) {
			return fmt.Sprint("it tells ", v["notification_channels"])
		}
		return ""
	}},
	{"an alarm is about a metric of what is planned", []string{"aws_cloudwatch_metric_alarm"}, aboutPlanned},
	{"an alarm is raised by what can be", []string{"aws_cloudwatch_metric_alarm"}, raised},
	{"an alarm is about a metric of what is planned", []string{"google_monitoring_alert_policy"}, aboutPlannedOfGoogle},
	{"a filter finds errors of the program", []string{"aws_cloudwatch_log_metric_filter"},
		func(p *plan, v map[string]any) string {
			if v["pattern"] != `{ $.level = "ERROR" }` || !p.has("aws_cloudwatch_log_group", "name", v["log_group_name"]) {
				return fmt.Sprint("no line of ", v["log_group_name"], " is ", v["pattern"])
			}
			return ""
		}},
	{"a filter asks for what lines have", nil, func(_ *plan, v map[string]any) string {
		for _, filter := range []any{v["pattern"], v["filter_pattern"], v["filter"],
			at(v, "conditions", 0, "condition_matched_log", 0, "filter")} {
			for _, field := range ofLine.FindAllStringSubmatch(text(filter), -1) {
				if !slices.Contains([]string{"level", "message", "audit.schema"}, field[1]) {
					return "no line has " + field[1]
				}
			}
		}
		return ""
	}},
	{"nothing is open to the public beside invokers", nil, private},
	{"policies allow no more than they name", nil, named},
	{"nothing is turned off", nil, func(_ *plan, v map[string]any) string { return turnedOff(v) }},
	{"code is deployed by its hash", nil,
		func(p *plan, v map[string]any) string {
			list, _ := at(v, "template", 0, "containers").([]any)
			images := []any{v["image_uri"]}
			for i := range list {
				images = append(images, at(list, i, "image"))
			}
			for _, image := range images {
				if image != nil && !byDigest.MatchString(text(image)) {
					return fmt.Sprint("the tag of ", image, " can move")
				}
				if want := p.variables["image"]; image != nil && want != nil && image != want {
					return fmt.Sprint("it is ", image)
				}
			}
			if v["filename"] != nil && v["source_code_hash"] == nil {
				return "no source_code_hash"
			}
			if want := p.variables["package"]; v["filename"] != nil && want != nil && v["filename"] != want {
				return fmt.Sprint("it is ", v["filename"])
			}
			if v["source"] != nil && v["bucket"] != nil && !hidden.MatchString(text(v["name"])) {
				return "its name has no hash"
			}
			return ""
		}},
	{"what is called is the version that is meant", []string{"aws_lambda_function"},
		func(_ *plan, v map[string]any) string {
			if v["publish"] != true {
				return "no version is published"
			}
			return ""
		}},
	{"what is called is the version that is meant", []string{"aws_lambda_alias"},
		func(p *plan, v map[string]any) string {
			name := text(v["function_name"])
			want := at(p.variables["versions"], name[strings.LastIndex(name, "-")+1:])
			published, _ := v["function_version"].(reference)
			right := want != nil && v["function_version"] == want ||
				want == nil && strings.Contains(string(published), "aws_lambda_function.")
			if !right || v["routing_config"] != nil {
				return fmt.Sprintf("it is %v, and must be %v", v["function_version"], cmp.Or(want, "what was published"))
			}
			return ""
		}},
	{"functions are called by their alias", nil, func(_ *plan, v map[string]any) string { return unaliased(v) }},
	{"functions are called by their alias", []string{"aws_lambda_permission", "aws_lambda_function_url",
		"aws_lambda_function_event_invoke_config"}, func(_ *plan, v map[string]any) string {
		if q := cmp.Or(v["qualifier"], "$LATEST"); q == "$LATEST" {
			return "it is about $LATEST"
		}
		return ""
	}},
	{"a restart helps", nil, func(_ *plan, v map[string]any) string {
		for _, name := range []string{"liveness_probe", "startup_probe"} {
			if path := at(v, "template", 0, "containers", 0, name, 0, "http_get", 0, "path"); path != nil &&
				path != "/healthz" {
				return fmt.Sprint("its ", name, " asks for ", path)
			}
		}
		return ""
	}},
	{"what was lost can be had for 7 days", nil, func(_ *plan, v map[string]any) string {
		if r := only(v, "point_in_time_recovery"); r != nil &&
			(r["enabled"] != true || r["recovery_period_in_days"] != nil && number(r["recovery_period_in_days"]) < 7) {
			return fmt.Sprint("recovery is ", r)
		}
		if r, ok := v["retention"]; ok && seconds(r) < 7*24*3600 {
			return fmt.Sprint("backups are kept for ", r)
		}
		if strings.HasSuffix(text(v["name"]), "-dead") && number(v["message_retention_seconds"]) < 7*24*3600 {
			return fmt.Sprint("dead letters are kept for ", v["message_retention_seconds"], " s")
		}
		return ""
	}},
	{"audit events are kept as long as was asked for", []string{"aws_s3_bucket_lifecycle_configuration",
		"google_logging_project_bucket_config"}, func(p *plan, v map[string]any) string {
		days := v["retention_days"]
		if days == nil {
			days = at(v, "rule", 0, "expiration", 0, "days")
		}
		if want := p.variables["audit_retention_days"]; want != nil && fmt.Sprint(days) != fmt.Sprint(want) {
			return fmt.Sprint("they are kept for ", days, " days")
		}
		return ""
	}},
	{"what expires has a time to live of its own", []string{"aws_dynamodb_table", "google_firestore_field"},
		func(_ *plan, v map[string]any) string {
			if v["field"] == "_keep_until" && v["ttl_config"] == nil {
				return "it has none"
			}
			for _, name := range []any{at(v, "ttl", 0, "attribute_name"), v["field"]} {
				if name != nil && name != "*" && name != "_keep_until" {
					return fmt.Sprint("it is ", name)
				}
			}
			return ""
		}},
	{"the program reads its environment", nil, func(_ *plan, v map[string]any) string {
		for name := range environmentOf(v) {
			if _, known := settings.Find(name); strings.HasPrefix(name, "LEASEHOLD_") && !known {
				return name + " is no setting"
			}
		}
		return ""
	}},
	{"everything is in the region that was given", nil, func(p *plan, v map[string]any) string {
		for _, name := range []string{"location", "region"} {
			if want := p.variables["region"]; want != nil && v[name] != nil && v[name] != want {
				return fmt.Sprint("it is in ", v[name])
			}
		}
		return ""
	}},
	{"nothing is cut off", nil, inTime},
	{"a token is for the service that is called", []string{"google_cloud_scheduler_job"},
		func(_ *plan, v map[string]any) string {
			audience := text(at(v, "http_target", 0, "oidc_token", 0, "audience"))
			if address, ok := strings.CutPrefix(audience, "https://"); ok && strings.Contains(address, "/") {
				return "its audience is " + audience
			}
			return ""
		}},
	{"services of AWS call for what is planned", []string{"aws_lambda_permission"},
		func(_ *plan, v map[string]any) string {
			if v["source_arn"] == nil && strings.HasSuffix(text(v["principal"]), ".amazonaws.com") {
				return fmt.Sprint(v["principal"], " may call it for every account")
			}
			return ""
		}},
	{"a role is for less than the project", []string{"google_project_iam_member"},
		func(_ *plan, v map[string]any) string {
			if only(v, "condition") == nil && v["role"] != "roles/logging.logWriter" {
				return fmt.Sprint(v["role"], " has no condition")
			}
			return ""
		}},
	{"boundaries are honoured", []string{"aws_iam_role"}, func(p *plan, v map[string]any) string {
		if want := p.variables["permissions_boundary_arn"]; want != nil && v["permissions_boundary"] != want {
			return fmt.Sprint("its boundary is ", v["permissions_boundary"])
		}
		return ""
	}},
	{"keys are honoured", []string{"aws_cloudwatch_log_group"}, func(p *plan, v map[string]any) string {
		if want := p.variables["log_kms_key_arn"]; want != nil && v["kms_key_id"] != want {
			return fmt.Sprint("its key is ", v["kms_key_id"])
		}
		return ""
	}},
	{"keys are honoured", []string{"aws_s3_bucket_server_side_encryption_configuration"},
		func(p *plan, v map[string]any) string {
			key := at(v, "rule", 0, "apply_server_side_encryption_by_default", 0, "kms_master_key_id")
			if want := p.variables["audit_kms_key_arn"]; want != nil && key != want {
				return fmt.Sprint("its key is ", key)
			}
			return ""
		}},
	{"keys are honoured", []string{"aws_dynamodb_table"}, func(p *plan, v map[string]any) string {
		if e := only(v, "server_side_encryption"); e["enabled"] != true ||
			p.variables["kms_key_arn"] != nil && e["kms_key_arn"] != p.variables["kms_key_arn"] {
			return fmt.Sprint("its encryption is ", e)
		}
		return ""
	}},
	{"logs and messages are kept as long as was asked for", []string{"aws_cloudwatch_log_group", "aws_sqs_queue"},
		func(p *plan, v map[string]any) string {
			days := p.variables["log_retention_days"]
			if kept := number(v["retention_in_days"]); v["message_retention_seconds"] == nil && kept < 1 ||
				v["retention_in_days"] != nil && days != nil && kept != number(days) {
				return fmt.Sprint("they are kept for ", v["retention_in_days"], " days")
			}
			if m := number(v["message_retention_seconds"]); v["message_retention_seconds"] != nil && m < 86400 {
				return fmt.Sprint("they are kept for ", m, " s")
			}
			return ""
		}},
	{"messages are tried again before they are dead", []string{"aws_sqs_queue"}, func(p *plan, v map[string]any) string {
		var redrive struct {
			DeadLetterTargetArn string
			MaxReceiveCount     float64
		}
		if v["redrive_policy"] == nil {
			return ""
		}
		if err := json.Unmarshal([]byte(text(v["redrive_policy"])), &redrive); err != nil {
			return err.Error()
		}
		_, dead, _ := strings.Cut(redrive.DeadLetterTargetArn, account+":")
		if redrive.MaxReceiveCount < 10 || dead == v["name"] || !p.has("aws_sqs_queue", "name", dead) {
			return fmt.Sprintf("after %v times they are in %s", redrive.MaxReceiveCount, dead)
		}
		return ""
	}},
	{"what fails is kept beside what waits", nil, func(_ *plan, v map[string]any) string {
		for _, to := range []any{at(v, "dead_letter_config", 0, "arn"),
			at(v, "destination_config", 0, "on_failure", 0, "destination")} {
			if to != nil && !strings.Contains(fmt.Sprint(to), "dead") {
				return fmt.Sprint("it goes to ", to)
			}
		}
		if from := v["event_source_arn"]; from != nil && strings.Contains(fmt.Sprint(from), "dead") {
			return fmt.Sprint("it comes from ", from)
		}
		return ""
	}},
	{"only subjects that are given deploy", []string{"google_iam_workload_identity_pool_provider"},
		func(p *plan, v map[string]any) string {
			subjects, _ := p.variables["subjects"].([]any)
			for _, s := range subjects {
				if !strings.Contains(text(v["attribute_condition"]), "assertion.sub in [") ||
					!strings.Contains(text(v["attribute_condition"]), text(s)) {
					return fmt.Sprint("the condition is ", v["attribute_condition"])
				}
			}
			return ""
		}},
	{"tokens are meant for whom the deployment names", []string{"aws_apigatewayv2_authorizer"},
		func(p *plan, v map[string]any) string {
			jwt, _ := p.variables["jwt"].(map[string]any)
			issuer, audience := jwt["issuer"], jwt["audience"]
			if jwt == nil {
				issuer, audience = p.variables["issuer"], []any{p.variables["audience"]}
			}
			c := only(v, "jwt_configuration")
			if c["issuer"] != issuer || fmt.Sprint(c["audience"]) != fmt.Sprint(audience) {
				return fmt.Sprint(c)
			}
			return ""
		}},
	{"names are those of the deployment", nil, func(p *plan, v map[string]any) string {
		want := text(p.variables["name"])
		if want == "" {
			return ""
		}
		for _, name := range []string{"alarm_name", "dashboard_name", "function_name", "account_id", "display_name"} {
			if got := text(v[name]); got != "" && !strings.Contains(got, want) && !strings.HasPrefix(got, "Leasehold: ") &&
				!strings.HasPrefix(got, "Tokens of ") {
				return fmt.Sprintf("its %s is %s", name, got)
			}
		}
		return ""
	}},
	{"nothing is destroyed by the way", nil, func(p *plan, v map[string]any) string {
		if v["deletion_protection_enabled"] == false ||
			v["delete_protection_state"] == "DELETE_PROTECTION_DISABLED" && p.variables["delete_protection"] != false {
			return "it has no protection"
		}
		if v["point_in_time_recovery_enablement"] == "POINT_IN_TIME_RECOVERY_DISABLED" &&
			p.variables["point_in_time_recovery"] != false {
			return "it has no recovery"
		}
		return ""
	}},
}

// broken are the rules that a plan breaks.
func broken(p *plan) (problems []string) {
	all := slices.Concat(rules, kinds)
	if p.template {
		all = rules
	}
	for _, r := range p.resources {
		for _, rule := range all {
			if rule.kinds != nil && !slices.Contains(rule.kinds, r.kind) {
				continue
			}
			if wrong := rule.check(p, r.values); wrong != "" {
				problems = append(problems, fmt.Sprintf("%s: %s: %s", r.address, rule.name, wrong))
			}
		}
	}
	for _, q := range p.of("aws_sqs_queue") {
		if name := text(q.values["name"]); strings.HasSuffix(name, "-dead") &&
			!p.alarmed("GreaterThanThreshold", "ApproximateNumberOfMessagesVisible", name) {
			problems = append(problems, q.address+": no alarm is about its dead letters")
		}
	}
	for _, r := range p.resources {
		if !p.missed(r) {
			problems = append(problems, r.address+": no alarm is about calls that are missing")
		}
	}
	problems = append(problems, p.unscheduled()...)
	of := map[string]string{} // accounts
	for _, r := range p.resources {
		account := text(cmp.Or(at(r.values, "template", 0, "service_account"),
			at(r.values, "service_config", 0, "service_account_email")))
		if account != "" && of[account] != "" {
			problems = append(problems, fmt.Sprintf("%s: it has the account %s of %s", r.address, account, of[account]))
		}
		of[account] = r.address
	}
	for _, name := range p.shown {
		problems = append(problems, "output "+name+": it shows a secret")
	}
	return problems
}

// unscheduled says which API has a processor only while it has requests, and no schedule that does what a server does
// between them: docs/guides/operations.md has the list.
func (p *plan) unscheduled() (problems []string) {
	for _, r := range p.resources {
		api, ok := strings.CutSuffix(text(cmp.Or(r.values["function_name"], r.values["name"])), "-api")
		if !ok {
			continue
		}
		scheduled := true
		switch r.kind {
		case "aws_lambda_function":
			scheduled = slices.ContainsFunc(p.of("aws_cloudwatch_event_target"), func(t madeResource) bool {
				return text(p.referred(t.values["arn"])["function_name"]) == api+"-sweep" &&
					p.has("aws_cloudwatch_event_rule", "name", t.values["rule"])
			})
		case "google_cloudfunctions2_function", "google_cloud_run_v2_service":
			scheduled = slices.ContainsFunc(p.of("google_cloud_scheduler_job"), func(j madeResource) bool {
				return strings.Contains(text(at(j.values, "http_target", 0, "uri")), "//"+api+"-sweep") &&
					p.has(r.kind, "name", api+"-sweep")
			})
		}
		if !scheduled {
			problems = append(problems, r.address+": nothing sweeps while it has no requests")
		}
	}
	return problems
}

// missed reports whether an alarm is raised when what a schedule or a queue calls is not called: there are no
// invocations, or messages wait. There is none without alerts, and for a schedule with hours or days of its own.
func (p *plan) missed(r madeResource) bool {
	name := text(r.values["name"])
	switch r.kind {
	case "aws_cloudwatch_event_rule":
		return slices.ContainsFunc(p.of("aws_cloudwatch_event_target"), func(t madeResource) bool {
			return t.values["rule"] == name &&
				p.alarmed("LessThanThreshold", "Invocations", text(p.referred(t.values["arn"])["function_name"]))
		})
	case "aws_lambda_event_source_mapping":
		return p.alarmed("GreaterThanThreshold", "ApproximateAgeOfOldestMessage",
			text(p.referred(r.values["event_source_arn"])["name"]))
	case "google_cloud_scheduler_job":
		return p.variables["alerts"] == false || !strings.HasSuffix(text(r.values["schedule"]), " * * * *") ||
			p.alerted("condition_absent", name, "request_count")
	case "google_cloud_tasks_queue":
		return p.variables["alerts"] == false || p.alerted("condition_threshold", name, "queue/depth")
	}
	return true
}

// alarmed reports whether an alarm is about a metric of one resource.
func (p *plan) alarmed(comparison, metric, of string) bool {
	return slices.ContainsFunc(p.of("aws_cloudwatch_metric_alarm"), func(a madeResource) bool {
		dimensions, _ := a.values["dimensions"].(map[string]any)
		return a.values["comparison_operator"] == comparison && a.values["metric_name"] == metric &&
			slices.Contains(slices.Collect(maps.Values(dimensions)), any(of))
	})
}

// alerted reports whether an alert is about a metric of one resource.
func (p *plan) alerted(condition, of, metric string) bool {
	return slices.ContainsFunc(p.of("google_monitoring_alert_policy"), func(a madeResource) bool {
		filter := text(at(a.values, "conditions", 0, condition, 0, "filter"))
		return strings.Contains(filter, strconv.Quote(of)) && strings.Contains(filter, metric+`"`)
	})
}

// byDigest is an image that cannot become another one.
var byDigest = regexp.MustCompile(`^[^@\s]+@sha256:[0-9a-f]{64}$`)

// turnedOff names what is turned off in a resource or in a block of it.
func turnedOff(v any) string {
	switch v := v.(type) {
	case map[string]any:
		for name, off := range map[string]any{"enabled": false, "is_enabled": false, "state": "DISABLED", "paused": true,
			"disabled": true, "desired_state": "PAUSED", "status": "Disabled"} {
			if v[name] == off {
				return fmt.Sprintf("%s is %v", name, off)
			}
		}
		for _, name := range slices.Sorted(maps.Keys(v)) {
			if wrong := turnedOff(v[name]); wrong != "" {
				return wrong
			}
		}
	case []any:
		for _, item := range v {
			if wrong := turnedOff(item); wrong != "" {
				return wrong
			}
		}
	}
	return ""
}

// bareFunction is a reference to a function itself, by which its newest code would be called, published or not.
var bareFunction = regexp.MustCompile(
	`^(aws_lambda_function\..*\.(arn|invoke_arn|qualified_arn|qualified_invoke_arn)|arn:[^" ]*:function:[^:" ]+)$`)

// unaliased names a reference of a resource to a function without an alias.
func unaliased(v any) string {
	switch v := v.(type) {
	case reference, string:
		if to := fmt.Sprint(v); bareFunction.MatchString(to) {
			return "it calls " + to
		}
	case map[string]any:
		for _, item := range v {
			if wrong := unaliased(item); wrong != "" {
				return wrong
			}
		}
	case []any:
		for _, item := range v {
			if wrong := unaliased(item); wrong != "" {
				return wrong
			}
		}
	}
	return ""
}

// ofLine is a field of a line of the log.
var ofLine = regexp.MustCompile(`(?:\$|jsonPayload)\.([A-Za-z.]+)`)

// environmentOf is the environment of a function or of a container.
func environmentOf(v map[string]any) map[string]any {
	all := map[string]any{}
	for _, variables := range []any{at(v, "environment", 0, "variables"),
		at(v, "service_config", 0, "environment_variables")} {
		m, _ := variables.(map[string]any)
		maps.Copy(all, m)
	}
	list, _ := at(v, "template", 0, "containers", 0, "env").([]any)
	for i := range list {
		all[text(at(list, i, "name"))] = at(list, i, "value")
	}
	return all
}

// timeLimit is how long a function or a service may take, in seconds: -1 for other resources.
func timeLimit(v map[string]any) float64 {
	if t := at(v, "template", 0, "timeout"); t != nil {
		return seconds(t)
	}
	if t := at(v, "service_config", 0, "timeout_seconds"); t != nil {
		return number(t)
	}
	if v["handler"] != nil {
		return number(v["timeout"])
	}
	return -1
}

// inTime makes sure that a limit is above what the program takes, and above the limit of what is called.
func inTime(p *plan, v map[string]any) string {
	environment, limit := environmentOf(v), timeLimit(v)
	for _, name := range []string{"LEASEHOLD_REQUEST_TIMEOUT", "LEASEHOLD_TASK_TIMEOUT"} {
		if name == "LEASEHOLD_TASK_TIMEOUT" && environment["LEASEHOLD_TARGET_URL"] == nil {
			continue // a sweep only has to know it
		}
		if takes, err := time.ParseDuration(text(environment[name])); err == nil && limit >= 0 && limit <= takes.Seconds() {
			return fmt.Sprintf("its limit is %v s, and %s is %v", limit, name, takes)
		}
	}
	waits, called := v["attempt_deadline"], text(v["name"])
	if ms := number(v["timeout_milliseconds"]); ms >= 0 && ms < 30000 { // API Gateway waits no longer
		waits, called = ms/1000, text(p.referred(v["integration_uri"])["function_name"])
	}
	if waits == nil {
		queue := p.referred(v["event_source_arn"])
		if queue == nil {
			return ""
		}
		waits = queue["visibility_timeout_seconds"]
		called = text(p.referred(v["function_name"])["function_name"])
	}
	for _, r := range p.resources {
		name := text(r.values["name"])
		if r.values["function_name"] != nil {
			name = text(r.values["function_name"])
		}
		if limit := timeLimit(r.values); name == called && limit > max(number(waits), seconds(waits)) {
			return fmt.Sprintf("it waits for %v, and %s may take %v s", waits, name, limit)
		}
	}
	return ""
}

// referred is the resource that a reference is to.
func (p *plan) referred(v any) map[string]any {
	to, ok := v.(reference)
	if !ok {
		return nil
	}
	for _, r := range p.resources {
		if address := string(to); strings.HasSuffix(r.address, address[:max(0, strings.LastIndex(address, "."))]) {
			return r.values
		}
	}
	return nil
}

// asked reports whether a list of a resource is the one of the variable, where that has one.
func asked(p *plan, variable string, got any) bool {
	want, _ := p.variables[variable].([]any)
	return len(want) == 0 || fmt.Sprint(got) == fmt.Sprint(want)
}

// has reports whether a resource of a kind has an argument.
func (p *plan) has(kind, name string, value any) bool {
	return slices.ContainsFunc(p.of(kind), func(r madeResource) bool { return r.values[name] == value })
}

// ofAWS are the metrics of the platform that alarms may be about, with their dimension and what has its value.
var ofAWS = map[string][3]string{
	"AWS/Lambda Errors":                          {"FunctionName", "aws_lambda_function", "function_name"},
	"AWS/Lambda Throttles":                       {"FunctionName", "aws_lambda_function", "function_name"},
	"AWS/Lambda Invocations":                     {"FunctionName", "aws_lambda_function", "function_name"},
	"AWS/Lambda Url5xxCount":                     {"FunctionName", "aws_lambda_function", "function_name"},
	"AWS/SQS ApproximateNumberOfMessagesVisible": {"QueueName", "aws_sqs_queue", "name"},
	"AWS/SQS ApproximateAgeOfOldestMessage":      {"QueueName", "aws_sqs_queue", "name"},
	"AWS/DynamoDB ReadThrottleEvents":            {"TableName", "", ""},
	"AWS/DynamoDB WriteThrottleEvents":           {"TableName", "", ""},
	"AWS/ApiGateway 5xx":                         {"ApiId", "", ""},
}

// table is the table of the functions.
func (p *plan) table() any {
	for _, f := range p.of("aws_lambda_function") {
		return at(f.values, "environment", 0, "variables", "LEASEHOLD_TABLE")
	}
	return nil
}

func aboutPlanned(p *plan, v map[string]any) string {
	namespace, metric := text(v["namespace"]), text(v["metric_name"])
	dimensions, _ := v["dimensions"].(map[string]any)
	if strings.HasPrefix(namespace, "Leasehold/") {
		filtered := slices.ContainsFunc(p.of("aws_cloudwatch_log_metric_filter"), func(f madeResource) bool {
			m := only(f.values, "metric_transformation")
			return m["namespace"] == namespace && m["name"] == metric && dimensions == nil
		})
		written := slices.ContainsFunc(metrics.Table, func(i metrics.Instrument) bool {
			return i.Name == metric && i.CloudWatch != nil && !slices.ContainsFunc(slices.Collect(maps.Keys(dimensions)),
				func(d string) bool { return !slices.Contains(i.CloudWatch, d) })
		})
		switch {
		case filtered:
		case !written:
			return fmt.Sprint("the program writes no ", metric, " of ", dimensions)
		case namespace != "Leasehold/"+fmt.Sprint(p.table()):
			return namespace + " " + metric + " is written by nothing"
		}
		return "" // observability/ says the rest
	}
	known, ok := ofAWS[namespace+" "+metric]
	if !ok {
		return "there is no metric " + namespace + " " + metric
	}
	value := dimensions[known[0]]
	if _, unknown := v["dimensions"].(reference); unknown && known[0] == "ApiId" {
		return ""
	}
	dead := strings.HasSuffix(text(value), "-dead")
	switch {
	case len(dimensions) != 1 || value == nil,
		known[1] != "" && !p.has(known[1], known[2], value),
		known[0] == "TableName" && value != p.table(),
		metric == "Invocations" && !strings.HasSuffix(text(value), "-sweep"),
		strings.HasSuffix(metric, "MessagesVisible") && !dead, strings.HasSuffix(metric, "OldestMessage") && dead:
		return fmt.Sprint(metric, " of ", v["dimensions"])
	}
	return ""
}

// raised makes sure that an alarm is raised soon, and by a value that its metric has when something is wrong.
func raised(p *plan, v map[string]any) string {
	threshold, metric := number(v["threshold"]), text(v["metric_name"])
	less := v["comparison_operator"] == "LessThanThreshold"
	missing := map[bool]string{true: "breaching", false: "notBreaching"}[less]
	var most float64
	switch {
	case metric == "ApproximateAgeOfOldestMessage":
		for _, q := range p.of("aws_sqs_queue") {
			if q.values["name"] == at(v["dimensions"], "QueueName") {
				most = number(q.values["message_retention_seconds"])/2 - 1
			}
		}
	case strings.HasPrefix(metric, "db."):
		most = 10 // of seconds: that of a request
	case strings.Contains(text(v["namespace"]), "/") && v["extended_statistic"] != nil:
		most = 600 // of seconds
	case strings.Contains(metric, "leasehold."), less:
		most = 30
	}
	lasts := time.Duration(number(v["period"])*number(v["evaluation_periods"])) * time.Second
	if threshold < 0 || threshold > most || v["treat_missing_data"] != missing || lasts < time.Minute ||
		lasts > max(time.Hour, 3*time.Minute*time.Duration(number(p.variables["sweep_minutes"]))) {
		return fmt.Sprintf("%v %v in %v, without data %v", v["comparison_operator"], threshold, lasts,
			v["treat_missing_data"])
	}
	if less != (metric == "Invocations" || metric == "leasehold.sweeps") {
		return fmt.Sprint(metric, " is ", v["comparison_operator"])
	}
	return ""
}

// ofGoogle are the metrics of the platform that alerts may be about, with the most of their values that can be waited
// for.
var ofGoogle = map[string]float64{
	"run.googleapis.com/request_count":                   1,     // a second
	"run.googleapis.com/request_latencies":               30000, // ms: below the time limit of a request
	"cloudtasks.googleapis.com/queue/depth":              10000,
	"cloudtasks.googleapis.com/queue/task_attempt_count": 1, // a second
}

// ofLabel are the kinds of resources that a label of a filter names.
var ofLabel = map[string][]string{
	"service_name": {"google_cloudfunctions2_function", "google_cloud_run_v2_service"},
	"queue_id":     {"google_cloud_tasks_queue"},
	"job_id":       {"google_cloud_scheduler_job"},
}

var inFilter = regexp.MustCompile(
	`(service_name|queue_id|job_id) ?=~? ?(?:monitoring\.regex\.full_match\()?"\^?([a-z0-9-]+)`)

// ofQuery is the name of a metric in a query of Prometheus.
var ofQuery = regexp.MustCompile(`([a-z_]+)\{`)

func aboutPlannedOfGoogle(p *plan, v map[string]any) string {
	c := only(v, "conditions")
	if q := only(c, "condition_prometheus_query_language"); q != nil {
		if !strings.Contains(text(q["query"]), `job=~"`) || strings.Contains(text(q["query"]), `job=~".+"`) {
			return "it is about other deployments, too"
		}
		for _, m := range ofQuery.FindAllStringSubmatch(text(q["query"]), -1) {
			if !slices.ContainsFunc(metrics.Table, func(i metrics.Instrument) bool {
				name, histogram := metrics.PrometheusName(i), i.Kind == metrics.Histogram
				return m[1] == name && !histogram ||
					histogram && slices.Contains([]string{"_bucket", "_count", "_sum"}, strings.TrimPrefix(m[1], name))
			}) {
				return "the program has no " + m[1]
			}
		}
		return ""
	}
	var filter string
	for _, name := range []string{"condition_threshold", "condition_absent", "condition_matched_log"} {
		x := only(c, name)
		if x == nil {
			continue
		}
		filter = text(x["filter"])
		metric := regexp.MustCompile(`metric.type = "([^"]*)"`).FindStringSubmatch(filter)
		if name == "condition_matched_log" {
			continue
		}
		if metric == nil {
			return "no metric in " + filter
		}
		most, ok := ofGoogle[metric[1]]
		threshold, lasts := number(x["threshold_value"]), seconds(x["duration"])
		longest := 1800.0
		if name == "condition_absent" {
			longest = 3 * 3600 // three sweeps
		}
		if !ok || name == "condition_threshold" && (threshold <= 0 || threshold > most ||
			x["comparison"] != "COMPARISON_GT") || lasts < 60 || lasts > longest {
			return fmt.Sprintf("%s %v for %v s", metric[1], threshold, lasts)
		}
	}
	class := regexp.MustCompile(`response_code_class = "([^"]*)"`).FindStringSubmatch(filter)
	if class != nil && !regexp.MustCompile("^[1-5]xx$").MatchString(class[1]) {
		return "no class of responses is " + class[1]
	}
	of := inFilter.FindStringSubmatch(filter)
	if of == nil {
		return "it is about everything: " + filter
	}
	about := strings.TrimSuffix(of[2], "-")
	if !slices.ContainsFunc(p.resources, func(r madeResource) bool {
		name := text(r.values["name"])
		return slices.Contains(ofLabel[of[1]], r.kind) &&
			(name == about || strings.HasPrefix(name, about+"-") && strings.HasSuffix(of[2], "-"))
	}) {
		return "there is no " + about
	}
	return ""
}

// tokenless are routes that ask for no token: those without one, and the rest where the function verifies it.
var tokenless = []string{"GET /healthz", "GET /readyz", "GET /console/{proxy+}", "OPTIONS /{proxy+}", "$default"}

// private says who of the public may do what.
func private(p *plan, v map[string]any) string {
	if m := text(v["member"]); m == "allUsers" || m == "allAuthenticatedUsers" {
		api := strings.HasSuffix(text(v["name"]), "-api") && p.variables["api_public"] != false
		if m != "allUsers" || v["role"] != "roles/run.invoker" || !api && p.variables["task_auth"] != "token" {
			return m + " is " + text(v["role"])
		}
	}
	if m := text(v["member"]); strings.HasPrefix(m, "principalSet:") && strings.HasSuffix(m, "/*") {
		return m + " is " + text(v["role"])
	}
	if t := text(v["authorization_type"]); t == "NONE" && v["route_key"] == nil {
		return "its URL is open"
	} else if t == "NONE" && !slices.Contains(tokenless, text(v["route_key"])) {
		return text(v["route_key"]) + " asks for no token"
	}
	for _, from := range []any{v["ingress"], at(v, "service_config", 0, "ingress_settings")} {
		if strings.HasSuffix(text(from), "_ALL") && !strings.HasSuffix(text(v["name"]), "-api") &&
			p.variables["task_ingress"] != "all" {
			return text(v["name"]) + " takes requests from everywhere"
		}
	}
	if v["uniform_bucket_level_access"] != nil && v["public_access_prevention"] != "enforced" {
		return "its objects can be made public"
	}
	for _, s := range statements(v) {
		if s.Effect == "Allow" && strings.Contains(jsonText(s.Principal), `"*"`) {
			return "everybody may " + strings.Join(s.Action, ", ")
		}
	}
	return ""
}

// statements are those of all policies of a resource.
func statements(v map[string]any) (all []statement) {
	for _, name := range []string{"policy", "assume_role_policy"} {
		var s policy
		if json.Unmarshal([]byte(text(v[name])), &s) == nil {
			all = append(all, s.Statement...)
		}
	}
	return all
}

// ofAnAccount is an ARN that ends with a pattern, within one service, region and account.
var ofAnAccount = regexp.MustCompile(`"arn:[a-z-]+:[a-z0-9-]+:[a-z0-9-]+:[0-9]{12}:[^"]*\*"`)

// ofOthers is an ARN that ends with a pattern for names that begin like the one that is meant.
var ofOthers = regexp.MustCompile(`[^:/]\*$`)

// ofRegion is a service as KMS names it.
var ofRegion = regexp.MustCompile(`^[a-z0-9]+\.` + region + `\.amazonaws\.com$`)

// named makes sure of what a policy allows: no action by a pattern, keys only for data and through the service that
// has it, conditions that exclude something.
func named(p *plan, v map[string]any) string {
	var wrong []string
	for _, s := range statements(v) {
		if s.Effect != "Allow" {
			continue
		}
		if s.NotAction != nil || s.NotResource != nil {
			wrong = append(wrong, "it allows all but some")
		}
		for _, a := range s.Action {
			service, what, _ := strings.Cut(a, ":")
			switch {
			case strings.Contains(a, "*"), service == "iam",
				service == "kms" && (!slices.Contains([]string{"Decrypt", "DescribeKey", "GenerateDataKey"}, what) ||
					!ofRegion.MatchString(text(s.Condition["StringEquals"]["kms:ViaService"]))):
				wrong = append(wrong, "it allows "+a)
			}
		}
		for _, r := range s.Resource {
			if ofOthers.MatchString(r) {
				wrong = append(wrong, "it is about others, too: "+r)
			}
			_, name, _ := strings.Cut(r, account+":")
			if slices.Contains(s.Action, "sqs:ReceiveMessage") && !slices.ContainsFunc(p.of("aws_sqs_queue"),
				func(q madeResource) bool { return q.values["name"] == name && q.values["redrive_policy"] != nil }) {
				wrong = append(wrong, "it receives what is not tried again: "+r)
			}
		}
		if slices.Contains(s.Resource, "*") && len(s.Condition) == 0 {
			wrong = append(wrong, "it is about everything")
		}
		conditions := jsonText(s.Condition)
		if strings.Contains(ofAnAccount.ReplaceAllString(conditions, ""), `*`) {
			wrong = append(wrong, "its condition is met by everything: "+conditions)
		}
		if want := cmp.Or(text(p.variables["target_audience"]),
			text(at(p.variables["settings"], "LEASEHOLD_TARGET_AUDIENCE"))); slices.Contains(s.Action, "sts:GetWebIdentityToken") &&
			!strings.Contains(conditions, strconv.Quote(want)) {
			wrong = append(wrong, "its tokens are for others: "+conditions)
		}
		if slices.Contains(s.Action, "sts:AssumeRoleWithWebIdentity") && (!strings.Contains(conditions, `:sub":`) ||
			!strings.Contains(conditions, `:aud":`)) {
			wrong = append(wrong, "it does not ask which subject")
		}
	}
	return strings.Join(wrong, "; ")
}
