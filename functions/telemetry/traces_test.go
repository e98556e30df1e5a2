package telemetry_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"go.opentelemetry.io/otel/attribute"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/leasehold-dev/leasehold/functions/direct"
	"github.com/leasehold-dev/leasehold/functions/httpapi"
	"github.com/leasehold-dev/leasehold/functions/tasks"
	"github.com/leasehold-dev/leasehold/functions/telemetry"
	"github.com/leasehold-dev/leasehold/repo/analysis"
	"github.com/leasehold-dev/leasehold/repo/docstore"
)

const (
	traceID     = "0af7651916cd43dd8448eb211c80319c"
	parentID    = "b7ad6b7169203331"
	traceparent = "00-" + traceID + "-" + parentID + "-01"
)

// spans are traces whose spans stay in memory.
func spans() (*telemetry.Traces, *tracetest.InMemoryExporter) {
	e := tracetest.NewInMemoryExporter()
	return telemetry.NewTraces(sdk.NewTracerProvider(sdk.WithSyncer(e)), "memory"), e
}

// tree is what spans say, a line for each, below the span that they are within.
func tree(all tracetest.SpanStubs, parent string, indent string) (lines []string) {
	for _, s := range all {
		if s.Parent.SpanID().String() != parent {
			continue
		}
		var line strings.Builder
		fmt.Fprintf(&line, "%s%s %s", indent, s.SpanKind, s.Name)
		for _, a := range s.Attributes {
			if slices.Contains([]attribute.Key{"leasehold.outcome", "error.type", "http.route", "http.response.status_code",
				"leasehold.documents", "leasehold.tenant", "leasehold.replayed"}, a.Key) {
				fmt.Fprintf(&line, " %s=%s", strings.TrimPrefix(string(a.Key), "leasehold."), a.Value.String())
			}
		}
		if s.Status.Code != 0 {
			line.WriteString(" " + s.Status.Code.String())
		}
		lines = append(append(lines, line.String()), tree(all, s.SpanContext.SpanID().String(), indent+"  ")...)
	}
	return lines
}

// failing is a store whose writes fail.
type failing struct {
	docstore.Store

	err error
}

func (s failing) Write(context.Context, ...docstore.Write) (docstore.Result, error) {
	return docstore.Result{}, s.err
}

// TestTraces: a request has a span, within it a span for each command, and within that one for each call of the store;
// each says its outcome.
func TestTraces(t *testing.T) {
	const (
		path = "/v1/tenants/acme/locks/s3cret-key"
		root = "server POST /v1/tenants/{tenant_id}/locks/{lock_key}/"
	)
	traces, exported := spans()
	memory := docstore.NewMemory(nil)
	for _, c := range []struct {
		name, method, path, body string
		err                      error // of the store's writes
		want                     []string
	}{
		{"granted", "POST", path + "/acquire",
			`{"request_id":"r1","owner_id":"ann","ttl_seconds":30,"metadata":{"a":"s3cret-label"}}`, nil, []string{
				root +
					"acquire http.response.status_code=200 outcome=ok http.route=/v1/tenants/{tenant_id}/locks/{lock_key}/acquire tenant=acme",
				"  internal lock.acquire outcome=ok replayed=false",
				"    client write locks outcome=applied documents=1",
			}},
		{"sent again", "POST", path + "/acquire",
			`{"request_id":"r1","owner_id":"ann","ttl_seconds":30,"metadata":{"a":"s3cret-label"}}`, nil, []string{
				root +
					"acquire http.response.status_code=200 outcome=ok http.route=/v1/tenants/{tenant_id}/locks/{lock_key}/acquire tenant=acme",
				"  internal lock.acquire outcome=ok replayed=true",
				"    client write locks outcome=refused documents=0",
			}},
		{"refused", "POST", path + "/acquire", `{"request_id":"r2","owner_id":"bob","ttl_seconds":30}`, nil, []string{
			root +
				"acquire http.response.status_code=409 outcome=LOCK_HELD http.route=/v1/tenants/{tenant_id}/locks/{lock_key}/acquire tenant=acme",
			"  internal lock.acquire outcome=LOCK_HELD replayed=false",
			"    client write locks outcome=refused documents=0",
		}},
		{"forced", "POST", path + "/force-release", `{"request_id":"f1","owner_id":"root","reason":"s3cret-reason"}`,
			docstore.ErrUnavailable, []string{
				root +
					"force-release http.response.status_code=503 outcome=UNAVAILABLE http.route=/v1/tenants/{tenant_id}/locks/{lock_key}/force-release tenant=acme error.type=UNAVAILABLE Error",
				"  internal lock.force_release error.type=unavailable Error",
				"    client write locks error.type=unavailable Error",
			}},
		{"a fence", "POST", "/v1/tenants/acme/fences/x/check", `{"fencing_token":7,"subject":"lock/db"}`, nil, []string{
			"server POST /v1/tenants/{tenant_id}/fences/{resource}/check http.response.status_code=200 outcome=ok http.route=/v1/tenants/{tenant_id}/fences/{resource}/check tenant=acme",
			"  internal lock.fence outcome=ok replayed=false",
			"    client write fences outcome=applied documents=1",
		}},
		{"a read", "GET", path, "", nil, []string{
			"server GET /v1/tenants/{tenant_id}/locks/{lock_key} http.response.status_code=200 outcome=ok http.route=/v1/tenants/{tenant_id}/locks/{lock_key} tenant=acme",
			"  client get locks outcome=ok documents=1",
		}},
		{"no path", "BREW", "/coffee", "", nil, []string{"server _OTHER http.response.status_code=404 outcome=NOT_FOUND"}},
	} {
		var store docstore.Store = memory
		if c.err != nil {
			store = failing{memory, fmt.Errorf("%w: s3cret-host", c.err)}
		}
		h := httpapi.New(telemetry.Store(store, traces), httpapi.Development{}, &httpapi.Options{Traces: traces})
		r := httptest.NewRequestWithContext(t.Context(), c.method, "http://127.0.0.1:8080"+c.path, strings.NewReader(c.body))
		r.Header.Set("Traceparent", traceparent)
		r.Header.Set("Authorization", "Bearer s3cret-token")
		exported.Reset()
		h.ServeHTTP(httptest.NewRecorder(), r)
		all := exported.GetSpans()
		if got := tree(all, parentID, ""); !slices.Equal(got, c.want) {
			t.Errorf("%s\ngot  %s\nwant %s", c.name, strings.Join(got, "\n     "), strings.Join(c.want, "\n     "))
		}
		for _, s := range all {
			if s.SpanContext.TraceID().String() != traceID {
				t.Errorf("%s: %s is in the trace %s", c.name, s.Name, s.SpanContext.TraceID())
			}
			said := []string{fmt.Sprint(s.Name, s.Status, s.Events)}
			for _, a := range s.Attributes {
				if a.Key != "url.path" {
					said = append(said, a.Value.String())
				}
			}
			if text := strings.Join(said, " "); strings.Contains(text, "s3cret") {
				t.Errorf("%s: a span says %s", c.name, text)
			}
		}
	}
}

// TestTargetsGetTheTrace: the request to a target names the trace of the delivery, with spans and without.
func TestTargetsGetTheTrace(t *testing.T) {
	for _, traced := range []bool{true, false} {
		var traces *telemetry.Traces
		exported := tracetest.NewInMemoryExporter()
		if traced {
			traces, exported = spans()
		}
		var got http.Header
		target := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			got = r.Header
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, `{"result":"done"}`)
		}))
		defer target.Close()
		work, err := tasks.NewTarget(target.URL+"/run?key=s3cret", &tasks.TargetOptions{Traces: traces})
		if err != nil {
			t.Fatal(err)
		}
		store := telemetry.Store(docstore.NewMemory(nil), traces.Observers()...)
		gate := analysis.New(store, nil)
		if _, err := gate.Create(t.Context(), analysis.Create{ID: "a1"}); err != nil {
			t.Fatal(err)
		}
		route, err := tasks.Endpoint{Worker: &tasks.Worker{Gate: direct.Analyses(gate), Work: work.Run, Traces: traces},
			Guard: tasks.Development{}}.Route(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		h := httpapi.Handler([]httpapi.Route{route}, &httpapi.Options{Traces: traces})
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "http://127.0.0.1:8080"+tasks.TaskPath,
			strings.NewReader(`{"analysisId":"a1"}`))
		r.RemoteAddr = "127.0.0.1:1"
		r.Header.Set("Traceparent", traceparent)
		r.Header.Set("Tracestate", "vendor=1")
		exported.Reset()
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code != http.StatusOK || got == nil {
			t.Fatalf("%d %s", w.Code, w.Body)
		}
		sent := got.Get("Traceparent")
		if got.Get("Tracestate") != "vendor=1" || !strings.HasPrefix(sent, "00-"+traceID+"-") ||
			!strings.HasSuffix(sent, "-01") {
			t.Errorf("with spans %v: the target got %q, %q", traced, sent, got.Get("Tracestate"))
		}
		if !traced {
			if sent != traceparent {
				t.Errorf("without spans the target got %q", sent)
			}
			continue
		}
		all := exported.GetSpans()
		want := []string{
			"server POST /internal/tasks/analysis http.response.status_code=200 outcome=ok http.route=/internal/tasks/analysis",
			"  consumer process analysis outcome=ready",
			"    internal analysis.acquire outcome=ok replayed=false",
			"      client write analyses outcome=applied documents=1",
			"    client POST http.response.status_code=200",
			"    internal analysis.finish outcome=ok replayed=false",
			"      client write analyses outcome=applied documents=1",
		}
		lines := tree(all, parentID, "")
		if !slices.Equal(lines, want) {
			t.Errorf("got  %s\nwant %s", strings.Join(lines, "\n     "), strings.Join(want, "\n     "))
		}
		for _, s := range all {
			if s.Name == "POST" && sent != "00-"+traceID+"-"+s.SpanContext.SpanID().String()+"-01" {
				t.Errorf("the target got %q, and its span is %s", sent, s.SpanContext.SpanID())
			}
			if strings.Contains(fmt.Sprint(s), "s3cret") {
				t.Errorf("a span has a secret: %v", s)
			}
		}
	}
}

// TestNoTraces: nothing that is not set up makes spans, and nothing of it fails.
func TestNoTraces(t *testing.T) {
	none := telemetry.NewTraces(nil, "memory")
	if none != nil || none.Observers() != nil {
		t.Error("no provider makes traces")
	}
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
	ctx, end := none.Serve(t.Context(), r)
	end(telemetry.Served{})
	_, ended := none.Deliver(ctx, "m1")
	ended("ready", errors.New("x"))
	if sent, end := none.Send(r); sent != r || len(r.Header) != 0 {
		t.Error("a request that is part of no trace was changed")
	} else {
		end(0, nil)
	}
}
