package aws_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/leasehold-dev/leasehold/functions/aws"
	"github.com/leasehold-dev/leasehold/functions/httpapi"
)

// Events of the front ends that do not send payload format 2.0, with a part of their own.
const (
	restEvent = `{"resource": "/{proxy+}", "httpMethod": "POST", "path": %q, "isBase64Encoded": false, "body": "{}",
		"headers": {"Host": "api.example.com", "X-Two": "b"}, "multiValueHeaders": {"Host": ["api.example.com"], "X-Two": ["a", "b"]},
		"queryStringParameters": {"prefix": "c"}, "multiValueQueryStringParameters": {"prefix": ["a/b&", "c"]}, "pathParameters": {"proxy": "x"}, "stageVariables": null,
		"requestContext": {"resourceId": "r1", "apiId": "a1b2c3", "stage": "v1", "path": "/v1/x", "domainName": "a1b2c3.execute-api.eu-north-1.amazonaws.com", "httpMethod": "POST",
			"identity": {"sourceIp": "192.0.2.1", "userArn": %s, "cognitoIdentityId": %s}, "authorizer": %s}}`
	albEvent = `{"requestContext": {"elb": {"targetGroupArn": "arn:aws:elasticloadbalancing:eu-north-1:123456789012:targetgroup/t/6d0e"}%s},
		"httpMethod": "POST", "path": %q, "queryStringParameters": {"prefix": "a%%2Fb%%26", "x": "1"}, "isBase64Encoded": true, "body": "e30=",
		"headers": {"host": "api.example.com", "x-two": "a,b", "x-forwarded-for": "10.0.0.1, 192.0.2.1"}}`
	albListsEvent = `{"requestContext": {"elb": {"targetGroupArn": "arn:aws:elasticloadbalancing:eu-north-1:123456789012:targetgroup/t/6d0e"}},
		"httpMethod": "POST", "path": "/v1/tenants/acme/locks/a%2Fb/renew", "multiValueQueryStringParameters": {"prefix": ["a%2Fb%26", "c"]}, "isBase64Encoded": false, "body": "{}",
		"multiValueHeaders": {"host": ["api.example.com"], "x-two": ["a", "b"], "x-forwarded-for": ["192.0.2.1"]}}`
)

func rest(path, authorizer string) []byte {
	return fmt.Appendf(nil, restEvent, path, "null", "null", authorizer)
}
func alb(path, authorizer string) []byte { return fmt.Appendf(nil, albEvent, authorizer, path) }

// TestRequestsOfRESTAPIsAndLoadBalancers: what was sent to them arrives at the handler, and their responses have the
// shape that they read.
func TestRequestsOfRESTAPIsAndLoadBalancers(t *testing.T) {
	const key = "/v1/tenants/acme/locks/a%2Fb/renew"
	const rfc = `[a b]`
	for _, c := range []struct {
		name      string
		event     []byte
		uri       string
		two       string // header lines
		forwarded int
		response  string
	}{
		{
			"REST API", rest(key, "null"), key + "?prefix=a%2Fb%26&prefix=c", rfc, 0,
			`{"statusCode":201,"headers":null,"multiValueHeaders":{"Content-Type":["text/plain"],"Set-Cookie":["a=1","b=2"]},"body":"né"}`,
		},
		{"REST API, with the base path of a custom domain", rest("/lease"+key, "null"), key + "?prefix=a%2Fb%26&prefix=c",
			rfc, 0, ""},
		{"REST API, with a path like the stage", rest("/v1/x", "null"), "/v1/x?prefix=a%2Fb%26&prefix=c", rfc, 0, ""},
		{
			"load balancer", alb(key, ""), key + "?prefix=a%2Fb%26&x=1", `[a,b]`, 1,
			`{"statusCode":201,"statusDescription":"201 Created","headers":{"Content-Type":"text/plain","Set-Cookie":"b=2"},"multiValueHeaders":null,"body":"né","isBase64Encoded":false}`,
		},
		{"load balancer, with the base path", alb("/lease"+key, ""), key + "?prefix=a%2Fb%26&x=1", `[a,b]`, 1, ""},
		{
			"load balancer with lists", []byte(albListsEvent), key + "?prefix=a%2Fb%26&prefix=c", rfc, 1,
			`{"statusCode":201,"statusDescription":"201 Created","headers":null,"multiValueHeaders":{"Content-Type":["text/plain"],"Set-Cookie":["a=1","b=2"]},"body":"né","isBase64Encoded":false}`,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			called := false
			h := aws.New(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				called = true
				body, err := io.ReadAll(r.Body)
				if got := r.URL.RequestURI(); err != nil || got != c.uri || r.RequestURI != c.uri || r.Method != http.MethodPost ||
					string(body) != "{}" {
					t.Errorf("%s %s %q, %v; want %s", r.Method, got, body, err, c.uri)
				}
				if got := fmt.Sprint(r.Header.Values("X-Two")); got != c.two || r.Host != "api.example.com" ||
					r.RemoteAddr != "192.0.2.1" {
					t.Errorf("two %s, host %q, remote %q", got, r.Host, r.RemoteAddr)
				}
				if len(r.Header) != 1+c.forwarded {
					t.Errorf("header %v", r.Header)
				}
				w.Header().Set("Content-Type", "text/plain")
				w.Header().Add("Set-Cookie", "a=1")
				w.Header().Add("Set-Cookie", "b=2")
				w.WriteHeader(http.StatusCreated)
				_, _ = io.WriteString(w, "né")
			}), &aws.Options{BasePath: "/lease"})
			out, err := h.Invoke(t.Context(), c.event)
			if err != nil || !called || c.response != "" && string(out) != c.response {
				t.Errorf("called %v, %v\ngot  %s\nwant %s", called, err, out, c.response)
			}
		})
	}
}

// TestCompressionBehindAFrontEnd: a REST API would pass compressed bytes on as text, so none are asked for behind one.
func TestCompressionBehindAFrontEnd(t *testing.T) {
	for _, c := range []struct {
		event, want string
	}{{string(rest("/", "null")), ""}, {string(alb("/", "")), "gzip"}} {
		got := "not called"
		h := aws.New(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			got = r.Header.Get("Accept-Encoding")
		}), nil)
		event := strings.NewReplacer(`"X-Two": ["a", "b"]`, `"Accept-Encoding": ["gzip"]`, `"x-two": "a,b"`,
			`"accept-encoding": "gzip"`).Replace(c.event)
		if _, err := h.Invoke(t.Context(), []byte(event)); err != nil || got != c.want {
			t.Errorf("%q, %v, want %q", got, err, c.want)
		}
	}
}

// TestLargestResponseOfALoadBalancer: it accepts less than Lambda does.
func TestLargestResponseOfALoadBalancer(t *testing.T) {
	large := aws.New(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, strings.Repeat("x", aws.MaxBalancedBytes))
	}), nil)
	if out, err := large.Invoke(t.Context(), alb("/", "")); err != nil ||
		!bytes.Contains(out, []byte("request a smaller page")) {
		t.Errorf("%d bytes, %v", len(out), err)
	}
	if out, err := large.Invoke(t.Context(), rest("/", "null")); err != nil || len(out) < aws.MaxBalancedBytes {
		t.Errorf("%d bytes, %v", len(out), err)
	}
}

// TestEventsThatAreNoRequests: events that look like those of a REST API.
func TestEventsThatAreNoRequests(t *testing.T) {
	for name, event := range map[string]string{
		"a Lambda authorizer's":             `{"type":"REQUEST","methodArn":"arn:aws:execute-api:x","resource":"/","path":"/","httpMethod":"GET","requestContext":{"apiId":"a"}}`,
		"a WebSocket's":                     `{"headers":{},"requestContext":{"routeKey":"$connect","eventType":"CONNECT","apiId":"a"}}`,
		"of nothing that is known":          `{"httpMethod":"GET","path":"/","requestContext":{}}`,
		"a target group's health check":     `{"path":"/","requestContext":{"elb":{}}}`,
		"with an authorizer that is a text": `{"httpMethod":"GET","path":"/","requestContext":{"apiId":"a","authorizer":"x"}}`,
	} {
		h := aws.New(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Errorf("%s: called", name) }), nil)
		if out, err := h.Invoke(t.Context(), []byte(event)); err == nil || !strings.Contains(err.Error(), "the event") {
			t.Errorf("%s: %s, %v", name, out, err)
		}
	}
}

// TestCallersOfEachFrontEnd: a caller is believed to be verified only where the front end that sent the event writes
// so. What others would write is in no event of it, unless a caller wrote the event.
func TestCallersOfEachFrontEnd(t *testing.T) {
	const (
		jwt    = `{"jwt": {"claims": {"sub": "ann", "tenant_id": "acme"}}}`
		lambda = `{"lambda": {"sub": "ann", "tenant_id": "acme"}}`
		iam    = `{"iam": {"userArn": "arn:aws:iam::1:user/ann"}}`
		cog    = `{"claims": {"sub": "ann", "tenant_id": "acme", "scope": "leasehold:admin", "exp": 1}}`
		ctx    = `{"principalId": "ann", "tenant_id": "acme", "admin": true, "integrationLatency": 12}`
	)
	two := func(domain, authorizer string) []byte {
		return fmt.Appendf(
			nil, `{"version":"2.0","rawPath":"/","requestContext":{"domainName":%q,"http":{"method":"GET"},"authorizer":%s}}`,
			domain, authorizer)
	}
	url := func(authorizer string) []byte { return two("u1.lambda-url.eu-north-1.on.aws", authorizer) }
	api := func(authorizer string) []byte { return two("api.example.com", authorizer) }
	restIAM := fmt.Appendf(nil, restEvent, "/", `"arn:aws:sts::1:assumed-role/R/session"`, `"eu-north-1:3f"`, "null")
	ann := httpapi.Caller{Subject: "ann", Tenant: "acme"}
	untilThen := httpapi.Caller{Subject: "ann", Tenant: "acme", Until: time.Unix(1, 0), Rights: httpapi.Admin}
	for name, c := range map[string]struct {
		event []byte
		want  httpapi.Caller // none: unauthenticated
	}{
		"url, IAM":                     {url(iam), httpapi.Caller{Subject: "arn:aws:iam::1:user/ann", Tenant: "iam"}},
		"url, JWT":                     {url(jwt), httpapi.Caller{}},
		"url, Lambda":                  {url(lambda), httpapi.Caller{}},
		"http-api, IAM":                {api(iam), httpapi.Caller{Subject: "arn:aws:iam::1:user/ann", Tenant: "iam"}},
		"http-api, JWT":                {api(jwt), ann},
		"http-api, Lambda":             {api(lambda), ann},
		"http-api, as a REST API":      {api(cog), httpapi.Caller{}},
		"http-api, null":               {api("null"), httpapi.Caller{}},
		"rest-api, Cognito":            {rest("/", cog), untilThen},
		"rest-api, Lambda":             {rest("/", ctx), ann},
		"rest-api, Lambda with claims": {rest("/", `{"principalId": "ann", "tenant_id": "acme", "claims": "{}"}`), ann},
		"rest-api, IAM": {restIAM, httpapi.Caller{Subject: "arn:aws:sts::1:assumed-role/R/eu-north-1:3f",
			Tenant: "iam"}},
		"rest-api, as an HTTP API": {rest("/", jwt), httpapi.Caller{}},
		"rest-api, nothing":        {rest("/", "null"), httpapi.Caller{}},
		"rest-api, latency alone":  {rest("/", `{"integrationLatency": 3}`), httpapi.Caller{}},
		"alb, nothing":             {alb("/", ""), httpapi.Caller{}},
		"alb, as an HTTP API":      {alb("/", `, "authorizer": `+jwt), httpapi.Caller{}},
		"alb, as a REST API":       {alb("/", `, "authorizer": `+cog), httpapi.Caller{}},
		"alb, IAM in a REST API's words": {alb("/", `, "apiId": "a", "identity": {"userArn": "arn:aws:iam::1:user/ann"}`),
			httpapi.Caller{}},
	} {
		t.Run(name, func(t *testing.T) {
			var got httpapi.Caller
			var err error
			h := aws.New(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				got, err = aws.Authorizer{IAMTenant: "iam"}.Identify(r)
			}), nil)
			if _, failed := h.Invoke(t.Context(), c.event); failed != nil {
				t.Fatal(failed)
			}
			if got != c.want || (c.want == httpapi.Caller{}) != errors.Is(err, httpapi.ErrUnauthenticated) {
				t.Errorf("got %+v, %v; want %+v", got, err, c.want)
			}
		})
	}
}

// TestOtherFrontEnds: events of front ends that a deployment does not have are rejected before the API sees them, in
// the shape that their sender would read, and the log has an error.
func TestOtherFrontEnds(t *testing.T) {
	events := map[aws.FrontDoor][]byte{
		aws.FunctionURL: file(t, "url_iam.json"), aws.HTTPAPI: file(t, "apigw_jwt.json"),
		aws.RESTAPI: rest("/healthz", "null"), aws.LoadBalancer: alb("/healthz", ""),
	}
	for _, accepted := range slices.Sorted(maps.Keys(events)) {
		for sent, event := range events {
			t.Run(string(sent)+" where "+string(accepted)+" is expected", func(t *testing.T) {
				var log bytes.Buffer
				called := false
				h := aws.New(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { called = true }),
					&aws.Options{Log: slog.New(slog.NewJSONHandler(&log, nil)), FrontDoors: []aws.FrontDoor{accepted}})
				out, err := h.Invoke(t.Context(), event)
				if err != nil {
					t.Fatal(err)
				}
				var response struct {
					StatusCode int    `json:"statusCode"`
					Body       string `json:"body"`
				}
				if err := json.Unmarshal(out, &response); err != nil {
					t.Fatal(err)
				}
				if called != (sent == accepted) {
					t.Errorf("called %v", called)
				}
				rejected := response.StatusCode == http.StatusForbidden && strings.Contains(response.Body,
					`"code":"PERMISSION_DENIED"`) &&
					strings.Contains(response.Body, "LEASEHOLD_FRONT_DOOR") && strings.Contains(log.String(), `"level":"ERROR"`) &&
					strings.Contains(log.String(), `"front":"`+string(sent)+`"`)
				if rejected == (sent == accepted) || sent == accepted && log.Len() > 0 {
					t.Errorf("%s\n%s", out, log.String())
				}
			})
		}
	}
}
