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
	hold             time.Duration
	grants           int // at the end of which it ends

	mu      sync.Mutex
	of      []int // grants of each server
	waited  []time.Duration
	took    time.Duration
	current int
}

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

// run plays the relay on a store. In the bubble, sleeping takes no time.
func (r *relay) run(t *testing.T, s docstore.Store) {
	t.Helper()
	r.of = make([]int, r.servers)
	ctx, end := context.WithCancel(t.Context())
	begin := time.Now()
	var done sync.WaitGroup
	for n := range r.servers {
		l := lock.New(s, nil)
		for c := range r.callers {
			done.Go(func() { r.caller(ctx, end, t, l, n, fmt.Sprintf("s%d-c%d", n, c)) })
		}
	}
	done.Wait()
	end()
	r.took = time.Since(begin)
	time.Sleep(time.Minute) // what was under way ends
}

func (r *relay) caller(ctx context.Context, end func(), t *testing.T, l *lock.Locks, server int, name string) {
	t.Helper()
	for n := 0; ctx.Err() == nil; n++ {
		begin := time.Now()
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
		r.waited = append(r.waited, time.Since(begin))
		last := len(r.waited) >= r.grants
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
	}
}

// rate is how many hand-overs there were in a second.
func (r *relay) rate() float64 { return float64(len(r.waited)) / r.took.Seconds() }

func TestX(t *testing.T) {
	for _, watched := range []bool{true, false} {
		for _, fair := range []bool{true, false} {
			for _, callers := range []int{1, 2, 8} {
				for _, n := range []int{1, 2, 8} {
					for _, hold := range []time.Duration{10 * time.Millisecond} {
						synctest.Test(t, func(t *testing.T) {
							c := newCounted(0)
							var s docstore.Store = uneven{c}
							if watched {
								s = unevenSignalling{uneven{c}}
							}
							r := relay{servers: n, callers: callers, fair: fair, grants: 2000, hold: hold}
							r.run(t, s)
							gets, granted, refused := c.take()
							t.Logf("watched %v fair %v %d callers of each of %d hold %v: %.1f/s, of %v, %.1f reads %.1f writes %.1f refused each",
								watched, fair, callers, n, hold, r.rate(), r.of, float64(gets)/2000, float64(granted)/2000, float64(refused)/2000)
						})
					}
				}
			}
		}
	}
}
