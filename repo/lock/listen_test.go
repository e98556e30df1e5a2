package lock_test

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/lock"
)

// loop is a crowd whose callers ask for a lock again and again, each for a while, and hold it for work. Requests take a
// millisecond or two.
type loop struct {
	form    lock.Acquire
	callers int
	wait    int64 // seconds, of each try
	work    time.Duration
	servers int
	signals bool

	newIDs bool // each try has a new request_id
	right  bool // one more caller, which waits for 20 s at a time under one request_id
}

// looped is what came of it.
type looped struct {
	mu      sync.Mutex
	grants  int
	waited  time.Duration // of the right caller, all of its waits
	waits   int
	longest time.Duration
}

func (l loop) run(t *testing.T, lasts time.Duration) *looped {
	t.Helper()
	counts := newCounted(0)
	store := docstore.Store(uneven{counts})
	if l.signals {
		store = unevenSignalling{uneven{counts}}
	}
	ctx, end := context.WithTimeout(t.Context(), lasts)
	defer end()
	r := &looped{}
	var all sync.WaitGroup
	for s := range l.servers {
		server := lock.New(store, nil)
		for n := range l.callers {
			if n%l.servers == s {
				all.Go(func() { l.ask(ctx, t, r, server, fmt.Sprint("caller ", n), l.wait, l.newIDs) })
			}
		}
		if l.right && s == l.servers-1 {
			all.Go(func() { l.ask(ctx, t, r, server, "right", 20, false) })
		}
	}
	all.Wait()
	return r
}

// ask is one caller.
func (l loop) ask(ctx context.Context, t *testing.T, r *looped, server *lock.Locks, owner string, wait int64, newIDs bool) {
	t.Helper()
	c := l.form
	c.ID, c.Owner, c.WaitSeconds = deploy, owner, wait
	for n := 0; ctx.Err() == nil; n++ {
		begin := time.Now()
		var got lock.Outcome
		for try := 0; ctx.Err() == nil; try++ {
			c.RequestID = strconv.Itoa(n)
			if newIDs {
				c.RequestID = fmt.Sprint(n, " ", try)
			}
			o, err := server.Acquire(ctx, c)
			if err == nil && o.Code == lock.OK {
				got = o
				break
			}
			if err == nil && o.Code != lock.Held {
				t.Errorf("%s: %+v", owner, o)
			}
			time.Sleep(20 * time.Millisecond) // a program begins anew
		}
		if got.Code != lock.OK {
			return
		}
		r.mu.Lock()
		if r.grants++; owner == "right" {
			r.waited, r.waits, r.longest = r.waited+time.Since(begin), r.waits+1, max(r.longest, time.Since(begin))
		}
		r.mu.Unlock()
		time.Sleep(l.work)
		if c.Mode != lock.Rate {
			if o, err := server.Release(context.WithoutCancel(ctx), lock.Release{ID: deploy, Owner: owner, Token: got.Lease.Token,
				RequestID: "e"}); err != nil || o.Code != lock.OK {
				t.Errorf("%s releases: %+v, %v", owner, o, err)
			}
		}
		time.Sleep(10 * time.Millisecond)
	}
}

var loopForms = map[string]loop{
	"fair":    {form: lock.Acquire{Fair: true, TTLSeconds: 60}, callers: 6, work: time.Second},
	"permits": {form: lock.Acquire{Mode: lock.Permits, Limit: 4, TTLSeconds: 60}, callers: 12, work: time.Second},
	"a rate":  {form: lock.Acquire{Mode: lock.Rate, Limit: 1, WindowSeconds: 1}, callers: 6},
}

// TestNewRequestIDsLeaveNothingIdle: callers that use a new request_id for each try get nine tenths of what they get
// with the same one, and who waits beside them as it should waits as long as it does beside those.
func TestNewRequestIDsLeaveNothingIdle(t *testing.T) {
	t.Parallel()
	for name, form := range loopForms {
		for _, wait := range []int64{1, 5} {
			for _, servers := range []int{1, 2} {
				for _, signals := range []bool{true, false} {
					t.Run(fmt.Sprintf("%s/%d s/%d servers/signals %v", name, wait, servers, signals), func(t *testing.T) {
						t.Parallel()
						l := form
						l.wait, l.servers, l.signals = wait, servers, signals
						play := func() (r *looped) {
							synctest.Test(t, func(t *testing.T) { r = l.run(t, time.Minute) })
							return r
						}
						same := play()
						l.newIDs = true
						anew := play()
						l.right = true
						beside := play()
						l.newIDs = false
						among := play()
						t.Logf("%d grants under the same request_id, %d under new ones; beside those %v on average, beside these %v",
							same.grants, anew.grants, among.waited/time.Duration(max(1, among.waits)),
							beside.waited/time.Duration(max(1, beside.waits)))
						if anew.grants < same.grants*9/10 {
							t.Errorf("%d grants, %d under the same request_id", anew.grants, same.grants)
						}
						if beside.waited*time.Duration(max(1, among.waits)) > among.waited*time.Duration(max(1, beside.waits))*11/10 {
							t.Errorf("who waits right waits longer beside new ones: %d waits, %d", beside.waits, among.waits)
						}
					})
				}
			}
		}
	}
}

// told is a store as one server reaches it that signals changes.
type told struct{ *mortal }

func (s told) Watch(ctx context.Context, k docstore.Key) (docstore.Watch, error) {
	return s.Store.(docstore.Watcher).Watch(ctx, k) //nolint:forcetypeassert // the memory store is one
}

// TestSixtyDeadPlaces: sixty requests wait in line at a server that is killed, before one at another server, which has
// what is free within a second; and an eighth of how long the lease lasted, which is when a server looks that the store
// does not tell of changes; whether the holder releases the lock or its lease expires. A rate goes on without a grant
// that is spent.
func TestSixtyDeadPlaces(t *testing.T) {
	t.Parallel()
	for name, form := range map[string]lock.Acquire{
		"fair":    {Fair: true, TTLSeconds: 5},
		"permits": {Mode: lock.Permits, Limit: 1, TTLSeconds: 5},
		"readers": {Mode: lock.Shared, TTLSeconds: 5},
		"a rate":  {Mode: lock.Rate, Limit: 1, WindowSeconds: 3},
	} {
		for _, signals := range []bool{true, false} {
			for _, releases := range []bool{true, false} {
				t.Run(fmt.Sprintf("%s/signals %v/released %v", name, signals, releases), func(t *testing.T) {
					t.Parallel()
					synctest.Test(t, func(t *testing.T) {
						memory := docstore.NewMemory(nil)
						killed, alive := &mortal{Store: memory}, &mortal{Store: memory}
						doomed, living := lock.New(killed, nil), lock.New(alive, nil)
						if signals {
							doomed, living = lock.New(told{killed}, nil), lock.New(told{alive}, nil)
						}
						c := form
						if c.Mode == lock.Shared { // a writer has it, and a writer waits behind the readers
							c = lock.Acquire{Fair: true, TTLSeconds: 5}
						}
						c.ID, c.Owner, c.RequestID = deploy, "holder", "r"
						o, err := living.Acquire(t.Context(), c)
						held := must(t, o, err)
						process, kill := context.WithCancel(t.Context())
						var ends sync.WaitGroup
						for i := range 60 {
							d := form
							d.ID, d.Owner, d.RequestID, d.WaitSeconds = deploy, fmt.Sprint("doomed ", i), "r", lock.MaxWaitSeconds
							ends.Go(func() { _, _ = doomed.Acquire(process, d) })
							time.Sleep(5 * time.Millisecond)
						}
						c.Owner, c.WaitSeconds = "living", lock.MaxWaitSeconds
						next := acquiring(t.Context(), living, c)
						time.Sleep(time.Second)
						killed.dead.Store(true)
						kill()
						ends.Wait()
						free := held.ExpiresAt
						most := 600 * time.Millisecond // of which requests take a part
						looked := time.Duration(0)
						switch {
						case c.Mode == lock.Rate:
						case releases:
							free = time.Now()
							endLease(t, living, held)
						default: // one process looks after the line before the others
							looked = 250 * time.Millisecond
						}
						most += looked
						if !signals && c.Mode != lock.Rate { // and it looks again 50 ms after it has looked too early
							most += (free.Sub(held.AcquiredAt)+looked)/8 + 50*time.Millisecond
						}
						r := <-next
						got := must(t, r.Outcome, r.err)
						if idle := got.AcquiredAt.Sub(free); idle > most {
							t.Errorf("the lock is idle for %v", idle)
						} else {
							t.Logf("idle for %v", idle)
						}
					})
				})
			}
		}
	}
}

// TestALineThatIsWellCostsNoMore: what those who wait in line under the same request_id cost in about ten minutes in which a
// lock is held: as many writes as if places did not have to say until when their requests listen. Where a response is
// held for 20 s, each comes again with one request that is refused and one that moves its place; where none is, or for
// less, a place is moved every three seconds or more.
func TestALineThatIsWellCostsNoMore(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		wait, most       time.Duration
		callers          int
		granted, refused int
	}{
		"held":                  {20 * time.Second, 20 * time.Second, 3, 90, 90},
		"held for five seconds": {20 * time.Second, 5 * time.Second, 1, 118, 118},
		"not held":              {20 * time.Second, 0, 3, 443, 1213},
		"a second at a time":    {time.Second, time.Second, 1, 200, 596},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := newCounted(time.Millisecond)
				l := lock.New(s, nil)
				o, err := l.Acquire(t.Context(), lock.Acquire{ID: deploy, Owner: "holder", RequestID: "r", TTLSeconds: 7200, Fair: true})
				must(t, o, err)
				s.take()
				ctx, end := context.WithTimeout(t.Context(), 595*time.Second)
				defer end()
				var all sync.WaitGroup
				for i := range c.callers {
					all.Go(func() {
						a := lock.Acquire{ID: deploy, Owner: fmt.Sprint("o", i), RequestID: "r", TTLSeconds: 60, Fair: true,
							WaitSeconds: int64(c.wait / time.Second)}
						for ctx.Err() == nil {
							_, err := l.AcquireWithin(context.WithoutCancel(ctx), a, c.most)
							if err != nil {
								t.Error(err)
							}
							time.Sleep(comesAgain(i, c.wait, c.most))
						}
					})
					time.Sleep(10 * time.Millisecond)
				}
				all.Wait()
				_, granted, refused := s.take() // reads are made by chance
				apart := 0
				if c.wait == time.Second { // each second takes a little longer, by chance
					apart = 2
				}
				if max(granted-c.granted, c.granted-granted) > apart || max(refused-c.refused, c.refused-refused) > apart {
					t.Errorf("%d writes, %d refused: want %d, %d", granted, refused, c.granted, c.refused)
				}
			})
		})
	}
}

// comesAgain is when the caller with a number comes again, as the server says: those behind come less often.
func comesAgain(n int, wait, most time.Duration) time.Duration {
	switch {
	case most >= wait:
		return 0
	case most > 0:
		return 50 * time.Millisecond
	default:
		return time.Duration(n+1) * 900 * time.Millisecond
	}
}

// TestARateThatIsWellCostsNoMore: callers of two servers that wait in the line of a rate cost as much as when servers
// handed grants over to each other: a write for each grant and for each place, after one that is refused.
func TestARateThatIsWellCostsNoMore(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newCounted(time.Millisecond)
		servers := []*lock.Locks{lock.New(s, nil), lock.New(s, nil)}
		ctx, end := context.WithTimeout(t.Context(), time.Minute)
		defer end()
		var all sync.WaitGroup
		grants := make([]int, 6)
		for n := range grants {
			all.Go(func() {
				for i := 0; ctx.Err() == nil; i++ {
					o, err := servers[n%2].Acquire(context.WithoutCancel(ctx), lock.Acquire{ID: deploy, Owner: fmt.Sprint("o", n),
						RequestID: strconv.Itoa(i), Mode: lock.Rate, Limit: 1, WindowSeconds: 1, WaitSeconds: 20})
					must(t, o, err)
					grants[n]++
				}
			})
			time.Sleep(10 * time.Millisecond)
		}
		all.Wait()
		reads, granted, refused := s.take()
		if granted != 131 || refused != 130 || reads > 250 { // some 218, by chance
			t.Errorf("%v grants: %d reads, %d writes, %d refused; want 131 and 130", grants, reads, granted, refused)
		}
	})
}
