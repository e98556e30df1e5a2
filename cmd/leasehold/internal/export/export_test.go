package export_test

import (
	"bytes"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"strings"
	"testing"

	"go.opentelemetry.io/otel/metric"

	"github.com/leasehold-dev/leasehold/cmd/leasehold/internal/export"
	"github.com/leasehold-dev/leasehold/functions/metrics"
	"github.com/leasehold-dev/leasehold/functions/otlp"
	"github.com/leasehold-dev/leasehold/functions/telemetry"
	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/lock"
)

func options(t *testing.T, set map[string]string) otlp.Options {
	t.Helper()
	for k, v := range set { // exporters read some of them themselves
		t.Setenv(k, v)
	}
	return otlp.Options{Service: "leasehold", Version: "v1.2.3", Getenv: func(name string) string { return set[name] }}
}

// TestOpen: nothing is measured unless a variable or the page asks for it; the variables are those of package otlp.
func TestOpen(t *testing.T) {
	const endpoint = "OTEL_EXPORTER_OTLP_ENDPOINT"
	for _, c := range []struct {
		env      map[string]string
		page, on bool
		err      string
	}{
		{nil, false, false, ""},
		{nil, true, true, ""},
		{map[string]string{endpoint: "http://127.0.0.1:4318"}, false, true, ""},
		{map[string]string{endpoint: "http://127.0.0.1:4318", "OTEL_SDK_DISABLED": "true"}, true, true, ""},
		{map[string]string{"OTEL_METRICS_EXPORTER": "prometheus"}, true, false, "LEASEHOLD_METRICS_LISTEN"},
	} {
		m, err := export.Open(t.Context(), options(t, c.env), c.page)
		if (m != nil) != c.on || (err != nil) != (c.err != "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Fatalf("%v: %v, %v", c.env, m, err)
		}
		if m != nil && m.Provider() == nil {
			t.Error("no provider")
		}
	}
	var none *export.Metrics
	if none.Provider() != nil || none.Shutdown(t.Context()) != nil {
		t.Error("nothing is something")
	}
}

// measured is a page on which a command was measured.
func measured(t *testing.T) (url string) {
	t.Helper()
	e, err := export.Open(t.Context(), options(t, nil), true)
	if err != nil {
		t.Fatal(err)
	}
	m, err := metrics.New(e.Provider(), nil)
	if err != nil {
		t.Fatal(err)
	}
	locks := lock.New(telemetry.Store(docstore.NewMemory(nil), m.Observe(nil, metrics.SystemMemory)...), nil)
	if _, err := locks.Acquire(t.Context(), lock.Acquire{ID: lock.ID{Tenant: "acme", Key: "k"}, Owner: "ann",
		RequestID: "r1", TTLSeconds: 30}); err != nil {
		t.Fatal(err)
	}
	at, stop, err := e.Serve(t.Context(), "127.0.0.1:0", slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := stop(); err != nil {
			t.Error(err)
		}
		if err := e.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
	})
	return "http://" + at.String()
}

func get(t *testing.T, url, host string) (int, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	r.Host = host
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(b)
}

// TestPage: the page is one for Prometheus, by promtool where it is installed, says what was measured, and is for
// programs of this machine if it listens for them only.
func TestPage(t *testing.T) {
	url := measured(t)
	status, text := get(t, url+export.Path, "")
	for _, want := range []string{
		`db_client_operation_duration_seconds_count{db_collection_name="locks",db_operation_name="write",db_system_name="memory"} 1`,
		`leasehold_leases_held{leasehold_kind="lock"} 1`, `service_version="v1.2.3"`, "go_goroutines",
		"process_cpu_seconds_total",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the page lacks %s", want)
		}
	}
	if status != http.StatusOK {
		t.Error(status)
	}
	for _, c := range []struct {
		path, host string
		status     int
	}{
		{export.Path, "evil.example", http.StatusForbidden}, {export.Path, "localhost", http.StatusOK},
		{"/", "", http.StatusNotFound}, {"/debug/pprof/", "", http.StatusNotFound},
	} {
		if status, _ := get(t, url+c.path, c.host); status != c.status {
			t.Errorf("%+v: %d", c, status)
		}
	}
	promtool, err := exec.LookPath("promtool")
	if err != nil {
		t.Skip("promtool is not installed: apt-get install prometheus")
	}
	check := exec.CommandContext(t.Context(), promtool, "check", "metrics")
	check.Stdin = strings.NewReader(text)
	if out, err := check.CombinedOutput(); err != nil && !onlyNames(out) {
		t.Errorf("promtool check metrics: %v\n%s", err, out)
	}
}

// onlyNames reports whether promtool only says that names have colons or abbreviations, which those of the Go runtime
// have.
func onlyNames(out []byte) bool {
	for line := range bytes.Lines(out) {
		if !bytes.HasPrefix(line, []byte("go_")) && !bytes.HasPrefix(line, []byte("process_")) {
			return false
		}
	}
	return true
}

// TestOTLP: what is measured is sent where the variables say, at the latest when the program ends.
func TestOTLP(t *testing.T) {
	sent := make(chan string, 10)
	collector := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		sent <- r.URL.Path + " " + r.Header.Get("X-Key") + " " + string(b)
		w.Header().Set("Content-Type", "application/x-protobuf")
	}))
	defer collector.Close()
	e, err := export.Open(t.Context(), options(t, map[string]string{
		"OTEL_EXPORTER_OTLP_ENDPOINT": collector.URL, "OTEL_EXPORTER_OTLP_HEADERS": "x-key=secret",
		"OTEL_RESOURCE_ATTRIBUTES": "deployment.environment.name=test",
	}), false)
	if err != nil {
		t.Fatal(err)
	}
	m, err := metrics.New(e.Provider(), nil)
	if err != nil {
		t.Fatal(err)
	}
	m.Audited(t.Context(), "lock.acquire", "ok")
	if err := e.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	got := <-sent
	for _, want := range []string{"/v1/metrics secret ", "leasehold.audit.events", "lock.acquire", "v1.2.3",
		"deployment.environment.name"} {
		if !strings.Contains(got, want) {
			t.Errorf("what was sent lacks %q: %q", want, got)
		}
	}
}

// TestNames: each instrument of the table has the name on the page that the documentation says, by which alerts and
// dashboards find it.
func TestNames(t *testing.T) {
	e, err := export.Open(t.Context(), options(t, nil), true)
	if err != nil {
		t.Fatal(err)
	}
	meter := e.Provider().Meter("names")
	for _, i := range metrics.Table {
		unit := metric.WithUnit(i.Unit)
		switch i.Kind {
		case metrics.Histogram:
			h, err := meter.Float64Histogram(i.Name, unit)
			if err != nil {
				t.Fatal(err)
			}
			h.Record(t.Context(), 1)
		case metrics.Gauge:
			g, err := meter.Float64Gauge(i.Name, unit)
			if err != nil {
				t.Fatal(err)
			}
			g.Record(t.Context(), 1)
		case metrics.UpDown:
			c, err := meter.Int64UpDownCounter(i.Name, unit)
			if err != nil {
				t.Fatal(err)
			}
			c.Add(t.Context(), 1)
		default:
			c, err := meter.Float64Counter(i.Name, unit)
			if err != nil {
				t.Fatal(err)
			}
			c.Add(t.Context(), 1)
		}
	}
	at, stop, err := e.Serve(t.Context(), "127.0.0.1:0", slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	_, text := get(t, "http://"+at.String()+export.Path, "")
	if err := errors.Join(stop(), e.Shutdown(t.Context())); err != nil {
		t.Error(err)
	}
	for _, i := range metrics.Table {
		if name := metrics.PrometheusName(i); !strings.Contains(text, "\n# TYPE "+name+" ") {
			t.Errorf("the page has no %s", name)
		}
	}
}
