package client_test

import (
	"context"
	"errors"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leasehold-dev/leasehold/client"
	"github.com/leasehold-dev/leasehold/cluster"
	"github.com/leasehold-dev/leasehold/contracts"
	"github.com/leasehold-dev/leasehold/fence"
)

// silent is a way to a server on which requests get no response. It counts how often its idle connections are closed.
type silent struct {
	sent   atomic.Int64
	closed atomic.Int64
}

func (s *silent) RoundTrip(r *http.Request) (*http.Response, error) {
	s.sent.Add(1)
	<-r.Context().Done()
	return nil, r.Context().Err()
}

func (s *silent) CloseIdleConnections() { s.closed.Add(1) }

// TestCallHasOneDeadline: that of its context, or the time that the server is asked to wait and 5 s, whatever it is for;
// its tries take 2 s, 4 s and so on.
func TestCallHasOneDeadline(t *testing.T) {
	calls := map[string]struct {
		call  func(ctx context.Context, c *client.Client) error
		took  time.Duration
		tries int64
	}{
		"acquire": {func(ctx context.Context, c *client.Client) error {
			_, err := c.LockAPI().Acquire(ctx, "acme", "deploy", ask)
			return err
		}, 5 * time.Second, 2},
		"acquire that waits": {func(ctx context.Context, c *client.Client) error {
			r := ask
			r.WaitSeconds = 10
			_, err := c.LockAPI().Acquire(ctx, "acme", "deploy", r)
			return err
		}, 15 * time.Second, 2},
		"renew": {func(ctx context.Context, c *client.Client) error {
			_, err := c.LockAPI().Renew(ctx, "acme", "deploy", contracts.RenewRequest{OwnerID: "ann", FencingToken: 1,
				TTLSeconds: 30})
			return err
		}, 5 * time.Second, 2},
		"release": {func(ctx context.Context, c *client.Client) error {
			_, err := c.LockAPI().Release(ctx, "acme", "deploy", contracts.ReleaseRequest{OwnerID: "ann", FencingToken: 1})
			return err
		}, 5 * time.Second, 2},
		"a fence": {func(ctx context.Context, c *client.Client) error {
			_, err := c.Fences().Check(ctx, "acme", "db", fence.Lease{Subject: "lock/db", Token: 1})
			return err
		}, 5 * time.Second, 2},
		"events that it waits for": {func(ctx context.Context, c *client.Client) error {
			_, err := c.Placements("acme", "chat").Events(ctx, cluster.EventQuery{Wait: 10 * time.Second})
			return err
		}, 15 * time.Second, 2},
		"placement": {func(ctx context.Context, c *client.Client) error {
			_, err := c.Placements("acme", "chat").Topology(ctx)
			return err
		}, 5 * time.Second, 2},
	}
	for name, c := range calls {
		for _, deadline := range []time.Duration{0, 500 * time.Millisecond} {
			synctest.Test(t, func(t *testing.T) {
				s := &silent{}
				server, err := client.New("http://127.0.0.1:8080", &client.Options{HTTP: &http.Client{Transport: s}})
				if err != nil {
					t.Fatal(err)
				}
				ctx, want, tries := t.Context(), c.took, c.tries
				if deadline > 0 {
					bounded, cancel := context.WithTimeout(ctx, deadline)
					defer cancel()
					ctx, want, tries = bounded, deadline, 1
				}
				begin := time.Now()
				if err := c.call(ctx, server); !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("%s: %v", name, err)
				}
				if took := time.Since(begin); took != want || s.sent.Load() != tries {
					t.Errorf("%s with %v: %v and %d tries, want %v and %d", name, deadline, took, s.sent.Load(), want, tries)
				}
				time.Sleep(time.Minute) // what is given up in the background
			})
		}
	}
}

// TestNewConnectionAfterSilence: what was idle while a try had no response is not used for the next one.
func TestNewConnectionAfterSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &silent{}
		server, err := client.New("http://127.0.0.1:8080", &client.Options{HTTP: &http.Client{Transport: s}})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := server.LockAPI().Get(t.Context(), "acme", "deploy"); err == nil || s.closed.Load() != s.sent.Load() {
			t.Errorf("%v: after %d tries without a response idle connections were closed %d times", err, s.sent.Load(),
				s.closed.Load())
		}
	})
}
