package tests

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	tfjson "github.com/hashicorp/terraform-json"
	"go.yaml.in/yaml/v3"

	"github.com/leasehold-dev/leasehold/functions/settings"
)

const samTemplate = "aws/sam/template.yaml"

// sam is a template, with the functions of CloudFormation as their arguments: !Ref Name is "Name", and so is !GetAtt
// Name.Arn.
type sam struct {
	Globals struct {
		Function map[string]any `yaml:"Function"`
	} `yaml:"Globals"`
	Parameters map[string]struct {
		Default any `yaml:"Default"`
	} `yaml:"Parameters"`
	Resources map[string]samResource `yaml:"Resources"`
}

type samResource struct {
	Type           string         `yaml:"Type"`
	DeletionPolicy string         `yaml:"DeletionPolicy"`
	Properties     map[string]any `yaml:"Properties"`
}

func readSAM(t testing.TB, content []byte) *sam {
	t.Helper()
	var s sam
	if err := yaml.Unmarshal(content, &s); err != nil {
		t.Fatal(err)
	}
	return &s
}

// at is a property by its path; numbers in it are places in lists.
func at(v any, path ...any) any {
	for _, step := range path {
		switch step := step.(type) {
		case string:
			m, _ := v.(map[string]any)
			v = m[step]
		case int:
			list, _ := v.([]any)
			if step >= len(list) {
				return nil
			}
			v = list[step]
		}
	}
	return v
}

// checkSAM returns where the template and a plan of the modules differ.
func checkSAM(s *sam, p *tfjson.Plan) (problems []string) {
	badf := func(format string, args ...any) { problems = append(problems, fmt.Sprintf(format, args...)) }
	same := func(what string, got, want any) {
		if f, ok := want.(float64); ok {
			want = int(f)
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			badf("%s is %v, and %v with Terraform", what, got, want)
		}
	}
	get := func(resource string, path ...any) any { return at(s.Resources[resource].Properties, path...) }
	same("runtime", s.Globals.Function["Runtime"], "provided.al2023")
	same("architecture", at(s.Globals.Function, "Architectures", 0), "arm64")
	same("log format", at(s.Globals.Function, "LoggingConfig", "LogFormat"), "JSON")

	byHandler := map[string]string{"api": "Api", "worker": "Worker", "sweep": "Sweep"}
	for address, r := range resources(p, "aws_lambda_function") {
		handler := text(r.AttributeValues["handler"])
		name := byHandler[handler]
		same(name+" handler", get(name, "Handler"), handler)
		same(name+" timeout", get(name, "Timeout"), r.AttributeValues["timeout"])
		same(name+" memory", s.Globals.Function["MemorySize"], r.AttributeValues["memory_size"])
		environ := []string{"LEASEHOLD_TABLE=leasehold"}
		variables, _ := get(name, "Environment", "Variables").(map[string]any)
		for variable, value := range variables {
			if strings.HasSuffix(variable, "_URL") || strings.HasSuffix(variable, "_ISSUER") {
				value = "https://example.com/" + fmt.Sprint(value)
			}
			environ = append(environ, variable+"="+fmt.Sprint(value))
		}
		if _, err := settings.Load(handlers[handler], environ, nil); err != nil {
			badf("%s: the program does not start: %v", name, err)
		}
		policies := resources(p, "aws_iam_role_policy")
		var want policy
		if err := json.Unmarshal(
			[]byte(text(policies[strings.Replace(address, "aws_lambda_function.this", "aws_iam_role_policy.function",
				1)].AttributeValues["policy"])), &want); err != nil {
			badf("%s: %v", address, err)
		}
		granted := map[string][]string{}
		statements, _ := get(name+"Role", "Policies", 0, "PolicyDocument", "Statement").([]any)
		for _, statement := range statements {
			sid := fmt.Sprint(at(statement, "Sid"))
			granted[sid] = texts(at(statement, "Action"))
			for _, resource := range texts(at(statement, "Resource")) {
				if strings.Contains(strings.TrimSuffix(resource, ":*"), "*") && at(statement, "Condition") == nil {
					badf("%s: statement %s is about %s", name, sid, resource)
				}
			}
		}
		for _, statement := range want.Statement {
			if statement.Sid == "Key" {
				continue // a customer managed key, which the template does not have
			}
			if !slices.Equal(granted[statement.Sid], statement.Action) {
				badf("%s: statement %s allows %v, and %v with Terraform", name, statement.Sid, granted[statement.Sid],
					statement.Action)
			}
			delete(granted, statement.Sid)
		}
		if len(granted) > 0 {
			badf("%s: statements %v are not there with Terraform", name, granted)
		}
	}

	for name, suffix := range map[string]string{"Queue": "-analyses", "QueueDead": "-analyses-dead",
		"SweepDead": "-sweep-dead"} {
		for _, r := range resources(p, "aws_sqs_queue") {
			if !strings.HasSuffix(text(r.AttributeValues["name"]), suffix) {
				continue
			}
			same(name+" encryption", get(name, "SqsManagedSseEnabled"), r.AttributeValues["sqs_managed_sse_enabled"])
			same(name+" retention", get(name, "MessageRetentionPeriod"), r.AttributeValues["message_retention_seconds"])
			if name == "Queue" {
				same("visibility timeout", get(name, "VisibilityTimeout"), r.AttributeValues["visibility_timeout_seconds"])
			}
		}
		if !slices.Contains(texts(get("QueuePolicy", "Queues")), name) ||
			!slices.Contains(texts(get("QueuePolicy", "PolicyDocument", "Statement", 0, "Resource")), name+".Arn") {
			badf("%s takes requests without TLS", name)
		}
	}
	same("condition of TLSOnly", at(get("QueuePolicy", "PolicyDocument", "Statement", 0), "Condition", "Bool",
		"aws:SecureTransport"), "false")
	same("maximum of receives", get("Queue", "RedrivePolicy", "maxReceiveCount"), 20)
	for _, r := range resources(p, "aws_lambda_event_source_mapping") {
		same("batch size", get("Worker", "Events", "Analyses", "Properties", "BatchSize"), r.AttributeValues["batch_size"])
		same("responses of the worker", get("Worker", "Events", "Analyses", "Properties", "FunctionResponseTypes"),
			r.AttributeValues["function_response_types"])
	}
	same("concurrency of the queue", get("Worker", "Events", "Analyses", "Properties", "ScalingConfig",
		"MaximumConcurrency"), get("Worker", "ReservedConcurrentExecutions"))
	for _, r := range resources(p, "aws_cloudwatch_event_rule") {
		same("schedule", get("Sweep", "Events", "Schedule", "Properties", "Schedule"),
			r.AttributeValues["schedule_expression"])
	}
	for _, r := range resources(p, "aws_cloudwatch_event_target") {
		retry := blocks(r.AttributeValues, "retry_policy")[0]
		same("retries of the schedule", get("Sweep", "Events", "Schedule", "Properties", "RetryPolicy",
			"MaximumRetryAttempts"), retry["maximum_retry_attempts"])
		same("age of an event", get("Sweep", "Events", "Schedule", "Properties", "RetryPolicy", "MaximumEventAgeInSeconds"),
			retry["maximum_event_age_in_seconds"])
	}
	same("dead letters of the schedule", get("Sweep", "Events", "Schedule", "Properties", "DeadLetterConfig", "Arn"),
		"SweepDead.Arn")
	same("dead letters of the sweep", get("Sweep", "EventInvokeConfig", "DestinationConfig", "OnFailure", "Destination"),
		"SweepDead.Arn")
	same("authorizer", get("HttpApi", "Auth", "DefaultAuthorizer"), "jwt")
	for event, route := range map[string]string{"Health": "/healthz", "Ready": "/readyz"} {
		same("route "+event, get("Api", "Events", event, "Properties", "Path"), route)
		same("authorizer of "+route, get("Api", "Events", event, "Properties", "Auth", "Authorizer"), "NONE")
	}
	same("authorizer of all other routes", get("Api", "Events", "All", "Properties", "Auth"), nil)
	for _, r := range resources(p, "aws_apigatewayv2_integration") {
		same("format of events", get("Api", "Events", "All", "Properties", "PayloadFormatVersion"),
			r.AttributeValues["payload_format_version"])
		same("time limit of the API", get("Api", "Events", "All", "Properties", "TimeoutInMillis"),
			r.AttributeValues["timeout_milliseconds"])
	}
	for _, r := range resources(p, "aws_apigatewayv2_stage") {
		throttle := blocks(r.AttributeValues, "default_route_settings")[0]
		same("throttle", get("HttpApi", "DefaultRouteSettings", "ThrottlingRateLimit"), throttle["throttling_rate_limit"])
	}
	want := planAlarms(p)
	for name, r := range s.Resources {
		if r.Type != "AWS::CloudWatch::Alarm" {
			continue
		}
		v := r.Properties
		about := fmt.Sprint(at(v, "Dimensions", 0, "Value"))
		alarm := alarmLine(v["MetricName"], about, v["Statistic"], v["ComparisonOperator"], v["Threshold"], v["Period"],
			v["EvaluationPeriods"], v["TreatMissingData"])
		if !want[alarm] {
			badf("alarm %s is not there with Terraform: %s", name, alarm)
		}
		delete(want, alarm)
	}
	for alarm := range want {
		badf("there is no alarm as with Terraform: %s", alarm)
	}
	problems = append(problems, broken(s.plan())...)
	slices.Sort(problems)
	return problems
}

// plan is what the template makes, as a plan of Terraform has it, for the rules that hold in all of them.
func (s *sam) plan() *plan {
	p := &plan{name: samTemplate, template: true, variables: map[string]any{"name": "leasehold", "log_retention_days": 30.0,
		"alarm_topic_arns": []any{"AlarmTopicArn"}, "target_audience": "TargetAudience",
		"jwt": map[string]any{"issuer": "JwtIssuer", "audience": []any{"JwtAudience"}}}}
	made := func(kind, of string, values map[string]any) {
		p.resources = append(p.resources, madeResource{kind + "." + of, kind, kind + "." + of, values})
	}
	policy := func(document any) string { return jsonText(s.value(document)) }
	for _, name := range slices.Sorted(maps.Keys(s.Resources)) {
		v, _ := s.value(s.Resources[name].Properties).(map[string]any)
		switch s.Resources[name].Type {
		case "AWS::Serverless::Function":
			variables := map[string]any{}
			for _, from := range []any{s.value(s.Globals.Function), v} {
				of, _ := at(from, "Environment", "Variables").(map[string]any)
				maps.Copy(variables, of)
			}
			alias := s.Globals.Function["AutoPublishAlias"]
			// SAM publishes what it uploads, by its hash.
			made("aws_lambda_function", name, map[string]any{"function_name": v["FunctionName"], "handler": v["Handler"],
				"timeout": v["Timeout"], "publish": alias != nil, "filename": s.Globals.Function["CodeUri"],
				"source_code_hash": alias, "environment": []any{map[string]any{"variables": variables}}})
			called := map[string]any{"name": alias, "function_name": v["FunctionName"]}
			if v["AutoPublishAliasAllProperties"] == true {
				called["function_version"] = reference("aws_lambda_function." + name + ".version")
			}
			made("aws_lambda_alias", name, called)
			s.events(name, v, made)
		case "AWS::Serverless::HttpApi":
			jwt := at(v, "Auth", "Authorizers", "jwt", "JwtConfiguration")
			made("aws_apigatewayv2_authorizer", name, map[string]any{
				"jwt_configuration": []any{map[string]any{"issuer": at(jwt, "issuer"), "audience": at(jwt, "audience")}}})
		case "AWS::Logs::LogGroup":
			made("aws_cloudwatch_log_group", name, map[string]any{"name": v["LogGroupName"],
				"retention_in_days": v["RetentionInDays"]})
		case "AWS::Logs::MetricFilter":
			made("aws_cloudwatch_log_metric_filter", name, map[string]any{"pattern": v["FilterPattern"],
				"log_group_name": v["LogGroupName"], "metric_transformation": []any{map[string]any{
					"namespace": at(v, "MetricTransformations", 0, "MetricNamespace"),
					"name":      at(v, "MetricTransformations", 0, "MetricName")}}})
		case "AWS::SQS::Queue":
			q := map[string]any{"name": v["QueueName"], "message_retention_seconds": v["MessageRetentionPeriod"],
				"visibility_timeout_seconds": v["VisibilityTimeout"]}
			if v["RedrivePolicy"] != nil {
				q["redrive_policy"] = jsonText(v["RedrivePolicy"])
			}
			made("aws_sqs_queue", name, q)
		case "AWS::SQS::QueuePolicy":
			made("aws_sqs_queue_policy", name, map[string]any{"policy": policy(v["PolicyDocument"])})
		case "AWS::IAM::Role":
			made("aws_iam_role", name, map[string]any{"assume_role_policy": policy(v["AssumeRolePolicyDocument"]),
				"policy": policy(at(v, "Policies", 0, "PolicyDocument"))})
		case "AWS::DynamoDB::Table":
			made("aws_dynamodb_table", name, samTable(s))
		case "AWS::CloudWatch::Alarm":
			alarm := map[string]any{"namespace": v["Namespace"], "metric_name": v["MetricName"], "statistic": v["Statistic"],
				"comparison_operator": v["ComparisonOperator"], "threshold": v["Threshold"], "period": v["Period"],
				"evaluation_periods": v["EvaluationPeriods"], "treat_missing_data": v["TreatMissingData"],
				"alarm_actions": v["AlarmActions"], "ok_actions": v["OKActions"]}
			if d := at(v, "Dimensions", 0); d != nil {
				alarm["dimensions"] = map[string]any{text(at(d, "Name")): at(d, "Value")}
			}
			made("aws_cloudwatch_metric_alarm", name, alarm)
		}
	}
	return p
}

// events makes what calls a function.
func (s *sam) events(function string, v map[string]any, made func(kind, of string, values map[string]any)) {
	alias := reference("aws_lambda_alias." + function + ".arn")
	events, _ := v["Events"].(map[string]any)
	for _, name := range slices.Sorted(maps.Keys(events)) {
		of, written := at(events, name, "Properties"), at(s.Resources[function].Properties, "Events", name)
		switch at(written, "Type") {
		case "SQS":
			queue, _, _ := strings.Cut(text(at(written, "Properties", "Queue")), ".")
			made("aws_lambda_event_source_mapping", name, map[string]any{"function_name": alias,
				"event_source_arn": reference("aws_sqs_queue." + queue + ".arn"), "enabled": at(of, "Enabled")})
		case "Schedule":
			made("aws_cloudwatch_event_rule", name, map[string]any{"name": at(of, "Name"), "enabled": at(of, "Enabled"),
				"schedule_expression": at(of, "Schedule"), "state": at(of, "State")})
			made("aws_cloudwatch_event_target", name, map[string]any{"rule": at(of, "Name"), "arn": alias,
				"dead_letter_config": []any{map[string]any{"arn": at(of, "DeadLetterConfig", "Arn")}}})
		case "HttpApi":
			made("aws_apigatewayv2_integration", name, map[string]any{"integration_uri": alias,
				"timeout_milliseconds": at(of, "TimeoutInMillis")})
			if at(of, "Auth", "Authorizer") == "NONE" {
				made("aws_apigatewayv2_route", name, map[string]any{"authorization_type": "NONE",
					"route_key": fmt.Sprint(at(of, "Method"), " ", at(of, "Path"))})
			}
		}
	}
	failed := at(v, "EventInvokeConfig", "DestinationConfig", "OnFailure", "Destination")
	made("aws_lambda_function_event_invoke_config", function, map[string]any{"qualifier": alias,
		"destination_config": []any{map[string]any{"on_failure": []any{map[string]any{"destination": failed}}}}})
}

// value is a value of the template as a plan has it: with names and ARNs in place of what refers to them, and the
// defaults of parameters.
func (s *sam) value(v any) any {
	switch v := v.(type) {
	case map[string]any:
		all := map[string]any{}
		for name, item := range v {
			all[name] = s.value(item)
		}
		return all
	case []any:
		all := make([]any, len(v))
		for i, item := range v {
			all[i] = s.value(item)
		}
		return all
	case int:
		return float64(v)
	case string:
		if parameter, ok := s.Parameters[v]; ok && parameter.Default != nil {
			return s.value(parameter.Default)
		}
		to, attribute, _ := strings.Cut(v, ".")
		for _, name := range []string{"FunctionName", "QueueName", "TableName", "LogGroupName", "Name"} {
			is, ok := s.Resources[to].Properties[name].(string)
			if !ok {
				continue
			}
			if attribute == "Arn" && name == "QueueName" {
				is = "arn:aws:sqs:" + region + ":" + account + ":" + is
			}
			if is != v {
				return s.value(is)
			}
		}
		return strings.NewReplacer("${Name}", "leasehold", "${AWS::Partition}", "aws", "${AWS::Region}", region,
			"${AWS::AccountId}", account).Replace(v)
	}
	return v
}

// alarmLine is what an alarm watches, and when it is raised.
func alarmLine(values ...any) string { return fmt.Sprint(values...) }

// planAlarms are the alarms of a plan on what the platform measures, about resources as the template names them.
func planAlarms(p *tfjson.Plan) map[string]bool {
	all := map[string]bool{}
	for _, r := range resources(p, "aws_cloudwatch_metric_alarm") {
		v := r.AttributeValues
		if strings.HasPrefix(text(v["metric_name"]), "leasehold.") || strings.HasPrefix(text(v["metric_name"]), "db.") {
			continue // what the program measures, which the template does not ask for
		}
		about := "HttpApi" // whose ID is known after the apply
		if d, _ := v["dimensions"].(map[string]any); len(d) > 0 {
			for _, name := range d {
				about = map[string]string{"leasehold-staging": "Table", "leasehold-staging-api": "Api",
					"leasehold-staging-worker": "Worker", "leasehold-staging-sweep": "Sweep",
					"leasehold-staging-analyses": "Queue.QueueName", "leasehold-staging-analyses-dead": "QueueDead.QueueName",
					"leasehold-staging-sweep-dead": "SweepDead.QueueName"}[text(name)]
			}
		}
		if strings.HasSuffix(text(v["metric_name"]), "-log-errors") {
			about = fmt.Sprint(nil)
		}
		all[alarmLine(v["metric_name"], about, v["statistic"], v["comparison_operator"], v["threshold"], v["period"],
			v["evaluation_periods"], v["treat_missing_data"])] = true
	}
	return all
}

// samTable is the table of the template, as checkTable reads one of a plan.
func samTable(s *sam) map[string]any {
	p := s.Resources["Table"].Properties
	var attributes, indexes []any
	list, _ := p["AttributeDefinitions"].([]any)
	for _, a := range list {
		attributes = append(attributes, map[string]any{"name": at(a, "AttributeName"), "type": at(a, "AttributeType")})
	}
	list, _ = p["GlobalSecondaryIndexes"].([]any)
	for _, x := range list {
		indexes = append(indexes, map[string]any{
			"name": at(x, "IndexName"), "hash_key": at(x, "KeySchema", 0, "AttributeName"),
			"range_key":       at(x, "KeySchema", 1, "AttributeName"),
			"projection_type": at(x, "Projection", "ProjectionType"),
		})
	}
	return map[string]any{
		"hash_key": at(p, "KeySchema", 0, "AttributeName"), "range_key": at(p, "KeySchema", 1, "AttributeName"),
		"attribute": attributes, "global_secondary_index": indexes,
		"billing_mode": p["BillingMode"], "deletion_protection_enabled": p["DeletionProtectionEnabled"],
		"ttl": []any{map[string]any{"attribute_name": at(p, "TimeToLiveSpecification", "AttributeName"),
			"enabled": at(p, "TimeToLiveSpecification", "Enabled")}},
		"point_in_time_recovery": []any{
			map[string]any{"enabled": at(p, "PointInTimeRecoverySpecification", "PointInTimeRecoveryEnabled")}},
		"server_side_encryption": []any{map[string]any{"enabled": at(p, "SSESpecification", "SSEEnabled")}},
	}
}

// linted is what cfn-lint says of a template.
func linted(t *testing.T, path string) string {
	t.Helper()
	program, err := exec.LookPath("cfn-lint")
	if err != nil {
		t.Skip("SKIPPED: no cfn-lint on this machine, so that the SAM template is not checked by it: pip install cfn-lint")
	}
	out, err := exec.CommandContext(t.Context(), program, "--regions", region, "--", path).CombinedOutput()
	if err != nil && len(out) == 0 {
		t.Fatal(err)
	}
	return string(out)
}

// What is wrong in the template, and only a comparison finds; and what cfn-lint finds.
var inSAM, byLint = []mistake{
	{samTemplate, "Timeout: 900", "Timeout: 600", "Worker timeout is 600"},
	{samTemplate, "VisibilityTimeout: 5400", "VisibilityTimeout: 900", "visibility timeout is 900"},
	{samTemplate, "FunctionResponseTypes: [ReportBatchItemFailures]", "Enabled: true", "responses of the worker"},
	{samTemplate, `Action: ["dynamodb:GetItem", "dynamodb:UpdateItem"]`, `Action: ["dynamodb:*"]`,
		"statement Table allows [dynamodb:*]"},
	{samTemplate, "Path: /readyz, Method: GET, PayloadFormatVersion: \"2.0\", Auth: { Authorizer: NONE }",
		"Path: /readyz, Method: GET, PayloadFormatVersion: \"2.0\"", "authorizer of /readyz"},
	{samTemplate, "LEASEHOLD_TARGET_URL:", "LEASEHOLD_TARGETURL:", "LEASEHOLD_TARGETURL"},
	{samTemplate, "MaximumConcurrency: !Ref WorkerConcurrency", "MaximumConcurrency: 50",
		"concurrency of the queue is 50"},
	{samTemplate, "Queues: [!Ref Queue, !Ref QueueDead, !Ref SweepDead]", "Queues: [!Ref Queue, !Ref SweepDead]",
		"QueueDead takes requests without TLS"},
	{samTemplate, "LogFormat: JSON", "LogFormat: Text", "log format is Text"},
	{samTemplate, "AttributeName: _keep_until", "AttributeName: lockExpiresAt", `time to live is "lockExpiresAt"`},
	{samTemplate, "DeletionProtectionEnabled: true", "DeletionProtectionEnabled: false", "no deletion protection"},
	{samTemplate, "BillingMode: PAY_PER_REQUEST", "BillingMode: ON_DEMAND", "billing_mode is ON_DEMAND"},
	{samTemplate, "Value: !GetAtt SweepDead.QueueName", "Value: !GetAtt Queue.QueueName",
		"alarm SweepDeadLetters is not there with Terraform"},
	{samTemplate, "TreatMissingData: breaching", "TreatMissingData: notBreaching",
		"aws_cloudwatch_metric_alarm.SweepMissing: an alarm is raised by what can be"},
	{samTemplate, "MetricName: Invocations\n      Dimensions: [{ Name: FunctionName, Value: !Ref Sweep }]",
		"MetricName: Invocations\n      Dimensions: [{ Name: FunctionName, Value: !Ref Worker }]",
		"aws_cloudwatch_event_rule.Schedule: no alarm is about calls that are missing"},
	{samTemplate, "AlarmActions: [!Ref AlarmTopicArn]", "AlarmActions: []",
		"aws_cloudwatch_metric_alarm.ApiErrors: an alarm acts"},
	{samTemplate, "      AutoPublishAliasAllProperties: true\n", "",
		"aws_lambda_alias.Api: what is called is the version that is meant: it is <nil>"},
	{samTemplate, "-access\n      RetentionInDays: !Ref LogRetentionDays\n", "-access\n",
		"aws_cloudwatch_log_group.AccessLog: logs and messages are kept as long as was asked for: they are kept for <nil>"},
	{samTemplate, "MetricName: ApproximateAgeOfOldestMessage", "MetricName: NumberOfMessagesSent",
		"aws_lambda_event_source_mapping.Analyses: no alarm is about calls that are missing"},
	{samTemplate, "TimeoutInMillis: 30000", "TimeoutInMillis: 3000", "nothing is cut off: it waits for 3"},
	{samTemplate, "            DeadLetterConfig", "            Enabled: false\n            DeadLetterConfig",
		"aws_cloudwatch_event_rule.Schedule: nothing is turned off"},
}, []mistake{
	{samTemplate, "rate(5 minutes)", "rate(5 minute)", "'minute' is not one of"},
	{samTemplate, "BatchSize: 10\n", "BatchSize: 20000\n", "20000"},
	{samTemplate, "Runtime: provided.al2023", "Runtime: provided.al2024", "provided.al2024"},
	{samTemplate, "Destination: !GetAtt SweepDead.Arn", "Destination: !GetAtt SweepDeaf.Arn", "SweepDeaf"},
	{samTemplate, "TreatMissingData: notBreaching", "TreatMissingData: fine", "'fine'"},
	{samTemplate, "VisibilityTimeout: 5400", "VisibilityTimeout: 54000", "54000"},
}

// TestSAM: the template is the twin of the modules, and mistakes in it are found.
func TestSAM(t *testing.T) {
	t.Parallel()
	original, err := os.ReadFile(filepath.Join("..", samTemplate))
	if err != nil {
		t.Fatal(err)
	}
	changed := func(all []mistake) []byte {
		content := string(original)
		for _, m := range all {
			if !strings.Contains(content, m.old) {
				t.Fatalf("%s has no %q", m.file, m.old)
			}
			content = strings.Replace(content, m.old, m.changed, 1)
		}
		return []byte(content)
	}
	t.Run("cfn-lint", func(t *testing.T) {
		t.Parallel()
		if out := linted(t, filepath.Join("..", samTemplate)); out != "" {
			t.Error(out)
		}
		wrong := filepath.Join(t.TempDir(), "template.yaml")
		if err := os.WriteFile(wrong, changed(byLint), 0o600); err != nil {
			t.Fatal(err)
		}
		found(t, byLint, linted(t, wrong))
	})
	t.Run("twin", func(t *testing.T) {
		t.Parallel()
		c, variables := example(t, productionExample)
		p, refused := c.plan(variables...)
		if p == nil {
			t.Fatal(refused)
		}
		problems := func(s *sam) []string {
			return slices.Concat(checkSAM(s, p), tableProblems("Table", samTable(s), shape(t)))
		}
		for _, problem := range problems(readSAM(t, original)) {
			t.Error(problem)
		}
		found(t, inSAM, strings.Join(problems(readSAM(t, changed(inSAM))), "\n"))
	})
}
