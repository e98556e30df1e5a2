package httpapi_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leasehold-dev/leasehold/functions/httpapi"
	"github.com/leasehold-dev/leasehold/functions/telemetry"
	"github.com/leasehold-dev/leasehold/proof/contracttest"
	"github.com/leasehold-dev/leasehold/repo/docstore"
)

// impaired is a store that may be losing documents, while all calls succeed.
type impaired struct {
	docstore.Store
	err error
}

func (s *impaired) Impaired() error { return s.err }

// unmoved is an observer of nothing.
type unmoved struct{}

func (unmoved) Call(ctx context.Context, _ telemetry.Call) (context.Context, func(telemetry.Answer)) {
	return ctx, func(telemetry.Answer) {}
}

func (unmoved) Observe(ctx context.Context, _ any) (context.Context, func(any, error)) {
	return ctx, func(any, error) {}
}

// TestReadyWhileTheStoreLosesDocuments: a store that evicts what it has is not ready, also behind observers, without the
// details; and it is again when that has ended.
func TestReadyWhileTheStoreLosesDocuments(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &impaired{docstore.NewMemory(nil), errors.New("evicted on 10.0.0.7")}
		for _, store := range []docstore.Store{s, telemetry.Store(s, unmoved{})} {
			h := contracttest.Handler(t, httpapi.New(store, httpapi.Development{}, nil))
			for _, err := range []error{errors.New("evicted on 10.0.0.7"), nil} {
				s.err = err
				w := httptest.NewRecorder()
				h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://127.0.0.1:8080/readyz", nil))
				want, says := http.StatusOK, `"ok"`
				if err != nil {
					want, says = http.StatusServiceUnavailable, "not ready: the store may be losing documents"
				}
				if body := w.Body.String(); w.Code != want || !strings.Contains(body, says) || strings.Contains(body, "10.0.0.7") {
					t.Errorf("%v: %d %s", err, w.Code, body)
				}
				time.Sleep(2 * time.Second) // as long as a result is given
			}
		}
	})
}
