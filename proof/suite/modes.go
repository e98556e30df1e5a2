package suite

import (
	"fmt"
	"testing"
	"time"

	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/lock"
	"github.com/leasehold-dev/leasehold/repo/rule"
)

// Modes proves that locks with several holders, a line and policies can be kept on a store, as [Locks] does for plain
// ones.
func Modes(t *testing.T, newStore func(t *testing.T, now func() time.Time) docstore.Store) {
	modesProof.of(t, newStore)
	t.Run("a command between the two writes of another", func(t *testing.T) {
		clock := NewClock()
		if err := modesBetween(t.Context(), newStore(t, clock.Now), clock); err != nil {
			t.Error(err)
		}
	})
	t.Run("fifty callers at once, three permits", func(t *testing.T) {
		atOnce(t, newStore, lock.Acquire{Mode: lock.Permits, Limit: 3}, 3)
	})
	t.Run("first come first served", func(t *testing.T) { inOrder(t, newStore) })
	t.Run("a hundred permits that expired together", func(t *testing.T) { manyExpired(t, newStore) })
	t.Run("a set beside a line that is never empty", func(t *testing.T) { setBesideALine(t, newStore) })
}

var modesProof = proof[Step]{program: modesPrograms, run: runLocks}

// inOrder lets callers wait in line, of which some die and one gives up: the others get the lock in the order in which
// they came, each in the write by which the one before it ended, or once that is over.
func inOrder(t *testing.T, newStore func(*testing.T, func() time.Time) docstore.Store) {
	clock := NewClock()
	store := newStore(t, clock.Now)
	id := lock.ID{Tenant: "acme", Key: "k"}
	send := func(n int, seconds int64) lock.Outcome {
		o, err := rule.Run(t.Context(), store, clock.Now, lock.Acquire{
			ID: id, Owner: fmt.Sprint("caller ", n), RequestID: "r1", TTLSeconds: 60, WaitSeconds: seconds, Fair: true,
			LeaseID: fmt.Sprint("lease ", n),
		})
		if err != nil {
			t.Fatal(err)
		}
		return o
	}
	release := func(n int, token int64) {
		o, err := rule.Run(t.Context(), store, clock.Now, lock.Release{ID: id, Owner: fmt.Sprint("caller ", n),
			Token: token, RequestID: "e1"})
		if err != nil || o.Code != lock.OK {
			t.Fatalf("release of %d: %+v, %v", n, o, err)
		}
	}
	const callers = 12
	dead := map[int]bool{3: true, 4: true, 8: true}
	held := send(0, 20)
	for n := 1; n < callers; n++ {
		if o := send(n, 20); o.Code != lock.Held || o.Position != int64(n) {
			t.Fatalf("caller %d: %+v", n, o)
		}
		clock.Advance(time.Millisecond)
	}
	if o := send(6, 0); o.Code != lock.Held || o.Position != 0 {
		t.Fatalf("caller 6 gives up: %+v", o)
	}
	last := held.Lease.Token
	release(0, last)
	for n := 1; n < callers; n++ {
		if n == 6 {
			continue
		}
		if last++; dead[n] { // its claim time passes, and the next caller that asks is told of the next one's lease
			clock.Advance(10*time.Second - time.Millisecond)
			if o := send(callers-1, 20); o.Code != lock.Held {
				t.Fatalf("before the claim time of %d is over: %+v", n, o)
			}
			clock.Advance(time.Millisecond)
			for alive := n + 1; alive < callers; alive++ {
				if !dead[alive] && alive != 6 {
					send(alive, 20)
				}
			}
			continue
		}
		for later := callers - 1; later > n; later-- {
			if o := send(later, 20); later != 6 && !dead[later] && o.Code == lock.OK {
				t.Fatalf("caller %d gets the lock before %d: %+v", later, n, o)
			}
			if later == 6 || dead[later] {
				break
			}
		}
		o := send(n, 20)
		if o.Code != lock.OK || o.Lease.Token != last {
			t.Fatalf("caller %d: %+v, want token %d", n, o, last)
		}
		release(n, last)
	}
}

// manyExpired takes a hundred permits, lets all of them expire in the same moment, and takes them again.
func manyExpired(t *testing.T, newStore func(*testing.T, func() time.Time) docstore.Store) {
	clock := NewClock()
	store := newStore(t, clock.Now)
	var last int64
	for round := range 2 {
		for n := range lock.MaxPermits + 1 {
			o, err := rule.Run(t.Context(), store, clock.Now, lock.Acquire{
				ID: lock.ID{Tenant: "acme", Key: "k"}, Owner: "ann", RequestID: fmt.Sprint(round, " ", n), TTLSeconds: 60,
				LeaseID: fmt.Sprint(round, " ", n),
				Mode:    lock.Permits, Limit: lock.MaxPermits,
			})
			if err != nil {
				t.Fatalf("round %d, permit %d: %v", round, n, err)
			}
			if n == lock.MaxPermits {
				if o.Code != lock.Held {
					t.Fatalf("round %d: one more is %+v", round, o)
				}
				continue
			}
			if o.Code != lock.OK || o.Lease.Token <= last || o.Lease.Permit < 1 || o.Lease.Permit > lock.MaxPermits {
				t.Fatalf("round %d, permit %d: %+v after token %d", round, n, o, last)
			}
			last = o.Lease.Token
		}
		clock.Advance(time.Minute)
	}
}

// setBesideALine lets a set ask again and again, by two servers, while the line of one of its locks never gets empty:
// it gets all of them, and the line goes on after it.
func setBesideALine(t *testing.T, newStore func(t *testing.T, now func() time.Time) docstore.Store) {
	clock := NewClock()
	store := newStore(t, clock.Now)
	servers := []*lock.Locks{lock.New(store, &lock.Options{Now: clock.Now}),
		lock.New(store, &lock.Options{Now: clock.Now})}
	line := lock.ID{Tenant: "acme", Key: "line"}
	ask := func(n int) lock.Outcome {
		t.Helper()
		o, err := lineUp(t.Context(), servers[n%2], lock.Acquire{
			ID: line, Owner: fmt.Sprint("w", n), RequestID: "r", TTLSeconds: 60, Fair: true, WaitSeconds: 20,
		})
		if err != nil || o.Code != lock.OK && o.Code != lock.Held {
			t.Fatalf("w%d: %+v, %v", n, o, err)
		}
		return o
	}
	holder, n := ask(0), 0 // the nth holds the lock, or did last, and three wait behind it
	for i := range 3 {
		ask(1 + i)
	}
	set := lock.AcquireSet{Tenant: "acme", Keys: []string{"another", "line"}, Owner: "zoe", RequestID: "s", TTLSeconds: 60}
	for try := range 20 {
		o, err := servers[try%2].AcquireSet(t.Context(), set)
		if err != nil {
			t.Fatal(err)
		}
		if o.Code == lock.OK {
			if try < 4 {
				t.Errorf("the set came before the three in line: at try %d", try)
			}
			var leases []lock.SetLease
			for _, l := range o.Leases {
				leases = append(leases, lock.SetLease{Key: l.Key, Token: l.Token})
			}
			end := lock.ReleaseSet{Tenant: "acme", Leases: leases, Owner: "zoe", RequestID: "e"}
			if o, err := servers[0].ReleaseSet(t.Context(), end); err != nil || o.Code != lock.OK {
				t.Errorf("%+v, %v", o, err)
			}
			if o := ask(n + 1); o.Code != lock.OK {
				t.Errorf("after the set the next in line has %+v", o)
			}
			return
		}
		clock.Advance(time.Second)
		if holder.Code == lock.OK {
			c := lock.Release{ID: line, Owner: holder.Lease.Owner, Token: holder.Lease.Token, RequestID: "e"}
			if o, err := servers[try%2].Release(t.Context(), c); err != nil || o.Code != lock.OK {
				t.Fatalf("%+v, %v", o, err)
			}
		}
		if holder = ask(n + 1); holder.Code == lock.OK {
			n++
			ask(n + 3)
		}
	}
	t.Error("the set never got its locks")
}
