package tests

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-lambda-go/events"

	"github.com/leasehold-dev/leasehold/adapters/awsdynamodb"
	"github.com/leasehold-dev/leasehold/emulator/dynamodbtest"
	"github.com/leasehold-dev/leasehold/proof/lambdatest"
)

// respond invokes the function with an event and decodes the HTTP response.
func respond(t *testing.T, l *lambdatest.Instance, event []byte) (int, string) {
	t.Helper()
	a := l.Invoke(t, event, failAfter)
	var response events.LambdaFunctionURLResponse
	if err := json.Unmarshal(a.Body, &response); err != nil || a.Failed {
		t.Fatalf("failed: %v, %v: %s", a.Failed, err, a.Body)
	}
	return response.StatusCode, response.Body
}

// lambdaFile is one of the events that the tests of functions/aws keep, with words replaced.
func lambdaFile(t *testing.T, name string, oldnew ...string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("..", "functions", "aws", "testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(oldnew); i += 2 {
		if !bytes.Contains(b, []byte(oldnew[i])) {
			t.Fatalf("%s has no %s", name, oldnew[i])
		}
	}
	return []byte(strings.NewReplacer(oldnew...).Replace(string(b)))
}

// A trace that requests of tests are part of.
const (
	traceID     = "0af7651916cd43dd8448eb211c80319c"
	traceparent = "00-" + traceID + "-b7ad6b7169203331-01"
)

// TestLambda runs the function as Lambda does, over DynamoDB's emulator.
func TestLambda(t *testing.T) {
	t.Parallel()
	begin := time.Now()
	db := dynamodbtest.Start(t, nil)
	openDynamo(t, dynamoClient(db.URL, http.DefaultTransport), "locks", awsdynamodb.Options{}) // creates the table
	bootstrap := build(t, "functions/aws/lambda", "-tags", lambdaTags)
	env := []string{"LEASEHOLD_TABLE=locks", "LEASEHOLD_ENDPOINT=" + db.URL, "LEASEHOLD_FRONT_DOOR=http-api,url"}

	t.Run("behind authorizers", func(t *testing.T) {
		l := lambdatest.Start(t, bootstrap, "api", append(env, "LEASEHOLD_AUTH_TENANT=acme")...)
		var granted int64
		for _, c := range []struct {
			name   string
			event  []byte
			status int
			says   []string
		}{
			{"free", lambdaFile(t, "apigw_jwt.json"), 200, []string{`"owner_id":"svc-deploy"`, `"replayed":false`}},
			{"again", lambdaFile(t, "apigw_jwt.json"), 200, []string{`"replayed":true`}},
			{"another owner", lambdaFile(t, "apigw_jwt.json", "svc-deploy", "svc-other"), 409,
				[]string{`"code":"LOCK_HELD"`, `"owner_id":"svc-deploy"`}},
			{"an IAM caller", lambdaFile(t, "apigw_iam.json"), 409, []string{`"code":"LOCK_HELD"`}},
			{"another tenant", lambdaFile(t, "apigw_jwt.json", "tenants/acme", "tenants/rival"), 403,
				[]string{`"code":"PERMISSION_DENIED"`}},
			{"a token of another tenant", lambdaFile(t, "apigw_jwt.json", `"tenant_id": "acme"`, `"tenant_id": "rival"`), 403,
				[]string{`"code":"PERMISSION_DENIED"`}},
			{"no authorizer", lambdaFile(t, "forged_headers.json"), 401, []string{`"code":"UNAUTHENTICATED"`}},
			{"key with slashes", lambdaFile(t, "apigw_key_with_slashes.json"), 200, []string{`"lock_key":"a/b c%2F"`}},
			{"read it at a function URL", lambdaFile(t, "url_iam.json"), 200,
				[]string{`"lock_key":"a/b c%2F"`, `"owner_id":"svc-deploy"`}},
			{"list", lambdaFile(t, "apigw_stage.json"), 200, []string{`"lock_key":"a/b c%2F"`}},
			{"bad base64", lambdaFile(t, "bad_base64.json"), 400, []string{`"field":"body"`}},
		} {
			status, body := respond(t, l, c.event)
			if status != c.status || slices.ContainsFunc(c.says, func(s string) bool { return !strings.Contains(body, s) }) {
				t.Errorf("%s: %d %s, want %d with %v", c.name, status, body, c.status, c.says)
			}
			switch c.name {
			case "free":
				granted = firstLease(t, body, begin).FencingToken
			case "again":
				if again := firstLease(t, body, begin).FencingToken; again != granted {
					t.Errorf("the token became %d, it was %d", again, granted)
				}
			}
		}
		for _, name := range []string{"not_json.txt", "version_1.json", "no_http.json", "sqs.json"} {
			if a := l.Invoke(t, lambdaFile(t, name), failAfter); !a.Failed || !strings.Contains(string(a.Body), "the event") {
				t.Errorf("%s: %+v %s", name, a, a.Body)
			}
		}
		if status, body := respond(t, l, lambdaFile(t, "apigw_jwt.json")); status != http.StatusOK ||
			!strings.Contains(body, `"replayed":true`) {
			t.Errorf("after malformed events: %d %s", status, body)
		}
		l.Kill()
		checkLog(t, l.Log(), "fake-secret-key", "AKIAFAKE", "Bearer x")
		failed := 0
		for line := range strings.Lines(l.Log()) {
			if strings.Contains(line, `errorMessage`) { // the runtime's line about an invocation that failed
				if failed++; !strings.Contains(line, `"level":"ERROR"`) {
					t.Errorf("a failed invocation is logged as %s", line)
				}
			}
		}
		if failed != 4 {
			t.Errorf("%d failed invocations are in the log, want 4", failed)
		}
	})

	t.Run("the log is as the function's logging configuration says", func(t *testing.T) {
		traced := lambdaFile(t, "apigw_jwt.json", "locks/deploy", "locks/logged", `"headers": {`,
			`"headers": {"traceparent": "`+traceparent+`",`)
		held := bytes.ReplaceAll(traced, []byte("svc-deploy"), []byte("svc-other"))
		write := func(env ...string) string {
			l := lambdatest.Start(t, bootstrap, "api", slices.Concat(
				[]string{"LEASEHOLD_TABLE=locks", "LEASEHOLD_ENDPOINT=" + db.URL, "LEASEHOLD_FRONT_DOOR=http-api"}, env)...)
			if status, body := respond(t, l, traced); status != http.StatusOK {
				t.Errorf("%d %s", status, body)
			}
			if status, body := respond(t, l, held); status != http.StatusConflict ||
				!strings.Contains(body, `"trace_id":"`+traceID+`"`) {
				t.Errorf("%d %s, want the ID of the trace", status, body)
			}
			l.Kill()
			return l.Log()
		}
		log := write()
		checkLog(t, log, "fake-secret-key")
		var lines []map[string]any
		for line := range strings.Lines(log) {
			var l map[string]any
			if err := json.Unmarshal([]byte(line), &l); err != nil {
				t.Fatal(err)
			}
			lines = append(lines, l)
		}
		started := lines[0]
		requests := slices.DeleteFunc(lines, func(l map[string]any) bool { return l["message"] != "request" })
		if started["message"] != "started" || started["stored"] != "in the DynamoDB table locks" ||
			started["version"] == "" ||
			!strings.Contains(fmt.Sprint(started["authentication"]), "API Gateway") {
			t.Errorf("the first line is %v", started)
		}
		for i, want := range []map[string]any{
			{"requestId": "1", "outcome": "ok", "status": 200., "subject": "svc-deploy"},
			{"requestId": "2", "outcome": "LOCK_HELD", "status": 409., "subject": "svc-other", "caller_tenant": "acme",
				"remote": "192.0.2.1"},
		} {
			maps.Copy(want, map[string]any{
				"level": "INFO", "message": "request", "method": "POST", "path": "/v1/tenants/acme/locks/logged/acquire",
				"tenant": "acme", "trace_id": traceID,
			})
			got := requests[i]
			for _, made := range []string{"timestamp", "took_ms", "request"} {
				if got[made] == nil {
					t.Errorf("line %d has no %s", i, made)
				}
				delete(got, made)
			}
			if !maps.Equal(got, want) {
				t.Errorf("line %d\ngot  %v\nwant %v", i, got, want)
			}
		}
		if log := write("AWS_LAMBDA_LOG_LEVEL=WARN"); log != "" {
			t.Errorf("from the level WARN on: %s", log)
		}
		if log := write("AWS_LAMBDA_LOG_FORMAT=Text"); !strings.Contains(log, "level=INFO message=request method=POST") ||
			!strings.Contains(log, "trace_id="+traceID+" requestId=2") {
			t.Errorf("as text: %s", log)
		}
	})

	t.Run("one tenant for tokens without a claim and for IAM", func(t *testing.T) {
		const role = "arn:aws:sts::123456789012:assumed-role/Deployer"
		l := lambdatest.Start(t, bootstrap, "api", append(env, "LEASEHOLD_AUTH_TENANT=acme",
			"LEASEHOLD_AUTH_SUBJECTS=svc-deploy,"+role, "LEASEHOLD_AUTH_ADMINS="+role)...)
		withoutTenant := []string{"tenant_id", "org"}
		for _, c := range []struct {
			name   string
			event  []byte
			status int
			says   string
		}{
			{"a token without a tenant", lambdaFile(t, "apigw_jwt.json", append(withoutTenant, "locks/deploy", "locks/one")...),
				200, `"owner_id":"svc-deploy"`},
			{"another subject", lambdaFile(t, "apigw_jwt.json", append(withoutTenant, "svc-deploy", "svc-other")...), 401,
				"LEASEHOLD_AUTH_SUBJECTS"},
			{"another tenant", lambdaFile(t, "apigw_jwt.json", "tenants/acme", "tenants/rival"), 403,
				`"code":"PERMISSION_DENIED"`},
			{"a role", lambdaFile(t, "apigw_iam.json", "locks/deploy", "locks/two"), 200, `"owner_id":"` + role},
			{"another ARN", lambdaFile(t, "apigw_iam.json", "assumed-role/Deployer", "assumed-role/Other"), 401,
				"LEASEHOLD_AUTH_SUBJECTS"},
		} {
			if status, body := respond(t, l, c.event); status != c.status || !strings.Contains(body, c.says) {
				t.Errorf("%s: %d %s, want %d with %s", c.name, status, body, c.status, c.says)
			}
		}
	})

	t.Run("behind a REST API, and nothing else", func(t *testing.T) {
		l := lambdatest.Start(t, bootstrap, "api", append(env, "LEASEHOLD_FRONT_DOOR=rest-api")...)
		if status, body := respond(t, l, lambdaFile(t, "rest_lambda_authorizer.json")); status != http.StatusOK ||
			!strings.Contains(body, `"owner_id":"1057"`) || !strings.Contains(body, `"lock_key":"rest/a"`) {
			t.Errorf("a Lambda authorizer's caller: %d %s", status, body)
		}
		if status, body := respond(t, l, lambdaFile(t, "apigw_jwt.json")); status != http.StatusForbidden ||
			!strings.Contains(body, "LEASEHOLD_FRONT_DOOR") {
			t.Errorf("an HTTP API's event: %d %s", status, body)
		}
		l.Kill()
		checkLog(t, l.Log())
		if log := l.Log(); !strings.Contains(log, `"level":"ERROR","message":"rejected an event`) ||
			!strings.Contains(log, `"remote":"192.0.2.1"`) {
			t.Errorf("the log: %s", log)
		}
	})

	t.Run("behind a load balancer", func(t *testing.T) {
		i := newIssuer(t)
		l := lambdatest.Start(t, bootstrap, "api", append(env, "LEASEHOLD_FRONT_DOOR=alb", "LEASEHOLD_AUTH_ISSUER="+i.URL,
			"LEASEHOLD_AUTH_AUDIENCE=leasehold")...)
		token := i.token(t, map[string]any{"sub": "by-token"})
		if status, body := respond(t, l, lambdaFile(t, "alb.json", "TOKEN", token)); status != http.StatusOK ||
			!strings.Contains(body, `"owner_id":"by-token"`) {
			t.Errorf("a token: %d %s", status, body)
		}
		if status, body := respond(t, l, lambdaFile(t, "alb.json", "Bearer TOKEN",
			"Basic x")); status != http.StatusUnauthorized {
			t.Errorf("the load balancer's own headers alone: %d %s", status, body)
		}
	})

	t.Run("deadline", func(t *testing.T) {
		l := lambdatest.Start(t, bootstrap, "api", env...)
		event := lambdaFile(t, "apigw_jwt.json", "locks/deploy", "locks/slow")
		// the instance has started
		if status, body := respond(t, l, lambdaFile(t, "url_cookies.json")); status != http.StatusOK {
			t.Fatalf("healthz: %d %s", status, body)
		}
		slow := db.Inject(dynamodbtest.Fault{Kind: dynamodbtest.Delay, Op: "UpdateItem", Delay: time.Hour})
		const timeout = 1500 * time.Millisecond
		// That the response leaves half a second before the deadline is shown in functions/aws, by a clock that load does not
		// slow.
		if a := l.Invoke(t, event, timeout); a.Failed || !strings.Contains(string(a.Body), "DEADLINE_EXCEEDED") {
			t.Errorf("%+v %s", a, a.Body)
		}
		slow.Remove()
		status, body := respond(t, l, event)
		if status != http.StatusOK {
			t.Errorf("the next invocation: %d %s", status, body)
		}
		firstLease(t, body, begin)
	})

	t.Run("with an issuer", func(t *testing.T) {
		i := newIssuer(t)
		l := lambdatest.Start(t, bootstrap, "api", append(env, "LEASEHOLD_AUTH_ISSUER="+i.URL,
			"LEASEHOLD_AUTH_AUDIENCE=leasehold")...)
		if status, body := respond(t, l, lambdaFile(t, "apigw_jwt.json")); status != http.StatusUnauthorized {
			t.Errorf("an authorizer's word where tokens count: %d %s", status, body)
		}
		token := i.token(t, map[string]any{"sub": "by-token"})
		status, body := respond(t, l, lambdaFile(t, "forged_headers.json", "Bearer x", "Bearer "+token,
			"locks/deploy", "locks/token"))
		if status != http.StatusOK || !strings.Contains(body, `"owner_id":"by-token"`) {
			t.Errorf("a token: %d %s", status, body)
		}
		l.Kill()
		checkLog(t, l.Log(), token[:strings.LastIndexByte(token, '.')])
	})

	t.Run("settings that cannot work", func(t *testing.T) {
		l := lambdatest.Start(t, bootstrap, "api", "LEASEHOLD_ENDPOINT="+db.URL)
		select {
		case <-l.Ended():
		case <-time.After(failAfter):
			t.Fatal("the instance goes on")
		}
		if l.ExitCode() != 1 || !strings.Contains(l.Log(), "LEASEHOLD_TABLE is required") {
			t.Errorf("exit code %d, %s; want 1", l.ExitCode(), l.Log())
		}
		checkLog(t, l.Log(), "fake-secret-key")
	})

	t.Run("a table that is not there", func(t *testing.T) {
		described := db.Count("DescribeTable")
		l := lambdatest.Start(t, bootstrap, "api", "LEASEHOLD_ENDPOINT="+db.URL, "LEASEHOLD_TABLE=missing",
			"LEASEHOLD_AUTH_TENANT=acme", "LEASEHOLD_FRONT_DOOR=http-api")
		for range 2 { // the instance lives on, in case that the table is being created
			if status, body := respond(t, l, lambdaFile(t, "apigw_jwt.json")); status != http.StatusInternalServerError ||
				strings.Contains(body, "missing") {
				t.Errorf("%d %s", status, body)
			}
		}
		if got := db.Count("DescribeTable") - described; got != 0 {
			t.Errorf("%d calls of the control plane", got)
		}
		l.Kill()
		if log := l.Log(); !strings.Contains(log, "table missing: there is no such table") {
			t.Errorf("the log does not say what is wrong: %s", log)
		}
		checkLog(t, l.Log(), "fake-secret-key")
	})
}

// TestOneCloudEach: an entry point carries the libraries of its own cloud alone. Both together cost some 9 MB.
func TestOneCloudEach(t *testing.T) {
	t.Parallel()
	for pkg, links := range map[string]struct{ foreign, own string }{
		module + "functions/aws/lambda": {"cloud.google.com/go", "functions/httpapi"},
		module + "functions/aws":        {"cloud.google.com/go", "functions/tasks"},
		module + "functions/tasks":      {"cloud.google.com/go", "once"}, // which a Lambda function uses too
		module + "functions/gcp":        {"github.com/aws", "functions/httpapi"},
		root:                            {"github.com/aws", "functions/httpapi"},
	} {
		out, err := exec.CommandContext(t.Context(), "go", "list", "-deps", pkg).Output()
		if err != nil {
			t.Fatal(fmt.Errorf("go list %s: %w", pkg, err))
		}
		deps := strings.Fields(string(out))
		if !slices.Contains(deps, module+links.own) {
			t.Errorf("%s has %d dependencies, and not %s", pkg, len(deps), links.own)
		}
		for _, d := range deps {
			if under(d, links.foreign) {
				t.Errorf("%s links %s", pkg, d)
			}
			for _, sdk := range []string{"go.opentelemetry.io/otel/sdk", "go.opentelemetry.io/otel/exporters",
				"github.com/prometheus"} {
				if under(d, sdk) {
					t.Errorf("%s links %s: functions have the API of OpenTelemetry, and no SDK", pkg, d)
				}
			}
		}
	}
}
