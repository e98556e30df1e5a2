package suite

import (
	"fmt"
	"testing"
	"time"

	"github.com/leasehold-dev/leasehold/proof/prove"
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
}

var locksProof = proof[Step]{program: plainPrograms, run: runLocks}

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
