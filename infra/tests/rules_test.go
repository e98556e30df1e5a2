package tests

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
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
	{"nothing is open to the public beside invokers", nil, private},
	{"policies allow no more than they name", nil, named},
	{"nothing is turned off", nil, func(_ *plan, v map[string]any) string {
		for name, off := range map[string]any{"enabled": false, "is_enabled": false, "state": "DISABLED", "paused": true,
			"disabled": true, "desired_state": "PAUSED"} {
			if v[name] == off {
				return fmt.Sprintf("%s is %v", name, off)
			}
		}
		return ""
	}},
	{"code is deployed by its hash", []string{"aws_lambda_function", "google_storage_bucket_object"},
		func(_ *plan, v map[string]any) string {
			if v["filename"] != nil && v["source_code_hash"] == nil {
				return "no source_code_hash"
			}
			if v["source"] != nil && !hidden.MatchString(text(v["name"])) {
				return "its name has no hash"
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
	{"keys are honoured", []string{"aws_dynamodb_table"}, func(p *plan, v map[string]any) string {
		if e := only(v, "server_side_encryption"); e["enabled"] != true ||
			p.variables["kms_key_arn"] != nil && e["kms_key_arn"] != p.variables["kms_key_arn"] {
			return fmt.Sprint("its encryption is ", e)
		}
		return ""
	}},
	{"logs and messages are kept as long as was asked for", []string{"aws_cloudwatch_log_group", "aws_sqs_queue"},
		func(p *plan, v map[string]any) string {
			if days := p.variables["log_retention_days"]; v["retention_in_days"] != nil && days != nil &&
				number(v["retention_in_days"]) != number(days) {
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
	for _, r := range p.resources {
		for _, rule := range rules {
			if rule.kinds != nil && !slices.Contains(rule.kinds, r.kind) {
				continue
			}
			if wrong := rule.check(p, r.values); wrong != "" {
				problems = append(problems, fmt.Sprintf("%s: %s: %s", r.address, rule.name, wrong))
			}
		}
	}
	for _, q := range p.of("aws_sqs_queue") {
		if name := text(q.values["name"]); strings.HasSuffix(name, "-dead") && !slices.ContainsFunc(
			p.of("aws_cloudwatch_metric_alarm"), func(a madeResource) bool {
				return fmt.Sprint(a.values["dimensions"]) == fmt.Sprint(map[string]any{"QueueName": name})
			}) {
			problems = append(problems, q.address+": no alarm is about its dead letters")
		}
	}
	return problems
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
		if !filtered && namespace != "Leasehold/"+fmt.Sprint(p.table()) {
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

func aboutPlannedOfGoogle(p *plan, v map[string]any) string {
	c := only(v, "conditions")
	if q := only(c, "condition_prometheus_query_language"); q != nil {
		if !strings.Contains(text(q["query"]), `job=~"`) || strings.Contains(text(q["query"]), `job=~".+"`) {
			return "it is about other deployments, too"
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

// private says who of the public may do what.
func private(p *plan, v map[string]any) string {
	if m := text(v["member"]); m == "allUsers" || m == "allAuthenticatedUsers" {
		api := strings.HasSuffix(text(v["name"]), "-api") && p.variables["api_public"] != false
		if m != "allUsers" || v["role"] != "roles/run.invoker" || !api && p.variables["task_auth"] != "token" {
			return m + " is " + text(v["role"])
		}
	}
	if t := text(v["authorization_type"]); t == "NONE" && v["route_key"] == nil {
		return "its URL is open"
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
					s.Condition["StringEquals"]["kms:ViaService"] == nil):
				wrong = append(wrong, "it allows "+a)
			}
		}
		if slices.Contains(s.Resource, "*") && len(s.Condition) == 0 {
			wrong = append(wrong, "it is about everything")
		}
		conditions := jsonText(s.Condition)
		if strings.Contains(ofAnAccount.ReplaceAllString(conditions, ""), `*`) {
			wrong = append(wrong, "its condition is met by everything: "+conditions)
		}
		if want := text(p.variables["target_audience"]); slices.Contains(s.Action, "sts:GetWebIdentityToken") &&
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
