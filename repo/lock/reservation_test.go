package lock_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leasehold-dev/leasehold/proof/suite"
	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/lock"
)

// busyLine keeps a line of a lock from ever being empty: workers that hold it for a while and wait in line again. It
// returns how often they have held it.
func busyLine(ctx context.Context, all *sync.WaitGroup, locks []*lock.Locks, key string, workers int,
	holds time.Duration) (grants func() int) {
	var mu sync.Mutex
	n := 0
	for i := range workers {
		l := locks[i%len(locks)]
		all.Go(func() {
			for try := 0; ctx.Err() == nil; try++ {
				c := fairly(fmt.Sprint("worker ", i), 20)
				c.Key, c.RequestID, c.TTLSeconds = key, fmt.Sprint("r", try), 30
				o, err := l.Acquire(ctx, c)
				if err != nil || o.Code != lock.OK {
					continue
				}
				mu.Lock()
				n++
				mu.Unlock()
				time.Sleep(holds)
				_, _ = l.Release(context.WithoutCancel(ctx), lock.Release{
					ID: c.ID, Owner: c.Owner, Token: o.Lease.Token, RequestID: c.RequestID,
				})
			}
		})
	}
	return func() int {
		mu.Lock()
		defer mu.Unlock()
		return n
	}
}

// poll asks for several locks as the clients do: again when the refusal says so, after two seconds at most.
func poll(ctx context.Context, l *lock.Locks, c lock.AcquireSet) (lock.SetOutcome, error) {
	for {
		o, err := l.AcquireSet(ctx, c)
		if err != nil || o.Code != lock.Held && o.Code != lock.Delayed {
			return o, err
		}
		pause := time.Second + rand.N(time.Second)
		if after := o.Refusal.RetryAfter; after > 0 {
			pause = min(pause, after+rand.N(100*time.Millisecond))
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return o, ctx.Err()
		}
	}
}

// TestASetGetsItsTurnBesideALine: a line that is never empty does not keep a set from its locks, be it in one process
// or in two, one line or a line at each key, and locks among them that no one has used.
func TestASetGetsItsTurnBesideALine(t *testing.T) {
	for name, lines := range map[string][]string{"one line": {"a"}, "two lines": {"a", "b"}, "all": {"a", "b", "c"}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newCounted(time.Millisecond)
				locks := []*lock.Locks{lock.New(s, nil), lock.New(s, nil)}
				ctx, end := context.WithCancel(t.Context())
				var all sync.WaitGroup
				for i, key := range lines {
					busyLine(ctx, &all, locks, key, 3+2*i, time.Duration(100*(i+1))*time.Millisecond)
				}
				time.Sleep(5 * time.Second)
				for n := range 3 {
					begun := time.Now()
					waiting, cancel := context.WithTimeout(ctx, time.Minute)
					c := acquireSet("zoe", fmt.Sprint("set ", n), "a", "b", "c")
					o, err := poll(waiting, locks[n%2], c)
					cancel()
					if err != nil || o.Code != lock.OK {
						t.Fatalf("set %d: %s, error %v, after %v", n, o.Code, err, time.Since(begun))
					}
					if o, err := locks[n%2].ReleaseSet(ctx, releaseSet("zoe", fmt.Sprint("end ", n), leasesOf(o))); err != nil ||
						o.Code != lock.OK {
						t.Fatalf("release %d: %+v, %v", n, o, err)
					}
				}
				end()
				all.Wait()
			})
		})
	}
}

// TestSetsThatOverlapEachGetTheirTurn: sets whose keys overlap in every way do not keep each other from their turns.
func TestSetsThatOverlapEachGetTheirTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newCounted(time.Millisecond)
		locks := []*lock.Locks{lock.New(s, nil), lock.New(s, nil)}
		ctx, end := context.WithCancel(t.Context())
		var lines, sets sync.WaitGroup
		for _, key := range []string{"a", "b", "c", "d"} {
			busyLine(ctx, &lines, locks, key, 3, 50*time.Millisecond)
		}
		time.Sleep(2 * time.Second)
		for n, keys := range [][]string{{"a", "b"}, {"b", "c"}, {"c", "d"}, {"a", "d"}, {"a", "c"}, {"b", "d"},
			{"a", "b", "c", "d"}} {
			sets.Go(func() {
				owner := fmt.Sprint("set ", n)
				waiting, cancel := context.WithTimeout(ctx, 10*time.Minute)
				defer cancel()
				o, err := poll(waiting, locks[n%2], acquireSet(owner, "r", keys...))
				if err != nil || o.Code != lock.OK {
					t.Errorf("%q: %s, error %v", keys, o.Code, err)
					return
				}
				time.Sleep(100 * time.Millisecond)
				if o, err := locks[n%2].ReleaseSet(ctx, releaseSet(owner, "e", leasesOf(o))); err != nil || o.Code != lock.OK {
					t.Errorf("release %q: %+v, %v", keys, o, err)
				}
			})
		}
		sets.Wait()
		end()
		lines.Wait()
	})
}

// TestASetThatCannotHaveItsTurn: while one of its keys is held for long, a set takes at most a quarter of the time of a
// line at another.
func TestASetThatCannotHaveItsTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newCounted(time.Millisecond)
		locks := []*lock.Locks{lock.New(s, nil)}
		c := waitFor("long", 0)
		c.Key, c.TTLSeconds = "b", 86_400
		if o, err := locks[0].Acquire(t.Context(), c); err != nil || o.Code != lock.OK {
			t.Fatalf("%+v, %v", o, err)
		}
		ctx, end := context.WithCancel(t.Context())
		var all sync.WaitGroup
		grants := busyLine(ctx, &all, locks, "a", 3, 100*time.Millisecond)
		time.Sleep(time.Minute)
		before := grants()
		all.Go(func() {
			if o, err := poll(ctx, locks[0], acquireSet("zoe", "r", "a", "b")); !errors.Is(err, context.Canceled) {
				t.Errorf("a set with a key that is held: %+v, %v", o, err)
			}
		})
		const minutes = 20
		time.Sleep(minutes * time.Minute)
		if n := grants() - before; n < minutes*before*70/100 {
			t.Errorf("the line was granted %d times in %d minutes, and %d times in one without the set", n, minutes, before)
		}
		end()
		all.Wait()
	})
}

// setLine is a lock a with a line, and b and c that no one holds. The clock is set by hand.
type setLine struct {
	*testing.T

	clock *suite.Clock
	store *counted
	locks *lock.Locks
	lease lock.Lease // of a
}

func beginLine(t *testing.T) *setLine {
	clock := suite.NewClock()
	s := &counted{Store: docstore.NewMemory(&docstore.MemoryOptions{Now: clock.Now})}
	l := &setLine{T: t, clock: clock, store: s, locks: lock.New(s, &lock.Options{Now: clock.Now})}
	for _, key := range []string{"a", "b"} {
		c := waitFor("ann", 0)
		c.Key, c.TTLSeconds = key, 300
		o, err := l.locks.Acquire(t.Context(), c)
		if err != nil || o.Code != lock.OK {
			t.Fatalf("%+v, %v", o, err)
		}
		if key == "b" {
			l.end(o.Lease)
		} else {
			l.lease = o.Lease
		}
	}
	l.join("bob")
	s.take()
	return l
}

func (l *setLine) id() lock.ID { return lock.ID{Tenant: l.lease.Tenant, Key: l.lease.Key} }

func (l *setLine) end(lease lock.Lease) {
	l.Helper()
	c := lock.Release{
		ID: lock.ID{Tenant: lease.Tenant, Key: lease.Key}, Owner: lease.Owner, Token: lease.Token,
		RequestID: fmt.Sprint("end ", lease.Token),
	}
	if o, err := l.locks.Release(l.Context(), c); err != nil || o.Code != lock.OK {
		l.Fatalf("%+v, %v", o, err)
	}
}

// join lets someone wait in line for a. Its caller is not there to claim the lock.
func (l *setLine) join(owner string) {
	l.Helper()
	l.joinAt("a", owner)
}

func (l *setLine) joinAt(key, owner string) {
	l.Helper()
	c := fairly(owner, 20)
	c.Key = key
	if o, err := l.locks.LineUp(l.Context(), c); err != nil || o.Code != lock.Held {
		l.Fatalf("%+v, %v", o, err)
	}
}

// handOver releases a for the one in line.
func (l *setLine) handOver(owner string) {
	l.Helper()
	l.end(l.lease)
	c := fairly(owner, 20)
	c.Key = "a"
	o, err := l.locks.LineUp(l.Context(), c)
	if err != nil || o.Code != lock.OK {
		l.Fatalf("%+v, %v", o, err)
	}
	l.lease = o.Lease
}

// set asks for the set and checks the outcome and the requests that the store got.
func (l *setLine) set(want lock.Code, after time.Duration, gets, granted, refused int) lock.SetOutcome {
	l.Helper()
	o := l.setOf("zoe", want, gets, granted, refused, "a", "b", "c")
	if want != lock.OK && o.Refusal.RetryAfter != after {
		l.Fatalf("%s, again after %v; want %v", o.Code, o.Refusal.RetryAfter, after)
	}
	return o
}

func (l *setLine) setOf(owner string, want lock.Code, gets, granted, refused int, keys ...string) lock.SetOutcome {
	l.Helper()
	l.store.take()
	o, err := l.locks.AcquireSet(l.Context(), acquireSet(owner, "r", keys...))
	if err != nil || o.Code != want {
		l.Fatalf("%s, error %v; want %s", o.Code, err, want)
	}
	if g, w, r := l.store.take(); g != gets || w != granted || r != refused {
		l.Errorf("%s: %d reads, %d writes, %d refused; want %d, %d, %d", want, g, w, r, gets, granted, refused)
	}
	return o
}

// beginTurn is a line in which the set has its turn, and no one holds a lock.
func beginTurn(t *testing.T) *setLine {
	t.Helper()
	l := beginLine(t)
	l.set(lock.Held, 300*time.Second, 1, 2, 3)
	l.handOver("bob")
	l.set(lock.Held, 250*time.Millisecond, 1, 2, 3)
	l.end(l.lease)
	return l
}

// TestATurnOfASetStepByStep: a set that is refused beside a line reserves its locks, waits for those who came before,
// has its turn, in which no one else obtains them, and gets them. What it costs is counted: a lock without a record is
// not asked.
func TestATurnOfASetStepByStep(t *testing.T) {
	l := beginLine(t)
	l.set(lock.Held, 300*time.Second, 1, 2, 3) // a and b: one write, after one that finds the document
	l.set(lock.Held, 300*time.Second, 1, 0, 1) // bob is before it
	l.clock.Advance(time.Second)
	l.join("carl")
	free := waitFor("dan", 0)
	free.Key = "b"
	o, err := l.locks.Acquire(t.Context(), free)
	if err != nil || o.Code != lock.OK { // while it has no turn it keeps no one from a lock that is free
		t.Fatalf("%+v, %v", o, err)
	}
	l.end(o.Lease)
	l.handOver("bob")
	l.set(lock.Held, 250*time.Millisecond, 1, 2, 3) // bob has had his turn: this is the set's
	free.RequestID = "again"
	if o, err := l.locks.Acquire(t.Context(), free); err != nil || o.Code != lock.Held || o.Lease.Owner != "zoe" ||
		o.RetryAfter != lock.SetTurn {
		t.Errorf("in the turn of a set: %+v, %v", o, err)
	}
	if s, _, err := l.locks.Get(t.Context(), free.ID); err != nil || s.Phase == lock.Active ||
		!s.FreeAt.Equal(l.clock.Now().Add(lock.SetTurn)) {
		t.Errorf("in the turn of a set: %+v, %v", s, err)
	}
	l.end(l.lease)
	if s, _, err := l.locks.Get(t.Context(), l.id()); err != nil || s.Phase == lock.Active || len(s.Waiting) != 1 {
		t.Errorf("released in the turn of a set: %+v, %v", s, err)
	}
	got := l.set(lock.OK, 0, 0, 1, 1)
	if o, err := l.locks.ReleaseSet(t.Context(), releaseSet("zoe", "e", leasesOf(got))); err != nil || o.Code != lock.OK {
		t.Errorf("%+v, %v", o, err)
	}
	if s, _, err := l.locks.Get(t.Context(), l.id()); err != nil || s.Phase != lock.Active || s.Owner != "carl" {
		t.Errorf("after the set: %+v, %v", s, err)
	}
	if s, _, err := l.locks.Get(t.Context(), free.ID); err != nil || s.Phase != lock.Released || !s.FreeAt.IsZero() {
		t.Errorf("after the set: %+v, %v", s, err)
	}
}

// TestACallerThatLeavesInItsTurn: the locks of a set whose caller has gone are the others' when its turn is over, at
// the latest; at once by force.
func TestACallerThatLeavesInItsTurn(t *testing.T) {
	for _, byForce := range []bool{false, true} {
		t.Run(fmt.Sprintf("by force %v", byForce), func(t *testing.T) {
			l := beginTurn(t)
			wait := lock.SetTurn
			if byForce {
				wait = 0
				c := lock.ForceRelease{ID: l.id(), By: "root", Reason: "its caller has gone", RequestID: "f"}
				if o, err := l.locks.ForceRelease(t.Context(), c); err != nil || o.Code != lock.NotHeld {
					t.Fatalf("%+v, %v", o, err)
				}
			}
			try := func(owner string) lock.Outcome {
				c := waitFor(owner, 0)
				c.Key = "a"
				o, err := l.locks.Acquire(t.Context(), c)
				if err != nil {
					t.Fatal(err)
				}
				return o
			}
			if wait > 0 {
				l.clock.Advance(wait - time.Millisecond)
				if o := try("early"); o.Code != lock.Held {
					t.Errorf("before the end of the turn: %+v", o)
				}
				l.clock.Advance(time.Millisecond)
			}
			if o := try("late"); o.Code != lock.OK {
				t.Errorf("after the turn: %+v", o)
			}
		})
	}
}

// TestSetsReserveInOrder: a lock has one reservation. A request whose first lock another has reserved reserves none
// behind it, and has it when the other came no more.
func TestSetsReserveInOrder(t *testing.T) {
	l := beginLine(t)
	held := waitFor("ann", 0)
	held.Key, held.RequestID = "b", "again"
	if o, err := l.locks.Acquire(t.Context(), held); err != nil || o.Code != lock.OK {
		t.Fatalf("%+v, %v", o, err)
	}
	l.joinAt("b", "bill")
	l.setOf("zoe", lock.Held, 1, 1, 2, "a", "c")
	l.setOf("yan", lock.Held, 1, 0, 1, "a", "b")
	l.clock.Advance(4 * time.Second)
	l.setOf("yan", lock.Held, 1, 0, 1, "a", "b")
	l.setOf("zoe", lock.Held, 1, 1, 2, "a", "c") // it came again, and keeps what it has
	l.clock.Advance(lock.PlaceTime - time.Millisecond)
	l.setOf("yan", lock.Held, 1, 0, 1, "a", "b")
	l.clock.Advance(time.Millisecond)
	l.setOf("yan", lock.Held, 1, 2, 3, "a", "b")
	l.setOf("zoe", lock.Held, 1, 0, 1, "a", "c")
}

// TestAnotherModeInTheTurnOfASet: a lock that is kept for a set takes no other mode, and no other's line, until the
// turn is over.
func TestAnotherModeInTheTurnOfASet(t *testing.T) {
	for _, dies := range []bool{false, true} {
		t.Run(fmt.Sprintf("dies %v", dies), func(t *testing.T) {
			l := beginTurn(t)
			permits := waitFor("pam", 0)
			permits.Key, permits.Mode, permits.Limit = "a", lock.Permits, 3
			if o, err := l.locks.Acquire(t.Context(), permits); err != nil || o.Code != lock.ModeDiffers {
				t.Errorf("in the turn: %+v, %v", o, err)
			}
			if !dies {
				l.set(lock.OK, 0, 0, 1, 1)
				return
			}
			l.clock.Advance(lock.SetTurn)
			if o, err := l.locks.Acquire(t.Context(), permits); err != nil || o.Code != lock.OK || o.Lease.Permit != 1 {
				t.Errorf("after the turn: %+v, %v", o, err)
			}
		})
	}
}

// TestALineGoesOnAfterATurn: who waits in line for a lock looks after it when the turn of a set whose caller has gone
// ends.
func TestALineGoesOnAfterATurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newCounted(0)
		l := lock.New(signalling{s}, nil) // it is hardly read unless it changes
		lease := held(t, l, 3600)
		waits := acquiring(t.Context(), l, fairly("bob", 20))
		synctest.Wait()
		set := acquireSet("zoe", "r", lease.Key, "another")
		for range 2 {
			if o, err := l.AcquireSet(t.Context(), set); err != nil || o.Code != lock.Held {
				t.Fatalf("%+v, %v", o, err)
			}
			time.Sleep(time.Millisecond)
		}
		endLease(t, l, lease)
		r := <-waits
		if r.err != nil || r.Code != lock.OK {
			t.Fatalf("%+v", r)
		}
		waits = acquiring(t.Context(), l, fairly("carl", 20))
		synctest.Wait()
		if o, err := l.AcquireSet(t.Context(), set); err != nil || o.Code != lock.Held || o.Refusal.RetryAfter > time.Second {
			t.Fatalf("%+v, %v", o, err)
		}
		endLease(t, l, r.Lease)
		r = <-waits // a look of its own may come just before the end of the turn
		if r.err != nil || r.Code != lock.OK || r.took < lock.SetTurn || r.took > lock.SetTurn+lock.ReadLeast {
			t.Errorf("after %v: %+v", r.took, r)
		}
	})
}

// TestARestIsKeptForTheNext: after a turn in vain the lock has its rest, also when another set has reserved it since.
func TestARestIsKeptForTheNext(t *testing.T) {
	l := beginLine(t)
	l.set(lock.Held, 300*time.Second, 1, 2, 3)
	l.handOver("bob") // for 60 s, longer than the turn
	l.set(lock.Held, 250*time.Millisecond, 1, 2, 3)
	l.clock.Advance(lock.SetTurn)
	l.joinAt("a", "carl")
	l.setOf("zoe", lock.Held, 1, 2, 3, "a", "b", "c") // reserved anew, and then it comes no more
	l.clock.Advance(lock.PlaceTime)
	l.joinAt("a", "dan")
	l.setOf("yan", lock.Held, 1, 1, 2, "a")
	l.handOver("carl")
	l.handOver("dan")
	l.joinAt("a", "eve")
	l.setOf("yan", lock.Held, 1, 0, 1, "a")
	l.clock.Advance(lock.SetRest - lock.PlaceTime - time.Millisecond)
	l.joinAt("a", "eve")
	l.joinAt("a", "fay")
	if o := l.setOf("yan", lock.Held, 1, 1, 2, "a"); o.Refusal.RetryAfter <= time.Second { // it only keeps its reservation
		t.Errorf("before the rest is over: %+v", o.Refusal)
	}
	l.handOver("eve")
	l.clock.Advance(time.Millisecond)
	l.setOf("yan", lock.Held, 1, 0, 1, "a") // fay is before it
	l.handOver("fay")
	l.clock.Advance(time.Millisecond)
	l.joinAt("a", "gil")
	if o := l.setOf("yan", lock.Held, 1, 1, 2, "a"); o.Refusal.RetryAfter != 250*time.Millisecond {
		t.Errorf("after the rest: %+v", o.Refusal)
	}
}

// TestAReservationThatCannotBeRead: what another program put in the place of a reservation is damage, not a free lock.
// Bytes of no length are no reservation, as in every field of bytes.
func TestAReservationThatCannotBeRead(t *testing.T) {
	for name, value := range map[string]docstore.Value{"text": docstore.String("x"), "cut": docstore.Bytes("\x01\x02a")} {
		t.Run(name, func(t *testing.T) {
			l := beginTurn(t)
			k := docstore.Key{Kind: lock.Kind, Tenant: l.lease.Tenant, ID: "a"}
			if _, err := l.store.Write(t.Context(), docstore.Write{Key: k, Set: docstore.Doc{"w": value}}); err != nil {
				t.Fatal(err)
			}
			c := waitFor("dan", 0)
			c.Key = "a"
			if o, err := l.locks.Acquire(t.Context(), c); !errors.Is(err, docstore.ErrDamaged) {
				t.Errorf("one lock: %+v, %v", o, err)
			}
			if o, err := l.locks.AcquireSet(t.Context(), acquireSet("zoe", "r", "a", "b", "c")); !errors.Is(err,
				docstore.ErrDamaged) {
				t.Errorf("the set: %+v, %v", o, err)
			}
		})
	}
}
