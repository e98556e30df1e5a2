package aws_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-lambda-go/events"
	"github.com/aws/aws-lambda-go/lambda"

	"github.com/leasehold-dev/leasehold/contracts"
	"github.com/leasehold-dev/leasehold/functions/aws"
)

var _ lambda.Handler = (*aws.Handler)(nil)

func file(t *testing.T, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// invoke hands an event to a handler and decodes its response.
func invoke(t *testing.T, h http.HandlerFunc, event []byte) events.LambdaFunctionURLResponse {
	t.Helper()
	out, err := aws.New(h, nil).Invoke(t.Context(), event)
	if err != nil {
		t.Fatal(err)
	}
	var response events.LambdaFunctionURLResponse
	if err := json.Unmarshal(out, &response); err != nil {
		t.Fatalf("%v in %s", err, out)
	}
	return response
}

// TestRequests: what was sent to the platform arrives at the handler, byte for byte.
func TestRequests(t *testing.T) {
	const lock = `{"request_id":"r1","ttl_seconds":30}`
	for _, c := range []struct {
		file, uri, path, host, body string
		header                      http.Header // beside User-Agent and X-Forwarded-Proto
	}{
		{
			file: "apigw_jwt.json", uri: "POST /v1/tenants/acme/locks/deploy/acquire",
			path: "/v1/tenants/acme/locks/deploy/acquire", body: lock,
			header: http.Header{"Content-Type": {"application/json"}},
		},
		{
			file: "apigw_base64.json", uri: "POST /v1/tenants/acme/locks/deploy/acquire",
			path: "/v1/tenants/acme/locks/deploy/acquire", body: `{"request_id":"✓"}`,
		},
		{ // an HTTP API has resolved the escapes
			file: "apigw_key_with_slashes.json", uri: "POST /v1/tenants/acme/locks/a/b%20c%252F/acquire",
			path: "/v1/tenants/acme/locks/a/b c%2F/acquire", body: lock,
			header: http.Header{"Content-Type": {"application/json"}},
		},
		{
			file: "apigw_stage.json", uri: "GET /v1/tenants/acme/locks?prefix=a%2Fb&state=ACTIVE",
			path: "/v1/tenants/acme/locks",
		},
		{ // a function URL has not
			file: "url_iam.json", uri: "GET /v1/tenants/acme/locks/a%2Fb%20c%252F",
			path: "/v1/tenants/acme/locks/a/b c%2F", host: "u1u2u3.lambda-url.eu-north-1.on.aws",
		},
		{
			file: "url_cookies.json", uri: "GET /healthz?x=1&x=2", path: "/healthz",
			host: "u1u2u3.lambda-url.eu-north-1.on.aws",
			header: http.Header{
				"Accept": {"application/json,text/plain"}, "X-Request-Id": {"q1"}, "Cookie": {"a=1; b=2"},
			},
		},
	} {
		t.Run(c.file, func(t *testing.T) {
			called := false
			response := invoke(t, func(w http.ResponseWriter, r *http.Request) {
				called = true
				if got := r.Method + " " + r.URL.RequestURI(); got != c.uri || r.URL.Path != c.path ||
					r.Method+" "+r.RequestURI != c.uri {
					t.Errorf("got %s (%s), want %s (%s)", got, r.URL.Path, c.uri, c.path)
				}
				host := c.host
				if host == "" {
					host = "a1b2c3.execute-api.eu-north-1.amazonaws.com"
				}
				if r.Host != host {
					t.Errorf("host %q, want %q", r.Host, host)
				}
				want := http.Header{"User-Agent": {"curl/8.5.0"}, "X-Forwarded-Proto": {"https"}}
				maps.Copy(want, c.header)
				if !maps.EqualFunc(r.Header, want, slices.Equal) {
					t.Errorf("header\ngot  %v\nwant %v", r.Header, want)
				}
				if b, err := io.ReadAll(r.Body); err != nil || string(b) != c.body || r.ContentLength != int64(len(c.body)) {
					t.Errorf("body %q of %d bytes, %v; want %q", b, r.ContentLength, err, c.body)
				}
				w.WriteHeader(http.StatusNoContent)
			}, file(t, c.file))
			if !called || response.StatusCode != http.StatusNoContent {
				t.Errorf("called %v, got %+v", called, response)
			}
		})
	}
}

// TestEscapesOfAnHTTPAPI: it has resolved the escapes of a path. What is left is escaped again, once; which slashes are
// inside of names, package httpapi finds out.
func TestEscapesOfAnHTTPAPI(t *testing.T) {
	for raw, want := range map[string]string{
		"/v1/tenants/t/locks/k/renew": "/v1/tenants/t/locks/k/renew", "/v1/tenants/t/locks/a/b": "/v1/tenants/t/locks/a/b",
		"/v1/tenants/t/locks//a//renew": "/v1/tenants/t/locks//a//renew", "/v1/tenants/t/locks/..": "/v1/tenants/t/locks/..",
		"/v1/tenants/t/locks/100%": "/v1/tenants/t/locks/100%25", "/v1/tenants/t/locks/a%2Fb": "/v1/tenants/t/locks/a%252Fb",
		"/v1/tenants/t/locks/a#b": "/v1/tenants/t/locks/a%23b", "/v1/tenants/t/locks/a b+c": "/v1/tenants/t/locks/a%20b+c",
		"/v1/tenants/é/locks/鍵": "/v1/tenants/%C3%A9/locks/%E9%8D%B5", "/": "/",
	} {
		event, err := json.Marshal(map[string]any{
			"version": "2.0", "rawPath": raw,
			"requestContext": map[string]any{"stage": "$default", "http": map[string]string{"method": "GET"}},
		})
		if err != nil {
			t.Fatal(err)
		}
		var got string
		invoke(t, func(_ http.ResponseWriter, r *http.Request) { got = r.URL.EscapedPath() }, event)
		if got != want {
			t.Errorf("%s: got %s, want %s", raw, got, want)
		}
	}
}

// TestNotAnHTTPRequest: such an event fails the invocation, so that its sender learns of it. Nothing crashes.
func TestNotAnHTTPRequest(t *testing.T) {
	for name, says := range map[string]string{
		"not_json.txt":   "invalid character 'G'",
		"version_1.json": `payload format version "1.0": set the integration's payload format version to "2.0"`,
		"no_http.json":   "no requestContext.http.method",
		"sqs.json":       "not an HTTP request of a function URL, an HTTP API, a REST API or an Application Load Balancer",
	} {
		t.Run(name, func(t *testing.T) {
			h := aws.New(http.NotFoundHandler(), nil)
			out, err := h.Invoke(t.Context(), file(t, name))
			if err == nil || !strings.Contains(err.Error(), says) || out != nil {
				t.Errorf("got %s, %v; want an error that says %s", out, err, says)
			}
		})
	}
}

// TestMalformedRequests: a request that cannot be understood is a 400 that says why.
func TestMalformedRequests(t *testing.T) {
	for name, want := range map[string]contracts.Problem{
		"bad_base64.json": {Field: "body", Detail: "body is not base64, as the event says it is"},
		"bad_path.json": {Field: "path",
			Detail: `path is malformed: a "%" must be followed by two hexadecimal digits`},
		"bad_relative_path.json": {Field: "path", Detail: `path does not begin with "/"`},
		"bad_method.json":        {Field: "method", Detail: "method is not an HTTP method"},
	} {
		t.Run(name, func(t *testing.T) {
			response := invoke(t, func(http.ResponseWriter, *http.Request) { t.Error("called") }, file(t, name))
			got := problemIn(t, response)
			want.Code, want.Status, want.Title = contracts.CodeInvalidArgument, 400, "invalid field"
			want.Type = contracts.CodeInvalidArgument.TypeURI()
			if got != want {
				t.Errorf("got  %+v\nwant %+v", got, want)
			}
		})
	}
}

func problemIn(t *testing.T, response events.LambdaFunctionURLResponse) contracts.Problem {
	t.Helper()
	var p contracts.Problem
	if err := json.Unmarshal([]byte(response.Body), &p); err != nil {
		t.Fatalf("%v in %+v", err, response)
	}
	if p.Status != response.StatusCode || response.Headers["Content-Type"] != "application/problem+json" ||
		response.IsBase64Encoded {
		t.Errorf("got %+v", response)
	}
	return p
}

// TestResponses: what a handler writes is what the platform gets.
func TestResponses(t *testing.T) {
	type response = events.LambdaFunctionURLResponse
	const plain = "text/plain; charset=utf-8"
	for name, c := range map[string]struct {
		do   http.HandlerFunc
		want response
	}{
		"nothing": {
			func(http.ResponseWriter, *http.Request) {},
			response{StatusCode: 200, Headers: map[string]string{}},
		},
		"status alone": {
			func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) },
			response{StatusCode: 204, Headers: map[string]string{}},
		},
		"the first final status counts": {
			func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(http.StatusEarlyHints)
				w.WriteHeader(http.StatusConflict)
				w.WriteHeader(http.StatusOK)
			},
			response{StatusCode: 409, Headers: map[string]string{}},
		},
		"text in pieces": {
			func(w http.ResponseWriter, _ *http.Request) {
				_, _ = io.WriteString(w, "né")
				_, _ = io.WriteString(w, "e <\n")
			},
			response{StatusCode: 200, Headers: map[string]string{"Content-Type": plain}, Body: "née <\n"},
		},
		"bytes": {
			func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "image/x")
				_, _ = w.Write([]byte{0xff, 0})
			},
			response{StatusCode: 200, Headers: map[string]string{"Content-Type": "image/x"}, Body: "/wA=",
				IsBase64Encoded: true},
		},
		"several values": {
			func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Add("Vary", "A")
				w.Header().Add("Vary", "B")
				w.WriteHeader(http.StatusOK)
			},
			response{StatusCode: 200, Headers: map[string]string{"Vary": "A, B"}},
		},
		"cookies": {
			func(w http.ResponseWriter, _ *http.Request) {
				http.SetCookie(w, &http.Cookie{Name: "a", Value: "1", MaxAge: 5})
				http.SetCookie(w, &http.Cookie{Name: "b", Value: "2"})
			},
			response{StatusCode: 200, Headers: map[string]string{}, Cookies: []string{"a=1; Max-Age=5", "b=2"}},
		},
		"header after the status": {
			func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(http.StatusOK)
				w.Header().Set("X-Late", "x")
			},
			response{StatusCode: 200, Headers: map[string]string{}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := invoke(t, c.do, file(t, "url_cookies.json"))
			if got.StatusCode != c.want.StatusCode || got.Body != c.want.Body || got.IsBase64Encoded != c.want.IsBase64Encoded ||
				!maps.Equal(got.Headers, c.want.Headers) || !slices.Equal(got.Cookies, c.want.Cookies) {
				t.Errorf("got  %+v\nwant %+v", got, c.want)
			}
		})
	}
}

// TestHead: the response to HEAD has the header of the one to GET and no body.
func TestHead(t *testing.T) {
	event := bytes.Replace(file(t, "url_cookies.json"), []byte(`"GET"`), []byte(`"HEAD"`), 1)
	got := invoke(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "body") }, event)
	if got.StatusCode != http.StatusOK || got.Body != "" || got.Headers["Content-Type"] != "text/plain; charset=utf-8" {
		t.Errorf("got %+v", got)
	}
}

// TestPanic: it ends one request with a problem, whatever was written before, and the log has the stack.
func TestPanic(t *testing.T) {
	for name, value := range map[string]any{"value": "boom", "half an response": http.ErrAbortHandler} {
		t.Run(name, func(t *testing.T) {
			var log bytes.Buffer
			h := aws.New(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				_, _ = io.WriteString(w, "half")
				panic(value)
			}), &aws.Options{Log: slog.New(slog.NewJSONHandler(&log, nil))})
			for range 2 {
				out, err := h.Invoke(t.Context(), file(t, "apigw_jwt.json"))
				if err != nil {
					t.Fatal(err)
				}
				var response events.LambdaFunctionURLResponse
				if err := json.Unmarshal(out, &response); err != nil {
					t.Fatal(err)
				}
				if p := problemIn(t, response); p.Code != contracts.CodeInternal || p.Status != 500 {
					t.Errorf("got %+v", p)
				}
			}
			if !strings.Contains(log.String(), "TestPanic") {
				t.Errorf("no stack in %s", log.String())
			}
		})
	}
}

// TestLargeResponse: Lambda would drop it without an error.
func TestLargeResponse(t *testing.T) {
	body := func(n int) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, strings.Repeat("x", n)) }
	}
	event := file(t, "url_cookies.json")
	if got := invoke(t, body(aws.MaxResponseBytes-1000), event); got.StatusCode != http.StatusOK ||
		len(got.Body) != aws.MaxResponseBytes-1000 {
		t.Errorf("below the bound: status %d, %d bytes", got.StatusCode, len(got.Body))
	}
	got := problemIn(t, invoke(t, body(aws.MaxResponseBytes), event))
	if got.Code != contracts.CodeInternal || !strings.Contains(got.Detail, "smaller page") {
		t.Errorf("above it: %+v", got)
	}
}

// TestDeadline: the handler's time ends before the invocation's, early enough to say so.
func TestDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		began := time.Now()
		h := aws.New(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			<-r.Context().Done()
			if !errors.Is(r.Context().Err(), context.DeadlineExceeded) {
				t.Error(r.Context().Err())
			}
			w.WriteHeader(http.StatusGatewayTimeout)
		}), nil)
		out, err := h.Invoke(ctx, file(t, "apigw_jwt.json"))
		if err != nil || !strings.Contains(string(out), `"statusCode":504`) {
			t.Errorf("%s, %v", out, err)
		}
		if took := time.Since(began); took != 2500*time.Millisecond {
			t.Errorf("took %v, want 2.5s", took)
		}
	})
}

// TestBasePath: the path that a custom domain maps to the API is removed.
func TestBasePath(t *testing.T) {
	for _, c := range []struct{ domain, stage, raw, want string }{
		{"api.example.com", "$default", "/lease/hold/v1/tenants/t/locks/a/b/renew", "/v1/tenants/t/locks/a/b/renew"},
		{"api.example.com", "v1", "/lease/hold/v1/tenants/t/locks/k/renew", "/v1/tenants/t/locks/k/renew"},
		{"x.execute-api.eu-north-1.amazonaws.com", "prod", "/prod/v1/tenants/t/locks/k/renew", "/v1/tenants/t/locks/k/renew"},
		{"x.lambda-url.eu-north-1.on.aws", "$default", "/lease/hold/v1/tenants/t/locks/a%2Fb/renew",
			"/v1/tenants/t/locks/a%2Fb/renew"},
		{"x.lambda-url.eu-north-1.on.aws", "$default", "/lease/holdx", "/lease/holdx"},
		{"api.example.com", "v1", "/v1/tenants/t/locks/k/renew", "/v1/tenants/t/locks/k/renew"},
		{"api.example.com", "v1", "/v1/machine-ids/lease", "/v1/machine-ids/lease"},
		{"api.example.com", "v1", "/v1/analyses/a1/lock", "/v1/analyses/a1/lock"},
		{"api.example.com", "v1", "/healthz", "/healthz"},
		{"x.execute-api.eu-north-1.amazonaws.com", "v1", "/v1/v1/tenants/t/locks/a/b/renew",
			"/v1/tenants/t/locks/a/b/renew"},
		{"x.execute-api.eu-north-1.amazonaws.com", "v1", "/v1/healthz", "/healthz"},
		{"x.execute-api.eu-north-1.amazonaws.com", "$default", "/v1/tenants/t/locks/k/renew", "/v1/tenants/t/locks/k/renew"},
	} {
		event, err := json.Marshal(map[string]any{
			"version": "2.0", "rawPath": c.raw,
			"requestContext": map[string]any{"stage": c.stage, "domainName": c.domain,
				"http": map[string]string{"method": "POST"}},
		})
		if err != nil {
			t.Fatal(err)
		}
		var got string
		h := aws.New(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got = r.URL.EscapedPath() }),
			&aws.Options{BasePath: "/lease/hold"})
		if _, err := h.Invoke(t.Context(), event); err != nil || got != c.want {
			t.Errorf("%s%s: %s, %v; want %s", c.domain, c.raw, got, err, c.want)
		}
	}
}
