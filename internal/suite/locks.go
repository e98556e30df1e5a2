package suite

import (
	"fmt"
	"testing"
	"time"

	"github.com/leasehold-dev/leasehold/internal/prove"
	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/lock"
	"github.com/leasehold-dev/leasehold/repo/rule"
)

// Locks proves that locks can be kept on a store. newStore returns an empty store with the given clock, and closes it
// with the test. A new adapter needs one line:
//
//	suite.Locks(t, func(t *testing.T, now func() time.Time) docstore.Store { return … })
func Locks(t *testing.T, newStore func(t *testing.T, now func() time.Time) docstore.Store) {
	locksProof.of(t, newStore)
	t.Run("several at once", func(t *testing.T) { LockSets(t, newStore) })
	t.Run("waiting", func(t *testing.T) { Waiting(t, newStore) })
	t.Run("LS-ACC-01 fifty callers, one grant", func(t *testing.T) { OneGrant(t, newStore) })
	t.Run("LS-ACC-03 tokens rise across takeovers", func(t *testing.T) { risingTokens(t, newStore) })
	t.Run("LS-INV-002 tokens rise across removals", func(t *testing.T) { removedLocks(t, newStore) })
}

var locksProof = proof[Step]{program: Program, run: Run, history: LockHistory}

// OneGrant lets fifty callers ask for one lock at once (LS-ACC-01, LS-CC-001): one gets it, 49 learn who has it.
func OneGrant(t *testing.T, newStore func(*testing.T, func() time.Time) docstore.Store) {
	told, winner := atOnce(t, newStore, lock.Acquire{}, 1)
	if len(told) != 1 || told[winner] == 0 {
		t.Errorf("%q got the lock; the others were told %v", winner, told)
	}
}

// atOnce lets fifty callers ask for one lock at once: so many get it, and the others learn that it is held. It returns
// how many were told of which holder, and who got the lock last.
func atOnce(t *testing.T, newStore func(*testing.T, func() time.Time) docstore.Store, c lock.Acquire,
	most int) (told map[string]int, last string) {
	const callers = 50
	clock := NewClock()
	store := newStore(t, clock.Now)
	outcomes, start := make(chan lock.Outcome, callers), make(chan struct{})
	c.ID, c.RequestID, c.TTLSeconds = lock.ID{Tenant: "acme", Key: "k"}, "r1", 60
	for i := range callers {
		c := c
		c.Owner, c.LeaseID = fmt.Sprint("caller ", i), fmt.Sprint("lease ", i)
		go func() {
			<-start
			for {
				o, err := rule.Run(t.Context(), store, clock.Now, c)
				if err == nil || t.Context().Err() != nil {
					outcomes <- o
					return
				}
			}
		}()
	}
	close(start)
	told = map[string]int{}
	var leases []prove.Lease
	for range callers {
		switch o := <-outcomes; o.Code {
		case lock.OK:
			last = o.Lease.Owner
			leases = append(leases, prove.Lease{Token: o.Lease.Token, Holder: last, Mode: c.Mode, Limit: c.Limit,
				Permit: o.Lease.Permit})
		case lock.Held:
			told[o.Lease.Owner]++
		default:
			t.Errorf("outcome %+v", o)
		}
	}
	if err := prove.Together(leases...); err != nil || prove.TokensRise(leases) != nil || len(leases) != most ||
		leases[0].Token <= Epoch.UnixMicro() {
		t.Errorf("%d may have it at once, and these got it: %+v, %v", most, leases, err)
	}
	return told, last
}

// risingTokens takes a lock over again and again, after releases and after expiries (LS-ACC-03, LS-INV-002,
// LS-ACQ-002).
func risingTokens(t *testing.T, newStore func(*testing.T, func() time.Time) docstore.Store) {
	clock := NewClock()
	locks := lock.New(newStore(t, clock.Now), &lock.Options{Now: clock.Now})
	id := lock.ID{Tenant: "acme", Key: "k"}
	var last int64
	for n := range 20 {
		o, err := locks.Acquire(t.Context(), lock.Acquire{ID: id, Owner: "ann", RequestID: fmt.Sprint("r", n), TTLSeconds: 1})
		if err != nil || o.Code != lock.OK || o.Replayed || last > 0 && o.Lease.Token != last+1 {
			t.Fatalf("grant %d after token %d: %+v, %v", n, last, o, err)
		}
		last = o.Lease.Token
		if n%2 == 1 {
			clock.Advance(time.Second)
			continue
		}
		if o, err = locks.Release(t.Context(), lock.Release{ID: id, Owner: "ann", Token: last,
			RequestID: "e1"}); err != nil || o.Code != lock.OK {
			t.Fatalf("release %d: %+v, %v", n, o, err)
		}
	}
}

// removedLocks removes a lock's document again and again, as its retention or an administrator does, while it is held
// and after (LS-INV-002, LS-INV-003): no token comes twice, and no earlier lease has a right.
func removedLocks(t *testing.T, newStore func(*testing.T, func() time.Time) docstore.Store) {
	clock := NewClock()
	store := newStore(t, clock.Now)
	locks := lock.New(store, &lock.Options{Now: clock.Now})
	id := lock.ID{Tenant: "acme", Key: "k"}
	var last int64
	for n := range 20 {
		o, err := locks.Acquire(t.Context(), lock.Acquire{ID: id, Owner: "ann", RequestID: fmt.Sprint("r", n),
			TTLSeconds: 60})
		if err != nil || o.Code != lock.OK || o.Lease.Token <= last {
			t.Fatalf("grant %d after token %d: %+v, %v", n, last, o, err)
		}
		if last > 0 {
			r, err := locks.Renew(t.Context(), lock.Renew{ID: id, Owner: "ann", Token: last, RequestID: "n1", TTLSeconds: 60})
			e, err2 := locks.Release(t.Context(), lock.Release{ID: id, Owner: "ann", Token: last, RequestID: "e1"})
			if err != nil || err2 != nil || r.Code != lock.LeaseLost || e.Code != lock.LeaseLost {
				t.Errorf("the lease before grant %d: renew %+v, %v; release %+v, %v", n, r, err, e, err2)
			}
		}
		if last = o.Lease.Token; n%2 == 0 {
			if _, err := locks.Release(t.Context(), lock.Release{ID: id, Owner: "ann", Token: last,
				RequestID: "e1"}); err != nil {
				t.Fatal(err)
			}
		}
		if err := remove(t.Context(), store, id.Tenant, id.Key); err != nil {
			t.Fatal(err)
		}
		if s, found, err := locks.Get(t.Context(), id); err != nil || found {
			t.Errorf("a removed lock reads %+v, %v", s, err)
		}
		clock.Advance(gone)
	}
}
