package httpapi_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/leasehold-dev/leasehold/functions/httpapi"
	"github.com/leasehold-dev/leasehold/proof/contracttest"
	"github.com/leasehold-dev/leasehold/repo/docstore"
)

// TestWhatAFailedWriteLeft: a command whose outcome is unknown may have been carried out; one that the store refused
// was not, and the problem does not say so.
func TestWhatAFailedWriteLeft(t *testing.T) {
	for says, failure := range map[string]error{
		"may have been carried out":          docstore.ErrUnavailable,
		"the store did not accept the write": fmt.Errorf("%w: %w", docstore.ErrUnavailable, docstore.ErrNotWritten),
	} {
		p := &probed{Store: docstore.NewMemory(nil)}
		p.set(failure, 0)
		w := httptest.NewRecorder()
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost,
			"http://127.0.0.1:8080/v1/tenants/acme/locks/k/acquire",
			strings.NewReader(`{"request_id":"r1","owner_id":"ann","ttl_seconds":30}`))
		r.Header.Set("Content-Type", "application/json")
		contracttest.Handler(t, httpapi.New(p, httpapi.Development{}, nil)).ServeHTTP(w, r)
		if w.Code != http.StatusServiceUnavailable || !strings.Contains(w.Body.String(), says) ||
			!strings.Contains(w.Body.String(), "send the same body again") {
			t.Errorf("%v: %d %s", failure, w.Code, w.Body)
		}
	}
}
