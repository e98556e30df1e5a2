package gcpfirestore_test

import (
	"crypto/rand"
	"maps"
	"testing"
	"time"

	"github.com/leasehold-dev/leasehold/adapters/gcpfirestore"
	"github.com/leasehold-dev/leasehold/emulator/firestoretest"
	"github.com/leasehold-dev/leasehold/kazahana"
	"github.com/leasehold-dev/leasehold/proof/suite"
	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/lock"
	"github.com/leasehold-dev/leasehold/repo/machineid"
)

// onClock opens a store on an emulator of its own with a clock.
func onClock(t *testing.T, mode firestoretest.Mode, now func() time.Time) (*gcpfirestore.Store, *firestoretest.Server) {
	t.Helper()
	server := firestoretest.Start(t, &firestoretest.Options{Mode: mode, Now: now})
	return open(t, server, "leasehold/v1"), server
}

// TestCostsOfCommands counts the requests of each command: two if it writes, one if it does not.
func TestCostsOfCommands(t *testing.T) {
	for name, mode := range modes {
		t.Run(name, func(t *testing.T) {
			clock := suite.NewClock()
			store, server := onClock(t, mode, clock.Now)
			locks := lock.New(store, nil)
			id := lock.ID{Tenant: "acme", Key: "k"}
			acquire := func(owner, request string) func() (lock.Outcome, error) {
				return func() (lock.Outcome, error) {
					return locks.Acquire(t.Context(), lock.Acquire{ID: id, Owner: owner, RequestID: request, TTLSeconds: 60})
				}
			}
			first := clock.Now().UnixMicro() + 1 // the first token
			renew := func(request string) func() (lock.Outcome, error) {
				return func() (lock.Outcome, error) {
					return locks.Renew(t.Context(), lock.Renew{ID: id, Owner: "ann", Token: first, RequestID: request, TTLSeconds: 60})
				}
			}
			release := func(later int64) func() (lock.Outcome, error) {
				return func() (lock.Outcome, error) {
					return locks.Release(t.Context(), lock.Release{ID: id, Owner: "ann", Token: first + later, RequestID: "e1"})
				}
			}
			writes := map[string]int{"BatchGetDocuments": 1, "Commit": 1}
			reads := map[string]int{"BatchGetDocuments": 1}
			for _, c := range []struct {
				name string
				do   func() (lock.Outcome, error)
				code lock.Code
				cost map[string]int
			}{
				{"acquire, the first", acquire("ann", "r1"), lock.OK, writes},
				{"acquire, replayed", acquire("ann", "r1"), lock.OK, reads},
				{"acquire, held", acquire("bob", "r2"), lock.Held, reads},
				{"renew", renew("n1"), lock.OK, writes},
				{"renew, replayed", renew("n1"), lock.OK, reads},
				{"release, never granted", release(7), lock.LeaseLost, reads},
				{"release", release(0), lock.OK, writes},
				{"release, replayed", release(0), lock.OK, reads},
				{"acquire, free", acquire("bob", "r3"), lock.OK, writes},
				{"renew, lost", renew("n2"), lock.LeaseLost, reads},
			} {
				server.ResetCounts()
				o, err := c.do()
				if err != nil || o.Code != c.code {
					t.Errorf("%s: %s, error %v, want %s", c.name, o.Code, err, c.code)
				}
				if got := server.Counts(); !maps.Equal(got, c.cost) {
					t.Errorf("%s: requests %v, want %v", c.name, got, c.cost)
				}
			}
			clock.Advance(time.Hour)
			server.ResetCounts()
			if o, err := acquire("ann", "r4")(); err != nil || o.Code != lock.OK || o.Lease.Token != first+2 {
				t.Errorf("acquire, expired: %+v, error %v", o, err)
			}
			if got := server.Counts(); !maps.Equal(got, writes) {
				t.Errorf("acquire, expired: requests %v, want %v", got, writes)
			}
			server.ResetCounts()
			if _, _, err := locks.Get(t.Context(), id); err != nil {
				t.Error(err)
			}
			if got := server.Counts(); !maps.Equal(got, reads) {
				t.Errorf("get: requests %v, want %v", got, reads)
			}
			server.ResetCounts()
			if p, err := locks.List(t.Context(), lock.List{Tenant: "acme"}); err != nil || len(p.Locks) != 1 {
				t.Errorf("list: %d locks, error %v", len(p.Locks), err)
			}
			if got := server.Counts(); !maps.Equal(got, map[string]int{"RunQuery": 1}) {
				t.Errorf("list: requests %v, want one RunQuery", got)
			}
		})
	}
}

// TestMachineIDCosts: three requests for any number of leases that a page has room for; the first of all sets up the
// space.
func TestMachineIDCosts(t *testing.T) {
	store, server := onClock(t, firestoretest.Pessimistic, suite.NewClock().Now)
	if _, err := machineid.NewDefault(store, nil).Acquire(t.Context(), kazahana.AcquireOptions{}); err != nil {
		t.Fatal(err)
	}
	if got := server.Counts(); !maps.Equal(got, map[string]int{"BatchGetDocuments": 5, "Commit": 2}) {
		t.Errorf("the first of all: requests %v, want five BatchGetDocuments and two Commits", got)
	}
	s := machineid.NewDefault(store, nil)
	for _, throughput := range []int64{1, 1, 5 * 256, 100 * 256} {
		server.ResetCounts()
		if _, err := s.Acquire(t.Context(), kazahana.AcquireOptions{ThroughputPerMs: throughput}); err != nil {
			t.Fatal(err)
		}
		if got := server.Counts(); !maps.Equal(got, map[string]int{"BatchGetDocuments": 2, "Commit": 1}) {
			t.Errorf("throughput %d: requests %v, want two BatchGetDocuments and a Commit", throughput, got)
		}
	}
}

// TestServiceClockDecides: callers whose clocks are an hour off, either way, get and lose locks by the clock of the
// service.
func TestServiceClockDecides(t *testing.T) {
	clock := suite.NewClock()
	store, _ := onClock(t, firestoretest.Pessimistic, clock.Now)
	skewed := func(by time.Duration) *lock.Locks {
		return lock.New(store, &lock.Options{Now: func() time.Time { return clock.Now().Add(by) }})
	}
	id := lock.ID{Tenant: "acme", Key: "k"}
	ask := func(locks *lock.Locks, owner string) lock.Outcome {
		t.Helper()
		o, err := locks.Acquire(t.Context(), lock.Acquire{ID: id, Owner: owner, RequestID: rand.Text(), TTLSeconds: 60})
		if err != nil {
			t.Fatal(err)
		}
		return o
	}
	slow, fast := skewed(-time.Hour), skewed(time.Hour)
	first := clock.Now().UnixMicro() + 1
	for i, c := range []struct {
		after time.Duration
		locks *lock.Locks
		owner string
		code  lock.Code
		token int64
	}{
		{0, slow, "slow", lock.OK, first},
		{0, fast, "fast", lock.Held, 0},
		{59_999 * time.Millisecond, fast, "fast", lock.Held, 0},
		{time.Millisecond, fast, "fast", lock.OK, first + 1},
		{0, slow, "slow", lock.Held, 0},
		{time.Minute, slow, "slow", lock.OK, first + 2},
	} {
		clock.Advance(c.after)
		o := ask(c.locks, c.owner)
		if o.Code != c.code || o.Lease.Token != c.token {
			t.Errorf("step %d: %s got %s with token %d, want %s with %d", i, c.owner, o.Code, o.Lease.Token, c.code, c.token)
		}
		if want := docstore.TruncateMilli(clock.Now()); !o.At.Equal(want) || o.Code == lock.OK &&
			!o.Lease.ExpiresAt.Equal(want.Add(time.Minute)) {
			t.Errorf("step %d: decided at %v for a lease until %v, want %v and a minute", i, o.At, o.Lease.ExpiresAt, want)
		}
	}
}
