package suite

import (
	"context"
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
	t.Run("fifty callers at once, three permits", func(t *testing.T) { somePermits(t, newStore) })
	t.Run("first come first served", func(t *testing.T) { inOrder(t, newStore) })
	t.Run("a hundred permits that expired together", func(t *testing.T) { manyExpired(t, newStore) })
	t.Run("a set beside a line that is never empty", func(t *testing.T) { setBesideALine(t, newStore) })
	for name, ask := range obtains {
		for _, n := range []int{21, 100} {
			t.Run(fmt.Sprintf("%s after %d readers that died", name, n), func(t *testing.T) {
				clock := NewClock()
				afterTheDead(t, newStore(t, clock.Now), clock, n, ask)
			})
		}
	}
}

var modesProof = proof[Step]{program: modesPrograms, run: runLocks, history: ModesHistory}

// somePermits lets fifty callers ask for one of three permits at once: three get one, each another, and the others
// learn that it is held.
func somePermits(t *testing.T, newStore func(*testing.T, func() time.Time) docstore.Store) {
	const (
		callers = 50
		permits = 3
	)
	clock := NewClock()
	store := newStore(t, clock.Now)
	var (
		outcomes = make(chan lock.Outcome, callers)
		start    = make(chan struct{})
	)
	for i := range callers {
		go func() {
			<-start
			c := lock.Acquire{
				ID: lock.ID{Tenant: "acme", Key: "k"}, Owner: fmt.Sprint("caller ", i), RequestID: "r1", TTLSeconds: 60,
				LeaseID: fmt.Sprint("lease ", i),
				Mode:    lock.Permits, Limit: permits,
			}
			for {
				o, err := rule.Run(t.Context(), store, clock.Now, c)
				if err == nil {
					outcomes <- o
					return
				}
				if t.Context().Err() != nil {
					return
				}
			}
		}()
	}
	close(start)
	taken, held := map[int64]int64{}, 0
	for range callers {
		switch o := <-outcomes; o.Code {
		case lock.OK:
			if taken[o.Lease.Permit] != 0 || o.Lease.Permit < 1 || o.Lease.Permit > permits {
				t.Errorf("permit %d under tokens %d and %d", o.Lease.Permit, taken[o.Lease.Permit], o.Lease.Token)
			}
			taken[o.Lease.Permit] = o.Lease.Token
		case lock.Held:
			held++
		default:
			t.Errorf("outcome %+v", o)
		}
	}
	if len(taken) != permits || held != callers-permits {
		t.Errorf("permits %v, %d were refused", taken, held)
	}
}

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

// obtains are callers that ask once for a lock that no one holds. They report whether they obtained it.
var obtains = map[string]func(ctx context.Context, l *lock.Locks, id lock.ID) (lock.Code, error){
	"a writer": func(ctx context.Context, l *lock.Locks, id lock.ID) (lock.Code, error) {
		o, err := l.Acquire(ctx, lock.Acquire{ID: id, Owner: "zoe", RequestID: "r", TTLSeconds: 60})
		return o.Code, err
	},
	"another limit": func(ctx context.Context, l *lock.Locks, id lock.ID) (lock.Code, error) {
		o, err := l.Acquire(ctx, lock.Acquire{ID: id, Owner: "zoe", RequestID: "r", TTLSeconds: 60, Mode: lock.Permits,
			Limit: 3})
		return o.Code, err
	},
	"a set": func(ctx context.Context, l *lock.Locks, id lock.ID) (lock.Code, error) {
		o, err := l.AcquireSet(ctx, lock.AcquireSet{Tenant: id.Tenant, Keys: []string{id.Key, "another"}, Owner: "zoe",
			RequestID: "r", TTLSeconds: 60})
		return o.Code, err
	},
	"a force-release, then a writer": func(ctx context.Context, l *lock.Locks, id lock.ID) (lock.Code, error) {
		o, err := l.ForceRelease(ctx, lock.ForceRelease{ID: id, By: "root", Reason: "it hangs", RequestID: "f"})
		if err != nil || o.Code != lock.NotHeld {
			return o.Code, err
		}
		o, err = l.Acquire(ctx, lock.Acquire{ID: id, Owner: "zoe", RequestID: "r", TTLSeconds: 60})
		return o.Code, err
	},
}

// afterTheDead lets readers wait in line behind a writer, have the lock and die, each in another way: handed the lock
// they never come again, or they claim it, with a lock delay, and are ended by force. The lock is obtained by the
// caller that asks once.
func afterTheDead(
	t *testing.T, store docstore.Store, clock *Clock, n int,
	ask func(context.Context, *lock.Locks, lock.ID) (lock.Code, error),
) {
	t.Helper()
	l, id := lock.New(store, &lock.Options{Now: clock.Now}), lock.ID{Tenant: "acme", Key: "k"}
	must := func(o lock.Outcome, err error) lock.Outcome {
		t.Helper()
		if err != nil || o.Code != lock.OK && o.Position == 0 {
			t.Fatalf("%+v, %v", o, err)
		}
		return o
	}
	reader := func(i int) lock.Acquire {
		return lock.Acquire{
			ID: id, Owner: fmt.Sprint("dead ", i), RequestID: "r", TTLSeconds: 60, Mode: lock.Shared,
			LockDelaySeconds: int64(i % 3), WaitSeconds: 20,
		}
	}
	writer := must(l.Acquire(t.Context(), lock.Acquire{ID: id, Owner: "ann", RequestID: "r", TTLSeconds: 60}))
	for i := range n {
		must(lineUp(t.Context(), l, reader(i)))
	}
	must(l.Release(t.Context(), lock.Release{ID: id, Owner: "ann", Token: writer.Lease.Token, RequestID: "e"}))
	for i := range 5 {
		if o := must(lineUp(t.Context(), l, reader(n-1-i))); o.Code != lock.OK {
			t.Fatalf("reader %d: %+v", n-1-i, o)
		}
	}
	must(l.ForceRelease(t.Context(), lock.ForceRelease{ID: id, By: "root", Reason: "it hangs", RequestID: "f0",
		LeaseID: lastLease(t, l, id)}))
	clock.Advance(62 * time.Second)
	if code, err := ask(t.Context(), l, id); err != nil || code != lock.OK {
		t.Errorf("%s, %v", code, err)
	}
	if st, found, err := l.Get(t.Context(), id); err != nil || !found || st.Phase != lock.Active || st.Owner != "zoe" {
		t.Errorf("%+v, %v", st, err)
	}
}

// lastLease is the ID of the latest lease of a lock.
func lastLease(t *testing.T, l *lock.Locks, id lock.ID) string {
	t.Helper()
	st, _, err := l.Get(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	return st.LeaseID
}
