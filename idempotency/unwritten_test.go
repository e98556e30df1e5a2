package idempotency_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/leasehold-dev/leasehold/idempotency"
	"github.com/leasehold-dev/leasehold/repo/docstore"
)

// TestNothingWritten: a handler that returns and has written nothing has not succeeded: its response, if there is one,
// went past the middleware. It is said, and what is stored is a failure, unless the policy or the handler says that
// the key is free.
func TestNothingWritten(t *testing.T) {
	for name, c := range map[string]struct {
		store   func(int, http.Header) bool
		nothing bool
		stored  bool
	}{
		"outcome": {nil, false, true}, "success": {idempotency.StoreSuccess, false, false}, "nothing done": {nil, true, false},
	} {
		var runs atomic.Int64
		var warned []string
		h := middleware(t, gate(docstore.NewMemory(nil)), &idempotency.Options{Store: c.store,
			Warn: func(_ *http.Request, err error) { warned = append(warned, err.Error()) }}).
			Wrap(ends(&runs, 0, func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("X-Echo", "1") // a header alone is no response
				if c.nothing {
					idempotency.NothingDone(r)
				}
			}))
		w := post(h, "k1", "")
		is(t, name, w, 500, "IDEMPOTENT_RESPONSE_MISSING")
		if replayed(w) || w.Header().Get("X-Echo") != "" || len(warned) != 1 || !strings.Contains(warned[0], "wrote nothing") {
			t.Errorf("%s: %v, %q", name, w.Header(), warned)
		}
		w = post(h, "k1", "")
		is(t, name, w, 500, "IDEMPOTENT_RESPONSE_MISSING")
		if replayed(w) != c.stored || runs.Load() == 1 != c.stored ||
			strings.Contains(w.Body.String(), `"retryable":true`) == c.stored {
			t.Errorf("%s: replayed %v, %d runs, %s", name, replayed(w), runs.Load(), w.Body)
		}
	}
}

// past is a framework's response writer: it says whether it was written to.
type past struct {
	*httptest.ResponseRecorder
	written bool
}

func (p *past) Written() bool { return p.written }

func (p *past) WriteHeader(status int) { p.written = true; p.ResponseRecorder.WriteHeader(status) }

// TestWrittenPast: the framework has sent a response of its own. Nothing is appended to it, and it is not stored as a
// success.
func TestWrittenPast(t *testing.T) {
	m := middleware(t, gate(docstore.NewMemory(nil)), &idempotency.Options{Warn: func(*http.Request, error) {}})
	w := &past{ResponseRecorder: httptest.NewRecorder()}
	r := httptest.NewRequest(http.MethodPost, "/payments", nil)
	r.Header.Set("Idempotency-Key", "k1")
	h := m.Wrap(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		w.WriteHeader(http.StatusPaymentRequired)
		fmt.Fprint(w, "declined")
	}))
	if h.ServeHTTP(w, r); w.Code != 402 || w.Body.String() != "declined" {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	is(t, "the next", post(h, "k1", ""), 500, "IDEMPOTENT_RESPONSE_MISSING")
}
