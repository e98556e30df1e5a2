//go:build !race

// Under the race detector pools forget a part of what they are given, by chance: allocations cannot be counted there.

package telemetry_test

import (
	"context"
	"io"
	"log/slog"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	sdk "go.opentelemetry.io/otel/sdk/trace"

	"github.com/leasehold-dev/leasehold/functions/httpapi"
	"github.com/leasehold-dev/leasehold/functions/telemetry"
	"github.com/leasehold-dev/leasehold/repo/docstore"
)

// nothing takes spans and forgets them.
type nothing struct{}

func (nothing) ExportSpans(context.Context, []sdk.ReadOnlySpan) error { return nil }
func (nothing) Shutdown(context.Context) error                        { return nil }

// TestCost: what a request allocates more, if it names a trace and if spans are made of it.
func TestCost(t *testing.T) {
	never := telemetry.NewTraces(sdk.NewTracerProvider(sdk.WithSampler(sdk.NeverSample())), "memory")
	always := telemetry.NewTraces(sdk.NewTracerProvider(sdk.WithSyncer(nothing{})), "memory")
	base := math.NaN()
	for _, c := range []struct {
		name   string
		traces *telemetry.Traces
		parent string
		most   float64 // beyond the first
	}{
		{"off", nil, "", 0},
		{"off, in a trace", nil, traceparent, 8},
		{"on, not sampled", never, "", 34},
		{"on, sampled", always, "", 46},
	} {
		//nolint:sloglint // lines are written, to nowhere
		log := slog.New(telemetry.NewHandler(slog.NewJSONHandler(io.Discard, nil)))
		h := httpapi.New(telemetry.Store(docstore.NewMemory(nil), c.traces.Observers()...), httpapi.Development{},
			&httpapi.Options{Log: log, Traces: c.traces})
		const body = `{"request_id":"r1","owner_id":"ann","ttl_seconds":30}`
		content := strings.NewReader(body)
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost,
			"http://127.0.0.1:8080/v1/tenants/acme/locks/k/acquire", http.NoBody)
		r.Body, r.ContentLength = io.NopCloser(content), int64(len(body))
		if c.parent != "" {
			r.Header.Set("Traceparent", c.parent)
		}
		w := &response{header: http.Header{}}
		got := math.Inf(1) // the least of several requests: a garbage collection empties pools
		for range 100 {
			got = min(got, testing.AllocsPerRun(1, func() {
				content.Reset(body)
				clear(w.header)
				h.ServeHTTP(w, r)
				if w.status != http.StatusOK {
					t.Fatal(w.status)
				}
			}))
		}
		if c.name == "off" {
			base = got
		}
		t.Logf("%s: %v allocations", c.name, got)
		if got-base > c.most {
			t.Errorf("%s: %v allocations more, %v at most", c.name, got-base, c.most)
		}
	}
}

// response takes a response and allocates nothing.
type response struct {
	header http.Header
	status int
}

func (w *response) Header() http.Header         { return w.header }
func (w *response) WriteHeader(status int)      { w.status = status }
func (w *response) Write(b []byte) (int, error) { return len(b), nil }
