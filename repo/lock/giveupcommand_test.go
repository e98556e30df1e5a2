package lock_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leasehold-dev/leasehold/proof/suite"
	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/lock"
)

// gaveUp gives a request up, and fails the test unless that is done.
func gaveUp(t *testing.T, l *lock.Locks, c lock.Acquire) {
	t.Helper()
	o, err := l.GiveUp(t.Context(), lock.GiveUp{Acquire: c})
	if err != nil || o.Code != lock.OK {
		t.Fatalf("%+v, error %v", o, err)
	}
}

// twoProcesses are two processes on one store, and a lease of the first.
func twoProcesses(t *testing.T, held lock.Acquire) (here, there *lock.Locks, lease lock.Lease) {
	t.Helper()
	s := newCounted(time.Millisecond)
	here, there = lock.New(s, nil), lock.New(s, nil)
	o, err := here.Acquire(t.Context(), asked(held, "ann", 0))
	return here, there, must(t, o, err)
}

// TestGiveUpEndsTheWaits: the deliveries of a request that wait in the process end at once with the refusal that they
// had, and one in another process as soon as it looks at the lock, as a request that was used. None of them has the
// lock when it gets free, whatever its mode, nor does a copy that comes later; those of other requests wait on.
func TestGiveUpEndsTheWaits(t *testing.T) {
	for name, mode := range givenUpModes {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				here, there, lease := twoProcesses(t, mode.held)
				bob := asked(mode.waits, "bob", 20)
				both := []<-chan result{acquiring(t.Context(), here, bob), acquiring(t.Context(), here, bob)}
				elsewhere := acquiring(t.Context(), there, bob)
				time.Sleep(100 * time.Millisecond)
				carl := acquiring(t.Context(), here, asked(mode.waits, "carl", 20))
				time.Sleep(900 * time.Millisecond)
				begin := time.Now()
				gaveUp(t, here, bob)
				for n, c := range both {
					if r := <-c; r.err != nil || r.Code != lock.Held || time.Since(begin) > 5*time.Millisecond {
						t.Errorf("delivery %d, after %v: %+v", n, time.Since(begin), r)
					}
				}
				if r := <-elsewhere; r.err != nil || r.Code != lock.RequestIDReused || time.Since(begin) > 2*time.Second {
					t.Errorf("the other process, after %v: %+v", time.Since(begin), r)
				}
				if lease.Mode != lock.Rate {
					endLease(t, here, lease)
				}
				r := <-carl
				if got := must(t, r.Outcome, r.err); got.Owner != "carl" || got.Token != lease.Token+1 {
					t.Errorf("%+v", got)
				}
				time.Sleep(20 * time.Second)
				for _, l := range []*lock.Locks{here, there} {
					if r = <-acquiring(t.Context(), l, bob); r.err != nil || r.Code != lock.RequestIDReused {
						t.Errorf("a copy: %+v", r)
					}
				}
				if st, _, err := here.Get(t.Context(), deploy); err != nil || st.Owner == "bob" || len(st.Waiting) > 0 {
					t.Errorf("%+v, error %v", st, err)
				}
			})
		})
	}
}

// TestGiveUpIsDecidedAfterwards: what a delivery obtains that is being sent when the give-up arrives has ended once
// that is answered. The store is quicker with the give-up.
func TestGiveUpIsDecidedAfterwards(t *testing.T) {
	for name, mode := range givenUpModes {
		for _, waits := range []int64{0, 20} {
			t.Run(fmt.Sprint(name, ", waits ", waits), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s := &slowAt{Store: docstore.NewMemory(nil)}
					s.begin(time.Now())
					l := lock.New(s, nil)
					bob := asked(mode.waits, "bob", waits)
					first := acquiring(t.Context(), l, bob)
					time.Sleep(50 * time.Millisecond) // it is being sent
					gaveUp(t, l, bob)
					r := <-first
					lease := must(t, r.Outcome, r.err)
					if st, _, err := l.Get(t.Context(), deploy); err != nil || lease.Mode != lock.Rate && st.Phase == lock.Active {
						t.Errorf("%+v, error %v", st, err)
					}
				})
			})
		}
	}
}

// TestACutConnectionIsNoGiveUp: when the connection of a request that waits ends, it leaves its place in line, and is
// sent again, to another process: it joins the line at its end.
func TestACutConnectionIsNoGiveUp(t *testing.T) {
	for name, mode := range givenUpModes {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				here, there, lease := twoProcesses(t, mode.held)
				bob := asked(mode.waits, "bob", 20)
				ctx, cut := context.WithCancel(t.Context())
				first := acquiring(ctx, here, bob)
				time.Sleep(time.Second)
				cut()
				<-first
				if st, _, err := here.Get(t.Context(), deploy); err != nil || len(st.Waiting) > 0 {
					t.Errorf("%+v, error %v", st, err)
				}
				again := acquiring(t.Context(), there, bob)
				time.Sleep(time.Second)
				if lease.Mode != lock.Rate {
					endLease(t, here, lease)
				}
				r := <-again
				must(t, r.Outcome, r.err)
			})
		})
	}
}

// TestGiveUpAndTheBoundOfLocks: what a give-up leaves of a lock without a record counts as a record, and the lock can
// be acquired at the bound. There is no give-up of one without a record beyond it, which would obtain nothing either.
func TestGiveUpAndTheBoundOfLocks(t *testing.T) {
	clock := suite.NewClock()
	store := &listed{Store: docstore.NewMemory(&docstore.MemoryOptions{Now: clock.Now})}
	locks := lock.New(store, &lock.Options{Now: clock.Now, MaxPerTenant: 3})
	request := func(key, request string) lock.Acquire {
		return lock.Acquire{ID: lock.ID{Tenant: "acme", Key: key}, Owner: "ann", RequestID: request, TTLSeconds: 60}
	}
	for _, step := range []struct {
		name          string
		give          bool
		key, request  string
		want          lock.Code
		writes, lists int
	}{
		{"the first one begins the tally", true, "a", "r1", lock.OK, 5, 0},
		{"there is room", true, "b", "r1", lock.OK, 4, 0},
		{"a lock in its place", false, "b", "r2", lock.OK, 1, 0},
		{"no one obtains it", false, "a", "r1", lock.RequestIDReused, 1, 0},
		{"the last place", false, "c", "r1", lock.OK, 3, 0},
		{"no place", false, "d", "r1", lock.Limit, 2, 0},
		{"nor for a give-up", true, "d", "r1", lock.Limit, 1, 0},
		{"one of a lock with a record", true, "c", "r2", lock.OK, 1, 0},
		{"one of a lock without a lease", true, "a", "r2", lock.OK, 2, 0},
		{"which is obtained", false, "a", "r3", lock.OK, 1, 0},
	} {
		run := locks.Acquire
		if step.give {
			run = func(ctx context.Context, c lock.Acquire) (lock.Outcome, error) {
				return locks.GiveUp(ctx, lock.GiveUp{Acquire: c})
			}
		}
		o, err := run(t.Context(), request(step.key, step.request))
		writes, lists := store.cost()
		if err != nil || o.Code != step.want || writes != step.writes || lists != step.lists {
			t.Errorf("%s: %+v, %v, %d writes, %d lists; want %s, %d, %d", step.name, o, err, writes, lists, step.want,
				step.writes, step.lists)
		}
		if o.Code == lock.Limit && o.RetryAfter <= 0 {
			t.Errorf("%s: %+v", step.name, o)
		}
	}
	_, err := locks.GiveUp(t.Context(), lock.GiveUp{})
	if err == nil {
		t.Error("a malformed command was carried out")
	}
}

// TestGiveUpSet: all of the locks at once, whatever the request has there; a copy that comes later obtains none.
func TestGiveUpSet(t *testing.T) {
	request := acquireSet("ann", "r1", "a", "b", "c")
	up := lock.GiveUpSet{Acquire: request}
	free := func(b *bench, key string) {
		b.t.Helper()
		c := lock.Acquire{ID: lock.ID{Tenant: "acme", Key: key}, Owner: "eve", RequestID: "one", TTLSeconds: 30}
		o, err := b.locks.Acquire(b.t.Context(), c)
		must(b.t, o, err)
	}
	taken := func(b *bench, key string, release bool) {
		b.t.Helper()
		id := lock.ID{Tenant: "acme", Key: key}
		o, err := b.locks.Acquire(b.t.Context(), lock.Acquire{ID: id, Owner: "carl", RequestID: "one", TTLSeconds: 30})
		lease := must(b.t, o, err)
		if release {
			o, err = b.locks.Release(b.t.Context(), lock.Release{ID: id, Owner: "carl", Token: lease.Token, RequestID: "end"})
			must(b.t, o, err)
		}
	}
	for name, c := range map[string]struct {
		build    func(b *bench)
		requests []string
		held     string // by others
	}{
		"nothing, no records": {func(*bench) {}, []string{"Write", "Write"}, ""},
		"nothing, locks that are free": {func(b *bench) { taken(b, "a", true); taken(b, "b", true); taken(b, "c", true) },
			[]string{"Write"}, ""},
		"nothing, one is held": {func(b *bench) { taken(b, "a", true); taken(b, "b", false); taken(b, "c", true) },
			[]string{"Write"}, "b"},
		"nothing, one without a record": {func(b *bench) { taken(b, "a", true); taken(b, "b", true) },
			[]string{"Write", "Write"}, ""},
		"leases": {func(b *bench) { b.set(request, lock.OK, false, "Write") }, []string{"Write", "Write"}, ""},
		"leases and lines": {func(b *bench) {
			b.set(request, lock.OK, false, "Write")
			b.lineUp()
		}, []string{"Write", "Write"}, "b"},
		"leases, one has ended": {func(b *bench) {
			o := b.set(request, lock.OK, false, "Write")
			b.set(releaseSet("ann", "e", leasesOf(o)[1:2]), lock.OK, false, "Write")
			taken(b, "b", false)
		}, []string{"Write", "Write"}, "b"},
	} {
		t.Run(name, func(t *testing.T) {
			b := begin(t)
			c.build(b)
			b.set(up, lock.OK, false, c.requests...)
			b.set(up, lock.OK, true, "Write")
			b.set(request, lock.RequestIDReused, false, "Write")
			other := up
			other.Acquire.TTLSeconds++
			b.set(other, lock.RequestIDReused, false, "Write")
			for _, key := range []string{"a", "b", "c"} {
				if key != c.held {
					free(b, key)
				}
			}
			b.set(request, lock.RequestIDReused, false, "Write")
		})
	}
	t.Run("another request at one of them", func(t *testing.T) {
		b := begin(t)
		two := acquireSet("ann", "r1", "c", "d")
		b.set(two, lock.OK, false, "Write")
		b.set(up, lock.RequestIDReused, false, "Write")
		b.set(two, lock.OK, true, "Write")
		b.set(acquireSet("ann", "r1", "a", "b"), lock.OK, false, "Write") // nothing is remembered there
	})
	t.Run("malformed", func(t *testing.T) {
		b := begin(t)
		if _, err := b.locks.GiveUpSet(t.Context(), lock.GiveUpSet{}); err == nil {
			t.Error("it was carried out")
		}
	})
	for name, wrap := range map[string]func(docstore.Store) docstore.Store{
		"a store that returns no documents":       func(s docstore.Store) docstore.Store { return &mute{Store: s} },
		"a store that stops at the first refusal": func(s docstore.Store) docstore.Store { return shy{s} },
	} {
		t.Run(name, func(t *testing.T) {
			clock := suite.NewClock()
			l := lock.New(wrap(docstore.NewMemory(&docstore.MemoryOptions{Now: clock.Now})), &lock.Options{Now: clock.Now,
				MaxPerTenant: 3})
			for range 2 {
				if o, err := l.AcquireSet(t.Context(), request); err != nil || o.Code != lock.OK {
					t.Fatalf("%+v, %v", o, err)
				}
			}
			for range 2 {
				if o, err := l.GiveUpSet(t.Context(), up); err != nil || o.Code != lock.OK {
					t.Fatalf("%+v, %v", o, err)
				}
			}
			if o, err := l.AcquireSet(t.Context(), request); err != nil || o.Code != lock.RequestIDReused {
				t.Errorf("%+v, %v", o, err)
			}
			more := lock.GiveUpSet{Acquire: acquireSet("ann", "r2", "a", "d")}
			if o, err := l.GiveUpSet(t.Context(), more); err != nil || o.Code != lock.Limit || o.Refusal.RetryAfter <= 0 {
				t.Errorf("beyond the bound: %+v, %v", o, err)
			}
			next := acquireSet("eve", "r3", "c", "b", "a")
			if o, err := l.AcquireSet(t.Context(), next); err != nil || o.Code != lock.OK {
				t.Errorf("%+v, %v", o, err)
			}
		})
	}
}

// TestGiveUpSetInLine: a set that is given up has no turn any more, and those that wait for its locks go on.
func TestGiveUpSetInLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := lock.New(newCounted(time.Millisecond), nil)
		var all []<-chan result
		for _, owner := range []string{"ann", "bob"} {
			c := waitFor(owner, 20)
			c.Fair = true
			all = append(all, acquiring(t.Context(), l, c))
			time.Sleep(time.Second)
		}
		r := <-all[0]
		ann := must(t, r.Outcome, r.err)
		set := acquireSet("eve", "several", deploy.Key, "other")
		if o, err := l.AcquireSet(t.Context(), set); err != nil || o.Code != lock.Held {
			t.Fatalf("%+v, %v", o, err)
		}
		endLease(t, l, ann)
		r = <-all[1]
		bob := must(t, r.Outcome, r.err)
		if o, err := l.AcquireSet(t.Context(), set); err != nil || o.Code != lock.Held { // its turn
			t.Fatalf("%+v, %v", o, err)
		}
		endLease(t, l, bob)
		carl := acquiring(t.Context(), l, waitFor("carl", 20))
		time.Sleep(time.Second)
		if o, err := l.GiveUpSet(t.Context(), lock.GiveUpSet{Acquire: set}); err != nil || o.Code != lock.OK {
			t.Fatalf("%+v, %v", o, err)
		}
		r = <-carl
		if must(t, r.Outcome, r.err); r.took > 2*time.Second {
			t.Errorf("%+v", r)
		}
		if st, found, err := l.Get(t.Context(), lock.ID{Tenant: "acme", Key: "other"}); err != nil || found {
			t.Errorf("%+v, %v", st, err)
		}
		if p, err := l.List(t.Context(), lock.List{Tenant: "acme"}); err != nil || len(p.Locks) != 1 || len(p.Damaged) > 0 {
			t.Errorf("%+v, %v", p, err)
		}
	})
}
