package export_test

import (
	"compress/gzip"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/leasehold-dev/leasehold/cmd/leasehold/internal/export"
	"github.com/leasehold-dev/leasehold/functions/httpapi"
	"github.com/leasehold-dev/leasehold/functions/telemetry"
	"github.com/leasehold-dev/leasehold/repo/docstore"
)

// TestOpenTraces: the standard variables turn traces on and off, and those that cannot work are errors that name them.
func TestOpenTraces(t *testing.T) {
	const endpoint = "OTEL_EXPORTER_OTLP_ENDPOINT"
	for _, c := range []struct {
		env map[string]string
		on  bool
		err string
	}{
		{nil, false, ""},
		{map[string]string{endpoint: "http://127.0.0.1:4318"}, true, ""},
		{map[string]string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://127.0.0.1:4318/v1/traces"}, true, ""},
		{map[string]string{"OTEL_EXPORTER_OTLP_METRICS_ENDPOINT": "http://127.0.0.1:4318/v1/metrics"}, false, ""},
		{map[string]string{endpoint: "http://127.0.0.1:4317", "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": "grpc"}, true, ""},
		{map[string]string{"OTEL_TRACES_EXPORTER": "otlp"}, true, ""},
		{map[string]string{endpoint: "http://127.0.0.1:4318", "OTEL_TRACES_EXPORTER": "none"}, false, ""},
		{map[string]string{endpoint: "http://127.0.0.1:4318", "OTEL_SDK_DISABLED": "TRUE"}, false, ""},
		{map[string]string{"OTEL_TRACES_EXPORTER": "zipkin"}, false, `OTEL_TRACES_EXPORTER is "zipkin": it must be otlp or none`},
		{map[string]string{endpoint: "http://127.0.0.1:4318", "OTEL_EXPORTER_OTLP_PROTOCOL": "http/json"}, false, `OTEL_EXPORTER_OTLP_PROTOCOL is "http/json"`},
	} {
		t.Run("", func(t *testing.T) {
			for k, v := range c.env { // exporters read some of them themselves
				t.Setenv(k, v)
			}
			traces, err := export.OpenTraces(t.Context(), export.Options{Service: "leasehold", Version: "v1", Getenv: func(name string) string { return c.env[name] }})
			if (traces != nil) != c.on || (err != nil) != (c.err != "") || err != nil && !strings.Contains(err.Error(), c.err) {
				t.Fatalf("%v: %v, %v", c.env, traces, err)
			}
			if c.on && traces.Provider() == nil || !c.on && traces.Provider() != nil {
				t.Error("a provider for nothing, or none")
			}
		})
	}
}

// receiver takes traces as a collector does.
type receiver struct {
	mu    sync.Mutex
	spans []string // name, service and trace
	bad   []error
}

func (c *receiver) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var body io.Reader = r.Body
	if r.Header.Get("Content-Encoding") == "gzip" {
		z, err := gzip.NewReader(r.Body)
		if err != nil {
			c.bad = append(c.bad, err)
			return
		}
		body = z
	}
	b, err := io.ReadAll(body)
	var sent collector.ExportTraceServiceRequest
	if err == nil {
		err = proto.Unmarshal(b, &sent)
	}
	if err != nil {
		c.bad = append(c.bad, err)
	}
	for _, of := range sent.GetResourceSpans() {
		var service []string
		for _, a := range of.GetResource().GetAttributes() {
			if a.GetKey() == "service.name" || a.GetKey() == "service.version" {
				service = append(service, a.GetValue().GetStringValue())
			}
		}
		for _, scope := range of.GetScopeSpans() {
			for _, s := range scope.GetSpans() {
				c.spans = append(c.spans, r.URL.Path+" "+s.GetName()+" "+strings.Join(service, " "))
			}
		}
	}
	w.Header().Set("Content-Type", "application/x-protobuf")
}

// TestReceiver: a collector receives the spans when the program ends at the latest; a sampler of the variables decides which.
func TestReceiver(t *testing.T) {
	for sampler, want := range map[string][]string{
		"": {
			"/v1/traces POST /v1/tenants/{tenant_id}/locks/{lock_key}/acquire leasehold v1.2.3", "/v1/traces lock.acquire leasehold v1.2.3", "/v1/traces write locks leasehold v1.2.3",
		},
		"always_off": nil,
	} {
		c := &receiver{}
		server := httptest.NewServer(c)
		defer server.Close()
		env := map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": server.URL, "OTEL_TRACES_SAMPLER": sampler}
		for k, v := range env {
			t.Setenv(k, v)
		}
		sends, err := export.OpenTraces(t.Context(), export.Options{Service: "leasehold", Version: "v1.2.3", Getenv: func(name string) string { return env[name] }})
		if err != nil {
			t.Fatal(err)
		}
		traces := telemetry.NewTraces(sends.Provider(), "memory")
		h := httpapi.New(telemetry.Store(docstore.NewMemory(nil), traces), httpapi.Development{}, &httpapi.Options{Traces: traces})
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "http://127.0.0.1:8080/v1/tenants/acme/locks/k/acquire", strings.NewReader(`{"request_id":"r1","owner_id":"ann","ttl_seconds":30}`))
		h.ServeHTTP(httptest.NewRecorder(), r)
		if err := sends.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		c.mu.Lock()
		if slices.Sort(c.spans); !slices.Equal(c.spans, want) || len(c.bad) > 0 {
			t.Errorf("sampler %q: got %q, %v, want %q", sampler, c.spans, c.bad, want)
		}
		c.mu.Unlock()
	}
}
