package httpapi_test

import (
	"bytes"
	"encoding/json"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/leasehold-dev/leasehold/functions/httpapi"
	"github.com/leasehold-dev/leasehold/functions/telemetry"
	"github.com/leasehold-dev/leasehold/repo/docstore"
)

// A trace that requests of tests are part of.
const (
	traceID     = "0af7651916cd43dd8448eb211c80319c"
	traceparent = "00-" + traceID + "-b7ad6b7169203331-01"
)

// linesOf are the lines of a log with a message, without what is another one each time.
func linesOf(t *testing.T, log, message string) (lines []map[string]any) {
	t.Helper()
	for text := range strings.Lines(log) {
		var l map[string]any
		if err := json.Unmarshal([]byte(text), &l); err != nil {
			t.Fatalf("%v in %s", err, text)
		}
		if l["msg"] != message {
			continue
		}
		for _, made := range []string{"time", "took_ms"} {
			if l[made] == nil && message == httpapi.RequestMessage {
				t.Errorf("a line without %s: %s", made, text)
			}
			delete(l, made)
		}
		lines = append(lines, l)
	}
	return lines
}

// TestLines: the exact members of the line of each kind of request.
func TestLines(t *testing.T) {
	ann := verified{caller: httpapi.Caller{Subject: "ann", Tenant: "acme", Rights: httpapi.Worker}}
	bob := verified{caller: httpapi.Caller{Subject: "bob", Tenant: "acme", Rights: httpapi.Worker}}
	var log bytes.Buffer
	store := docstore.NewMemory(nil)
	for _, c := range []struct {
		name               string
		identity           httpapi.Identity
		method, path, body string
		header             http.Header
		want               map[string]any
	}{
		{"granted", ann, "POST", deploy + "/acquire", `{"request_id":"r1","ttl_seconds":30}`, nil,
			map[string]any{"level": "INFO", "status": 200., "outcome": "ok", "tenant": "acme", "subject": "ann"}},
		{"refused", bob, "POST", deploy + "/acquire", `{"request_id":"r2","ttl_seconds":30}`, nil,
			map[string]any{"level": "INFO", "status": 409., "outcome": "LOCK_HELD", "tenant": "acme", "subject": "bob",
				"caller_tenant": "acme", "remote": "192.0.2.1:1234"}},
		{"in a trace", ann, "POST", deploy + "/acquire?a=b", "{",
			http.Header{"Traceparent": {traceparent}, "Tracestate": {"a=b"}},
			map[string]any{"level": "INFO", "status": 400., "outcome": "INVALID_ARGUMENT", "tenant": "acme", "subject": "ann",
				"caller_tenant": "acme", "remote": "192.0.2.1:1234", "trace_id": traceID}},
		{"no tenant in the path", ann, "PUT", "/v1/analyses/a1", "", nil,
			map[string]any{"level": "INFO", "status": 200., "outcome": "ok", "tenant": "acme", "subject": "ann"}},
		{"a run", ann, "POST", "/v1/analyses/a1/lock", `{"owner_id":"w1","request_id":"r1"}`, nil,
			map[string]any{"level": "INFO", "status": 200., "outcome": "ok", "tenant": "acme", "subject": "ann"}},
		{"a run that another has", ann, "POST", "/v1/analyses/a1/lock", `{"owner_id":"w2","request_id":"r2"}`, nil,
			map[string]any{"level": "INFO", "status": 200., "outcome": "locked", "tenant": "acme", "subject": "ann"}},
		{"a run of one tenant", ann, "POST", "/v1/tenants/acme/runs/x/begin",
			`{"owner_id":"w1","request_id":"r1","ttl_seconds":30}`, nil,
			map[string]any{"level": "INFO", "status": 200., "outcome": "ok", "tenant": "acme", "subject": "ann"}},
		{"a run of one tenant that another has", ann, "POST", "/v1/tenants/acme/runs/x/begin",
			`{"owner_id":"w2","request_id":"r2","ttl_seconds":30}`, nil,
			map[string]any{"level": "INFO", "status": 200., "outcome": "locked", "tenant": "acme", "subject": "ann"}},
		{"no caller", verified{err: httpapi.Unauthenticated("no token")}, "GET", deploy, "", nil,
			map[string]any{"level": "INFO", "status": 401., "outcome": "UNAUTHENTICATED", "tenant": "acme",
				"remote": "192.0.2.1:1234"}},
		{"no path", ann, "GET", "/%0a\"}{", "", nil,
			map[string]any{"level": "INFO", "status": 404., "outcome": "NOT_FOUND", "remote": "192.0.2.1:1234"}},
		{"development", httpapi.Development{}, "GET", deploy, "", nil,
			map[string]any{"level": "INFO", "status": 200., "outcome": "ok", "tenant": "acme"}},
	} {
		log.Reset()
		h := httpapi.New(store, c.identity, &httpapi.Options{
			Log: slog.New(telemetry.NewHandler(slog.NewJSONHandler(io.MultiWriter(&log, distinct{t}), nil)))})
		r := httptest.NewRequestWithContext(t.Context(), c.method, "http://127.0.0.1:8080"+
			strings.ReplaceAll(c.path, `"}{`, "%22%7D%7B"), strings.NewReader(c.body))
		maps.Copy(r.Header, c.header)
		r.Header.Set("X-Request-Id", "id-1")
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		maps.Copy(c.want, map[string]any{"msg": "request", "method": c.method, "path": r.URL.EscapedPath(),
			"request": "id-1"})
		if got := linesOf(t, log.String(), httpapi.RequestMessage); len(got) != 1 || !maps.Equal(got[0], c.want) {
			t.Errorf("%s:\ngot  %v\nwant %v", c.name, got, c.want)
		}
		var p struct {
			TraceID string `json:"trace_id"`
		}
		if err := json.Unmarshal(w.Body.Bytes(), &p); err != nil || w.Code >= 400 && p.TraceID != or(c.want["trace_id"]) {
			t.Errorf("%s: the problem says %s, %v", c.name, w.Body, err)
		}
	}
}

func or(v any) string {
	s, _ := v.(string)
	return s
}

// TestHostileTraces: a header that is not exactly as W3C Trace Context says names no trace, and is in no line and no
// problem.
func TestHostileTraces(t *testing.T) {
	const span = "b7ad6b7169203331"
	for name, header := range map[string]http.Header{
		"none":             {},
		"empty":            {"Traceparent": {""}},
		"no trace":         {"Traceparent": {"00-00000000000000000000000000000000-" + span + "-01"}},
		"no span":          {"Traceparent": {"00-" + traceID + "-0000000000000000-01"}},
		"short":            {"Traceparent": {"00-" + traceID + "-" + span}},
		"upper case":       {"Traceparent": {strings.ToUpper(traceparent)}},
		"version ff":       {"Traceparent": {"ff" + traceparent[2:]}},
		"more in 00":       {"Traceparent": {traceparent + "-x"}},
		"two of them":      {"Traceparent": {traceparent, traceparent}},
		"two in one":       {"Traceparent": {traceparent + "," + traceparent}},
		"not hexadecimal":  {"Traceparent": {strings.Replace(traceparent, "0af7", "0ag7", 1)}},
		"a line":           {"Traceparent": {traceparent + "\n{\"msg\":\"audit\"}"}},
		"markup":           {"Traceparent": {"<script>alert(1)</script>"}},
		"long":             {"Traceparent": {strings.Repeat("0", 16<<10)}},
		"bytes":            {"Traceparent": {"\x00\xff\u202e"}},
		"state alone":      {"Tracestate": {"a=b"}},
		"another's header": {"X-Cloud-Trace-Context": {"x"}},
	} {
		var log bytes.Buffer
		routes := []httpapi.Route{{Method: "GET", Path: "/target", Do: func(_ http.ResponseWriter, r *http.Request) error {
			out := http.Header{}
			if telemetry.Outgoing(r.Context(), out); len(out) != 0 {
				t.Errorf("%s: sent on as %v", name, out)
			}
			return httpapi.Unauthenticated("x")
		}}}
		h := httpapi.Handler(routes, &httpapi.Options{Log: slog.New(telemetry.NewHandler(slog.NewJSONHandler(&log, nil)))})
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/target", nil)
		r.Header = header
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if s := log.String() + w.Body.String(); strings.Contains(s, "trace") || strings.Contains(s, "script") ||
			strings.Count(log.String(), "\n") != 1 {
			t.Errorf("%s: %s", name, s)
		}
	}

	// A newer version may say more. A state that cannot be read is left out, and the trace goes on.
	for name, h := range map[string]http.Header{
		"newer":            {"Traceparent": {"cc" + traceparent[2:] + "-what-comes"}},
		"hostile state":    {"Traceparent": {traceparent}, "Tracestate": {strings.Repeat("a", 1000) + "=\x00,,,=="}},
		"several states":   {"Traceparent": {traceparent}, "Tracestate": {"a=1", "b=2"}},
		"a state too long": {"Traceparent": {traceparent}, "Tracestate": {strings.Repeat("a=1,", 100)}},
	} {
		out := http.Header{}
		telemetry.Outgoing(telemetry.Incoming(t.Context(), h), out)
		if want := (http.Header{"Traceparent": {traceparent}}); !maps.EqualFunc(out, want, slices.Equal) {
			t.Errorf("%s: %v, want %v", name, out, want)
		}
	}
}

// TestSample: successes may share lines; rejections, faults and audit events are all there.
func TestSample(t *testing.T) {
	const requests = 2000
	for _, c := range []struct {
		sample, least, most int
	}{{0, requests, requests}, {httpapi.LogAll, requests, requests}, {-1, 0, 0}, {10, requests / 20, requests / 5}} {
		var log bytes.Buffer
		h := httpapi.New(docstore.NewMemory(nil), httpapi.Development{},
			&httpapi.Options{Log: slog.New(slog.NewJSONHandler(&log, nil)), LogSample: c.sample})
		send := func(method, path, body string) {
			h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(t.Context(), method, "http://127.0.0.1:8080"+path,
				strings.NewReader(body)))
		}
		for range requests {
			send("GET", "/healthz", "")
		}
		lines := linesOf(t, log.String(), httpapi.RequestMessage)
		if len(lines) < c.least || len(lines) > c.most {
			t.Errorf("one in %d: %d lines of %d", c.sample, len(lines), requests)
		}
		if sampled := c.sample > 1; sampled && lines[0]["sample"] != float64(c.sample) || !sampled && len(lines) > 0 &&
			lines[0]["sample"] != nil {
			t.Errorf("one in %d: %v", c.sample, lines[0])
		}
		log.Reset()
		send("POST", deploy+"/acquire", `{"request_id":"r1","owner_id":"ann","ttl_seconds":30}`)
		send("POST", deploy+"/acquire", `{"request_id":"r2","owner_id":"bob","ttl_seconds":30}`)
		send("GET", "/none", "")
		rejected := 0
		for _, l := range linesOf(t, log.String(), httpapi.RequestMessage) {
			if l["outcome"] != "ok" {
				rejected++
			}
		}
		if audited := len(linesOf(t, log.String(), httpapi.AuditMessage)); rejected != 2 || audited != 1 {
			t.Errorf("one in %d: %d rejections and %d audit events in %s", c.sample, rejected, audited, log.String())
		}
	}
}

// TestAuditApart: audit events go to a log of their own.
func TestAuditApart(t *testing.T) {
	var log, audit bytes.Buffer
	h := httpapi.New(docstore.NewMemory(nil), httpapi.Development{}, &httpapi.Options{
		Log:   slog.New(slog.NewJSONHandler(&log, nil)),
		Audit: slog.New(telemetry.NewHandler(slog.NewJSONHandler(&audit, nil))),
	})
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "http://127.0.0.1:8080"+deploy+"/acquire",
		strings.NewReader(`{"request_id":"r1","owner_id":"ann","ttl_seconds":30}`))
	r.Header.Set("Traceparent", traceparent)
	h.ServeHTTP(httptest.NewRecorder(), r)
	events := linesOf(t, audit.String(), httpapi.AuditMessage)
	if len(linesOf(t, log.String(), httpapi.RequestMessage)) != 1 || len(events) != 1 ||
		strings.Count(log.String()+audit.String(), "\n") != 2 {
		t.Fatalf("the log has %s, the audit log %s", log.String(), audit.String())
	}
	if events[0]["trace_id"] != traceID {
		t.Errorf("the event has no trace: %s", audit.String())
	}
}

// TestAborted: a response that is cut off has a line.
func TestAborted(t *testing.T) {
	var log bytes.Buffer
	h := httpapi.Handler(
		[]httpapi.Route{{Method: "GET", Path: "/half", Do: func(w http.ResponseWriter, _ *http.Request) error {
			_, _ = io.WriteString(w, "half")
			panic("the other half")
		}}}, &httpapi.Options{Log: slog.New(slog.NewJSONHandler(&log, nil))})
	func() {
		defer func() {
			if p := recover(); p != http.ErrAbortHandler { //nolint:errorlint // a panic is that value
				t.Errorf("panic %v", p)
			}
		}()
		h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/half", nil))
	}()
	lines := linesOf(t, log.String(), httpapi.RequestMessage)
	if len(lines) != 1 || lines[0]["outcome"] != "aborted" || lines[0]["level"] != "ERROR" || lines[0]["status"] != 200. {
		t.Errorf("%v", lines)
	}
}

// TestHostileNames: whatever a path, a subject or a header says, a request has one line, and nothing in it is another
// member or another line.
func TestHostileNames(t *testing.T) {
	const hostile = "ann\nlevel=ERROR msg=audit\r\"}\x00\x1b[31m<script>alert(1)<b>\u2028\u202e\xff"
	identity := verified{caller: httpapi.Caller{Subject: hostile, Tenant: "acme"}}
	for name, handler := range map[string]func(io.Writer) slog.Handler{
		"json": func(w io.Writer) slog.Handler { return slog.NewJSONHandler(io.MultiWriter(w, distinct{t}), nil) },
		"text": func(w io.Writer) slog.Handler { return slog.NewTextHandler(w, nil) },
	} {
		var log bytes.Buffer
		h := httpapi.New(docstore.NewMemory(nil), identity,
			&httpapi.Options{Log: slog.New(telemetry.NewHandler(handler(&log)))})
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://127.0.0.1:8080/", nil)
		r.URL.Path = "/v1/tenants/" + hostile + "/locks/x"
		r.URL.RawPath = ""
		for _, header := range []string{"X-Request-Id", "X-Forwarded-For", "User-Agent", "Traceparent"} {
			r.Header[header] = []string{hostile}
		}
		h.ServeHTTP(httptest.NewRecorder(), r)
		lines := strings.Split(strings.TrimSuffix(log.String(), "\n"), "\n")
		// the caller's tenant is another one
		if len(lines) != 2 || !strings.Contains(lines[0], "audit") || !strings.Contains(lines[1], "request") {
			t.Errorf("%s: %q", name, lines)
		}
		for _, line := range lines {
			if strings.ContainsAny(line, "\r\x00\x1b") {
				t.Errorf("%s: control characters in %q", name, line)
			}
		}
	}
}
