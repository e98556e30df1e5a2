package httpapi_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/getkin/kin-openapi/openapi3"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/leasehold-dev/leasehold/functions/gcp"
	"github.com/leasehold-dev/leasehold/functions/httpapi"
	"github.com/leasehold-dev/leasehold/functions/metrics"
	"github.com/leasehold-dev/leasehold/functions/telemetry"
	"github.com/leasehold-dev/leasehold/proof/contracttest"
	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/machineid"
)

// canary is a secret.
const canary = "canary-7f3d9c2b"

// plain are members of bodies that are names, which the log may have: whom and what it is about. Everything else that
// is a text is a secret in this test.
var plain = []string{
	"owner_id", "request_id", "reason", "failure_reason", "member", "lock_key", "lock_keys", "service_id", "serviceId",
	"to", "replaces", "address",
}

// sample is a body that a schema describes, with the canary in all texts that are not plain. Not all members go
// together: few has those that must be there, and those that have contents.
func sample(name string, s *openapi3.Schema, few bool) any {
	for _, of := range [][]*openapi3.SchemaRef{s.OneOf, s.AnyOf, s.AllOf} {
		if len(of) > 0 {
			return sample(name, of[0].Value, few)
		}
	}
	switch {
	case len(s.Enum) > 0:
		return s.Enum[0]
	case s.Type.Is("object"):
		body := map[string]any{}
		for member, of := range s.Properties {
			if !few || slices.Contains(s.Required, member) ||
				slices.Contains([]string{"metadata", "state", "labels", "ttl_seconds"}, member) {
				body[member] = sample(member, of.Value, few)
			}
		}
		if len(body) == 0 {
			body["a"] = canary
		}
		return body
	case s.Type.Is("array"):
		return []any{sample(name, s.Items.Value, few)}
	case s.Type.Is("integer"), s.Type.Is("number"):
		return 30
	case s.Type.Is("boolean"):
		return true
	case s.Format == "date-time":
		return "2026-01-01T00:00:00Z"
	case slices.Contains(plain, name):
		return "plain"
	case name == "kinds":
		return "room"
	default:
		return canary
	}
}

// careless takes everyone with a header for an administrator.
type careless struct{}

// Identify implements [httpapi.Identity].
func (careless) Identify(r *http.Request) (httpapi.Caller, error) {
	if r.Header.Get("Authorization") == "" {
		return httpapi.Caller{}, httpapi.Unauthenticated("no token")
	}
	return httpapi.Caller{Subject: "plain", Tenant: "acme", Rights: httpapi.Admin | httpapi.Worker}, nil
}
func (careless) Challenge() string { return "Bearer" }
func (careless) Unverified() bool  { return false }

// TestSecrets: what callers send as credentials and contents, and the IDs of leases, are in no line of the log in any
// format at the lowest level, in no span and in no metric: on every endpoint, with bodies that can be read and that
// cannot, on a store that works, one that fails and one that panics.
func TestSecrets(t *testing.T) {
	public, _, err := contracttest.Load()
	if err != nil {
		t.Fatal(err)
	}
	lowest := &slog.HandlerOptions{Level: slog.LevelDebug}
	formats := map[string]func(io.Writer) *slog.Logger{
		"text": func(w io.Writer) *slog.Logger {
			return slog.New(telemetry.NewHandler(slog.NewTextHandler(w, lowest)))
		},
		"json": func(w io.Writer) *slog.Logger {
			return slog.New(telemetry.NewHandler(slog.NewJSONHandler(w, lowest)))
		},
		"cloud-logging": gcp.NewLog,
	}
	memory := docstore.NewMemory(nil)
	stores := map[string]docstore.Store{"memory": memory, "failing": failing{memory}, "panicking": panicking{memory}}
	parameter := regexp.MustCompile(`\{[a-z_]+\}`)
	leases := regexp.MustCompile(`"lease_id":"([A-Z0-9]{20,})"`)
	for format, newLog := range formats {
		for kind, store := range stores {
			t.Run(format+" "+kind, bubble(func(t *testing.T) {
				var log bytes.Buffer
				spans, reader := tracetest.NewInMemoryExporter(), metric.NewManualReader()
				traces := telemetry.NewTraces(trace.NewTracerProvider(trace.WithSyncer(spans)), "memory")
				m, err := metrics.New(metric.NewMeterProvider(metric.WithReader(reader)), &metrics.Options{Tenants: true})
				if err != nil {
					t.Fatal(err)
				}
				observed := telemetry.Store(store, append(traces.Observers(), m.Observe(store, "memory")...)...)
				h := httpapi.New(observed, careless{}, &httpapi.Options{
					Log: newLog(&log), Traces: traces, Metrics: m, Outcomes: 100, MachineIDs: machineid.NewDefault(observed, nil),
				})
				secrets, requests := map[string]bool{canary: true}, 0
				send := func(method, path string, body io.Reader, header http.Header) {
					r := httptest.NewRequestWithContext(t.Context(), method, "http://127.0.0.1:8080"+path, body)
					maps.Copy(r.Header, header)
					r.Header.Set("Traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
					r.Header.Set("Baggage", "token="+canary)
					r.Header.Set("Tracestate", "v=kept")
					w := httptest.NewRecorder()
					h.ServeHTTP(w, r)
					time.Sleep(time.Second) // rejections of a second share a line
					requests++
					for _, id := range leases.FindAllStringSubmatch(w.Body.String(), -1) {
						secrets[id[1]] = true
					}
				}
				for _, path := range slices.Sorted(maps.Keys(public.Paths.Map())) {
					for method, op := range public.Paths.Map()[path].Operations() {
						at := parameter.ReplaceAllStringFunc(path, func(p string) string {
							if p == "{tenant_id}" {
								return "acme"
							}
							return "plain"
						})
						bodies := []string{"", `{"secret":"` + canary, `"` + canary + `"`, strings.Repeat(canary, 10_000)}
						if op.RequestBody != nil {
							for _, few := range []bool{false, true} {
								b, err := json.Marshal(sample("", op.RequestBody.Value.Content.Get("application/json").Schema.Value, few))
								if err != nil {
									t.Fatal(err)
								}
								bodies = append(bodies, string(b))
							}
						}
						for _, body := range bodies {
							send(method, at+"?token="+canary, strings.NewReader(body),
								http.Header{"Authorization": {"Bearer " + canary}, "Cookie": {"session=" + canary}})
							send(method, at, strings.NewReader(body), http.Header{"Authorization": {"Basic " + canary},
								"X-Serverless-Authorization": {canary}})
							send(method, at, strings.NewReader(body), http.Header{"X-Api-Key": {canary}})
						}
					}
				}
				var all metricdata.ResourceMetrics
				if err := reader.Collect(t.Context(), &all); err != nil {
					t.Fatal(err)
				}
				if format == "json" {
					contracttest.AuditEvents(t, log.String())
				}
				written, measured, made := log.String(), fmt.Sprintf("%+v", all), fmt.Sprintf("%+v", spans.GetSpans())
				if strings.Count(written, "\n") < requests || !strings.Contains(measured, "lock.acquire") ||
					!strings.Contains(made, "{lock_key}/acquire") {
					t.Errorf("%d requests, %d lines of the log", requests, strings.Count(written, "\n"))
				}
				if kind == "memory" && len(secrets) < 2 {
					t.Errorf("no lease was granted")
				}
				for secret := range secrets {
					for where, text := range map[string]string{"the log": written, "a metric": measured, "a span": made} {
						if i := strings.Index(text, secret); i >= 0 {
							t.Errorf("%s has the secret: …%s", where, text[max(0, i-300):min(len(text), i+100)])
						}
					}
				}
			}))
		}
	}
}

// bubble is a test in virtual time.
func bubble(do func(*testing.T)) func(*testing.T) {
	return func(t *testing.T) { synctest.Test(t, do) }
}

// failing is a store whose calls fail.
type failing struct{ docstore.Store }

func (failing) Get(context.Context, ...docstore.Key) (docstore.Snapshot, error) {
	return docstore.Snapshot{}, fmt.Errorf("%w: no route to the store", docstore.ErrUnavailable)
}

func (failing) Write(context.Context, ...docstore.Write) (docstore.Result, error) {
	return docstore.Result{}, os.ErrDeadlineExceeded
}
