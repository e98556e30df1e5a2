package httpapi_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/leasehold-dev/leasehold/functions/httpapi"
	"github.com/leasehold-dev/leasehold/repo/docstore"
)

// fromPage sends a request as a browser does for a page of an origin.
func fromPage(h http.Handler, method, path, origin, asks, token string) *httptest.ResponseRecorder {
	body := ""
	if method == http.MethodPost {
		body = `{"request_id":"r1","owner_id":"ann","ttl_seconds":30}`
	}
	r := httptest.NewRequest(method, "http://127.0.0.1:8080"+path, strings.NewReader(body))
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	for name, value := range map[string]string{"Origin": origin, "Access-Control-Request-Method": asks,
		"Authorization": token} {
		if value != "" {
			r.Header.Set(name, value)
		}
	}
	if origin != "" {
		r.Header.Set("Sec-Fetch-Site", "cross-site")
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

const acquirePath = "/v1/tenants/acme/locks/k/acquire"

// TestPagesOfOtherOrigins: pages of the origins that are listed may ask, send and read; those of all others may not,
// and see nothing. Callers are authenticated all the same, and never by cookies.
func TestPagesOfOtherOrigins(t *testing.T) {
	const app, other = "https://app.example", "https://app.example.evil.example"
	verified := httpapi.New(docstore.NewMemory(nil), byHeader{},
		&httpapi.Options{Origins: []string{app, "http://localhost:5173"}})
	for name, x := range map[string]struct {
		method, path, origin, asks, token string
		status                            int
		allowed                           bool
	}{
		"preflight":                      {"OPTIONS", acquirePath, app, "POST", "", 204, true},
		"preflight, second origin":       {"OPTIONS", acquirePath, "http://localhost:5173", "DELETE", "", 204, true},
		"preflight, other origin":        {"OPTIONS", acquirePath, other, "POST", "", 405, false},
		"preflight, other scheme":        {"OPTIONS", acquirePath, "http://app.example", "POST", "", 405, false},
		"preflight, other port":          {"OPTIONS", acquirePath, app + ":8443", "POST", "", 405, false},
		"preflight, no origin of a page": {"OPTIONS", acquirePath, "null", "POST", "", 405, false},
		"preflight, internal path":       {"OPTIONS", "/internal/sweep", app, "POST", "", 404, false},
		"OPTIONS that asks for nothing":  {"OPTIONS", acquirePath, app, "", "", 405, true},
		"acquire":                        {"POST", acquirePath, app, "", "ann@acme", 200, true},
		"acquire, other origin":          {"POST", acquirePath, other, "", "ann@acme", 200, false},
		"acquire without a token":        {"POST", acquirePath, app, "", "", 401, true},
		"bad input":                      {"POST", "/v1/tenants/acme/locks/%00/acquire", app, "", "ann@acme", 400, true},
		"no such path":                   {"GET", "/v1/nothing", app, "", "ann@acme", 404, true},
		"health":                         {"GET", "/healthz", app, "", "", 200, false},
		"no page":                        {"POST", acquirePath, "", "", "ann@acme", 200, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := fromPage(verified, x.method, x.path, x.origin, x.asks, x.token)
			h := w.Header()
			if w.Code != x.status {
				t.Errorf("status %d, want %d: %s", w.Code, x.status, w.Body)
			}
			if got := h.Get("Access-Control-Allow-Origin"); (got == x.origin && got != "") != x.allowed ||
				got != "" && !x.allowed {
				t.Errorf("Access-Control-Allow-Origin is %q", got)
			}
			if got := h.Get("Access-Control-Allow-Credentials"); got != "" {
				t.Errorf("Access-Control-Allow-Credentials is %q", got)
			}
			if api := strings.HasPrefix(x.path, "/v1/"); (h.Get("Vary") == "Origin") != api {
				t.Errorf("Vary is %q: a cache must not give one origin the response for another", h.Get("Vary"))
			}
			preflight := x.status == http.StatusNoContent
			for name, want := range map[string]struct {
				with bool
				has  []string
			}{
				"Access-Control-Allow-Headers": {preflight, []string{"Authorization", "Content-Type", "Idempotency-Key",
					"Traceparent", "X-Request-Id"}},
				"Access-Control-Allow-Methods":  {preflight, []string{"GET", "POST", "PUT", "DELETE"}},
				"Access-Control-Max-Age":        {preflight, []string{"600"}},
				"Access-Control-Expose-Headers": {x.allowed && !preflight, []string{"Retry-After", "X-Request-Id"}},
			} {
				got := h.Get(name)
				if (got != "") != want.with {
					t.Errorf("%s is %q", name, got)
				}
				for _, one := range want.has {
					if want.with && !strings.Contains(got, one) {
						t.Errorf("%s is %q, without %s", name, got, one)
					}
				}
			}
		})
	}
}

// TestPagesWithoutOrigins: a server that lists none says nothing to pages of other origins.
func TestPagesWithoutOrigins(t *testing.T) {
	h := httpapi.New(docstore.NewMemory(nil), byHeader{}, nil)
	for _, method := range []string{http.MethodOptions, http.MethodPost} {
		w := fromPage(h, method, acquirePath, "https://app.example", "POST", "ann@acme")
		for name := range w.Header() {
			if strings.HasPrefix(name, "Access-Control-") || name == "Vary" {
				t.Errorf("%s has the header %s", method, name)
			}
		}
	}
}

// TestPagesInDevelopment: a server that accepts every caller of this machine takes requests of pages of the origins
// that are listed, and of no others.
func TestPagesInDevelopment(t *testing.T) {
	const app = "http://localhost:5173"
	for _, anyHost := range []bool{false, true} {
		h := httpapi.New(docstore.NewMemory(nil), httpapi.Development{},
			&httpapi.Options{Origins: []string{app}, InsecureAnyHost: anyHost})
		for origin, want := range map[string]int{app: 200, "http://localhost:5174": 403, "https://evil.example": 403} {
			if w := fromPage(h, http.MethodPost, acquirePath, origin, "", ""); w.Code != want {
				t.Errorf("%s: %d, want %d: %s", origin, w.Code, want, w.Body)
			}
		}
	}
}
