package client_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leasehold-dev/leasehold/client"
	"github.com/leasehold-dev/leasehold/contracts"
)

// waitingServer responds to acquires as a test says, after a time, and to releases.
type waitingServer struct {
	acquire func(n int, r contracts.AcquireRequest) (after time.Duration, l contracts.Lease, err error)
	asked   []contracts.AcquireRequest
	ended   int
}

func (s *waitingServer) RoundTrip(r *http.Request) (*http.Response, error) {
	response := func(status int, kind string, body any) (*http.Response, error) {
		b, err := json.Marshal(body)
		return &http.Response{StatusCode: status, Header: http.Header{"Content-Type": {kind}},
			Body: io.NopCloser(bytes.NewReader(b)), Request: r}, err
	}
	var a contracts.AcquireRequest
	if err := json.NewDecoder(r.Body).Decode(&a); err != nil {
		return nil, err
	}
	if r.URL.Path == "/v1/tenants/acme/locks/deploy/release" {
		s.ended++
		return response(http.StatusOK, "application/json", contracts.EndedLease{
			TenantID: "acme", LockKey: "deploy", LeaseID: "l", OwnerID: "ann", FencingToken: 7, State: contracts.StateReleased,
		})
	}
	s.asked = append(s.asked, a)
	after, l, err := s.acquire(len(s.asked), a)
	select {
	case <-time.After(after):
	case <-r.Context().Done():
		return nil, r.Context().Err()
	}
	if e, ok := errors.AsType[*contracts.Error](err); ok {
		return response(e.Status, "application/problem+json", e.Problem())
	}
	if a.GiveUp && err == nil {
		return &http.Response{StatusCode: http.StatusNoContent, Body: http.NoBody, Request: r}, nil
	}
	l.TenantID, l.LockKey, l.LeaseID, l.OwnerID, l.FencingToken, l.State = "acme", "deploy", "l", "ann", 7,
		contracts.StateActive
	l.ExpiresAt, l.RemainingMs, l.Mode = "2026-01-01T00:00:00.000Z", 10_000, a.Mode
	return response(http.StatusOK, "application/json", l)
}

// locks are those of the server, for a client that waits for a second for what is not to take longer.
func (s *waitingServer) locks(t *testing.T) *client.LockAPI {
	t.Helper()
	c, err := client.New("http://127.0.0.1", &client.Options{HTTP: &http.Client{Transport: s, Timeout: time.Second},
		Tries: 1})
	if err != nil {
		t.Fatal(err)
	}
	return c.LockAPI()
}

// TestAcquireThatWaits: the client waits as long as the server may, and counts the lease from when the server granted
// it.
func TestAcquireThatWaits(t *testing.T) {
	for name, c := range map[string]struct {
		wait, waited int64         // in seconds, and in milliseconds as the lease says
		took         time.Duration // until the response
		left         time.Duration // of the lease, 0: no response
	}{
		"no wait":             {0, 0, 500 * time.Millisecond, 9500 * time.Millisecond},
		"too slow":            {0, 0, 2 * time.Second, 0},
		"a wait":              {20, 15_000, 15 * time.Second, 10 * time.Second},
		"a wait and the rest": {20, 20_000, 20500 * time.Millisecond, 9500 * time.Millisecond},
		"too long a wait":     {20, 20_000, 22 * time.Second, 0},
		"longer than it took": {20, 90_000, 5 * time.Second, 10 * time.Second},
		"not asked for":       {0, 500, 500 * time.Millisecond, 9500 * time.Millisecond},
		"not said":            {20, 0, 4 * time.Second, 6 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &waitingServer{acquire: func(int, contracts.AcquireRequest) (time.Duration, contracts.Lease, error) {
					return c.took, contracts.Lease{WaitedMs: c.waited}, nil
				}}
				l, err := s.locks(t).Acquire(t.Context(), "acme", "deploy", contracts.AcquireRequest{
					OwnerID: "ann", RequestID: "r", TTLSeconds: 10, WaitSeconds: c.wait,
				})
				if (err == nil) != (c.left > 0) || err == nil && l.Remaining() != c.left {
					t.Errorf("%v are left, %v; want %v", l.Remaining(), err, c.left)
				}
			})
		})
	}
}

// given is the request that gives another one up.
func given(r contracts.AcquireRequest) contracts.AcquireRequest {
	r.GiveUp, r.NotAfter = true, ""
	return r
}

// answers are what is said to requests that give up.
var (
	held       = contracts.Errorf(contracts.CodeLockHeld, "")
	reused     = contracts.Errorf(contracts.CodeRequestIDReused, "")
	errNoRight = contracts.Errorf(contracts.CodePermissionDenied, "")
	away       = contracts.Errorf(contracts.CodeUnavailable, "")
	throttle   = contracts.Errorf(contracts.CodeRateLimited, "")
)

// TestAbandon: one request gives up another, whatever that was to obtain: it is that request, and obtains nothing. An
// error says that something may be left.
func TestAbandon(t *testing.T) {
	for name, c := range map[string]struct {
		request contracts.AcquireRequest
		says    error // nil: it is given up
		want    error
	}{
		"given up":     {contracts.AcquireRequest{TTLSeconds: 10}, nil, nil},
		"in line":      {contracts.AcquireRequest{Fair: true, WaitSeconds: 20, TTLSeconds: 10}, nil, nil},
		"rate":         {contracts.AcquireRequest{Mode: contracts.LockModeRate, Limit: 1, WindowSeconds: 10}, nil, nil},
		"replace":      {contracts.AcquireRequest{Replace: true, TTLSeconds: 10}, nil, nil},
		"with an end":  {contracts.AcquireRequest{NotAfter: "2000-01-01T00:00:00.000Z", TTLSeconds: 10}, nil, nil},
		"it has ended": {contracts.AcquireRequest{TTLSeconds: 10}, reused, nil},
		"not allowed":  {contracts.AcquireRequest{TTLSeconds: 10}, errNoRight, errNoRight},
		"no answer":    {contracts.AcquireRequest{TTLSeconds: 10}, held, held},
		"a lease":      {contracts.AcquireRequest{TTLSeconds: 10}, errLease, errContent},
	} {
		t.Run(name, func(t *testing.T) {
			s := &waitingServer{acquire: func(int, contracts.AcquireRequest) (time.Duration, contracts.Lease, error) {
				return 0, contracts.Lease{}, c.says
			}}
			c.request.OwnerID, c.request.RequestID = "ann", "r"
			err := s.locks(t).Abandon(t.Context(), "acme", "deploy", c.request)
			if c.want == nil && err != nil || c.want != nil && (err == nil ||
				!strings.Contains(err.Error(), c.want.Error())) {
				t.Errorf("%v, want %v", err, c.want)
			}
			want := given(c.request)
			want.NotAfter = c.request.NotAfter
			if len(s.asked) != 1 || !reflect.DeepEqual(s.asked[0], want) || s.ended > 0 {
				t.Errorf("sent %+v, and ended %d leases", s.asked, s.ended)
			}
			asked := s.asked
			c.request.GiveUp = true
			l, again := s.locks(t).Acquire(t.Context(), "acme", "deploy", c.request)
			if fmt.Sprint(again) != fmt.Sprint(err) || !reflect.DeepEqual(l, client.Lease{}) ||
				!reflect.DeepEqual(s.asked[1:], asked) {
				t.Errorf("as an acquire: %+v, %v, sent %+v", l, again, s.asked[1:])
			}
		})
	}
	s := &waitingServer{}
	c := s.locks(t)
	if err := c.Abandon(t.Context(), "acme", "deploy", contracts.AcquireRequest{}); err == nil || len(s.asked) > 0 {
		t.Errorf("without a request_id: %v", err)
	}
	if err := c.AbandonSet(t.Context(), "acme", contracts.LockSetAcquireRequest{}); err == nil || len(s.asked) > 0 {
		t.Errorf("a set without a request_id: %v", err)
	}
}

var (
	errLease   = errors.New("the lease") // is the response
	errContent = errors.New("it has content, although the request gave up")
)

// TestGivenUp: what a cancelled acquire has asked for is given up in the background, with one request, unless that is
// not carried out. A refusal does not say that nothing comes of it any more.
func TestGivenUp(t *testing.T) {
	for name, c := range map[string]struct {
		says func(n int) error // to the requests after the first one, from 0 on
		sent int               // of them
		most time.Duration     // until the client is done
	}{
		"given up":      {func(int) error { return nil }, 1, 0},
		"it has ended":  {func(int) error { return reused }, 1, 0},
		"not allowed":   {func(int) error { return errNoRight }, 1, 0},
		"refused first": {func(n int) error { return []error{held, held, nil}[n] }, 3, time.Second},
		"busy first":    {func(n int) error { return []error{throttle, away, nil}[n] }, 3, time.Second},
		"a lease first": {func(n int) error { return []error{errLease, nil}[n] }, 2, time.Second},
		"never":         {func(int) error { return away }, 0, 10 * time.Second},
	} {
		for _, set := range []bool{false, true} {
			t.Run(fmt.Sprint(name, ", a set: ", set), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s := &waitingServer{acquire: func(n int, _ contracts.AcquireRequest) (time.Duration, contracts.Lease, error) {
						if n == 1 {
							return time.Hour, contracts.Lease{}, nil
						}
						return 0, contracts.Lease{}, c.says(n - 2)
					}}
					ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
					defer cancel()
					begin := time.Now()
					var err error
					if set {
						_, err = s.locks(t).AcquireSet(ctx, "acme", contracts.LockSetAcquireRequest{LockKeys: []string{"a", "b"},
							OwnerID: "ann", TTLSeconds: 300})
					} else {
						_, err = s.locks(t).Acquire(ctx, "acme", "deploy", contracts.AcquireRequest{OwnerID: "ann", TTLSeconds: 300,
							WaitSeconds: 20})
					}
					unknown, ok := errors.AsType[*client.UnknownOutcomeError](err)
					if !ok || time.Since(begin) != 500*time.Millisecond {
						t.Fatalf("%v, after %v", err, time.Since(begin))
					}
					<-unknown.Released
					if took := time.Since(begin) - 500*time.Millisecond; took > c.most {
						t.Errorf("done after %v", took)
					}
					time.Sleep(time.Minute)
					again := s.asked[1:]
					if c.sent > 0 && len(again) != c.sent || len(again) == 0 || s.ended > 0 {
						t.Errorf("sent again %d times, %d leases ended", len(again), s.ended)
					}
					for _, r := range again {
						if !reflect.DeepEqual(r, given(s.asked[0])) {
							t.Errorf("%+v", r)
						}
					}
				})
			})
		}
	}
}

// TestGivenUpAfterARefusal: an acquire that was refused although one of its tries had no response is given up, because
// that try may still be on its way. A caller that knows the request_id does that itself.
func TestGivenUpAfterARefusal(t *testing.T) {
	for name, c := range map[string]struct {
		request string
		says    []error // to each request
		sent    int
	}{
		"lost, then held":          {"", []error{away, held, nil}, 3},
		"lost, then used":          {"", []error{away, reused}, 2},
		"held":                     {"", []error{held}, 1},
		"lost, then held, named":   {"r", []error{away, held}, 2},
		"the client gives up, too": {"", []error{away, away}, 2}, // its caller may send it again
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &waitingServer{acquire: func(n int, _ contracts.AcquireRequest) (time.Duration, contracts.Lease, error) {
					return 0, contracts.Lease{}, c.says[n-1]
				}}
				server, err := client.New("http://127.0.0.1", &client.Options{HTTP: &http.Client{Transport: s}, Tries: 2})
				if err != nil {
					t.Fatal(err)
				}
				if _, err := server.LockAPI().Acquire(t.Context(), "acme", "deploy", contracts.AcquireRequest{
					RequestID: c.request, OwnerID: "ann", TTLSeconds: 10,
				}); err == nil {
					t.Error("acquired")
				}
				time.Sleep(time.Minute)
				synctest.Wait()
				if len(s.asked) != c.sent || len(s.asked) == 3 && !reflect.DeepEqual(s.asked[2], given(s.asked[0])) {
					t.Errorf("sent %+v", s.asked)
				}
			})
		})
	}
}
