package tests

import (
	"archive/zip"
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	tfjson "github.com/hashicorp/terraform-json"

	"github.com/leasehold-dev/leasehold/functions/aws"
	"github.com/leasehold-dev/leasehold/functions/aws/emf"
	"github.com/leasehold-dev/leasehold/functions/settings"
	"github.com/leasehold-dev/leasehold/repo/lock"
)

// handlers are the entry points of the program for Lambda, by their handler names.
var handlers = map[string]settings.Entry{"api": settings.LambdaAPI, "worker": settings.LambdaWorker,
	"sweep": settings.LambdaSweep}

// calls are the actions that each function needs: what its program calls, and what the platform calls in its name.
var calls = map[string][]string{
	"api": {
		"dynamodb:ConditionCheckItem", "dynamodb:GetItem", "dynamodb:Query", "dynamodb:UpdateItem",
	},
	"worker": {
		"dynamodb:GetItem", "dynamodb:UpdateItem", "sqs:ChangeMessageVisibility", "sqs:GetQueueUrl", "sqs:SendMessage",
		"sts:GetWebIdentityToken",
	},
	"sweep": {
		"dynamodb:DeleteItem", "dynamodb:DescribeTable", "dynamodb:GetItem", "dynamodb:Query", "dynamodb:UpdateItem",
		"sqs:GetQueueAttributes", "sqs:SendMessage",
	},
}

// ofPlatform are the actions by which Lambda writes the log, and polls the queue of an event source mapping. Its
// destination for failed invocations takes sqs:SendMessage.
var ofPlatform = map[string][]string{
	"api": {"logs:CreateLogStream", "logs:PutLogEvents"},
	"worker": {"logs:CreateLogStream", "logs:PutLogEvents", "sqs:DeleteMessage", "sqs:GetQueueAttributes",
		"sqs:ReceiveMessage"},
	"sweep": {"logs:CreateLogStream", "logs:PutLogEvents"},
}

// withoutAnalyses are those of calls that only analyses need.
var withoutAnalyses = []string{"sqs:GetQueueAttributes"}

// planOf is a plan with its values by resource.
type planOf struct {
	*tfjson.Plan

	problems []string
}

func (p *planOf) badf(format string, args ...any) {
	p.problems = append(p.problems, fmt.Sprintf(format, args...))
}

// unknown reports whether a value is known after the apply only.
func (p *planOf) unknown(address, name string) bool {
	for _, c := range p.ResourceChanges {
		if c.Address == address {
			after, _ := c.Change.AfterUnknown.(map[string]any)
			return after[name] == true
		}
	}
	return false
}

func (p *planOf) only(kind string) (string, map[string]any) {
	all := resources(p.Plan, kind)
	if len(all) != 1 {
		p.badf("%d %s, want one", len(all), kind)
	}
	for address, r := range all {
		return address, r.AttributeValues
	}
	return "", map[string]any{}
}

func number(v any) float64 {
	switch v := v.(type) {
	case float64:
		return v
	case json.Number:
		f, _ := v.Float64()
		return f
	default:
		return -1
	}
}

func text(v any) string {
	s, _ := v.(string)
	return s
}

func texts(v any) (all []string) {
	list, _ := v.([]any)
	for _, item := range list {
		all = append(all, text(item))
	}
	return all
}

// policy is a policy of IAM or of a queue.
type policy struct {
	Version   string
	Statement []statement
}

type statement struct {
	Sid, Effect                 string
	Principal                   any `json:",omitempty"`
	Action, Resource            []string
	Condition                   map[string]map[string]any `json:",omitempty"`
	NotAction, NotResource, Not any                       `json:",omitempty"`
}

func (p *planOf) policy(where, content string) (s policy) {
	d := json.NewDecoder(strings.NewReader(content))
	d.DisallowUnknownFields()
	if err := d.Decode(&s); err != nil {
		p.badf("%s: the policy %q: %v", where, content, err)
	}
	if s.Version != "2012-10-17" {
		p.badf("%s: the policy's version is %q", where, s.Version)
	}
	return s
}

// checkFunctions returns what is wrong with the functions of a plan, their front, queue and schedule.
func checkFunctions(plan *tfjson.Plan) []string {
	p := &planOf{Plan: plan}
	functions := map[string]map[string]any{} // by handler
	for address, r := range resources(plan, "aws_lambda_function") {
		v := r.AttributeValues
		handler := text(v["handler"])
		if _, ok := handlers[handler]; !ok {
			p.badf("%s: the program has no handler %q", address, handler)
			continue
		}
		functions[handler] = v
		p.function(address, v)
	}
	analyses := functions["worker"] != nil
	for _, handler := range slices.Sorted(maps.Keys(functions)) {
		p.environment(handler, functions[handler])
		p.role(handler, functions[handler], analyses)
		p.alarmed(handler, functions[handler])
	}
	p.measured(functions["api"], analyses)
	p.front(functions["api"])
	p.schedule(functions["sweep"])
	p.queues()
	p.problems = append(p.problems, broken(read("", plan))...)
	slices.Sort(p.problems)
	return p.problems
}

// function checks what all functions have.
func (p *planOf) function(address string, v map[string]any) {
	if v["runtime"] != "provided.al2023" || !reflect.DeepEqual(texts(v["architectures"]), []string{"arm64"}) {
		p.badf("%s: runtime %v on %v, make lambda builds for provided.al2023 on arm64", address, v["runtime"],
			v["architectures"])
	}
	if timeout := number(v["timeout"]); timeout < 3 || timeout > 900 {
		p.badf("%s: timeout %v", address, timeout)
	}
	name := text(v["function_name"])
	logs := false
	for _, r := range resources(p.Plan, "aws_cloudwatch_log_group") {
		logs = logs || r.AttributeValues["name"] == "/aws/lambda/"+name
	}
	if !logs {
		p.badf("%s: no log group /aws/lambda/%s, so that Lambda makes one that is kept for ever", address, name)
	}
	aliased := false
	for _, r := range resources(p.Plan, "aws_lambda_alias") {
		aliased = aliased || r.AttributeValues["function_name"] == name
	}
	if !aliased {
		p.badf("%s: it has no alias", address)
	}
}

// environment makes sure that the program starts with it.
func (p *planOf) environment(handler string, v map[string]any) {
	var environ []string
	for _, e := range blocks(v, "environment") {
		variables, _ := e["variables"].(map[string]any)
		for name, value := range variables {
			environ = append(environ, name+"="+text(value))
		}
	}
	c, err := settings.Load(handlers[handler], environ, nil)
	if err != nil {
		p.badf("function %s: the program does not start: %v", handler, err)
	}
	if handler != "api" {
		return
	}
	if c == nil {
		s, _ := settings.Find("LEASEHOLD_REQUEST_TIMEOUT")
		timeout, _ := time.ParseDuration(s.Default)
		c = &settings.Config{RequestTimeout: timeout}
	} else if len(c.FrontDoor) != 1 {
		p.badf("function api: LEASEHOLD_FRONT_DOOR is %v", c.FrontDoor)
	}
	// A caller that waits for a lock waits as long as it may, and then has a request's time for the response.
	if need := lock.MaxWaitSeconds*time.Second + c.RequestTimeout +
		aws.ResponseMargin; number(v["timeout"]) < need.Seconds() {
		p.badf("function api: its timeout of %v s is less than the %v that a request may take", v["timeout"], need)
	}
}

// role compares what a function may do with what it does.
func (p *planOf) role(handler string, v map[string]any, analyses bool) {
	name := text(v["function_name"])
	trusted, granted := false, false
	for address, r := range resources(p.Plan, "aws_iam_role") {
		if r.AttributeValues["name"] != name {
			continue
		}
		trusted = true
		for _, s := range p.policy(address, text(r.AttributeValues["assume_role_policy"])).Statement {
			if !reflect.DeepEqual(s.Principal, map[string]any{"Service": "lambda.amazonaws.com"}) ||
				!slices.Equal(s.Action, []string{"sts:AssumeRole"}) {
				p.badf("%s: %v may assume it by %v", address, s.Principal, s.Action)
			}
		}
	}
	need := slices.Concat(calls[handler], ofPlatform[handler])
	if !analyses {
		need = slices.DeleteFunc(need, func(a string) bool { return slices.Contains(withoutAnalyses, a) })
	}
	var may []string
	for address, r := range resources(p.Plan, "aws_iam_role_policy") {
		if !strings.HasSuffix(address, fmt.Sprintf("[%q]", handler)) {
			continue
		}
		granted = true
		for _, s := range p.policy(address, text(r.AttributeValues["policy"])).Statement {
			p.scoped(address, s)
			if s.Sid == "Key" {
				continue // the service decrypts with the caller's right
			}
			may = append(may, s.Action...)
		}
	}
	if !trusted || !granted {
		p.badf("function %s has no role of its own", handler)
		return
	}
	for _, action := range need {
		if !slices.Contains(may, action) {
			p.badf("function %s may not %s, and does it", handler, action)
		}
	}
	for _, action := range may {
		if !slices.Contains(need, action) {
			p.badf("function %s may %s, and never does it", handler, action)
		}
	}
}

// scoped makes sure that a statement names what it is about.
func (p *planOf) scoped(where string, s statement) {
	if s.Effect != "Allow" || s.NotAction != nil || s.NotResource != nil {
		p.badf("%s: statement %s: %s, %v, %v", where, s.Sid, s.Effect, s.NotAction, s.NotResource)
	}
	for _, r := range s.Resource {
		service, _, _ := strings.Cut(s.Action[0], ":")
		switch {
		case service == "sts" && r == "*" && s.Condition != nil: // the caller's own token
		case !strings.HasPrefix(r, "arn:aws:"+service+":"+region+":"+account+":") ||
			strings.Contains(strings.TrimSuffix(r, ":*"), "*"):
			p.badf("%s: statement %s is about %s", where, s.Sid, r)
		}
	}
	for _, a := range s.Action {
		if strings.Contains(a, "*") {
			p.badf("%s: statement %s allows %s", where, s.Sid, a)
		}
	}
}

// front makes sure that a caller that no one verified comes no farther than the health checks.
func (p *planOf) front(api map[string]any) {
	var environment map[string]any
	for _, e := range blocks(api, "environment") {
		environment, _ = e["variables"].(map[string]any)
	}
	itself := text(environment["LEASEHOLD_AUTH_ISSUER"]) != ""
	switch front := text(environment["LEASEHOLD_FRONT_DOOR"]); front {
	case string(aws.FunctionURL):
		address, url := p.only("aws_lambda_function_url")
		if url["authorization_type"] != "AWS_IAM" {
			p.badf("%s: %v lets every caller in", address, url["authorization_type"])
		}
		p.callers()
	case string(aws.HTTPAPI):
		p.httpAPI(itself)
	default:
		p.badf("LEASEHOLD_FRONT_DOOR is %q", front)
	}
	for address, r := range resources(p.Plan, "aws_lambda_permission") {
		v := r.AttributeValues
		if v["action"] != "lambda:InvokeFunction" || text(v["principal"]) == "*" ||
			!strings.HasSuffix(text(v["principal"]), ".amazonaws.com") {
			p.badf("%s: %v for %v", address, v["action"], v["principal"])
		}
		if text(v["source_arn"]) == "" && !p.unknown(address, "source_arn") {
			p.badf("%s: every account's %v may invoke the function: no source_arn", address, v["principal"])
		}
	}
}

// callers checks the policy of callers of a function URL.
func (p *planOf) callers() {
	address, v := p.only("aws_iam_policy")
	for _, s := range p.policy(address, text(v["policy"])).Statement {
		p.scoped(address, s)
		if slices.Contains(s.Action, "lambda:InvokeFunction") && !reflect.DeepEqual(s.Condition["Bool"],
			map[string]any{"lambda:InvokedViaFunctionUrl": "true"}) {
			p.badf("%s: a caller may invoke the function with an event of its own: no lambda:InvokedViaFunctionUrl", address)
		}
		for _, r := range s.Resource {
			if !strings.HasSuffix(r, ":live") {
				p.badf("%s: it is about %s, not about the alias", address, r)
			}
		}
	}
}

// open are the routes that need no token: health checks, preflight requests of browsers, the page of the console.
var open = []string{"GET /healthz", "GET /readyz", "OPTIONS /{proxy+}", "GET /console/{proxy+}"}

func (p *planOf) httpAPI(itself bool) {
	var health []string
	for address, r := range resources(p.Plan, "aws_apigatewayv2_route") {
		v := r.AttributeValues
		key, by := text(v["route_key"]), text(v["authorization_type"])
		switch {
		case strings.HasPrefix(key, "GET /healthz"), strings.HasPrefix(key, "GET /readyz"):
			health = append(health, key)
			if by != "NONE" {
				p.badf("%s: a health check needs %s", address, by)
			}
		case by == "NONE" && key == "$default" && len(resources(p.Plan, "aws_apigatewayv2_authorizer")) > 0:
			p.badf("%s: %s does not ask for a token, and an authorizer is there", address, key)
		case by == "NONE" && !slices.Contains(open, key) && !itself:
			p.badf("%s: %s is open to every caller", address, key)
		case by == "NONE" && !slices.Contains(open, key) && key != "$default":
			p.badf("%s: %s is open", address, key)
		case by == "JWT" && !p.unknown(address, "authorizer_id"):
			p.badf("%s: %s has no authorizer", address, key)
		}
	}
	if len(health) != 2 {
		p.badf("the routes for health checks are %v", health)
	}
	for address, r := range resources(p.Plan, "aws_apigatewayv2_authorizer") {
		for _, c := range blocks(r.AttributeValues, "jwt_configuration") {
			if len(texts(c["audience"])) == 0 || !strings.HasPrefix(text(c["issuer"]), "https://") {
				p.badf("%s: issuer %v, audience %v", address, c["issuer"], c["audience"])
			}
		}
		if !reflect.DeepEqual(texts(r.AttributeValues["identity_sources"]), []string{"$request.header.Authorization"}) {
			p.badf("%s: tokens are in %v", address, r.AttributeValues["identity_sources"])
		}
	}
	address, v := p.only("aws_apigatewayv2_integration")
	if v["payload_format_version"] != "2.0" || v["integration_type"] != "AWS_PROXY" {
		p.badf("%s: %v in format %v; the program reads format 2.0", address, v["integration_type"],
			v["payload_format_version"])
	}
	if ms := number(v["timeout_milliseconds"]); ms < 50 || ms > 30000 {
		p.badf("%s: API Gateway waits for 30 s at most, not for %v ms", address, ms)
	}
	address, v = p.only("aws_apigatewayv2_stage")
	for _, s := range blocks(v, "default_route_settings") {
		if number(s["throttling_rate_limit"]) <= 0 || number(s["throttling_burst_limit"]) <= 0 {
			p.badf("%s: requests are not throttled", address)
		}
	}
	logs := blocks(v, "access_log_settings")
	if len(logs) != 1 || strings.Contains(text(logs[0]["format"]), "uthorization") {
		p.badf("%s: requests are not logged, or with their tokens", address)
	}
}

var rate = regexp.MustCompile(`^rate\((1 (minute|hour|day)|([2-9]|[1-9][0-9]+) (minutes|hours|days))\)$`)

// reserves reports whether the plan reserves instances, which an account with ten in all cannot do.
func (p *planOf) reserves() bool {
	for _, r := range resources(p.Plan, "aws_lambda_function") {
		if number(r.AttributeValues["reserved_concurrent_executions"]) >= 0 {
			return true
		}
	}
	return false
}

// schedule checks what calls the sweep.
func (p *planOf) schedule(sweep map[string]any) {
	address, rule := p.only("aws_cloudwatch_event_rule")
	if !rate.MatchString(text(rule["schedule_expression"])) {
		p.badf("%s: %q is no expression of EventBridge", address, rule["schedule_expression"])
	}
	if rule["event_pattern"] != nil {
		p.badf("%s: events that are not of a schedule are rejected", address)
	}
	address, target := p.only("aws_cloudwatch_event_target")
	if target["input"] != nil || target["input_path"] != nil || len(blocks(target, "input_transformer")) > 0 {
		p.badf("%s: the sweep rejects an event that is changed", address)
	}
	if retries := blocks(target, "retry_policy"); len(retries) != 1 || number(retries[0]["maximum_retry_attempts"]) < 1 {
		p.badf("%s: it is not tried again", address)
	}
	for _, r := range blocks(target, "retry_policy") {
		if age := number(r["maximum_event_age_in_seconds"]); age < 60 {
			p.badf("%s: EventBridge cannot drop an event after %v s", address, age)
		}
	}
	if len(blocks(target, "dead_letter_config")) != 1 {
		p.badf("%s: it has no dead-letter queue", address)
	}
	if concurrency := number(sweep["reserved_concurrent_executions"]); concurrency < 1 && p.reserves() || concurrency > 2 {
		p.badf("function sweep: %v sweeps at once", concurrency)
	}
	address, again := p.only("aws_lambda_function_event_invoke_config")
	if c := blocks(again, "destination_config"); len(c) != 1 || len(blocks(c[0], "on_failure")) != 1 {
		p.badf("%s: a sweep that fails is dropped", address)
	}
}

// queues makes sure that only what is planned sends to them.
func (p *planOf) queues() {
	for address, r := range resources(p.Plan, "aws_sqs_queue") {
		for _, s := range p.policy(address, text(r.AttributeValues["policy"])).Statement {
			if s.Effect == "Allow" && (s.Condition["ArnEquals"]["aws:SourceArn"] == nil ||
				!slices.Equal(s.Action, []string{"sqs:SendMessage"})) {
				p.badf("%s: %v may %v", address, s.Principal, s.Action)
			}
		}
	}
}

// alarmed makes sure that failures raise an alarm.
func (p *planOf) alarmed(handler string, v map[string]any) {
	found := map[string]bool{}
	for _, r := range resources(p.Plan, "aws_cloudwatch_metric_alarm") {
		d, _ := r.AttributeValues["dimensions"].(map[string]any)
		if d["FunctionName"] == v["function_name"] {
			found[text(r.AttributeValues["metric_name"])] = true
		}
	}
	for _, metric := range []string{"Errors", "Throttles"} {
		if !found[metric] {
			p.badf("function %s: no alarm on %s", handler, metric)
		}
	}
}

// measured makes sure that the alarms and the dashboard on the program's own metrics are those of observability/, if
// the program writes them.
func (p *planOf) measured(api map[string]any, analyses bool) {
	writes, namespace := false, ""
	for _, e := range blocks(api, "environment") {
		variables, _ := e["variables"].(map[string]any)
		writes, namespace = variables["LEASEHOLD_METRICS_EMF"] == "true", emf.Namespace(text(variables["LEASEHOLD_TABLE"]))
	}
	want, got := map[string]string{}, map[string]string{}
	if content, err := os.ReadFile(observability + "/cloudwatch/alarms.json"); err != nil {
		p.badf("%v", err)
	} else if writes {
		var alarms []struct {
			AlarmName, AlarmDescription, MetricName, Statistic, ExtendedStatistic, ComparisonOperator,
			TreatMissingData string
			Threshold, Period,
			EvaluationPeriods float64
			Dimensions []struct{ Name, Value string }
		}
		if err := json.Unmarshal(content, &alarms); err != nil {
			p.badf("%v", err)
		}
		for _, a := range alarms {
			dimensions := map[string]any{}
			for _, d := range a.Dimensions {
				dimensions[d.Name] = d.Value
			}
			want[a.AlarmName] = fmt.Sprint(a.AlarmDescription, namespace, a.MetricName, a.Statistic, a.ExtendedStatistic,
				a.ComparisonOperator, a.TreatMissingData,
				a.Threshold, a.Period, a.EvaluationPeriods, dimensions)
		}
		if !analyses {
			delete(want, "LeaseholdSweepStopped")
		}
	}
	for address, r := range resources(p.Plan, "aws_cloudwatch_metric_alarm") {
		v := r.AttributeValues
		if !strings.Contains(address, ".metrics[") {
			continue
		}
		dimensions, _ := v["dimensions"].(map[string]any)
		if dimensions == nil {
			dimensions = map[string]any{}
		}
		name := text(v["alarm_name"])
		got[name[strings.LastIndex(name, "-Leasehold")+1:]] = fmt.Sprint(text(v["alarm_description"]), v["namespace"],
			v["metric_name"], text(v["statistic"]), text(v["extended_statistic"]),
			v["comparison_operator"], v["treat_missing_data"], number(v["threshold"]), number(v["period"]),
			number(v["evaluation_periods"]), dimensions)
	}
	for name, as := range want {
		if got[name] != as {
			p.badf("alarm %s is %q, and %q in observability/", name, got[name], as)
		}
	}
	for name := range got {
		if want[name] == "" {
			p.badf("alarm %s is too much", name)
		}
	}
	for address, r := range resources(p.Plan, "aws_cloudwatch_dashboard") {
		var want, got any
		content, err := os.ReadFile(observability + "/cloudwatch/dashboard.json")
		content = bytes.ReplaceAll(content, []byte("us-east-1"), []byte(region))
		content = bytes.ReplaceAll(content, []byte(emf.Namespace("leasehold")), []byte(namespace))
		if err := cmp.Or(err, json.Unmarshal(content, &want),
			json.Unmarshal([]byte(text(r.AttributeValues["dashboard_body"])), &got)); err != nil ||
			!reflect.DeepEqual(got, want) {
			p.badf("%s: it is not that of observability/, in its own region: %v", address, err)
		}
	}
	if n := len(resources(p.Plan, "aws_cloudwatch_dashboard")); (n == 1) != writes {
		p.badf("there are %d dashboards", n)
	}
}

// packaged writes a zip like that of a release into the copy, and returns its path. Without a program it has a script.
func packaged(t testing.TB, root, bootstrap string) string {
	t.Helper()
	content := []byte("#!/bin/sh\n")
	if bootstrap != "" {
		var err error
		if content, err = os.ReadFile(bootstrap); err != nil {
			t.Fatal(err)
		}
	}
	path := filepath.Join(root, "lambda.zip")
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	z := zip.NewWriter(file)
	w, err := z.Create("bootstrap")
	if err == nil {
		_, err = w.Write(content)
	}
	if err := cmp.Or(err, z.Close()); err != nil {
		t.Fatal(err)
	}
	return path
}

// The examples, and what they are planned with.
const (
	minimalExample    = "aws/examples/minimal"
	productionExample = "aws/examples/production/functions"
)

// example is a copy of an example with its variables.
func example(t *testing.T, dir string) (*configuration, []string) {
	t.Helper()
	c := configured(t, mirror(t, awsProvider), dir, accountless)
	variables := []string{"region=" + region, "package=" + packaged(t, c.root, "")}
	if dir == productionExample {
		variables = append(variables, inProduction...)
		variables = append(variables, "kms_key_arn=arn:aws:kms:"+region+":"+account+":key/0000")
	}
	return c, variables
}

// inProduction are the variables of the production example.
var inProduction = []string{
	"environment=staging", "account_id=" + account, "issuer=https://issuer.example", "audience=leasehold",
	"target_url=https://work.example/run", "target_audience=work",
	`alarm_topic_arns=["arn:aws:sns:` + region + ":" + account + `:alarms"]`, "monthly_usd=50",
	`budget_emails=["operations@example.com"]`, "repository=acme/deployment", "audit_locked=true",
}

// TestFunctions: what the examples plan is what the program wants.
func TestFunctions(t *testing.T) {
	t.Parallel()
	for _, dir := range []string{minimalExample, productionExample} {
		t.Run(dir, func(t *testing.T) {
			t.Parallel()
			c, variables := example(t, dir)
			p, refused := c.plan(variables...)
			if p == nil {
				t.Fatal(refused)
			}
			for _, problem := range checkFunctions(p) {
				t.Error(problem)
			}
			if (&planOf{Plan: p}).reserves() == (dir == minimalExample) {
				t.Error("the first apply is in a new account, which cannot reserve instances; production reserves them")
			}
		})
	}
}
