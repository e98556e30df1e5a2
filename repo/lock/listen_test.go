package lock_test

import (
	"context"
	"fmt"
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
			c.RequestID = fmt.Sprint(n)
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
