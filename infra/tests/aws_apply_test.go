package tests

import (
	"encoding/json"
	"encoding/xml"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-lambda-go/events"
	sdkaws "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	tfjson "github.com/hashicorp/terraform-json"

	"github.com/leasehold-dev/leasehold/proof/lambdatest"
)

// moto is a server that others wrote, which stands in for AWS: https://docs.getmoto.org.
type moto struct {
	t   *testing.T
	URL string
}

func startMoto(t *testing.T) *moto {
	t.Helper()
	if os.Getenv("LEASEHOLD_TEST_SERVERS") == "" {
		t.Skip("LEASEHOLD_TEST_SERVERS=1 applies the modules on moto_server, for about a minute and a half")
	}
	program, err := exec.LookPath("moto_server")
	if err != nil {
		t.Skip("SKIPPED: no moto_server on this machine, so that the modules are not applied: pip install 'moto[server]'")
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	_, port, _ := net.SplitHostPort(address)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	c := exec.CommandContext(t.Context(), program, "-H", "127.0.0.1", "-p", port)
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = c.Process.Kill()
		_ = c.Wait()
	})
	m := &moto{t, "http://" + address}
	for begin := time.Now(); ; time.Sleep(100 * time.Millisecond) { // until it listens
		if conn, err := net.Dial("tcp", address); err == nil {
			_ = conn.Close()
			return m
		}
		if time.Since(begin) > 2*time.Minute {
			t.Fatal("moto_server does not start")
		}
	}
}

// env is the environment of programs that call it.
func (m *moto) env() []string {
	return []string{"AWS_ENDPOINT_URL=" + m.URL, "AWS_REGION=" + region, "AWS_ACCESS_KEY_ID=test",
		"AWS_SECRET_ACCESS_KEY=test", "AWS_EC2_METADATA_DISABLED=true"}
}

// call sends a request of the query protocol, and decodes the response.
func (m *moto) call(service, version, action string, parameters map[string]string, into any) {
	m.t.Helper()
	form := url.Values{"Action": {action}, "Version": {version}}
	for name, value := range parameters {
		form.Set(name, value)
	}
	r, err := http.NewRequestWithContext(m.t.Context(), http.MethodPost, m.URL, strings.NewReader(form.Encode()))
	if err != nil {
		m.t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("Authorization", authorization(service))
	w, err := http.DefaultClient.Do(r)
	if err != nil {
		m.t.Fatal(err)
	}
	defer w.Body.Close()
	body, err := io.ReadAll(w.Body)
	if err != nil || w.StatusCode != http.StatusOK {
		m.t.Fatalf("%s: %d %s, %v", action, w.StatusCode, body, err)
	}
	if into != nil {
		if err := xml.Unmarshal(body, into); err != nil {
			m.t.Fatal(err)
		}
	}
}

// enforce makes it check policies of IAM from now on, or no longer.
func (m *moto) enforce(on bool) {
	m.t.Helper()
	after := "inf"
	if on {
		after = "0"
	}
	r, err := http.NewRequestWithContext(m.t.Context(), http.MethodPost, m.URL+"/moto-api/reset-auth",
		strings.NewReader(after))
	if err != nil {
		m.t.Fatal(err)
	}
	w, err := http.DefaultClient.Do(r)
	if err != nil {
		m.t.Fatal(err)
	}
	defer w.Body.Close()
	if w.StatusCode != http.StatusOK {
		m.t.Fatal(w.Status)
	}
}

// assume returns the variables of a program that runs as the role of a function, with the actions of its policy on
// everything: moto does not compare resources of DynamoDB as AWS does.
func (m *moto) assume(role, document string) []string {
	m.t.Helper()
	var p policy
	if err := json.Unmarshal([]byte(document), &p); err != nil {
		m.t.Fatal(err)
	}
	for i := range p.Statement {
		p.Statement[i].Resource, p.Statement[i].Condition = []string{"*"}, nil
	}
	everywhere, err := json.Marshal(p)
	if err != nil {
		m.t.Fatal(err)
	}
	m.call("iam", "2010-05-08", "PutRolePolicy", map[string]string{"RoleName": role, "PolicyName": "leasehold",
		"PolicyDocument": string(everywhere)}, nil)
	var assumed struct {
		//nolint:revive // as the service writes it
		Credentials struct{ AccessKeyId, SecretAccessKey, SessionToken string } `xml:"AssumeRoleResult>Credentials"`
	}
	m.call("sts", "2011-06-15", "AssumeRole", map[string]string{"RoleArn": "arn:aws:iam::" + account + ":role/" + role,
		"RoleSessionName": "test"}, &assumed)
	k := assumed.Credentials
	return []string{
		"AWS_ENDPOINT_URL=" + m.URL, "AWS_REGION=" + region, "AWS_ACCESS_KEY_ID=" + k.AccessKeyId,
		"AWS_SECRET_ACCESS_KEY=" + k.SecretAccessKey, "AWS_SESSION_TOKEN=" + k.SessionToken,
	}
}

// started is a run of Terraform beside others: the provider waits for most of an apply, and needs no processor for
// that. The function that it returns waits for its end.
func (c *configuration) started(args ...string) func() (string, error) {
	var out string
	var err error
	done := make(chan struct{})
	go func() {
		defer close(done)
		out, err = c.run(args...)
	}()
	return func() (string, error) {
		<-done
		return out, err
	}
}

// unattended are arguments of a command that changes what is there, without questions.
func unattended(command string, variables []string) []string {
	args := []string{command, "-auto-approve", "-input=false", "-no-color", "-parallelism=20"}
	for _, v := range variables {
		args = append(args, "-var", v)
	}
	return args
}

// state is what the last apply of the folder left, as the values of a plan.
func (c *configuration) state() *tfjson.Plan {
	c.tb.Helper()
	out, err := c.run("show", "-json")
	if err != nil {
		c.tb.Fatalf("show: %v\n%s", err, out)
	}
	var s tfjson.State
	if err := json.Unmarshal([]byte(out), &s); err != nil {
		c.tb.Fatal(err)
	}
	return &tfjson.Plan{PlannedValues: s.Values}
}

// TestApply: what the production example creates works with the programs, each under the role of its function; and the
// table outlives a destroy.
func TestApply(t *testing.T) {
	t.Parallel()
	providers := mirror(t, awsProvider)
	begin := time.Now()
	after := func(what string) { t.Logf("%s after %v", what, time.Since(begin).Round(time.Second)) }
	m := startMoto(t)
	bootstrap := built(t)

	table := configured(t, providers, "aws/examples/production/table", m.env()...)
	// What moto does not know, and the provider waits for.
	table.change("aws/functions/analyses.tf", `resource "aws_sqs_queue_redrive_allow_policy" "analyses_dead" {
  count = var.analyses ? 1 : 0`, `resource "aws_sqs_queue_redrive_allow_policy" "analyses_dead" {
  count = 0`)
	table.change("aws/functions/alarms.tf", "count = var.budget == null ? 0 : 1", "count = 0")
	functions := table.in(providers, productionExample)
	after("begun")
	// Both at once: the functions name the table and need it only when they are called.
	ofTable := []string{"region=" + region, "environment=staging", "account_id=" + account}
	variables := append(slices.Clone(inProduction), "region="+region, "package="+packaged(t, functions.root, bootstrap))
	applyTable := table.started(unattended("apply", ofTable)...)
	if out, err := functions.run(unattended("apply", variables)...); err != nil {
		t.Fatalf("apply of the functions: %v\n%s", err, out)
	}
	if out, err := applyTable(); err != nil {
		t.Fatalf("apply of the table: %v\n%s", err, out)
	}
	there, work := functions.state(), workServer(t)
	after("applied")

	env, roles := map[string][]string{}, map[string][]string{}
	for address, r := range resources(there, "aws_lambda_function") {
		handler := text(r.AttributeValues["handler"])
		for _, e := range blocks(r.AttributeValues, "environment") {
			values, _ := e["variables"].(map[string]any)
			for name, value := range values {
				env[handler] = append(env[handler], name+"="+text(value))
			}
		}
		policies := resources(there, "aws_iam_role_policy")
		document := policies[strings.Replace(address, "aws_lambda_function.this", "aws_iam_role_policy.function", 1)]
		roles[handler] = m.assume(text(r.AttributeValues["function_name"]), text(document.AttributeValues["policy"]))
	}
	queue := ""
	for _, kv := range env["sweep"] {
		if value, ok := strings.CutPrefix(kv, "LEASEHOLD_QUEUE_URL="); ok {
			queue = value
		}
	}
	for _, r := range resources(there, "aws_lambda_event_source_mapping") {
		m.unmap(text(r.AttributeValues["uuid"]))
	}
	payload := m.batch(queue)
	for i, kv := range env["worker"] {
		if strings.HasPrefix(kv, "LEASEHOLD_TARGET_URL=") {
			env["worker"][i] = "LEASEHOLD_TARGET_URL=" + work
		}
	}
	// moto has no such tokens
	env["worker"] = slices.DeleteFunc(env["worker"], func(kv string) bool {
		return strings.HasPrefix(kv, "LEASEHOLD_TARGET_AUDIENCE=")
	})
	// No issuer is there either: the events of the HTTP API are believed.
	env["api"] = slices.DeleteFunc(env["api"], func(kv string) bool { return strings.HasPrefix(kv, "LEASEHOLD_AUTH_") })

	m.enforce(true)
	claims := map[string]string{"sub": "caller", "tenant_id": "acme",
		"scope": "leasehold:admin leasehold:operate leasehold:worker leasehold:ids"}
	start := func(handler, role string) *lambdatest.Instance {
		return lambdatest.Start(t, bootstrap, handler, append(slices.Clone(env[handler]), roles[role]...)...)
	}
	api := &caller{t: t, http: http.Client{Transport: lambdatest.NewHTTPAPI(claims, start("api", "api"))}}
	lease := api.call("POST", "/v1/tenants/acme/locks/a/acquire",
		object{"request_id": "1", "owner_id": "o", "ttl_seconds": 600})
	api.call("POST", "/v1/tenants/acme/locks/a/renew", object{"request_id": "2", "owner_id": "o", "ttl_seconds": 600,
		"fencing_token": member(t, lease, "fencing_token")})
	api.call("GET", "/v1/tenants/acme/locks", nil)
	api.call("GET", "/readyz", nil)
	api.call("PUT", "/v1/analyses/r1", nil)
	if r := start("worker", "worker").Invoke(t, payload, time.Minute); r.Failed ||
		string(r.Body) != `{"batchItemFailures":[]}` {
		t.Errorf("worker: %s", r.Body)
	}
	if got := api.call("GET", "/v1/analyses/r1", nil); got["status"] != "READY" {
		t.Errorf("after the worker: %v", got)
	}
	if r := start("sweep", "sweep").Invoke(t, []byte(`{"detail-type":"Scheduled Event"}`), time.Minute); r.Failed {
		t.Errorf("sweep: %s", r.Body)
	}
	// That the roles decide is seen by one that is not enough.
	other := http.Client{Transport: lambdatest.NewHTTPAPI(claims, start("api", "worker"))}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://api.example/v1/tenants/acme/locks", nil)
	if err != nil {
		t.Fatal(err)
	}
	w, err := other.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Body.Close()
	if w.StatusCode < http.StatusInternalServerError {
		t.Errorf("the function api with the role of the worker: %s", w.Status)
	}
	m.enforce(false)
	after("used")

	destroyed := functions.started(unattended("destroy", variables)...)
	if out, err := table.run(unattended("destroy", ofTable)...); err == nil ||
		!strings.Contains(out, "Instance cannot be destroyed") {
		t.Errorf("the table: %v\n%s", err, out)
	}
	table.change("aws/table/main.tf", "prevent_destroy = true", "prevent_destroy = false")
	if out, err := table.run(unattended("destroy", ofTable)...); err == nil ||
		!strings.Contains(out, "DeletionProtectionEnabled") {
		t.Errorf("the table without prevent_destroy: %v\n%s", err, out)
	}
	if out, err := destroyed(); err != nil {
		t.Errorf("the functions: %v\n%s", err, out)
	}
	after("destroyed")
}

// unmap turns the mapping of the queue to its worker off: moto would run the worker itself, in Docker.
func (m *moto) unmap(uuid string) {
	m.t.Helper()
	r, err := http.NewRequestWithContext(m.t.Context(), http.MethodPut, m.URL+"/2015-03-31/event-source-mappings/"+uuid,
		strings.NewReader(`{"Enabled":false}`))
	if err != nil {
		m.t.Fatal(err)
	}
	r.Header.Set("Authorization", authorization("lambda"))
	w, err := http.DefaultClient.Do(r)
	if err != nil {
		m.t.Fatal(err)
	}
	defer w.Body.Close()
	if w.StatusCode >= http.StatusMultipleChoices {
		m.t.Fatal(w.Status)
	}
}

// authorization is a header from which moto reads which service is called.
func authorization(service string) string {
	return fmt.Sprintf("AWS4-HMAC-SHA256 Credential=test/20260101/%s/%s/aws4_request, SignedHeaders=host, Signature=0",
		region, service)
}

// batch sends a message to the queue, and returns the event by which Lambda hands it to a worker.
func (m *moto) batch(queue string) []byte {
	m.t.Helper()
	client := sqs.New(sqs.Options{Region: region, BaseEndpoint: &m.URL,
		Credentials: credentials.NewStaticCredentialsProvider("test", "test", "")})
	if _, err := client.SendMessage(m.t.Context(), &sqs.SendMessageInput{QueueUrl: &queue,
		MessageBody: sdkaws.String(`{"analysisId":"r1"}`)}); err != nil {
		m.t.Fatal(err)
	}
	out, err := client.ReceiveMessage(m.t.Context(), &sqs.ReceiveMessageInput{QueueUrl: &queue})
	if err != nil || len(out.Messages) != 1 {
		m.t.Fatalf("%v, %v", out, err)
	}
	payload, err := json.Marshal(events.SQSEvent{Records: []events.SQSMessage{{
		MessageId: *out.Messages[0].MessageId, ReceiptHandle: *out.Messages[0].ReceiptHandle, Body: *out.Messages[0].Body,
		EventSource:    "aws:sqs",
		EventSourceARN: "arn:aws:sqs:" + region + ":" + account + ":" + filepath.Base(queue),
		Attributes:     map[string]string{"ApproximateReceiveCount": "1"},
	}}})
	if err != nil {
		m.t.Fatal(err)
	}
	return payload
}
