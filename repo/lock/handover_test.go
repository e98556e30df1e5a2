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

	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/lock"
)

// relay is what servers make of one lock: callers of each ask for it, hold it, release it, and ask again.
type relay struct {
	servers, callers int // callers of each server
	fair             bool
	grants           int // at the end of which it ends
}

// relayed is what came of it.
type relayed struct {
	relay

	hold time.Duration

	mu      sync.Mutex
	of      []int          // grants of each server
	by      map[string]int // of each caller
	longest time.Duration  // that one waited
	turns   []turn
	granted int
	took    time.Duration
	current int
}

// turn is how many grants in a row a server had.
type turn struct{ server, grants int }

// uneven is a store of which no two requests take equally long: from half to one and a half times as long as one of the
// counted store, and nothing of it is in step by chance.
type uneven struct{ *counted }

func (s uneven) Get(ctx context.Context, keys ...docstore.Key) (docstore.Snapshot, error) {
	s.pause()
	defer s.pause()
	return s.counted.Get(ctx, keys...)
}

func (s uneven) Write(ctx context.Context, writes ...docstore.Write) (docstore.Result, error) {
	s.pause()
	defer s.pause()
	return s.counted.Write(ctx, writes...)
}

func (s uneven) pause() { time.Sleep(300*time.Microsecond + rand.N(400*time.Microsecond)) }

// unevenSignalling is one that is a [docstore.Watcher].
type unevenSignalling struct{ uneven }

func (s unevenSignalling) Watch(ctx context.Context, k docstore.Key) (docstore.Watch, error) {
	return signalling{s.counted}.Watch(ctx, k)
}

// far is a store to which a request takes longer, and so does its response or a signal.
type far struct {
	docstore.Store
	way time.Duration
}

func (s far) Get(ctx context.Context, keys ...docstore.Key) (docstore.Snapshot, error) {
	time.Sleep(s.way)
	defer time.Sleep(s.way)
	return s.Store.Get(ctx, keys...)
}

func (s far) Write(ctx context.Context, writes ...docstore.Write) (docstore.Result, error) {
	time.Sleep(s.way)
	defer time.Sleep(s.way)
	return s.Store.Write(ctx, writes...)
}

// farSignalling is one that is a [docstore.Watcher].
type farSignalling struct{ far }

func (s farSignalling) Watch(ctx context.Context, k docstore.Key) (docstore.Watch, error) {
	w, err := s.Store.(docstore.Watcher).Watch(ctx, k) //nolint:forcetypeassert // it is one
	near, changed := w.Changed, make(chan struct{}, 1)
	go func() {
		for {
			select {
			case <-near:
				time.AfterFunc(s.way, func() {
					select {
					case changed <- struct{}{}:
					default: // it has an entry
					}
				})
			case <-ctx.Done():
				return
			}
		}
	}()
	w.Changed = changed
	return w, err
}

// run plays the relay on a store, which all servers have unless there are more. In the bubble, sleeping takes no time.
func (c relay) run(t *testing.T, stores ...docstore.Store) *relayed {
	t.Helper()
	return c.holding(t, 10*time.Millisecond, stores...)
}

// holding is run with callers that hold the lock for so long.
func (c relay) holding(t *testing.T, hold time.Duration, stores ...docstore.Store) *relayed {
	t.Helper()
	r := &relayed{relay: c, hold: hold, of: make([]int, c.servers), by: map[string]int{}}
	ctx, end := context.WithCancel(t.Context())
	begin := time.Now()
	var done sync.WaitGroup
	for n := range r.servers {
		l := lock.New(stores[n%len(stores)], nil)
		for c := range r.callers {
			done.Go(func() { r.caller(ctx, end, t, l, n, fmt.Sprintf("s%d-c%d", n, c)) })
		}
	}
	done.Wait()
	end()
	r.took = time.Since(begin)
	time.Sleep(time.Minute) // what was under way ends
	return r
}

func (r *relayed) caller(ctx context.Context, end func(), t *testing.T, l *lock.Locks, server int, name string) {
	t.Helper()
	asked := time.Now()
	for n := 0; ctx.Err() == nil; n++ {
		o, err := l.Acquire(ctx, lock.Acquire{ID: deploy, Owner: name, RequestID: fmt.Sprint(name, n), TTLSeconds: 60,
			WaitSeconds: 20, Fair: r.fair})
		if ctx.Err() != nil {
			return
		}
		if errors.Is(err, docstore.ErrUnavailable) {
			continue // others changed the document all the time
		}
		if err != nil {
			t.Errorf("%s: %v", name, err)
			return
		}
		if o.Code != lock.OK {
			continue // it asks again
		}
		r.mu.Lock()
		r.current++
		if r.current != 1 {
			t.Errorf("%d hold the lock", r.current)
		}
		r.of[server]++
		r.by[name]++
		r.longest = max(r.longest, time.Since(asked))
		if n := len(r.turns); n == 0 || r.turns[n-1].server != server {
			r.turns = append(r.turns, turn{server: server})
		}
		r.turns[len(r.turns)-1].grants++
		r.granted++
		last := r.granted >= r.grants
		r.mu.Unlock()
		time.Sleep(r.hold)
		r.mu.Lock()
		r.current--
		r.mu.Unlock()
		if last {
			end()
			return
		}
		e, err := l.Release(ctx, lock.Release{ID: deploy, Owner: name, Token: o.Lease.Token, RequestID: fmt.Sprint("e", n)})
		if ctx.Err() == nil && (err != nil || e.Code != lock.OK) {
			t.Errorf("release of %s: %+v, error %v", name, e, err)
		}
		asked = time.Now()
	}
}

// rate is how many hand-overs there were in a second.
func (r *relayed) rate() float64 { return float64(r.granted) / r.took.Seconds() }

// TestHandOversBetweenServers: a lock changes hands as fast between servers as in one, or nearly, where the store
// signals changes, and some ten times a second where it does not; and each server has its share, in line or not. All
// times are virtual. Requests take about a millisecond, and a lease 10 ms.
func TestHandOversBetweenServers(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		relay

		watched        bool
		least          float64 // hand-overs in a second
		reads, refused float64 // at most, for each hand-over: of all servers together
		apart          float64 // by how much a server's share may differ, as a part of it
	}{
		// One server: 66 hand-overs in a second with a line, 80 without one.
		"two in line":              {relay{2, 8, true, 600}, true, 60, 4.5, 5, 0.05},
		"eight in line":            {relay{8, 8, true, 1280}, true, 50, 6, 5, 0.15},
		"two, one caller, in line": {relay{2, 1, true, 600}, true, 60, 4.5, 5, 0.05},
		"two":                      {relay{2, 4, false, 2500}, true, 65, 4.5, 2, 0.2},
		"eight":                    {relay{8, 2, false, 12000}, true, 65, 15, 4, 0.2},
		"two, one caller":          {relay{2, 1, false, 3000}, true, 65, 4.5, 2, 0.2},
		// As slow as with one caller each, if the order in line is such that each hand-over is one between servers.
		"no signals, two in line":    {relay{2, 8, true, 600}, false, 8, 2, 5, 0.05},
		"no signals, eight in line":  {relay{8, 8, true, 640}, false, 10, 1.5, 5, 0.15},
		"no signals, one caller":     {relay{2, 1, true, 600}, false, 8, 2, 5, 0.05},
		"no signals, eight with one": {relay{8, 1, true, 600}, false, 6, 2.5, 5, 0.1},
		"no signals, two, no line":   {relay{2, 2, false, 4000}, false, 10, 1, 1, 0.2},
		"no signals, eight, no line": {relay{8, 2, false, 8000}, false, 30, 1.5, 1, 0.3},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				counts := newCounted(0)
				s := docstore.Store(uneven{counts})
				if c.watched {
					s = unevenSignalling{uneven{counts}}
				}
				run := c.run(t, s)
				gets, _, refused := counts.take()
				each := func(n int) float64 { return float64(n) / float64(c.grants) }
				if looks := float64(gets) / run.took.Seconds(); !c.watched && looks > 33 { // what looking costs: limits.md
					t.Errorf("%.1f reads a second", looks)
				}
				t.Logf("%.1f in a second, by server %v; %.1f reads and %.1f refused writes for each", run.rate(), run.of,
					each(gets), each(refused))
				if run.rate() < c.least || each(gets) > c.reads || each(refused) > c.refused {
					t.Errorf("want %.0f in a second, %.1f reads, %.1f refused", c.least, c.reads, c.refused)
				}
				for _, n := range run.of {
					if share := each(n) * float64(c.servers); share < 1-c.apart || share > 1+c.apart {
						t.Errorf("%d of %d, by server %v", n, c.grants, run.of)
					}
				}
			})
		})
	}
}

// TestWhoWaitedLeavesTheLock: where nothing is signalled, the first server keeps a lock without a line until it looks
// for others; each of those that had to wait for it knows of others, and leaves it to them from its first turn on.
func TestWhoWaitedLeavesTheLock(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		run := relay{8, 2, false, 1200}.run(t, uneven{newCounted(0)})
		for _, turn := range run.turns[1:] {
			if turn.grants > 40 { // each of them is the last by one half
				t.Errorf("server %d had %d grants in a row", turn.server, turn.grants)
			}
		}
		for n, grants := range run.of {
			if grants < 50 {
				t.Errorf("server %d had %d of %d grants", n, grants, run.grants)
			}
		}
	})
}

// nearAndFar is a store as a server near it has it, and one that is far. watched says whether it signals changes.
func nearAndFar(watched bool, way time.Duration) (near, there docstore.Store) {
	s := uneven{newCounted(0)}
	if watched {
		near := unevenSignalling{s}
		return near, farSignalling{far{near, way}}
	}
	return s, far{s, way}
}

// TestAServerFarFromTheStore: a server that is farther from the store than another one, or slower, obtains a lock
// without a line, too. It would obtain nothing if the other one left the lock to it for only as long as itself needs to
// come.
func TestAServerFarFromTheStore(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		watched bool
		way     time.Duration
	}{"10 ms, signals": {true, 10 * time.Millisecond}, "25 ms, signals": {true, 25 * time.Millisecond},
		"50 ms, no signals": {false, 50 * time.Millisecond}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				near, there := nearAndFar(c.watched, c.way)
				run := relay{2, 4, false, 4000}.run(t, near, there)
				t.Logf("%.1f in a second, by server %v", run.rate(), run.of)
				if run.of[1] < run.grants/6 {
					t.Errorf("the one that is far had %d of %d grants", run.of[1], run.grants)
				}
			})
		})
	}
}

// TestFarInLine: in line a server that is far from the store has its share, also of a lock that changes hands in less
// time than it takes there to read the document and to write it.
func TestFarInLine(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		watched   bool
		way, hold time.Duration
	}{
		"10 ms, held for 100 ms":           {true, 10 * time.Millisecond, 100 * time.Millisecond},
		"10 ms, held for 10 ms":            {true, 10 * time.Millisecond, 10 * time.Millisecond},
		"10 ms, held for 1 ms":             {true, 10 * time.Millisecond, time.Millisecond},
		"50 ms, held for 400 ms":           {true, 50 * time.Millisecond, 400 * time.Millisecond},
		"50 ms, held for 5 ms":             {true, 50 * time.Millisecond, 5 * time.Millisecond},
		"10 ms, held for 5 ms, no signals": {false, 10 * time.Millisecond, 5 * time.Millisecond},
		"50 ms, held for 5 ms, no signals": {false, 50 * time.Millisecond, 5 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				near, there := nearAndFar(c.watched, c.way)
				run := relay{2, 4, true, 500}.holding(t, c.hold, near, there)
				t.Logf("%.1f in a second, by server %v", run.rate(), run.of)
				if run.of[1] < run.grants*3/8 {
					t.Errorf("the one that is far had %d of %d grants", run.of[1], run.grants)
				}
			})
		})
	}
}

// TestFairWhereALineBegins: callers that hold a lock for no time, and ask for it again at once, have equal shares of it
// in line, however fast it changes hands: whoever waits first has a place whatever the holder does meanwhile.
func TestFairWhereALineBegins(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		relay

		hold  time.Duration
		apart float64 // by how much a caller's share may differ, as a part of it
	}{
		"two of one server":            {relay{1, 2, true, 1000}, 0, 0.1},
		"ten of one server":            {relay{1, 10, true, 1000}, 0, 0.2},
		"two of one, held for a while": {relay{1, 2, true, 1000}, 100 * time.Microsecond, 0.1},
		"two servers":                  {relay{2, 1, true, 1000}, 0, 0.1},
		"ten of two servers":           {relay{2, 5, true, 1000}, 0, 0.2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				run := c.holding(t, c.hold, unevenSignalling{uneven{newCounted(0)}})
				t.Logf("%.1f in a second, by caller %v, longest wait %v", run.rate(), run.by, run.longest)
				share := float64(run.granted) / float64(c.servers*c.callers)
				for caller, n := range run.by {
					if d := float64(n)/share - 1; d < -c.apart || d > c.apart {
						t.Errorf("%s had %d of %d grants, where its share is %.0f", caller, n, run.granted, share)
					}
				}
				if len(run.by) < c.servers*c.callers {
					t.Errorf("only %d callers had the lock", len(run.by))
				}
			})
		})
	}
}

// TestOneServerKeepsItsLock: without others a server hands a lock without a line over to its own requests at once, but
// for a small part of the time, less as it goes on.
func TestOneServerKeepsItsLock(t *testing.T) {
	t.Parallel()
	for _, watched := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			counts := newCounted(time.Millisecond)
			s := docstore.Store(counts)
			if watched {
				s = signalling{counts}
			}
			run := relay{1, 4, false, 2000}.run(t, s)
			if best := 1e3 / 12.0; run.rate() < best*0.94 {
				t.Errorf("signals %v: %.1f in a second, where %.1f are possible", watched, run.rate(), best)
			}
		})
	}
}

// TestFarFromItsTurn: a request with many before it in line does not read with each signal.
func TestFarFromItsTurn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		far := newCounted(0)
		near, there := lock.New(far.Store, nil), lock.New(signalling{far}, nil)
		lease := held(t, near, 3600)
		var all []<-chan result
		for n := range 20 {
			all = append(all, acquiring(t.Context(), near, fairly(fmt.Sprint("w", n), 20)))
			synctest.Wait()
		}
		last := acquiring(t.Context(), there, fairly("last", 20))
		time.Sleep(time.Second)
		far.take()
		for _, c := range all {
			endLease(t, near, lease)
			r := <-c
			if r.err != nil || r.Code != lock.OK {
				t.Fatalf("%+v", r)
			}
			lease = r.Lease
			time.Sleep(10 * time.Millisecond)
		}
		if gets, _, _ := far.take(); gets < 2 || gets > 16 {
			t.Errorf("%d reads for 20 hand-overs before its turn", gets)
		}
		endLease(t, near, lease)
		if r := <-last; r.err != nil || r.Code != lock.OK {
			t.Errorf("%+v", r)
		}
	})
}

// TestNoneIsRefusedWhatIsFree: a server that leaves the lock to others, of which there are none, refuses no caller of
// its own whose wait ends meanwhile.
func TestNoneIsRefusedWhatIsFree(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := lock.New(newCounted(0), nil)
		first := held(t, l, 60)
		bob := acquiring(t.Context(), l, waitFor("bob", 20))
		synctest.Wait()
		endLease(t, l, first)
		second := <-bob // who waited: after some time of his the lock is left to others
		if second.err != nil || second.Code != lock.OK {
			t.Fatalf("%+v", second)
		}
		const wait, before = 5, 100 * time.Millisecond
		carl := acquiring(t.Context(), l, waitFor("carl", wait))
		time.Sleep(wait*time.Second - before)
		endLease(t, l, second.Lease)
		if r := <-carl; r.err != nil || r.Code != lock.OK || r.took != wait*time.Second {
			t.Errorf("the lock was free for the last %v of the wait: %+v", before, r)
		}
	})
}
