package client_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leasehold-dev/leasehold/client"
	"github.com/leasehold-dev/leasehold/contracts"
	"github.com/leasehold-dev/leasehold/functions/httpapi"
	"github.com/leasehold-dev/leasehold/repo/docstore"
)

// TestResponsesForOthers: a response is a grant only if it is about what was asked for: a cache, a proxy that mixes up
// connections, or a server of another kind may send anything.
func TestResponsesForOthers(t *testing.T) {
	const ended = `{"tenant_id":"acme","lock_key":"deploy","owner_id":"ann","fencing_token":7,"state":"RELEASED","replayed":false}`
	const seen = `{"tenant_id":"acme","lock_key":"deploy","lease_id":"l1","owner_id":"ann","state":"ACTIVE"}`
	acquire := func(ctx context.Context, c *client.LockAPI) (any, error) {
		return c.Acquire(ctx, "acme", "deploy", ask)
	}
	renew := func(ctx context.Context, c *client.LockAPI) (any, error) {
		return c.Renew(ctx, "acme", "deploy", contracts.RenewRequest{OwnerID: "ann", FencingToken: 7, TTLSeconds: 30})
	}
	release := func(ctx context.Context, c *client.LockAPI) (any, error) {
		return c.Release(ctx, "acme", "deploy", contracts.ReleaseRequest{OwnerID: "ann", FencingToken: 7})
	}
	force := func(ctx context.Context, c *client.LockAPI) (any, error) {
		return c.ForceRelease(ctx, "acme", "deploy", contracts.ForceReleaseRequest{OwnerID: "root", Reason: "hangs"})
	}
	get := func(ctx context.Context, c *client.LockAPI) (any, error) { return c.Get(ctx, "acme", "deploy") }
	list := func(ctx context.Context, c *client.LockAPI) (any, error) {
		return c.List(ctx, "acme", client.LockQuery{Prefix: "dep", State: contracts.StateActive})
	}
	type change struct{ of, old, now, want string } // empty want: accepted
	for name, kind := range map[string]struct {
		do      func(context.Context, *client.LockAPI) (any, error)
		right   string
		changes []change
	}{
		"acquire": {acquire, granted, []change{
			{"a suffix of the token's subject", `"ann"`, `"sub#ann"`, ""},
			{"another tenant of equal length", `"acme"`, `"acmf"`, `tenant "acmf"`},
			{"another key of equal length", `"deploy"`, `"deplox"`, `the lock "deplox"`},
			{"another owner of equal length", `"ann"`, `"bob"`, `belongs to "bob", not to "ann"`},
			{"an owner that only ends alike", `"ann"`, `"johann"`, `belongs to "johann"`},
			{"no owner", `"ann"`, `""`, `belongs to ""`},
			{"released", `"ACTIVE"`, `"RELEASED"`, `is "RELEASED", not ACTIVE`},
			{"expired", `"ACTIVE"`, `"EXPIRED"`, `is "EXPIRED", not ACTIVE`},
			{"no state", `"ACTIVE"`, `""`, `is "", not ACTIVE`},
			{"no token", `"fencing_token":7,`, ``, "fencing token 0"},
			{"token 0", `"fencing_token":7`, `"fencing_token":0`, "fencing token 0"},
			{"a token below 0", `"fencing_token":7`, `"fencing_token":-7`, "fencing token -7"},
			{"no time left", `"remaining_ms":30000,`, ``, "required members are missing"},
			{"less than no time left", `"remaining_ms":30000`, `"remaining_ms":-1`, "LEASE_EXPIRED"},
			{"no lease", `"lease_id":"l1",`, ``, "required members are missing"},
		}},
		"renew": {renew, granted, []change{
			{"another token", `"fencing_token":7`, `"fencing_token":8`, "fencing token 8, not 7"},
			{"another key", `"deploy"`, `"deplox"`, `the lock "deplox"`},
			{"another owner", `"ann"`, `"bob"`, `belongs to "bob"`},
			{"released", `"ACTIVE"`, `"RELEASED"`, `is "RELEASED"`},
			{"no time left", `"remaining_ms":30000`, `"remaining_ms":-1`, "LEASE_EXPIRED"},
		}},
		"release": {release, ended, []change{
			{"another token", `"fencing_token":7`, `"fencing_token":8`, "fencing token 8, not 7"},
			{"another tenant", `"acme"`, `"acmf"`, `tenant "acmf"`},
			{"another owner", `"ann"`, `"bob"`, `belongs to "bob"`},
			{"still active", `"RELEASED"`, `"ACTIVE"`, `is "ACTIVE", not RELEASED`},
		}},
		"force-release": {force, strings.Replace(seen, "ACTIVE", "RELEASED", 1), []change{
			{"still active", `"RELEASED"`, `"ACTIVE"`, `is "ACTIVE", not RELEASED`},
			{"another key", `"deploy"`, `"deplox"`, `the lock "deplox"`},
		}},
		"get": {get, seen, []change{
			{"another tenant", `"acme"`, `"acmf"`, `tenant "acmf"`},
			{"no lease", `"lease_id":"l1",`, ``, "required members are missing"},
			{"a lease that has ended and is forgotten", `"lease_id":"l1","owner_id":"ann","state":"ACTIVE"`,
				`"lease_id":"","owner_id":"","state":"RELEASED"`, ""},
			{"no state", `"lease_id":"l1","owner_id":"ann","state":"ACTIVE"`, `"lease_id":""`, "required members are missing"},
		}},
		"list": {list, `{"locks":[` + seen + `]}`, []change{
			{"another tenant", `"acme"`, `"acmf"`, `tenant "acmf"`},
			{"another prefix", `"deploy"`, `"dxploy"`, `"dxploy" in the state ACTIVE, which was not asked for`},
			{"another state", `"ACTIVE"`, `"EXPIRED"`, `in the state EXPIRED, which was not asked for`},
			{"no lease", `"lease_id":"l1",`, ``, "required members are missing"},
		}},
	} {
		for _, c := range append(kind.changes, change{of: "as it should be"}) {
			t.Run(name+"/"+c.of, func(t *testing.T) {
				w := &wire{answer: always(reply(200, "application/json", strings.ReplaceAll(kind.right, c.old, c.now)))}
				if c.old == "" {
					w.answer = always(reply(200, "application/json", kind.right))
				}
				got, err := kind.do(t.Context(), over(t, w, client.Options{}))
				if (c.want == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), c.want) || len(w.sent) != 1 {
					t.Errorf("got %+v, %v after %d requests; want %q", got, err, len(w.sent), c.want)
				}
			})
		}
	}
}

// TestRemaining: the time of a lease counts from before the request that was answered, not from the answer, and not
// from an earlier try; and a lease that was over on arrival is no lease.
func TestRemaining(t *testing.T) {
	for _, c := range []struct {
		name  string
		takes time.Duration // of the request that is answered
		tries int
		want  time.Duration // 0: LEASE_EXPIRED
	}{
		{"at once", 0, 1, 30 * time.Second},
		{"slow", 10 * time.Second, 1, 20 * time.Second},
		{"slow, at the second try", 10 * time.Second, 2, 20 * time.Second},
		{"just in time", 30*time.Second - 1, 1, 1},
		{"as long as the lease", 30 * time.Second, 1, 0},
		{"longer", time.Minute, 1, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := &wire{answer: func(try int, _ *http.Request) answer {
					if try < c.tries {
						time.Sleep(time.Second)
						return answer{lost: errors.New("connection reset")}
					}
					time.Sleep(c.takes)
					return reply(200, "application/json", granted)
				}}
				l, err := over(t, w, client.Options{}).Acquire(t.Context(), "acme", "deploy", ask)
				if c.want == 0 {
					if !errors.Is(err, contracts.CodeLeaseExpired) || l.FencingToken != 0 {
						t.Errorf("got %+v, %v; want LEASE_EXPIRED", l, err)
					}
					return
				}
				if err != nil || l.Remaining() != c.want {
					t.Errorf("%v is left, %v; want %v", l.Remaining(), err, c.want)
				}
				time.Sleep(c.want)
				if l.Remaining() != 0 {
					t.Errorf("%v is left at the end", l.Remaining())
				}
			})
		})
	}
}

// handled passes requests to a handler, without a network. before, if it is set, comes first; an error of it loses the
// request, one of after the response.
type handled struct {
	handler       http.Handler
	before, after func(*http.Request) error
	requests      atomic.Int32
}

func (h *handled) RoundTrip(r *http.Request) (*http.Response, error) {
	h.requests.Add(1)
	if h.before != nil {
		if err := h.before(r); err != nil {
			return nil, err
		}
	}
	inner := r.Clone(context.WithoutCancel(r.Context()))
	inner.Host, inner.RequestURI = "127.0.0.1:8080", ""
	w := httptest.NewRecorder()
	h.handler.ServeHTTP(w, inner)
	if h.after != nil {
		if err := h.after(r); err != nil {
			return nil, err
		}
	}
	return w.Result(), nil
}

// TestCancelledAcquire: an acquire that is cancelled while its response is under way has a name in the error, returns
// at once, and what it obtained is released, so that the next caller need not wait for the ttl.
func TestCancelledAcquire(t *testing.T) {
	for _, c := range []struct {
		name     string
		id       string
		executed bool
		state    contracts.State // of the lock, a minute later; empty: never held
	}{
		{"carried out, with an ID of the client", "", true, contracts.StateReleased},
		{"carried out, with an ID of the caller", "r1", true, contracts.StateActive},
		{"lost, with an ID of the client", "", false, ""},
		{"lost, with an ID of the caller", "r1", false, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var back atomic.Bool // the network is
				hang := func(r *http.Request) error {
					if back.Load() {
						return nil
					}
					<-r.Context().Done()
					return r.Context().Err()
				}
				h := &handled{handler: httpapi.New(docstore.NewMemory(nil), httpapi.Development{}, nil), before: hang}
				if c.executed {
					h.before, h.after = nil, hang
				}
				s, err := client.New("http://127.0.0.1:8080", &client.Options{HTTP: &http.Client{Transport: h}})
				if err != nil {
					t.Fatal(err)
				}
				ctx, cancel := context.WithCancel(t.Context())
				begin := time.Now()
				time.AfterFunc(time.Second, func() {
					back.Store(true)
					cancel()
				})
				r := contracts.AcquireRequest{RequestID: c.id, OwnerID: "ann", TTLSeconds: 3600}
				_, err = s.LockAPI().Acquire(ctx, "acme", "deploy", r)
				var unknown *client.UnknownOutcomeError
				if !errors.As(err, &unknown) || !errors.Is(err, context.Canceled) || unknown.RequestID == "" ||
					c.id != "" && unknown.RequestID != c.id || !strings.Contains(err.Error(), unknown.RequestID) {
					t.Fatalf("%v does not name the request", err)
				}
				if took := time.Since(begin); took != time.Second {
					t.Errorf("it took %v to return", took)
				}
				if (unknown.Released == nil) != (c.id != "") {
					t.Errorf("the client releases: %v", unknown.Released != nil)
				}
				if unknown.Released != nil {
					<-unknown.Released
				}
				l, err := s.LockAPI().Get(t.Context(), "acme", "deploy")
				if l.State != c.state || c.state != "" && err != nil {
					t.Errorf("afterwards the lock is %q, %v; want %q", l.State, err, c.state)
				}
				r.RequestID = unknown.RequestID
				for range 2 { // idempotent
					if err := s.LockAPI().Abandon(t.Context(), "acme", "deploy", r); err != nil {
						t.Error(err)
					}
				}
				if l, _ := s.LockAPI().Get(t.Context(), "acme", "deploy"); l.State != contracts.StateReleased &&
					c.executed || l.State != "" && !c.executed {
					t.Errorf("after Abandon the lock is %q", l.State)
				}
				if _, err := s.LockAPI().Acquire(t.Context(), "acme", "deploy", r); !errors.Is(err, contracts.CodeRequestIDReused) {
					t.Errorf("a copy of the request that comes late: %v", err)
				}
			})
		})
	}
	t.Run("a server that stays away", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w := &wire{answer: always(answer{lost: errors.New("connection reset")})}
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			_, err := over(t, w, client.Options{Tries: 1000}).Acquire(ctx, "acme", "deploy",
				contracts.AcquireRequest{OwnerID: "ann", TTLSeconds: 30})
			var unknown *client.UnknownOutcomeError
			if !errors.As(err, &unknown) {
				t.Fatal(err)
			}
			begin := time.Now()
			<-unknown.Released
			if took := time.Since(begin); took > 10*time.Second {
				t.Errorf("the client tried for %v", took)
			}
		})
	})
}

// TestAbandonLeavesOthers: the lock of another request stays.
func TestAbandonLeavesOthers(t *testing.T) {
	base, _ := serve(t)
	c, r := dial(t, base, nil), contracts.AcquireRequest{RequestID: "r1", OwnerID: "ann", TTLSeconds: 30}
	other, err := c.Acquire(t.Context(), "acme", "deploy", contracts.AcquireRequest{
		RequestID: "r2", OwnerID: "ann", TTLSeconds: 30})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Abandon(t.Context(), "acme", "deploy", r); err != nil {
		t.Error(err)
	}
	if l, err := c.Get(t.Context(), "acme", "deploy"); err != nil || l.State != contracts.StateActive ||
		l.LeaseID != other.LeaseID {
		t.Errorf("the lock of another request: %+v, %v", l, err)
	}
	if err := c.Abandon(t.Context(), "acme", "deploy", contracts.AcquireRequest{OwnerID: "ann",
		TTLSeconds: 30}); err == nil {
		t.Error("a request without a name was abandoned")
	}
}

// TestUnknownOutcomes: only a command that the server may have carried out is one.
func TestUnknownOutcomes(t *testing.T) {
	lost, noRoute := answer{lost: errors.New("connection reset")},
		&net.OpError{Op: "dial", Err: errors.New("connection refused")}
	for _, c := range []struct {
		name    string
		answers []answer
		want    bool
	}{
		{"no response", []answer{lost, lost}, true},
		{"no connection", []answer{{lost: noRoute}, {lost: noRoute}}, false},
		{"lost, then no connection", []answer{lost, {lost: noRoute}}, true},
		{"overloaded", []answer{refusal(contracts.CodeOverloaded, ""), refusal(contracts.CodeOverloaded, "")}, false},
		{"lost, then overloaded", []answer{lost, refusal(contracts.CodeOverloaded, "")}, true},
		{"a rejection", []answer{refusal(contracts.CodeLockHeld, "")}, false},
		{"lost, then a rejection", []answer{lost, refusal(contracts.CodeLockHeld, "")}, false},
		{"lost, then the token has expired", []answer{lost, refusal(contracts.CodeUnauthenticated, "")}, true},
		{"the token has expired", []answer{refusal(contracts.CodeUnauthenticated, "")}, false},
		{"lost, then another server", []answer{lost, reply(404, "text/html", "")}, true},
		{"another server", []answer{reply(404, "text/html", "")}, false},
		{"unavailable", []answer{refusal(contracts.CodeUnavailable, ""), refusal(contracts.CodeUnavailable, "")}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := &wire{answer: func(try int, _ *http.Request) answer { return c.answers[try-1] }}
				_, err := over(t, w, client.Options{Tries: 2}).Acquire(t.Context(), "acme", "deploy", ask)
				var unknown *client.UnknownOutcomeError
				if got := errors.As(err, &unknown); got != c.want || err == nil || got && unknown.RequestID != "r1" {
					t.Errorf("%v: unknown is %v, want %v", err, got, c.want)
				}
			})
		})
	}
}

// TestRedirectsAreNotFollowed: a redirect could lead away from TLS with the token, and makes a GET of a POST, whose
// response looks like a grant.
func TestRedirectsAreNotFollowed(t *testing.T) {
	var other atomic.Int32
	elsewhere := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		other.Add(1)
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, granted)
	}))
	t.Cleanup(elsewhere.Close)
	for _, status := range []int{301, 302, 303, 307, 308} {
		t.Run(http.StatusText(status), func(t *testing.T) {
			s := httptest.NewServer(http.RedirectHandler(elsewhere.URL, status))
			t.Cleanup(s.Close)
			for name, h := range map[string]*http.Client{"own client": nil, "given client": {
				CheckRedirect: func(*http.Request, []*http.Request) error { return nil },
			}} {
				c, err := client.New(s.URL, &client.Options{HTTP: h, Token: func(context.Context) (string,
					error) {
					return "t", nil
				}})
				if err != nil {
					t.Fatal(err)
				}
				_, err = c.LockAPI().Acquire(t.Context(), "acme", "deploy", ask)
				if err == nil || !strings.Contains(err.Error(), "redirects are not followed") {
					t.Errorf("%s: %v", name, err)
				}
				if h != nil && h.CheckRedirect == nil {
					t.Error("the caller's client was changed")
				}
			}
		})
	}
	if n := other.Load(); n != 0 {
		t.Errorf("%d requests went elsewhere", n)
	}
}

// TestTokensNeedTLS: a bearer token, or a password in the URL, travels in the clear over http. This machine itself is
// an exception.
func TestTokensNeedTLS(t *testing.T) {
	token := func(context.Context) (string, error) { return "t", nil }
	for base, want := range map[string][2]bool{ // without and with a token
		"http://leasehold.example":          {true, false},
		"http://10.0.0.1:8080":              {true, false},
		"http://localhost.example":          {true, false},
		"http://ann:hunter2@example.com":    {false, false},
		"https://leasehold.example":         {true, true},
		"https://ann:hunter2@example.com":   {true, true},
		"http://localhost:8080":             {true, true},
		"http://LOCALHOST":                  {true, true},
		"http://127.0.0.9:8080":             {true, true},
		"http://[::1]:8080":                 {true, true},
		"http://ann:hunter2@localhost:8080": {true, true},
	} {
		for i, o := range []*client.Options{{}, {Token: token}} {
			_, err := client.New(base, o)
			if (err == nil) != want[i] {
				t.Errorf("%s, with a token: %v: %v", base, i == 1, err)
			}
			if err != nil && (!strings.Contains(err.Error(), "https://") || strings.Contains(err.Error(), "hunter2")) {
				t.Errorf("%s: %v", base, err)
			}
		}
	}
}

// TestErrorsHaveNoPasswords: whatever is wrong with a URL, its password is not repeated.
func TestErrorsHaveNoPasswords(t *testing.T) {
	for _, base := range []string{
		"ann:hunter2@example.com", "ftp://ann:hunter2@example.com", "https://ann:hunter2@example.com?x",
		"https://ann:hunter2@exa mple.com",
		"https://ann:hunter2@:port", "https://ann:hunter2@", "//ann:hunter2@example.com", "http:ann:hunter2@example.com",
		"http://ann:hunter2@example.com",
	} {
		if _, err := client.New(base, nil); err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v", base, err)
		}
	}
	for name, a := range map[string]answer{
		"lost": {lost: errors.New("connection reset")}, "a page": reply(200, "text/html", ""),
		"a redirect": reply(302, "", ""),
		"no JSON":    reply(200, "application/json", "x"), "a problem": reply(503, "application/problem+json", "x"),
	} {
		c, err := client.New("https://ann:hunter2@example.com",
			&client.Options{HTTP: &http.Client{Transport: &wire{answer: always(a)}}, Tries: 1})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.LockAPI().Get(t.Context(), "acme", "deploy"); err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
