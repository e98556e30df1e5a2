//go:build !race

// Under the race detector pools forget a part of what they are given, by chance: allocations cannot be counted there.

package httpapi_test

import (
	"io"
	"log/slog"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/leasehold-dev/leasehold/functions/httpapi"
	"github.com/leasehold-dev/leasehold/repo/docstore"
)

// TestAllocationsOfARequest: what the handler allocates beside the rule, for a request that the rule rejects before the
// store is asked: with the limits, the log line and the problem.
func TestAllocationsOfARequest(t *testing.T) {
	const most = 38
	h := httpapi.New(docstore.NewMemory(nil), httpapi.Development{}, &httpapi.Options{
		Log:    slog.New(slog.NewTextHandler(io.Discard, nil)), //nolint:sloglint // lines are written, to nowhere
		Limits: httpapi.Limits{Concurrent: 64, Lists: 4, PageBytes: httpapi.DefaultPageBytes, BodyBytes: httpapi.DefaultBodyBytes},
	})
	const body = `{"request_id":"r1","owner_id":"ann","ttl_seconds":-1}`
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost,
		"http://127.0.0.1:8080/v1/tenants/acme/locks/deploy-prod/acquire", http.NoBody)
	content := strings.NewReader(body)
	r.Body, r.ContentLength = io.NopCloser(content), int64(len(body))
	w := &response{header: http.Header{}}
	got := math.Inf(1) // the least of several requests: a garbage collection empties pools
	for range 100 {
		got = min(got, testing.AllocsPerRun(1, func() {
			content.Reset(body)
			clear(w.header)
			h.ServeHTTP(w, r)
			if w.status != http.StatusBadRequest {
				t.Fatal(w.status)
			}
		}))
	}
	t.Logf("%v allocations", got)
	if got > most {
		t.Errorf("%v allocations, %d at most", got, most)
	}
}

// TestAllocationsOfTheHandler: a function that starts for its first request makes the handler before it. All patterns
// of the mux would be some 900 more.
func TestAllocationsOfTheHandler(t *testing.T) {
	const most = 800
	store := docstore.NewMemory(nil)
	got := testing.AllocsPerRun(10, func() { httpapi.New(store, httpapi.Development{}, nil) })
	t.Logf("%v allocations", got)
	if got > most {
		t.Errorf("%v allocations, %d at most", got, most)
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

func (w *response) SetReadDeadline(time.Time) error { return nil } // as the server has it
