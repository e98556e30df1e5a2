package httpapi_test

import (
	"fmt"
	"io"
	"log/slog"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/leasehold-dev/leasehold/functions/httpapi"
	"github.com/leasehold-dev/leasehold/repo/docstore"
)

// TestAllocationsOfARequest: what the handler allocates beside the rule, for a request that the rule rejects before the
// store is asked: with the limits, the log line and the problem.
func TestAllocationsOfARequest(t *testing.T) {
	const most = 38
	h := httpapi.New(docstore.NewMemory(nil), httpapi.Development{}, &httpapi.Options{
		Log:    slog.New(slog.NewTextHandler(io.Discard, nil)), //nolint:sloglint // lines are written, to nowhere
		Limits: httpapi.Limits{Concurrent: 64, Lists: 4, PageBytes: httpapi.DefaultPageBytes},
	})
	const body = `{"request_id":"r1","owner_id":"ann","ttl_seconds":-1}`
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost,
		"http://127.0.0.1:8080/v1/tenants/acme/locks/deploy-prod/acquire", http.NoBody)
	content := strings.NewReader(body)
	r.Body, r.ContentLength = io.NopCloser(content), int64(len(body))
	w := &response{header: http.Header{}}
	got := math.Inf(1) // the least of several requests: under the race detector, pools forget now and then
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

// TestHeadersAreNotShared: what a handler adds to the headers of one response is not in those of the next.
func TestHeadersAreNotShared(t *testing.T) {
	h := httpapi.Handler([]httpapi.Route{{
		Method: http.MethodGet, Path: "/x",
		Do: func(w http.ResponseWriter, _ *http.Request) error {
			for name := range w.Header() {
				w.Header().Add(name, "more")
			}
			return httpapi.Send(w, map[string]string{})
		},
	}}, nil)
	for i := range 2 {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://127.0.0.1:8080/x", http.NoBody))
		w.Header().Add("Cache-Control", "more")
		w.Header().Add("Content-Type", "more")
		want := map[string]string{"X-Content-Type-Options": "[nosniff more]", "Cache-Control": "[no-store more]",
			"Content-Type": "[application/json more]", "Content-Length": "[3]"}
		for name, values := range want {
			if got := fmt.Sprint(w.Header().Values(name)); got != values {
				t.Errorf("response %d: %s is %s, want %s", i, name, got, values)
			}
		}
	}
}
