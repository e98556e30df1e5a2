//go:build unix

package main

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/leasehold-dev/leasehold/functions/httpapi"
	"github.com/leasehold-dev/leasehold/repo/docstore"
)

// TestEventsFollowThroughAFailure: one that follows says that a request failed, and asks again; a first request that
// fails ends it.
func TestEventsFollowThroughAFailure(t *testing.T) {
	t.Parallel()
	api := httpapi.New(docstore.NewMemory(nil), httpapi.Development{}, &httpapi.Options{})
	for name, c := range map[string]struct {
		fails int64 // the request that fails; they count from 1
		code  int
	}{"the first request": {1, 1}, "a later request": {2, exitInterrupted}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, interrupt := context.WithCancel(t.Context())
			defer interrupt()
			var asked atomic.Int64
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				switch n := asked.Add(1); {
				case n >= c.fails && n < c.fails+6: // with all tries of one request
					w.Header().Set("Content-Type", "application/problem+json")
					w.WriteHeader(http.StatusServiceUnavailable)
					_, _ = io.WriteString(w, `{"title":"away","status":503,"code":"UNAVAILABLE","retryable":true,"detail":"away"}`)
				case n > c.fails+6:
					interrupt()
				default:
					q := r.URL.Query()
					q.Del("wait_seconds")
					r.URL.RawQuery = q.Encode()
					api.ServeHTTP(w, r)
				}
			}))
			defer server.Close()
			var out, errs strings.Builder
			code := run(ctx, []string{"--server", server.URL, "placement", "events", "c", "-f"}, &out, &errs)
			if code != c.code || strings.Contains(errs.String(), "asking again") != (c.fails > 1) {
				t.Errorf("exit code %d, want %d: %s", code, c.code, &errs)
			}
		})
	}
}
