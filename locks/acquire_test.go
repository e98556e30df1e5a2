package locks_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leasehold-dev/leasehold/contracts"
	"github.com/leasehold-dev/leasehold/internal/term"
	"github.com/leasehold-dev/leasehold/locks"
)

// TestWait: who waits has the lock soon after it is free, and asks seldom until then.
func TestWait(t *testing.T) {
	for name, c := range map[string]struct {
		held     func(w *world, l *locks.Lock) // what its holder does
		o        locks.LockOptions
		from, to time.Duration // the lock is acquired then
		most     int           // requests
	}{
		"released": {func(_ *world, l *locks.Lock) {
			time.Sleep(60 * time.Second)
			_ = l.Unlock(background)
		}, locks.LockOptions{}, 60 * time.Second, 62 * time.Second, 62},
		"asked seldom": {func(_ *world, l *locks.Lock) {
			time.Sleep(60 * time.Second)
			_ = l.Unlock(background)
		}, locks.LockOptions{Poll: 20 * time.Second}, 60 * time.Second, 80 * time.Second, 8},
		"expired": {func(w *world, _ *locks.Lock) { // its holder crashed
			w.fault = func(ctx context.Context, k call) fault {
				if k.name == "renew" {
					return hang(ctx)
				}
				return fault{}
			}
		}, locks.LockOptions{Poll: time.Hour}, 30 * time.Second, 30*time.Second + 100*time.Millisecond, 4},
	} {
		t.Run(name, func(t *testing.T) {
			inWorlds(t, func(w *world) {
				ann, bob := w.client(&locks.Options{Owner: "ann"}), w.client(&locks.Options{Owner: "bob"})
				l := w.take(ann, "deploy", nil)
				go c.held(w, l)
				synctest.Wait()
				second, err := bob.Lock(w.t.Context(), "deploy", &c.o)
				if err != nil {
					w.t.Fatal(err)
				}
				if at := time.Since(w.begin); at < c.from || at > c.to {
					w.t.Errorf("acquired after %v, want %v to %v", at, c.from, c.to)
				}
				if n := len(w.of("acquire")) - 1; n > c.most || n < 2 {
					w.t.Errorf("%d requests, want 2 to %d", n, c.most)
				}
				ids := map[string]bool{}
				for _, k := range w.of("acquire")[1:] {
					ids[k.request] = true
				}
				want(w.t, "request_ids of one intention", len(ids), 1)
				want(w.t, "unlock", second.Unlock(w.t.Context()), nil)
			})
		})
	}
}

// TestWaitIsBounded: by LockOptions.Wait with LOCK_HELD, and by the context with its cause; nothing is held or asked
// afterwards.
func TestWaitIsBounded(t *testing.T) {
	for name, c := range map[string]struct {
		o     locks.LockOptions
		limit time.Duration // of the context
		local bool          // a goroutine of the same client holds the lock
		want  []error
		after time.Duration
	}{
		"Wait": {locks.LockOptions{Wait: new(5 * time.Second)}, time.Hour, false, []error{contracts.CodeLockHeld},
			5 * time.Second},
		"Wait, in a queue": {locks.LockOptions{Wait: new(5 * time.Second)}, time.Hour, true, []error{contracts.CodeLockHeld},
			5 * time.Second},
		"context": {locks.LockOptions{}, 5 * time.Second, false,
			[]error{context.DeadlineExceeded, contracts.CodeLockHeld}, 5 * time.Second},
		"context, in queue": {locks.LockOptions{}, 5 * time.Second, true, []error{context.DeadlineExceeded}, 5 * time.Second},
		"no wait":           {locks.LockOptions{Wait: new(time.Duration)}, time.Hour, false, []error{contracts.CodeLockHeld}, 0},
		"no wait, in queue": {locks.LockOptions{Wait: new(time.Duration)}, time.Hour, true, []error{contracts.CodeLockHeld}, 0},
		"a dead context":    {locks.LockOptions{}, -1, false, []error{context.DeadlineExceeded}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			inWorlds(t, func(w *world) {
				ann, bob := w.client(&locks.Options{Owner: "ann"}), w.client(&locks.Options{Owner: "bob"})
				if c.local {
					bob = ann
				}
				l := w.take(ann, "deploy", nil)
				ctx, cancel := context.WithTimeout(w.t.Context(), c.limit)
				defer cancel()
				err := bob.Do(ctx, "deploy", &c.o, func(context.Context, *locks.Lock) error {
					w.t.Error("the work ran")
					return nil
				})
				wantErr(w.t, "the error", err, c.want...)
				want(w.t, "after", time.Since(w.begin), c.after)
				time.Sleep(time.Second) // one that was cut off is sent again
				want(w.t, "unlock", l.Unlock(w.t.Context()), nil)
				time.Sleep(time.Minute)
				want(w.t, "holder", w.holder("deploy"), "")
				want(w.t, "the last call", w.names()[len(w.names())-1], "release")
			})
		})
	}
}

// TestWaitForTheFirstResponse: whether a lock is held is known when there was a response, however short the wait for it
// is to be.
func TestWaitForTheFirstResponse(t *testing.T) {
	for name, held := range map[string]bool{"held": true, "free": false} {
		t.Run(name, func(t *testing.T) {
			inWorlds(t, func(w *world) {
				if held {
					defer w.take(w.client(&locks.Options{Owner: "ann"}), "deploy", nil).Unlock(w.t.Context())
				}
				w.mu.Lock()
				w.fault = func(_ context.Context, c call) fault {
					if c.name == "acquire" {
						time.Sleep(time.Second)
					}
					return fault{}
				}
				w.mu.Unlock()
				begin := time.Now()
				l, err := w.client(nil).Lock(w.t.Context(), "deploy", &locks.LockOptions{Wait: new(50 * time.Millisecond)})
				want(w.t, "after", time.Since(begin), time.Second)
				if held {
					wantErr(w.t, "the error", err, contracts.CodeLockHeld)
					return
				}
				wantErr(w.t, "the error", err)
				want(w.t, "unlock", l.Unlock(w.t.Context()), nil)
			})
		})
	}
}

// TestQueue: goroutines of one client are served in their order; one at a time asks the provider, and one that leaves
// is skipped.
func TestQueue(t *testing.T) {
	inWorlds(t, func(w *world) {
		c := w.client(nil)
		l := w.take(c, "deploy", nil)
		var mu sync.Mutex
		var order []int
		for i := range 6 {
			ctx, cancel := context.WithCancel(w.t.Context())
			if i == 3 {
				time.AfterFunc(time.Second, cancel)
			}
			go func() {
				defer cancel()
				_ = c.Do(ctx, "deploy", nil, func(context.Context, *locks.Lock) error {
					mu.Lock()
					defer mu.Unlock()
					order = append(order, i)
					return nil
				})
			}()
			synctest.Wait()
		}
		time.Sleep(5 * time.Second)
		want(w.t, "requests while it is held", w.names(), []string{"acquire"})
		want(w.t, "unlock", l.Unlock(w.t.Context()), nil)
		synctest.Wait()
		want(w.t, "order", order, []int{0, 1, 2, 4, 5})
		want(w.t, "acquires", len(w.of("acquire")), 6)
		want(w.t, "at", time.Since(w.begin), 5*time.Second) // no one waited for a poll
		if err := c.Do(w.t.Context(), "deploy", nil, func(context.Context, *locks.Lock) error { return nil }); err != nil {
			w.t.Error(err)
		}
	})
}

// TestTurnOfOneThatLeaves: a turn that comes as its goroutine leaves is the next one's.
func TestTurnOfOneThatLeaves(t *testing.T) {
	for range 30 { // which of the two it sees first is random
		synctest.Test(t, func(t *testing.T) {
			var q locks.Queues
			first, _ := q.Enter(t.Context(), "deploy", true)
			ctx, cancel := context.WithCancel(t.Context())
			go func() {
				if leave, ok := q.Enter(ctx, "deploy", true); ok {
					leave()
				}
			}()
			synctest.Wait()
			cancel()
			first()
			synctest.Wait()
			if leave, ok := q.Enter(t.Context(), "deploy", false); ok {
				leave()
			} else {
				t.Error("the place is taken by no one")
			}
		})
	}
}

// TestQueueAfterALoss: who waits in the same client may ask as soon as the lock is lost, also if its holder never
// unlocks it.
func TestQueueAfterALoss(t *testing.T) {
	inWorlds(t, func(w *world) {
		c := w.client(nil)
		w.fault = func(_ context.Context, k call) fault {
			if k.name == "renew" && k.token == w.of("renew")[0].token {
				return fault{err: errNetwork}
			}
			return fault{}
		}
		first := w.take(c, "deploy", nil)
		second, err := c.Lock(w.t.Context(), "deploy", nil)
		if err != nil {
			w.t.Fatal(err)
		}
		if at := time.Since(w.begin); at < 30*time.Second || at > 31*time.Second {
			w.t.Errorf("acquired after %v", at)
		}
		wantErr(w.t, "unlock of the first", first.Unlock(w.t.Context()), locks.ErrLost)
		want(w.t, "check of the second", locks.Check(second.Context()), nil)
		want(w.t, "unlock of the second", second.Unlock(w.t.Context()), nil)
	})
}

// TestNoResponseUntilTheLeaseHasEnded: responses say at last that what the request obtained has ended, until it is too
// late for another. The error is why there was none, not that of a request_id of which the caller knows nothing.
func TestNoResponseUntilTheLeaseHasEnded(t *testing.T) {
	inWorlds(t, func(w *world) {
		w.fault = func(_ context.Context, k call) fault {
			switch {
			case k.name != "acquire":
				return fault{}
			case time.Since(w.begin) < 5*time.Second:
				return fault{err: errNetwork}
			default:
				return fault{err: contracts.CodeRequestIDReused}
			}
		}
		_, err := w.client(&locks.Options{RetryFor: 10 * time.Second}).TryLock(w.t.Context(), "deploy", nil)
		wantErr(w.t, "the error", err, errNetwork)
		if errors.Is(err, contracts.CodeRequestIDReused) {
			w.t.Errorf("the error is %v", err)
		}
		if after := time.Since(w.begin); after != 10*time.Second {
			w.t.Errorf("after %v", after)
		}
	})
}

// TestRetries: what was answered, what was not and what was rejected are not the same. All tries of an acquire have one
// request_id, unless what it obtained is over.
func TestRetries(t *testing.T) {
	held := contracts.Errorf(contracts.CodeLockHeld, "")
	limit := contracts.Errorf(contracts.CodeRateLimited, "")
	limit.RetryAfter = 3 * time.Second
	many := contracts.Errorf(contracts.CodeLockLimit, "")
	many.RetryAfter = 5 * time.Minute
	always := func(err error) func(int) error { return func(int) error { return err } }
	first := func(n int, err error) func(int) error {
		return func(i int) error {
			if i < n {
				return err
			}
			return nil
		}
	}
	for name, c := range map[string]struct {
		fault    func(n int) error
		want     error // nil: acquired
		requests [2]int
		ids      int           // of the requests
		after    time.Duration // at most
	}{
		"no response, then one": {first(3, errNetwork), nil, [2]int{4, 4}, 1, 2 * time.Second},
		"never a response":      {always(errNetwork), errNetwork, [2]int{5, 40}, 1, 15 * time.Second},
		"the store is away": {always(contracts.CodeUnavailable), contracts.CodeUnavailable, [2]int{5, 40}, 1,
			15 * time.Second},
		"too many requests": {first(2, limit), nil, [2]int{3, 3}, 1, 7 * time.Second},
		"not for minutes":   {always(many), contracts.CodeLockLimit, [2]int{1, 1}, 1, 0},
		"held":              {always(held), contracts.CodeLockHeld, [2]int{1, 1}, 1, 0},
		"not authenticated": {always(contracts.CodeUnauthenticated), contracts.CodeUnauthenticated, [2]int{1, 1}, 1, 0},
		"not permitted": {always(contracts.Errorf(contracts.CodePermissionDenied, "")),
			contracts.CodePermissionDenied, [2]int{1, 1}, 1, 0},
		"invalid":                {always(contracts.CodeInvalidArgument), contracts.CodeInvalidArgument, [2]int{1, 1}, 1, 0},
		"a damaged document":     {always(contracts.CodeDocumentDamaged), contracts.CodeDocumentDamaged, [2]int{1, 1}, 1, 0},
		"the lease has ended":    {first(1, contracts.CodeRequestIDReused), nil, [2]int{2, 2}, 2, time.Second},
		"the response came late": {first(1, contracts.CodeLeaseExpired), nil, [2]int{2, 2}, 2, time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			inWorlds(t, func(w *world) {
				w.fault = func(_ context.Context, k call) fault {
					if k.name == "acquire" {
						return fault{err: c.fault(k.n)}
					}
					return fault{}
				}
				client := w.client(&locks.Options{RetryFor: 10 * time.Second})
				l, err := client.TryLock(w.t.Context(), "deploy", nil)
				after, asked := time.Since(w.begin), w.of("acquire")
				ids := map[string]bool{}
				for _, k := range asked {
					ids[k.request] = true
				}
				switch {
				case c.want != nil:
					wantErr(w.t, "the error", err, c.want)
				case err != nil:
					w.t.Errorf("the error is %v", err)
				default:
					want(w.t, "unlock", l.Unlock(w.t.Context()), nil)
				}
				if n := len(asked); n < c.requests[0] || n > c.requests[1] || len(ids) != c.ids || after > c.after {
					w.t.Errorf("%d requests with %d request_ids in %v, want %v with %d in %v", n, len(ids), after, c.requests,
						c.ids, c.after)
				}
			})
		})
	}
}

// TestOutageWhileWaiting: a provider that is away for a moment does not end a wait, however long it lasts already; one
// that stays away does.
func TestOutageWhileWaiting(t *testing.T) {
	for name, c := range map[string]struct {
		from, to time.Duration
		want     error
	}{
		"for a moment": {60 * time.Second, 66 * time.Second, nil},
		"for long":     {60 * time.Second, 90 * time.Second, errNetwork},
	} {
		t.Run(name, func(t *testing.T) {
			inWorlds(t, func(w *world) {
				ann, bob := w.client(nil), w.client(nil)
				l := w.take(ann, "deploy", nil)
				w.fault = func(_ context.Context, k call) fault {
					if k.name == "acquire" && k.at >= c.from && k.at < c.to {
						return fault{err: errNetwork}
					}
					return fault{}
				}
				time.AfterFunc(100*time.Second, func() { want(w.t, "unlock", l.Unlock(background), nil) })
				second, err := bob.Lock(w.t.Context(), "deploy", nil)
				switch at := time.Since(w.begin); {
				case c.want != nil:
					wantErr(w.t, "the error", err, c.want)
					if at < c.from || at > c.from+14*time.Second {
						w.t.Errorf("it gave up after %v", at)
					}
					time.Sleep(time.Minute)
				case err != nil:
					w.t.Errorf("after %v: %v", at, err)
				default:
					want(w.t, "unlock", second.Unlock(w.t.Context()), nil)
				}
			})
		})
	}
}

// TestAcquireGivenUp: an acquire that ends before its response leaves nothing held, whatever became of its request.
// LS-ACC-04
func TestAcquireGivenUp(t *testing.T) {
	for name, c := range map[string]struct {
		fate func(ctx context.Context, w *world, do func()) // of the request
	}{
		"carried out, response lost": {func(ctx context.Context, _ *world, do func()) {
			do()
			<-ctx.Done()
		}},
		"not carried out": {func(ctx context.Context, _ *world, _ func()) { <-ctx.Done() }},
		"carried out late": {func(ctx context.Context, _ *world, do func()) {
			time.AfterFunc(10*time.Second, do)
			<-ctx.Done()
		}},
		"its provider does not return": {func(_ context.Context, _ *world, do func()) {
			time.Sleep(10 * time.Second)
			do()
		}},
	} {
		t.Run(name, func(t *testing.T) {
			inWorlds(t, func(w *world) {
				inner := w.Provider
				w.Provider = fateful{inner, func(ctx context.Context, do func()) {
					if len(w.of("acquire")) == 1 && len(w.of("give up")) == 0 {
						c.fate(ctx, w, do)
						return
					}
					do()
				}}
				client := w.client(nil)
				ctx, cancel := context.WithTimeout(w.t.Context(), 1500*time.Millisecond)
				defer cancel()
				_, err := client.Lock(ctx, "deploy", nil)
				wantErr(w.t, "the error", err, context.DeadlineExceeded)
				want(w.t, "after", time.Since(w.begin), 1500*time.Millisecond)
				want(w.t, "close", client.Close(w.t.Context()), nil)
				time.Sleep(10 * time.Second)
				want(w.t, "holder", w.holder("deploy"), "")
				want(w.t, "calls", w.names(), []string{"acquire", "give up"})
				want(w.t, "events", w.whats(), []string{"Abandoned"})
				if a, g := w.of("acquire"), w.of("give up"); a[0].request != g[0].request {
					w.t.Errorf("%+v is given up by %+v", a, g)
				}
				if err := w.client(nil).Do(w.t.Context(), "deploy", &locks.LockOptions{Wait: new(time.Duration)},
					func(context.Context, *locks.Lock) error {
						return nil
					}); err != nil {
					w.t.Errorf("the next: %v", err)
				}
			})
		})
	}
}

// fateful is a provider whose acquires meet a fate.
type fateful struct {
	locks.Provider
	fate func(ctx context.Context, do func())
}

func (f fateful) Acquire(ctx context.Context, key string, r contracts.AcquireRequest) (contracts.Lease, error) {
	var mu sync.Mutex // it may be carried out after the return
	var l contracts.Lease
	var err error
	f.fate(ctx, func() {
		mu.Lock()
		defer mu.Unlock()
		l, err = f.Provider.Acquire(context.WithoutCancel(ctx), key, r)
	})
	if ctx.Err() != nil {
		return contracts.Lease{}, context.Cause(ctx)
	}
	mu.Lock()
	defer mu.Unlock()
	return l, err
}

// TestGrantedTooLate: a response that takes as long as the lease grants nothing; what it granted is released, and asked
// for again.
func TestGrantedTooLate(t *testing.T) {
	inWorlds(t, func(w *world) {
		inner := w.Provider
		w.Provider = fateful{inner, func(_ context.Context, do func()) {
			do()
			if len(w.of("acquire")) == 1 {
				time.Sleep(1900 * time.Millisecond)
			}
		}}
		l := w.take(w.client(nil), "deploy", &locks.LockOptions{TTL: 2 * time.Second})
		want(w.t, "check", locks.Check(l.Context()), nil)
		a := w.of("acquire")
		if len(a) != 2 || a[0].request == a[1].request {
			w.t.Errorf("acquires: %+v", a)
		}
		want(w.t, "unlock", l.Unlock(w.t.Context()), nil)
		want(w.t, "releases", len(w.of("release")), 2)
	})
}

// TestGrantedWhileTheCallerLeaves: a response that arrives as the context ends is released, without another acquire.
func TestGrantedWhileTheCallerLeaves(t *testing.T) {
	inWorlds(t, func(w *world) {
		ctx, cancel := context.WithCancel(w.t.Context())
		defer cancel()
		var granted atomic.Bool
		w.Provider = granting{w.Provider, &granted}
		client := w.client(locks.Options{}.WithClock(func() term.Moment { // which is read when the response has arrived
			if granted.Load() {
				cancel()
			}
			return term.Now()
		}))
		_, err := client.TryLock(ctx, "deploy", nil)
		wantErr(w.t, "the error", err, context.Canceled)
		want(w.t, "close", client.Close(w.t.Context()), nil)
		want(w.t, "holder", w.holder("deploy"), "")
		want(w.t, "calls", w.names(), []string{"acquire", "release"})
		want(w.t, "events", w.whats(), []string{"Abandoned"})
	})
}

// granting is a provider that notes that it has granted a lock.
type granting struct {
	locks.Provider
	granted *atomic.Bool
}

func (g granting) Acquire(ctx context.Context, key string, r contracts.AcquireRequest) (contracts.Lease, error) {
	got, err := g.Provider.Acquire(ctx, key, r)
	g.granted.Store(true)
	return got, err
}

// TestLostResponseOfAnAcquire: the lease is the one that the first try obtained, and lasts as long as that one.
func TestLostResponseOfAnAcquire(t *testing.T) {
	inWorlds(t, func(w *world) {
		w.fault = func(_ context.Context, k call) fault {
			switch {
			case k.name == "acquire" && k.n == 0:
				return fault{errNetwork, true}
			case k.name == "acquire" && k.n < 8:
				return fault{err: errNetwork}
			case k.name == "renew":
				return fault{err: errNetwork}
			}
			return fault{}
		}
		l := w.take(w.client(&locks.Options{RetryFor: time.Minute}), "deploy", nil)
		ids := map[string]bool{}
		for _, k := range w.of("acquire") {
			ids[k.request] = true
		}
		want(w.t, "request_ids", len(ids), 1)
		if at := time.Since(w.begin); at < 2*time.Second {
			w.t.Fatalf("acquired after %v: too soon for this test", at)
		}
		if at := lostAfter(l, w.begin); at > 27*time.Second || at < 26*time.Second {
			w.t.Errorf("lost %v after the first request", at)
		}
		wantErr(w.t, "unlock", l.Unlock(w.t.Context()), locks.ErrLost)
	})
}

// TestNotTheLease: what is not the lease that was asked for is no grant and no renewal.
func TestNotTheLease(t *testing.T) {
	for name, change := range map[string]func(*contracts.Lease){
		"another key":   func(l *contracts.Lease) { l.LockKey = "deploz" },
		"another owner": func(l *contracts.Lease) { l.OwnerID = "bob" },
		"released":      func(l *contracts.Lease) { l.State = contracts.StateReleased },
		"no token":      func(l *contracts.Lease) { l.FencingToken = 0 },
		"no lease":      func(l *contracts.Lease) { *l = contracts.Lease{} },
		"no time":       func(l *contracts.Lease) { l.RemainingMs = 0 },
	} {
		t.Run(name, func(t *testing.T) {
			inWorlds(t, func(w *world) {
				w.Provider = changed{w.Provider, change}
				client := w.client(&locks.Options{Owner: "ann"})
				_, err := client.TryLock(w.t.Context(), "deploy", nil)
				if err == nil || !strings.Contains(err.Error(), "invalid response") {
					w.t.Errorf("the error is %v", err)
				}
				want(w.t, "close", client.Close(w.t.Context()), nil) // it waits until what was obtained has ended
				want(w.t, "holder", w.holder("deploy"), "")
			})
		})
	}
}

// changed is a provider whose leases are changed.
type changed struct {
	locks.Provider
	change func(*contracts.Lease)
}

func (c changed) Acquire(ctx context.Context, key string, r contracts.AcquireRequest) (contracts.Lease, error) {
	l, err := c.Provider.Acquire(ctx, key, r)
	c.change(&l)
	return l, err
}

// TestOneGrant: of many clients that ask at once one has the lock at a time, and all have it in the end. LS-ACC-01
func TestOneGrant(t *testing.T) {
	inWorlds(t, func(w *world) {
		var inside, most, token atomic.Int64
		var all sync.WaitGroup
		for i := range 20 {
			c := w.client(&locks.Options{Owner: fmt.Sprint("worker-", i%5)}) // names may come twice
			all.Go(func() {
				if err := c.Do(w.t.Context(), "deploy", nil, func(_ context.Context, l *locks.Lock) error {
					if inside.Add(1) > 1 || l.Token() <= token.Swap(l.Token()) {
						return errors.New("two at once")
					}
					most.Store(max(most.Load(), inside.Load()))
					time.Sleep(time.Second)
					inside.Add(-1)
					return nil
				}); err != nil {
					w.t.Error(err)
				}
			})
		}
		all.Wait()
		want(w.t, "releases", len(w.of("release")), 20)
	})
}

// TestOptions: what cannot work is an error that names the field.
func TestOptions(t *testing.T) {
	inWorlds(t, func(w *world) {
		for name, o := range map[string]locks.Options{
			"Options.TTL is 1.5s":      {TTL: 1500 * time.Millisecond},
			"Options.TTL is 25h0m0s":   {TTL: 25 * time.Hour},
			"Options.RetryFor is -1s":  {RetryFor: -time.Second},
			`Options.Owner "a\nb"`:     {Owner: "a\nb"},
			"Options.Owner has 257 by": {Owner: strings.Repeat("a", 257)},
		} {
			if _, err := locks.New(w, &o); err == nil || !strings.Contains(err.Error(), name) {
				w.t.Errorf("%s: %v", name, err)
			}
		}
		if _, err := locks.New(nil, nil); err == nil {
			w.t.Error("no provider")
		}
		c := w.client(nil)
		for name, o := range map[string]locks.LockOptions{
			"LockOptions.TTL is 1ms":            {TTL: time.Millisecond},
			"LockOptions.Wait is -1s":           {Wait: new(-time.Second)},
			"LockOptions.MaxHold is -1s":        {MaxHold: -time.Second},
			"LockOptions.Poll is 1ms":           {Poll: time.Millisecond},
			"LockOptions.Margin is 15s: must b": {Margin: 15 * time.Second},
		} {
			if _, err := c.TryLock(w.t.Context(), "deploy", &o); err == nil || !strings.Contains(err.Error(), name) {
				w.t.Errorf("%s: %v", name, err)
			}
		}
		_, err := c.TryLock(w.t.Context(), "", nil)
		if err == nil || !strings.Contains(err.Error(), "the key has 0 bytes") {
			w.t.Error(err)
		}
		if err := c.Do(w.t.Context(), "deploy", nil, nil); err == nil {
			w.t.Error("no work")
		}
		want(w.t, "requests", len(w.names()), 0)
		if c.Owner() == w.client(nil).Owner() || len(c.Owner()) > 64 {
			w.t.Errorf("the owner is %q", c.Owner())
		}
	})
}
