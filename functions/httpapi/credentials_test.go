package httpapi_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leasehold-dev/leasehold/contracts"
	"github.com/leasehold-dev/leasehold/functions/httpapi"
	"github.com/leasehold-dev/leasehold/repo/docstore"
)

// changing knows callers by the header Who. What it says of one can change.
type changing struct {
	mu  sync.Mutex
	now map[string]func(httpapi.Caller) (httpapi.Caller, error)
	n   int // how often it was asked
}

func (*changing) Challenge() string { return `Bearer realm="leasehold"` }
func (*changing) Unverified() bool  { return false }

func (i *changing) Identify(r *http.Request) (httpapi.Caller, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.n++
	c := httpapi.Caller{Subject: r.Header.Get("Who"), Tenant: "acme"}
	if c.Subject == "short" {
		c.Until = time.Now().Add(time.Hour).Truncate(time.Hour) // the next full hour
	}
	if change := i.now[c.Subject]; change != nil {
		return change(c)
	}
	return c, nil
}

// asked is how often it was asked since the last time.
func (i *changing) asked() (n int) {
	i.mu.Lock()
	defer i.mu.Unlock()
	n, i.n = i.n, 0
	return n
}

func (i *changing) change(who string, to func(httpapi.Caller) (httpapi.Caller, error)) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.now[who] = to
}

// waitings is an API in a bubble.
type waitings struct {
	identity *changing
	handler  http.Handler
}

func newWaitings() *waitings {
	i := &changing{now: map[string]func(httpapi.Caller) (httpapi.Caller, error){}}
	return &waitings{i, httpapi.New(docstore.NewMemory(nil), i, nil)}
}

// send sends a request of a caller and returns the status, the body and how long the response took.
func (s *waitings) send(ctx context.Context, who, method, path, body string) (int, string, time.Duration) {
	r := httptest.NewRequestWithContext(ctx, method, path, strings.NewReader(body))
	r.Header.Set("Who", who)
	w := httptest.NewRecorder()
	begun := time.Now()
	s.handler.ServeHTTP(w, r)
	if w.Code == http.StatusUnauthorized && w.Header().Get("WWW-Authenticate") == "" {
		return w.Code, "no challenge", 0
	}
	return w.Code, w.Body.String(), time.Since(begun)
}

// revocations are how credentials end, with what their caller is told.
var revocations = map[string]struct {
	to     func(httpapi.Caller) (httpapi.Caller, error)
	status int
	code   string
}{
	"revoked": {func(httpapi.Caller) (httpapi.Caller, error) {
		return httpapi.Caller{}, httpapi.Unauthenticated("the token was revoked")
	}, 401, "UNAUTHENTICATED"},
	"not admitted any more": {func(httpapi.Caller) (httpapi.Caller, error) {
		return httpapi.Caller{}, fmt.Errorf("%w: no scope", httpapi.ErrForbidden)
	}, 403, "PERMISSION_DENIED"},
	"of another subject": {func(c httpapi.Caller) (httpapi.Caller, error) {
		c.Subject = "ben"
		return c, nil
	}, 401, "UNAUTHENTICATED"},
	"of another tenant": {func(c httpapi.Caller) (httpapi.Caller, error) {
		c.Tenant = "other"
		return c, nil
	}, 401, "UNAUTHENTICATED"},
}

// acquireOf is the body of an acquire that waits.
func acquireOf(who, more string) string {
	return `{"request_id":"` + who + `","ttl_seconds":3600,"wait_seconds":20` + more + `}`
}

// TestWaitEndsWithItsCredentials: a request that waits ends within a second when its caller is no longer who it was,
// however that shows; those of others wait on. It has no place in line after that.
func TestWaitEndsWithItsCredentials(t *testing.T) {
	t.Parallel()
	for name, c := range revocations {
		for _, more := range []string{"", `,"fair":true`} {
			t.Run(name+more, func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					s := newWaitings()
					_, held, _ := s.send(t.Context(), "root", "POST", deploy+"/acquire", `{"request_id":"r","ttl_seconds":3600}`)
					token := tokenIn(t, held)
					var running sync.WaitGroup
					running.Go(func() {
						status, body, took := s.send(t.Context(), "ann", "POST", deploy+"/acquire", acquireOf("ann", more))
						if status != c.status || !strings.Contains(body, c.code) || took < 2900*time.Millisecond || took > 3900*time.Millisecond {
							t.Errorf("%d %s after %v", status, body, took)
						}
					})
					time.Sleep(time.Second)
					running.Go(func() {
						status, body, took := s.send(t.Context(), "cleo", "POST", deploy+"/acquire", acquireOf("cleo", more))
						if status != 200 || took < 4900*time.Millisecond || took > 6*time.Second {
							t.Errorf("another caller: %d %s after %v", status, body, took)
						}
					})
					time.Sleep(1900 * time.Millisecond)
					s.identity.change("ann", c.to)
					time.Sleep(3 * time.Second)
					if status, body, _ := s.send(t.Context(), "root", "POST", deploy+"/release",
						fmt.Sprintf(`{"request_id":"e","fencing_token":%d}`, token)); status != 200 {
						t.Error(status, body)
					}
					running.Wait()
				})
			})
		}
	}
}

// TestGrantAsksForCredentials: what became free at the moment at which the credentials ended is not granted. Where they
// cannot be verified just now, nothing is granted either, and the request may be sent again.
func TestGrantAsksForCredentials(t *testing.T) {
	t.Parallel()
	cases := maps.Clone(revocations)
	cases["cannot be verified"] = struct {
		to     func(httpapi.Caller) (httpapi.Caller, error)
		status int
		code   string
	}{func(httpapi.Caller) (httpapi.Caller, error) {
		return httpapi.Caller{}, errors.New("the issuer is away")
	}, 503, "UNAVAILABLE"}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := newWaitings()
				_, held, _ := s.send(t.Context(), "root", "POST", deploy+"/acquire", `{"request_id":"r","ttl_seconds":3600}`)
				var running sync.WaitGroup
				running.Go(func() {
					status, body, took := s.send(t.Context(), "ann", "POST", deploy+"/acquire", acquireOf("ann", ""))
					if status != c.status || !strings.Contains(body, c.code) || took > 3*time.Second {
						t.Errorf("%d %s after %v", status, body, took)
					}
				})
				time.Sleep(2900 * time.Millisecond)
				s.identity.change("ann", c.to)
				s.send(t.Context(), "root", "POST", deploy+"/release",
					fmt.Sprintf(`{"request_id":"e","fencing_token":%d}`, tokenIn(t, held)))
				running.Wait()
				if _, now, _ := s.send(t.Context(), "root", "GET", deploy, ""); !strings.Contains(now, `"RELEASED"`) {
					t.Errorf("it was granted: %s", now)
				}
			})
		})
	}
}

// TestWaitBeyondTheEndOfCredentials: where something in front of the process has verified the caller, the request waits
// until its credentials expire at the most, and is granted nothing afterwards.
func TestWaitBeyondTheEndOfCredentials(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newWaitings()
		s.send(t.Context(), "root", "POST", deploy+"/acquire", `{"request_id":"r","ttl_seconds":36000}`)
		time.Sleep(time.Until(time.Now().Add(time.Hour).Truncate(time.Hour)) - 3*time.Second)
		status, body, took := s.send(t.Context(), "short", "POST", deploy+"/acquire", acquireOf("short", ""))
		if status != 401 || !strings.Contains(body, "expired") || took < 3*time.Second || took > 4*time.Second {
			t.Errorf("%d %s after %v", status, body, took)
		}
	})
}

// TestEventsEndWithTheirCredentials: a request that waits for events ends within a second, too.
func TestEventsEndWithTheirCredentials(t *testing.T) {
	t.Parallel()
	for name, c := range revocations {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := newWaitings()
				time.AfterFunc(3*time.Second, func() { s.identity.change("ann", c.to) })
				status, body, took := s.send(t.Context(), "ann", "GET", "/v1/tenants/acme/clusters/c/events?wait_seconds=20", "")
				if status != c.status || !strings.Contains(body, c.code) || took > 4*time.Second {
					t.Errorf("%d %s after %v", status, body, took)
				}
			})
		})
	}
}

// TestHowOftenCredentialsAreAsked: a request that waits for nothing asks once, one that waits asks twice a second and
// before each of its steps, and no one asks when none waits.
func TestHowOftenCredentialsAreAsked(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newWaitings()
		s.send(t.Context(), "root", "POST", deploy+"/acquire", `{"request_id":"r","ttl_seconds":3600}`)
		if n := s.identity.asked(); n != 1 {
			t.Errorf("asked %d times for a request that does not wait", n)
		}
		if status, body, _ := s.send(t.Context(), "ann", "POST", deploy+"/acquire", acquireOf("ann", "")); status != 409 {
			t.Error(status, body)
		}
		asked := s.identity.asked()
		time.Sleep(time.Minute)
		if after := s.identity.asked(); asked < 38 || asked > 45 || after > 0 {
			t.Errorf("asked %d times in 20 seconds, %d times in the minute after", asked, after)
		}
	})
}

// tokenIn is the fencing token of a lease.
func tokenIn(t *testing.T, lease string) int64 {
	t.Helper()
	var l contracts.Lease
	if err := json.Unmarshal([]byte(lease), &l); err != nil || l.FencingToken == 0 {
		t.Fatal(err, lease)
	}
	return l.FencingToken
}
