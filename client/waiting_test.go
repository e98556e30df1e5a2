package client_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
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
	l.TenantID, l.LockKey, l.LeaseID, l.OwnerID, l.FencingToken, l.State = "acme", "deploy", "l", "ann", 7,
		contracts.StateActive
	l.ExpiresAt, l.RemainingMs, l.Mode = "2026-01-01T00:00:00.000Z", 10_000, a.Mode
	return response(http.StatusOK, "application/json", l)
}

// locks are those of the server, for a client that waits for a second for what is not to take longer.
func (s *waitingServer) locks(t *testing.T) *client.Locks {
	t.Helper()
	c, err := client.New("http://127.0.0.1", &client.Options{HTTP: &http.Client{Transport: s, Timeout: time.Second},
		Tries: 1})
	if err != nil {
		t.Fatal(err)
	}
	return c.Locks()
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

// TestAbandonOfModes: what is sent to give up a place in line, a grant of a rate and an acquire with Replace: never a
// wait, and Replace only if the server says that the request was carried out.
func TestAbandonOfModes(t *testing.T) {
	held, reused := contracts.Errorf(contracts.CodeLockHeld, ""), contracts.Errorf(contracts.CodeRequestIDReused, "")
	for name, c := range map[string]struct {
		request contracts.AcquireRequest
		says    []error // to each request; nil: the lease
		replace []bool  // of each
		ended   int     // leases
	}{
		"in line": {contracts.AcquireRequest{Fair: true, TTLSeconds: 10}, []error{held}, []bool{false}, 0},
		"closed": {contracts.AcquireRequest{TTLSeconds: 10},
			[]error{contracts.Errorf(contracts.CodeLockDelayed, "")}, []bool{false}, 0},
		"granted": {contracts.AcquireRequest{Mode: contracts.LockModeShared, TTLSeconds: 10}, []error{nil},
			[]bool{false}, 1},
		"rate": {contracts.AcquireRequest{Mode: contracts.LockModeRate, Limit: 1, WindowSeconds: 10},
			[]error{nil}, []bool{false}, 0},
		"did not replace": {contracts.AcquireRequest{Replace: true, TTLSeconds: 10}, []error{held}, []bool{false}, 0},
		"replaced": {contracts.AcquireRequest{Replace: true, TTLSeconds: 10}, []error{reused, nil},
			[]bool{false, true}, 1},
		"replaced, and ended": {contracts.AcquireRequest{Replace: true, TTLSeconds: 10}, []error{reused, reused},
			[]bool{false, true}, 0},
		"ended, not a replace": {contracts.AcquireRequest{TTLSeconds: 10}, []error{reused}, []bool{false}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			s := &waitingServer{acquire: func(n int, _ contracts.AcquireRequest) (time.Duration, contracts.Lease, error) {
				return 0, contracts.Lease{}, c.says[n-1]
			}}
			c.request.OwnerID, c.request.RequestID, c.request.WaitSeconds = "ann", "r", 20
			if err := s.locks(t).Abandon(t.Context(), "acme", "deploy", c.request); err != nil {
				t.Error(err)
			}
			var replace []bool
			for _, r := range s.asked {
				replace = append(replace, r.Replace)
				if r.WaitSeconds != 0 || r.RequestID != "r" {
					t.Errorf("asked %+v", r)
				}
			}
			if fmt.Sprint(replace) != fmt.Sprint(c.replace) || s.ended != c.ended {
				t.Errorf("replace %v, %d leases ended; want %v, %d", replace, s.ended, c.replace, c.ended)
			}
		})
	}
}

// TestAbandonUntilTheWaitEnds: what a cancelled acquire may still obtain at another server is looked for while that may
// wait; a refusal is not the end. It takes a few requests, none after what the request obtained was found, or after it
// cannot wait any more.
func TestAbandonUntilTheWaitEnds(t *testing.T) {
	held, reused := contracts.Errorf(contracts.CodeLockHeld, ""), contracts.Errorf(contracts.CodeRequestIDReused, "")
	for name, c := range map[string]struct {
		wait        int64
		says        func(n int) error // to the requests after the first one
		least, most int               // of them
		ended       int               // leases
		until       time.Duration     // when the client is done, at the latest
	}{
		"obtained later": {20, func(n int) error { return []error{held, held, nil}[n] }, 3, 3, 1, 7 * time.Second},
		"used":           {20, func(n int) error { return []error{held, reused}[n] }, 2, 2, 0, 3 * time.Second},
		"nothing":        {20, func(int) error { return held }, 5, 8, 0, 22 * time.Second},
		"without a wait": {0, func(int) error { return held }, 1, 1, 0, 2 * time.Second},
		"another mode": {5, func(int) error {
			return contracts.Errorf(contracts.CodeLockModeDiffers, "")
		}, 3, 5, 0, 7 * time.Second},
		"it has no right": {20, func(int) error {
			return contracts.Errorf(contracts.CodePermissionDenied, "")
		}, 1, 1, 0, 2 * time.Second},
		"it does not reply": {20, func(int) error {
			return contracts.Errorf(contracts.CodeUnavailable, "")
		}, 1, 1, 0, 2 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
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
				_, err := s.locks(t).Acquire(ctx, "acme", "deploy", contracts.AcquireRequest{OwnerID: "ann", TTLSeconds: 300,
					WaitSeconds: c.wait})
				unknown, ok := errors.AsType[*client.UnknownOutcomeError](err)
				if !ok || time.Since(begin) != 500*time.Millisecond {
					t.Fatalf("%v, after %v", err, time.Since(begin))
				}
				<-unknown.Released
				if took := time.Since(begin); took > c.until {
					t.Errorf("done after %v", took)
				}
				time.Sleep(time.Minute)
				again := s.asked[1:]
				if len(again) < c.least || len(again) > c.most || s.ended != c.ended {
					t.Errorf("sent again %d times, %d leases ended", len(again), s.ended)
				}
				for _, r := range again {
					if r.WaitSeconds != 0 || r.RequestID != s.asked[0].RequestID {
						t.Errorf("%+v", r)
					}
				}
			})
		})
	}
}
