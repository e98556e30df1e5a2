package httpapi_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leasehold-dev/leasehold/functions/httpapi"
	"github.com/leasehold-dev/leasehold/internal/contracttest"
	"github.com/leasehold-dev/leasehold/repo/docstore"
)

// byHeader is an identity that believes headers.
type byHeader struct{}

func (byHeader) Identify(r *http.Request) (httpapi.Caller, error) {
	subject, tenant, ok := strings.Cut(r.Header.Get("Authorization"), "@")
	if !ok {
		return httpapi.Caller{}, httpapi.Unauthenticated("no token")
	}
	return httpapi.Caller{Subject: subject, Tenant: tenant, Worker: true}, nil
}
func (byHeader) Challenge() string { return "" }
func (byHeader) Unverified() bool  { return false }

// ask sends one request of a caller, such as ann@acme, and returns status, code and Retry-After.
func ask(ctx context.Context, h http.Handler, who, path string) (status int, code, after string) {
	r := httptest.NewRequestWithContext(ctx, http.MethodGet, "http://127.0.0.1:8080"+path, nil)
	r.Header.Set("Authorization", who)
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	if _, rest, ok := strings.Cut(w.Body.String(), `"code":"`); ok {
		code, _, _ = strings.Cut(rest, `"`)
	}
	return w.Code, code, w.Header().Get("Retry-After")
}

// TestRates: a tenant and a subject have two seconds' worth at once and then their rate, whatever other callers do; what is rejected
// costs nothing of it.
func TestRates(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := contracttest.Handler(t, httpapi.New(docstore.NewMemory(nil), byHeader{}, &httpapi.Options{Limits: httpapi.Limits{PerTenant: 10, PerSubject: 4}}))
		locks := func(who string) (int, string, string) {
			_, tenant, _ := strings.Cut(who, "@")
			return ask(t.Context(), h, who, "/v1/tenants/"+tenant+"/locks")
		}
		until := func(who string) (n int) {
			for n < 1000 {
				status, code, after := locks(who)
				if status == http.StatusOK {
					n++
					continue
				}
				if status != http.StatusTooManyRequests || code != "RATE_LIMITED" || after != "1" {
					t.Errorf("%s: %d %s, Retry-After %q", who, status, code, after)
				}
				break
			}
			return n
		}
		for _, c := range []struct {
			who  string
			want int
		}{
			{"ann@acme", 8}, {"ann@acmf", 8}, {"bob@acme", 8}, {"cid@acme", 4}, {"dan@acme", 0}, {"bob@acmf", 8},
		} {
			if got := until(c.who); got != c.want {
				t.Errorf("%s sent %d requests, want %d", c.who, got, c.want)
			}
		}
		time.Sleep(time.Second)
		if got := until("ann@acme"); got != 4 {
			t.Errorf("after a second ann sent %d, want 4", got)
		}
		if got := until("dan@acme"); got != 6 {
			t.Errorf("after a second the tenant had %d left, want 6", got)
		}
		time.Sleep(time.Hour)
		if got := until("ann@acme"); got != 8 {
			t.Errorf("after an hour ann sent %d at once, want 8", got)
		}
	})
	t.Run("analyses and machine IDs count for the caller's tenant", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			h := contracttest.Handler(t, httpapi.New(docstore.NewMemory(nil), byHeader{}, &httpapi.Options{Limits: httpapi.Limits{PerTenant: 1}}))
			for i, want := range []int{404, 200, 429, 429} {
				if status, _, _ := ask(t.Context(), h, "ann@acme", []string{"/v1/analyses/a1", "/v1/machine-ids"}[i%2]); status != want {
					t.Errorf("request %d: %d, want %d", i, status, want)
				}
			}
			if status, _, _ := ask(t.Context(), h, "ann@acmf", "/v1/machine-ids"); status != 200 {
				t.Errorf("another tenant: %d", status)
			}
		})
	})
}

// TestRatesForgetIdleCallers: a process remembers some thousands of callers, not all that there ever were.
func TestRatesForgetIdleCallers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := httpapi.New(docstore.NewMemory(nil), byHeader{}, &httpapi.Options{Limits: httpapi.Limits{PerSubject: 1}})
		for i := range 10_002 {
			if i == 10_001 {
				time.Sleep(time.Hour)
			}
			if status, _, _ := ask(t.Context(), h, fmt.Sprint(i, "@acme"), "/v1/tenants/acme/locks/k"); status != 404 {
				t.Fatalf("caller %d: %d", i, status)
			}
		}
	})
}

// TestOverload: what is more than the bound is rejected at once, without a slot for callers who are not known; health is not asked to wait.
func TestOverload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &probed{Store: docstore.NewMemory(nil)}
		h := contracttest.Handler(t, httpapi.New(slowReads{p}, byHeader{}, &httpapi.Options{Limits: httpapi.Limits{Concurrent: 3}}))
		results := make(chan string, 10)
		for range 5 {
			go func() {
				status, code, after := ask(t.Context(), h, "ann@acme", "/v1/tenants/acme/locks/k")
				results <- fmt.Sprint(status, code, after)
			}()
		}
		synctest.Wait()
		for range 2 {
			if got := <-results; got != "503OVERLOADED1" {
				t.Errorf("beyond the bound: %s", got)
			}
		}
		if status, _, _ := ask(t.Context(), h, "unknown", "/v1/tenants/acme/locks/k"); status != 401 {
			t.Errorf("an unknown caller: %d", status)
		}
		for _, path := range []string{"/healthz", "/readyz"} {
			if status, _, _ := ask(t.Context(), h, "", path); status != 200 {
				t.Errorf("%s: %d", path, status)
			}
		}
		for range 3 {
			if got := <-results; got != "404NOT_FOUND" {
				t.Errorf("within the bound: %s", got)
			}
		}
		if status, _, _ := ask(t.Context(), h, "ann@acme", "/v1/tenants/acme/locks/k"); status != 404 {
			t.Errorf("afterwards: %d", status)
		}
	})
}

// slowReads is a store whose reads take five seconds.
type slowReads struct{ docstore.Store }

func (s slowReads) Get(ctx context.Context, keys ...docstore.Key) (docstore.Snapshot, error) {
	time.Sleep(5 * time.Second)
	return s.Store.Get(ctx, keys...)
}
