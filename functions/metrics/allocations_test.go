//go:build !race

// Under the race detector pools forget a part of what they are given, by chance: allocations cannot be counted there.

package metrics_test

import (
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	sdk "go.opentelemetry.io/otel/sdk/metric"

	"github.com/leasehold-dev/leasehold/functions/httpapi"
	"github.com/leasehold-dev/leasehold/functions/metrics"
	"github.com/leasehold-dev/leasehold/functions/telemetry"
	"github.com/leasehold-dev/leasehold/repo/docstore"
)

// TestAllocations: what measuring costs a request, counted. Without metrics it costs nothing: [TestNothing] shows that
// nothing is there.
func TestAllocations(t *testing.T) {
	const most = 8 // more than without metrics
	per := func(m *metrics.Metrics) float64 {
		store := telemetry.Store(docstore.NewMemory(nil), m.Observe(nil, metrics.SystemMemory)...)
		h := httpapi.New(store, httpapi.Development{}, &httpapi.Options{Metrics: m})
		body := strings.NewReader("")
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "http://127.0.0.1/v1"+lockPath+"/acquire", body)
		r.RemoteAddr = "127.0.0.1:50000"
		acquire := `{"request_id":"a1","owner_id":"ann","ttl_seconds":3600}`
		once := func() {
			body.Reset(acquire)
			h.ServeHTTP(httptest.NewRecorder(), r)
		}
		once()
		got := math.Inf(1) // the least of several requests: a garbage collection empties pools
		for range 100 {
			got = min(got, testing.AllocsPerRun(1, once))
		}
		return got
	}
	reader := sdk.NewManualReader()
	m, err := metrics.New(sdk.NewMeterProvider(sdk.WithReader(reader)), nil)
	if err != nil {
		t.Fatal(err)
	}
	off, on := per(nil), per(m)
	t.Logf("%v allocations of a request without metrics, %v with them", off, on)
	if on-off > most {
		t.Errorf("metrics cost %v allocations, %d at most", on-off, most)
	}
}
