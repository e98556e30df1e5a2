package suite

import (
	"fmt"
	"testing"
	"time"

	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/lock"
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

var locksProof = proof[Step]{program: plainPrograms, run: runLocks, history: LockHistory}

// OneGrant lets fifty callers ask for one lock at once (LS-ACC-01, LS-CC-001): one gets it, 49 learn who has it.
func OneGrant(t *testing.T, newStore func(*testing.T, func() time.Time) docstore.Store) {
	fiftyCallers(t, newStore, lock.Acquire{TTLSeconds: 60})
}

// fiftyCallers ask at once for a lock: as many as may hold it get it, each with a permit of its own, and the others
// learn who has it. Where a grant needs two writes, one that others came between is sent again.
func fiftyCallers(t *testing.T, newStore func(*testing.T, func() time.Time) docstore.Store, c lock.Acquire) {
	const callers = 50
	clock := NewClock()
	locks := lock.New(newStore(t, clock.Now), &lock.Options{Now: clock.Now})
	outcomes, start := make(chan lock.Outcome, callers), make(chan struct{})
	for i := range callers {
		c := c
		c.ID, c.Owner, c.RequestID = lock.ID{Tenant: "acme", Key: "k"}, fmt.Sprint("caller ", i), "r1"
		go func() {
			<-start
			o, err := locks.Acquire(t.Context(), c)
			for err != nil && c.Limit > 0 && t.Context().Err() == nil {
				o, err = locks.Acquire(t.Context(), c)
			}
			if err != nil {
				t.Errorf("%s: %v", c.Owner, err)
			}
			outcomes <- o
		}()
	}
	close(start)
	got, permits, told := map[string]int64{}, map[int64]bool{}, map[string]int{}
	for range callers {
		switch o := <-outcomes; o.Code {
		case lock.OK:
			l := o.Lease
			if permits[l.Permit] || l.Permit < min(1, c.Limit) || l.Permit > c.Limit || l.Token <= Epoch.UnixMicro() {
				t.Errorf("%+v, beside %v", l, got)
			}
			got[l.Owner], permits[l.Permit] = l.Token, true
		case lock.Held:
			told[o.Lease.Owner]++
		default:
			t.Errorf("outcome %s", o.Code)
		}
	}
	held := 0
	for owner, n := range told {
		if held += n; got[owner] == 0 {
			t.Errorf("%d were told that %q has the lock", n, owner)
		}
	}
	if n := max(1, int(c.Limit)); len(got) != n || held != callers-n {
		t.Errorf("%d got the lock, %d were refused", len(got), held)
	}
}
