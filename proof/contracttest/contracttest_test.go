package contracttest_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/leasehold-dev/leasehold/proof/contracttest"
)

// record is a TB that keeps what is reported to it.
type record struct{ reports []string }

var _ contracttest.TB = (*record)(nil)

func (*record) Helper() {}

func (r *record) Errorf(format string, args ...any) {
	r.reports = append(r.reports, fmt.Sprintf(format, args...))
}

func (r *record) Fatalf(format string, args ...any) {
	r.reports = append(r.reports, "fatal: "+fmt.Sprintf(format, args...))
}

// reply is a handler that always responds the same.
func reply(status int, contentType, body string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", contentType)
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	})
}

const (
	lockPath = "/v1/analyses/a1/lock"
	skipped  = `{"analysis_id":"a1","acquired":false,"reason":"locked"}`
	grant    = `{"analysis_id":"a1","acquired":true,"owner_id":"w","fencing_token":1,"expires_at":"2026-01-01T00:00:30.000Z",` +
		`"remaining_ms":1000,"runs":1,"failures":0,"replayed":false}`
	acquirePath = "/v1/tenants/acme/locks/deploy/acquire"
	question    = `{"request_id":"r1","owner_id":"ann","ttl_seconds":30}`
	lease       = `{"tenant_id":"acme","lock_key":"deploy","lease_id":"l1","owner_id":"ann","fencing_token":1,"state":"ACTIVE",` +
		`"acquired_at":"2026-01-01T00:00:00.000Z","expires_at":"2026-01-01T00:00:30.000Z","remaining_ms":30000,"ttl_seconds":30,"metadata":{},"replayed":false}`
	problem = `{"type":"https://example.com/x","title":"x","status":400,"code":"INVALID_ARGUMENT","retryable":false}`
	asJSON  = "application/json"
	asIssue = "application/problem+json"
	asHTML  = "text/html"
)

func TestHandlerReports(t *testing.T) {
	const (
		ofLease   = "response body doesn't match schema #/components/schemas/Lease: "
		ofAcquire = "responded 200, but the request: request body has an error: "
		notThere  = "a path or method that it does not have (%s) must result in a problem"
	)
	without := func(member string) string { return strings.Replace(lease, member, "", 1) }
	cases := []struct {
		name                  string
		method, target, body  string
		status                int
		contentType, response string
		want                  string // the first line of the one report says; empty: nothing is reported
	}{
		{"a good exchange", "POST", acquirePath, question, 200, asJSON, lease, ""},
		{"a good refusal", "POST", acquirePath, `{"ttl_seconds":0}`, 400, asIssue, problem, ""},
		{"HEAD where there is GET", "HEAD", "/healthz", "", 200, asJSON, `{"status":"ok"}`, ""},
		{"a problem for an unknown path", "GET", "/v2/locks", "", 404, asIssue, problem, ""},
		{"a problem for an unknown method", "DELETE", acquirePath, "", 405, asIssue, problem, ""},

		{"a response with a wrong type", "POST", acquirePath, question, 200, asJSON,
			strings.Replace(lease, `"fencing_token":1`, `"fencing_token":"1"`, 1),
			ofLease + `Error at "/fencing_token": value must be an integer`},
		{"a response beyond a bound", "POST", acquirePath, question, 200, asJSON,
			strings.Replace(lease, `"fencing_token":1`, `"fencing_token":0`, 1),
			ofLease + `Error at "/fencing_token": number must be at least 1`},
		{"a time without milliseconds", "POST", acquirePath, question, 200, asJSON,
			strings.Replace(lease, "00:00:30.000Z", "00:00:30Z", 1),
			ofLease +
				`Error at "/expires_at": string doesn't match the regular expression "^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$"`},
		{"a required member is missing", "POST", acquirePath, question, 200, asJSON, without(`"lease_id":"l1",`),
			ofLease + `Error at "/lease_id": property "lease_id" is missing`},
		{"a state that is none", "POST", acquirePath, question, 200, asJSON, strings.Replace(lease, "ACTIVE", "HELD", 1),
			ofLease + `Error at "/state": value is not one of the allowed values ["ACTIVE","RELEASED","EXPIRED"]`},
		{"a response that is no JSON", "POST", acquirePath, question, 200, asJSON, `{"tenant_id"`,
			"failed to decode response body: unexpected EOF"},
		{"a response of another media type", "POST", acquirePath, question, 200, asHTML, "<p>yes</p>",
			`response header Content-Type has unexpected value: "text/html"`},
		{"an undeclared status", "POST", acquirePath, question, 418, asIssue, problem, "status is not supported"},
		{"a problem without a code", "POST", acquirePath, question, 409, asIssue,
			strings.Replace(problem, `,"code":"INVALID_ARGUMENT"`, "", 1),
			`response body doesn't match schema #/components/schemas/Problem: Error at "/code": property "code" is missing`},
		{"a 200 for a body that the contract refuses", "POST", acquirePath, `{"request_id":"r1","ttl_seconds":0}`,
			200, asJSON, lease,
			ofAcquire +
				`doesn't match schema #/components/schemas/AcquireRequest: Error at "/ttl_seconds": doesn't match schema due to: number must be at least 1`},
		{"a 200 for an unknown member", "POST", acquirePath, `{"request_id":"r1","ttl_seconds":1,"tll":2}`,
			200, asJSON, lease,
			ofAcquire + `doesn't match schema #/components/schemas/AcquireRequest: property "tll" is unsupported`},
		{"a 200 for an empty body", "POST", acquirePath, "", 200, asJSON, lease, ofAcquire + "value is required but missing"},
		{"a 200 for a query that the contract refuses", "GET", "/v1/tenants/acme/locks?page_size=0", "", 200,
			asJSON, `{"locks":[]}`,
			`responded 200, but the request: parameter "page_size" in query has an error: validation failed due to: at '': minimum: got 0, want 1`},
		{"a grant", "POST", lockPath, `{"request_id":"r1"}`, 200, asJSON, grant, ""},
		{"a run that was not granted", "POST", lockPath, `{"request_id":"r1"}`, 200, asJSON, skipped, ""},
		{"a grant without a token", "POST", lockPath, `{"request_id":"r1"}`, 200, asJSON,
			strings.Replace(grant, `"fencing_token":1,`, "", 1),
			`response body doesn't match schema #/components/schemas/AnalysisGrant: validation failed due to: validation failed due to: ` +
				`validation failed due to: at '': missing property 'fencing_token'`},
		{"a message of a queue", "POST", "/internal/tasks/analysis", `{"analysisId":"a1"}`, 200, asJSON,
			`{"outcome":"ready"}`, ""},
		{"an outcome that is none", "POST", "/internal/tasks/analysis", `{"analysisId":"a1"}`, 200, asJSON,
			`{"outcome":"lunch"}`,
			`response body doesn't match schema #/components/schemas/TaskDone: Error at "/outcome": value is not one of the allowed values ` +
				`["ready","failed","already_finished","already_failed","unknown_analysis","malformed","damaged","locked"]`},
		{"HTML for an unknown path", "GET", "/v2/locks", "", 404, asHTML, "<h1>Not Found</h1>",
			fmt.Sprintf(notThere, "no matching operation was found")},
		{"a 200 for an unknown path", "GET", "/v2/locks", "", 200, asJSON, `{}`,
			fmt.Sprintf(notThere, "no matching operation was found")},
		{"a problem with 200 for an unknown path", "GET", "/v2/locks", "", 200, asIssue, problem,
			fmt.Sprintf(notThere, "no matching operation was found")},
		{"a 200 for an unknown method", "DELETE", acquirePath, "", 200, asJSON, lease,
			fmt.Sprintf(notThere, "method not allowed")},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			r := &record{}
			h := contracttest.Handler(r, reply(c.status, c.contentType, c.response))
			w := httptest.NewRecorder()
			h.ServeHTTP(w, httptest.NewRequest(c.method, c.target, strings.NewReader(c.body)))

			path, _, _ := strings.Cut(c.target, "?")
			if c.want == "" {
				if len(r.reports) > 0 {
					t.Errorf("reported %q, want nothing", r.reports)
				}
			} else if len(r.reports) != 1 {
				t.Errorf("reported %q, want one report", r.reports)
			} else if got, _, _ := strings.Cut(r.reports[0], "\n"); got != c.method+" "+path+" is not as the contract says: "+
				c.want {
				t.Errorf("got  %q\nwant %q", got, c.want)
			}
			if w.Code != c.status || w.Header().Get("Content-Type") != c.contentType || w.Body.String() != c.response {
				t.Errorf("the response was changed on its way: %d %v %q", w.Code, w.Header(), w.Body)
			}
		})
	}
}

// TestHandlerPassesTheRequestOn: what lies behind sees the same body as without the checks.
func TestHandlerPassesTheRequestOn(t *testing.T) {
	r := &record{}
	var got string
	h := contracttest.Handler(r, http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		b, err := io.ReadAll(q.Body)
		if err != nil {
			t.Error(err)
		}
		got = string(b)
		reply(200, asJSON, lease).ServeHTTP(w, q)
	}))
	h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, acquirePath, strings.NewReader(question)))
	if got != question || len(r.reports) != 0 {
		t.Errorf("behind the checks the body is %q; reported %q", got, r.reports)
	}
}

// TestHandlerLetsABrokenBodyThrough: a caller that breaks off is the business of what lies behind.
func TestHandlerLetsABrokenBodyThrough(t *testing.T) {
	r := &record{}
	broken := errors.New("connection reset")
	var got string
	var gotErr error
	h := contracttest.Handler(r, http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		b, err := io.ReadAll(q.Body)
		got, gotErr = string(b), err
		w.WriteHeader(http.StatusTeapot)
	}))
	w := httptest.NewRecorder()
	body := io.MultiReader(strings.NewReader(question[:9]), iotest.ErrReader(broken))
	h.ServeHTTP(w, httptest.NewRequest(http.MethodPost, acquirePath, body))
	if got != question[:9] || !errors.Is(gotErr, broken) || w.Code != http.StatusTeapot || len(r.reports) != 0 {
		t.Errorf("behind the checks: %q, %v; responded %d; reported %q", got, gotErr, w.Code, r.reports)
	}
}
