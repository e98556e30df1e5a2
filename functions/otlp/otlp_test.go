package otlp_test

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/sdk/metric"
	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/leasehold-dev/leasehold/functions/httpapi"
	"github.com/leasehold-dev/leasehold/functions/metrics"
	"github.com/leasehold-dev/leasehold/functions/otlp"
	"github.com/leasehold-dev/leasehold/functions/telemetry"
	"github.com/leasehold-dev/leasehold/repo/docstore"
)

// options are those of a process with some variables.
func options(t *testing.T, set map[string]string) otlp.Options {
	t.Helper()
	for k, v := range set { // exporters read some of them themselves
		t.Setenv(k, v)
	}
	return otlp.Options{Service: "leasehold", Version: "v1.2.3", Getenv: func(name string) string { return set[name] }}
}

// TestVariables: the standard variables turn metrics and traces on and off, and those that cannot work are errors that
// name them and not what they are.
func TestVariables(t *testing.T) {
	const endpoint, at = "OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:4318"
	for _, c := range []struct {
		env             map[string]string
		metrics, traces bool
		err             string
	}{
		{nil, false, false, ""},
		{map[string]string{endpoint: at}, true, true, ""},
		{map[string]string{"OTEL_EXPORTER_OTLP_METRICS_ENDPOINT": at + "/v1/metrics"}, true, false, ""},
		{map[string]string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": at + "/v1/traces"}, false, true, ""},
		{map[string]string{endpoint: at, "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, true, true, ""},
		{map[string]string{"OTEL_METRICS_EXPORTER": "otlp"}, true, false, ""},
		{map[string]string{"OTEL_TRACES_EXPORTER": "otlp"}, false, true, ""},
		{map[string]string{endpoint: at, "OTEL_METRICS_EXPORTER": "none"}, false, true, ""},
		{map[string]string{endpoint: at, "OTEL_TRACES_EXPORTER": "none"}, true, false, ""},
		{map[string]string{endpoint: at, "OTEL_SDK_DISABLED": "TRUE"}, false, false, ""},
		{map[string]string{"OTEL_METRICS_EXPORTER": "prometheus"}, false, false,
			`OTEL_METRICS_EXPORTER is "prometheus": it must be otlp or none; for Prometheus set LEASEHOLD_METRICS_LISTEN`},
		{map[string]string{"OTEL_TRACES_EXPORTER": "zipkin"}, false, false,
			`OTEL_TRACES_EXPORTER is "zipkin": it must be otlp or none`},
		{map[string]string{endpoint: at, "OTEL_EXPORTER_OTLP_PROTOCOL": "http/json"}, false, false,
			`OTEL_EXPORTER_OTLP_PROTOCOL is "http/json"`},
		{map[string]string{endpoint: at, "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc", "OTEL_EXPORTER_OTLP_METRICS_PROTOCOL": "x"},
			false, true, `OTEL_EXPORTER_OTLP_METRICS_PROTOCOL is "x"`},
		{map[string]string{endpoint: "collector:4318"}, false, false,
			endpoint + " must be a URL such as http://collector:4318"},
		{map[string]string{endpoint: "http://me:" + canary + "@collector:43x"}, false, false, endpoint + " must be a URL"},
		{map[string]string{endpoint: at, "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://"}, true, false,
			"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT must be a URL"},
		{map[string]string{endpoint: at, "OTEL_RESOURCE_ATTRIBUTES": "no pairs"}, true, false, "OTEL_RESOURCE_ATTRIBUTES"},
	} {
		t.Run("", func(t *testing.T) {
			o := options(t, c.env)
			reader, err := o.Reader(t.Context())
			traces, err2 := o.Traces(t.Context())
			if err = errors.Join(err, err2); (reader != nil) != c.metrics || (traces != nil) != c.traces ||
				(err != nil) != (c.err != "") || err != nil && !strings.Contains(err.Error(), c.err) {
				t.Errorf("%v: %v, %v, %v", c.env, reader, traces, err)
			}
			if err != nil && strings.Contains(err.Error(), canary) {
				t.Errorf("the error says a password: %v", err)
			}
		})
	}
}

// canary is a secret.
const canary = "canary-7f3d9c2b"

// TestLog: what the SDK says goes to the log, and not what it found in variables, which may have tokens.
func TestLog(t *testing.T) {
	var out bytes.Buffer
	otlp.LogTo(slog.New(slog.NewJSONHandler(&out, nil)))
	o := options(t, map[string]string{
		"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:4318", "OTEL_EXPORTER_OTLP_HEADERS": "authorization=Bearer%zz" +
			canary + ",authorization: Bearer " + canary,
	})
	for range 2 {
		reader, err := o.Reader(t.Context())
		if err != nil || reader == nil {
			t.Fatal(reader, err)
		}
	}
	otel.Handle(errors.New("no collector"))
	if got := out.String(); strings.Contains(got, canary) ||
		!strings.Contains(got, `"msg":"telemetry: a variable OTEL_… cannot be used","why":"escape header value"`) ||
		!strings.Contains(got, `"err":"no collector"`) {
		t.Error(got)
	}
}

// TestInstance: two processes of a service are told apart, unless the variables say who they are.
func TestInstance(t *testing.T) {
	id := func(set map[string]string) string {
		r, err := options(t, set).Resource(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		v, _ := r.Set().Value("service.instance.id")
		return v.AsString()
	}
	if one := id(nil); len(one) < 20 || id(nil) != one {
		t.Errorf("%q is not this process", one)
	}
	if got := id(map[string]string{"OTEL_RESOURCE_ATTRIBUTES": "service.instance.id=pod-7"}); got != "pod-7" {
		t.Error(got)
	}
}

// TestHangingCollector: a collector that takes requests and never responds holds up nothing but the end, and that for a
// time that is bounded: this test would not end otherwise.
func TestHangingCollector(t *testing.T) {
	begun, leave := make(chan struct{}, 100), make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, _ *http.Request) {
		begun <- struct{}{}
		<-leave
	}))
	defer server.Close()
	defer close(leave)
	o := options(t, map[string]string{
		"OTEL_EXPORTER_OTLP_ENDPOINT": server.URL, "OTEL_METRIC_EXPORT_INTERVAL": "10",
		"OTEL_METRIC_EXPORT_TIMEOUT": "3600000", "OTEL_EXPORTER_OTLP_TIMEOUT": "3600000",
		"OTEL_BSP_SCHEDULE_DELAY": "10", "OTEL_BSP_EXPORT_TIMEOUT": "3600000", "OTEL_BSP_MAX_QUEUE_SIZE": "10",
		"OTEL_BSP_MAX_EXPORT_BATCH_SIZE": "2",
	})
	reader, err := o.Reader(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	makes, err := o.Traces(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	provider := metric.NewMeterProvider(metric.WithReader(reader))
	m, err := metrics.New(provider, nil)
	if err != nil {
		t.Fatal(err)
	}
	traces := telemetry.NewTraces(makes, "memory")
	store := docstore.NewMemory(nil)
	h := httpapi.New(telemetry.Store(store, append(traces.Observers(), m.Observe(store, "memory")...)...),
		httpapi.Development{}, &httpapi.Options{Traces: traces, Metrics: m})
	acquire := func(i int) {
		body := fmt.Sprintf(`{"request_id":"r%d","owner_id":"ann","ttl_seconds":30}`, i)
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost,
			"http://127.0.0.1:8080/v1/tenants/acme/locks/k/acquire", strings.NewReader(body))
		w := httptest.NewRecorder()
		if h.ServeHTTP(w, r); w.Code >= http.StatusInternalServerError {
			t.Fatal(w.Code, w.Body)
		}
	}
	acquire(0)
	<-begun // both wait for the collector now
	<-begun
	for i := range 200 { // many more spans than the queue has room for
		acquire(i + 1)
	}
	if err := otlp.Shutdown(t.Context(), provider.Shutdown, makes.Shutdown); err == nil {
		t.Error("what was not sent was sent")
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

// TestReceiver: a collector receives the spans when the program ends at the latest; a sampler of the variables decides
// which.
func TestReceiver(t *testing.T) {
	for sampler, want := range map[string][]string{
		"": {
			"/v1/traces POST /v1/tenants/{tenant_id}/locks/{lock_key}/acquire leasehold v1.2.3",
			"/v1/traces lock.acquire leasehold v1.2.3", "/v1/traces write locks leasehold v1.2.3",
		},
		"always_off": nil,
	} {
		c := &receiver{}
		server := httptest.NewServer(c)
		defer server.Close()
		env := map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": server.URL, "OTEL_TRACES_SAMPLER": sampler}
		sends, err := options(t, env).Traces(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		traces := telemetry.NewTraces(sends, "memory")
		h := httpapi.New(telemetry.Store(docstore.NewMemory(nil), traces), httpapi.Development{},
			&httpapi.Options{Traces: traces})
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost,
			"http://127.0.0.1:8080/v1/tenants/acme/locks/k/acquire", strings.NewReader(
				`{"request_id":"r1","owner_id":"ann","ttl_seconds":30}`))
		h.ServeHTTP(httptest.NewRecorder(), r)
		if err := otlp.Shutdown(t.Context(), sends.Shutdown); err != nil {
			t.Fatal(err)
		}
		c.mu.Lock()
		if slices.Sort(c.spans); !slices.Equal(c.spans, want) || len(c.bad) > 0 {
			t.Errorf("sampler %q: got %q, %v, want %q", sampler, c.spans, c.bad, want)
		}
		c.mu.Unlock()
	}
}
