package oidc_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/leasehold-dev/leasehold/functions/httpapi"
	"github.com/leasehold-dev/leasehold/repo/docstore"
)

// TestWaitOfATokenThatExpires: a request that waits for a lock ends when its token has expired, and not with the refusal
// that it would have after 20 seconds.
func TestWaitOfATokenThatExpires(t *testing.T) {
	t.Parallel()
	i, c := newIssuer(t, public(p256(), "a")), newClock()
	h := httpapi.New(docstore.NewMemory(nil), i.identity(t, c), nil)
	send := func(token, body string) (int, string) {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/v1/tenants/acme/locks/k/acquire",
			strings.NewReader(body))
		r.Header.Set("Authorization", "Bearer "+token)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w.Code, w.Body.String()
	}
	held := i.token(t, object{"sub": "ben"})
	if status, body := send(held, `{"request_id":"b","ttl_seconds":3600}`); status != 200 {
		t.Fatal(status, body)
	}
	short := i.token(t, object{"exp": noon.Add(time.Minute).Unix()})
	time.AfterFunc(100*time.Millisecond, func() { c.advance(2 * time.Minute) })
	if status, body := send(short, `{"request_id":"a","ttl_seconds":3600,"wait_seconds":20}`); status != 401 ||
		!strings.Contains(body, "expired") {
		t.Errorf("%d %s", status, body)
	}
}
