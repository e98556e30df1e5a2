package locks_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leasehold-dev/leasehold/contracts"
	"github.com/leasehold-dev/leasehold/locks"
)

// crowd counts who is inside at a time.
type crowd struct {
	mu     sync.Mutex
	inside map[string]int // by kind
	most   map[string]int
	beside bool // a writer beside another
	order  []string
	taken  map[int]bool // permits
	twice  bool         // a permit that was held already
}

func (c *crowd) enter(kind, name string, permit int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.inside == nil {
		c.inside, c.most, c.taken = map[string]int{}, map[string]int{}, map[int]bool{}
	}
	c.inside[kind]++
	c.most[kind] = max(c.most[kind], c.inside[kind])
	c.beside = c.beside || c.inside["write"] > 0 && c.inside["write"]+c.inside["read"] > 1
	c.order = append(c.order, name)
	c.twice = c.twice || permit > 0 && c.taken[permit]
	c.taken[permit] = true
}

func (c *crowd) leave(kind string, permit int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.inside[kind]--
	delete(c.taken, permit)
}

// work runs for a time under a lock, inside the crowd.
func (c *crowd) work(kind, name string, d time.Duration) func(context.Context, *locks.Lock) error {
	return func(ctx context.Context, l *locks.Lock) error {
		c.enter(kind, name, l.Permit())
		defer c.leave(kind, l.Permit())
		select {
		case <-time.After(d):
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// TestReadersAndAWriter: readers share the lock, a writer has it alone, and a reader that comes after a writer waits
// behind it.
func TestReadersAndAWriter(t *testing.T) {
	inWorlds(t, func(w *world) {
		var c crowd
		var all sync.WaitGroup
		for i, kind := range []string{"read", "read", "write", "read", "write", "read"} {
			client := w.client(&locks.Options{Owner: fmt.Sprint("host-", i)})
			all.Go(func() {
				o := &locks.LockOptions{Shared: kind == "read", Fair: true}
				if err := client.Do(background, "config", o, c.work(kind, strconv.Itoa(i), 24*time.Second)); err != nil {
					w.t.Error(err)
				}
			})
			time.Sleep(5 * time.Second)
		}
		all.Wait()
		want(w.t, "readers at a time", c.most["read"], 2)
		want(w.t, "writers at a time", c.most["write"], 1)
		want(w.t, "a writer beside another", c.beside, false)
		want(w.t, "order", c.order, []string{"0", "1", "2", "3", "4", "5"})
	})
}

// TestPermits: as many hold the lock as it has permits, each another one, and all have it in the end, also goroutines
// of one client.
func TestPermits(t *testing.T) {
	for _, clients := range []int{1, 4, 12} {
		inWorlds(t, func(w *world) {
			var c crowd
			var all sync.WaitGroup
			var own []*locks.Client
			for i := range clients {
				own = append(own, w.client(&locks.Options{Owner: fmt.Sprint("host-", i)}))
			}
			for i := range 12 {
				all.Go(func() {
					o := &locks.LockOptions{Permits: 3}
					if err := own[i%clients].Do(background, "pool", o, c.work("work", "", 20*time.Second)); err != nil {
						w.t.Error(err)
					}
				})
			}
			all.Wait()
			want(w.t, "at a time", c.most["work"], 3)
			want(w.t, "a permit twice", c.twice, false)
			if took := time.Since(w.begin); took < 80*time.Second || took > 90*time.Second {
				w.t.Errorf("%d clients: it took %v, want four times 20 s", clients, took)
			}
			want(w.t, "releases", len(w.of("release")), 12)
		})
	}
}

// TestFirstComeFirstServed: those who wait in line have the lock in their order. One that gives up is skipped at once,
// one whose process died after some seconds.
func TestFirstComeFirstServed(t *testing.T) {
	inWorlds(t, func(w *world) {
		var c crowd
		var all sync.WaitGroup
		first := w.take(w.client(nil), "deploy", &locks.LockOptions{Fair: true})
		dead := map[string]bool{} // request_ids that are not heard of any more
		for i := range 6 {
			client := w.client(&locks.Options{Owner: fmt.Sprint("host-", i)})
			ctx, cancel := context.WithCancel(background)
			all.Go(func() {
				defer cancel()
				err := client.Do(ctx, "deploy", &locks.LockOptions{Fair: true}, c.work("work", strconv.Itoa(i), time.Second))
				if err != nil && i != 2 && i != 4 {
					w.t.Error(err)
				}
			})
			time.Sleep(time.Second)
			if i == 2 {
				time.AfterFunc(2*time.Second, cancel)
			}
			if i == 4 { // its process dies: nothing of it arrives any more
				a := w.of("acquire")
				w.mu.Lock()
				dead[a[len(a)-1].request] = true
				w.fault = func(ctx context.Context, k call) fault {
					if dead[k.request] {
						return hang(ctx)
					}
					return fault{}
				}
				w.mu.Unlock()
				cancel()
			}
		}
		time.Sleep(5 * time.Second)
		l, err := w.Get(background, "deploy")
		if err != nil {
			w.t.Fatal(err)
		}
		var waiting []string
		for _, q := range l.Waiting {
			waiting = append(waiting, q.OwnerID)
		}
		if slices.Contains(waiting, "host-2") || !slices.Contains(waiting, "host-0") {
			w.t.Errorf("in line: %v", waiting)
		}
		want(w.t, "unlock", first.Unlock(background), nil)
		all.Wait()
		want(w.t, "order", c.order, []string{"0", "1", "3", "5"})
		if took := time.Since(w.begin); took > 45*time.Second {
			w.t.Errorf("it took %v", took)
		}
	})
}

// TestOneRunsOneWaits: with MaxWaiting of 1 a third is told so at once, also in the same client.
func TestOneRunsOneWaits(t *testing.T) {
	for name, same := range map[string]bool{"three clients": false, "one client": true} {
		t.Run(name, func(t *testing.T) {
			inWorlds(t, func(w *world) {
				var c crowd
				var all sync.WaitGroup
				var mu sync.Mutex
				results := make([]error, 3)
				one := w.client(nil)
				for i := range 3 {
					client := one
					if !same {
						client = w.client(nil)
					}
					all.Go(func() {
						err := client.Do(background, "deploy", &locks.LockOptions{Fair: true, MaxWaiting: 1},
							c.work("work", strconv.Itoa(i), 30*time.Second))
						mu.Lock()
						defer mu.Unlock()
						results[i] = err
					})
					time.Sleep(time.Second)
				}
				synctest.Wait()
				mu.Lock()
				wantErr(w.t, "the third, at once", results[2], contracts.CodeLockQueueFull)
				mu.Unlock()
				all.Wait()
				want(w.t, "the others", errors.Join(results[:2]...), nil)
				want(w.t, "at a time", c.most["work"], 1)
				want(w.t, "order", c.order, []string{"0", "1"})
			})
		})
	}
}

// TestReplace: the latest has the lock, the one before learns of it when it renews, and a third that did not ask for it
// waits.
func TestReplace(t *testing.T) {
	for name, same := range map[string]bool{"two clients": false, "one client": true} {
		t.Run(name, func(t *testing.T) {
			inWorlds(t, func(w *world) {
				ann := w.client(&locks.Options{Owner: "ann"})
				bob := w.client(&locks.Options{Owner: "bob"})
				if same {
					bob = ann
				}
				first := w.take(ann, "preview", &locks.LockOptions{Replace: true})
				time.Sleep(5 * time.Second)
				if _, err := w.client(nil).TryLock(background, "preview", nil); !errors.Is(err, contracts.CodeLockHeld) {
					w.t.Errorf("one without Replace: %v", err)
				}
				second := w.take(bob, "preview", &locks.LockOptions{Replace: true})
				if second.Token() <= first.Token() {
					w.t.Errorf("token %d after %d", second.Token(), first.Token())
				}
				want(w.t, "it does not know it yet", locks.Check(first.Context()), nil)
				<-first.Context().Done()
				wantErr(w.t, "the first", context.Cause(first.Context()), locks.ErrLost, contracts.CodeLeaseLost)
				want(w.t, "it learned of it at", time.Since(w.begin), 10*time.Second)
				want(w.t, "the second", locks.Check(second.Context()), nil)
				wantErr(w.t, "unlock of the first", first.Unlock(background), locks.ErrLost)
				want(w.t, "the second", locks.Check(second.Context()), nil)
				want(w.t, "unlock of the second", second.Unlock(background), nil)
				want(w.t, "holder", w.holder("preview"), "")
			})
		})
	}
}

// TestReplaceGivenUp: an acquire with Replace that was given up before it was carried out leaves the holder alone.
func TestReplaceGivenUp(t *testing.T) {
	inWorlds(t, func(w *world) {
		ann, bob := w.client(&locks.Options{Owner: "ann"}), w.client(&locks.Options{Owner: "bob"})
		held := w.take(ann, "preview", &locks.LockOptions{Replace: true})
		w.mu.Lock()
		w.fault = func(ctx context.Context, k call) fault {
			if k.name == "acquire" && k.n == 1 {
				return hang(ctx)
			}
			return fault{}
		}
		w.mu.Unlock()
		ctx, cancel := context.WithTimeout(background, time.Second)
		defer cancel()
		_, err := bob.Lock(ctx, "preview", &locks.LockOptions{Replace: true})
		wantErr(w.t, "the error", err, context.DeadlineExceeded)
		time.Sleep(time.Minute)
		want(w.t, "the holder", locks.Check(held.Context()), nil)
		want(w.t, "unlock", held.Unlock(background), nil)
	})
}

// TestLockDelay: after a lease that expired the lock stays closed for its delay; who waits has it then. A release opens
// it at once.
func TestLockDelay(t *testing.T) {
	inWorlds(t, func(w *world) {
		ann, bob := w.client(&locks.Options{Owner: "ann"}), w.client(&locks.Options{Owner: "bob"})
		o := &locks.LockOptions{LockDelay: 45 * time.Second}
		l := w.take(ann, "disk", o)
		want(w.t, "unlock", l.Unlock(background), nil)
		_ = w.take(ann, "disk", o)
		w.mu.Lock()
		w.fault = func(ctx context.Context, k call) fault { // its process dies
			if k.name == "renew" && k.n < 100 {
				return hang(ctx)
			}
			return fault{}
		}
		w.mu.Unlock()
		time.Sleep(31 * time.Second)
		_, err := bob.TryLock(background, "disk", nil)
		wantErr(w.t, "while it is closed", err, contracts.CodeLockDelayed)
		next, err := bob.Lock(background, "disk", nil)
		if err != nil {
			w.t.Fatal(err)
		}
		if at := time.Since(w.begin); at < 75*time.Second || at > 77*time.Second {
			w.t.Errorf("acquired after %v", at)
		}
		want(w.t, "unlock", next.Unlock(background), nil)
	})
}

// TestTakes: no window has more grants than the rate says, however many ask, and each has its grant as soon as that
// allows.
func TestTakes(t *testing.T) {
	inWorlds(t, func(w *world) {
		rate := locks.Rate{Limit: 4, Window: 10 * time.Second}
		var mu sync.Mutex
		var at []time.Duration
		tokens := map[int64]bool{}
		var all sync.WaitGroup
		for i := range 12 {
			c := w.client(nil)
			all.Go(func() {
				if i >= 8 {
					time.Sleep(15 * time.Second)
				}
				token, err := c.Take(background, "mail", rate, nil)
				mu.Lock()
				defer mu.Unlock()
				at = append(at, time.Since(w.begin))
				if err != nil || tokens[token] {
					w.t.Errorf("token %d, %v", token, err)
				}
				tokens[token] = true
			})
		}
		all.Wait()
		slices.Sort(at)
		for i := 4; i < len(at); i++ {
			if d := at[i] - at[i-4]; d < rate.Window-time.Millisecond {
				w.t.Errorf("five grants within %v: %v", d, at)
			}
		}
		if last := at[len(at)-1]; last > 25*time.Second {
			w.t.Errorf("the last after %v: %v", last, at)
		}
		_, err := w.client(nil).Take(background, "mail", locks.Rate{Limit: 5, Window: 10 * time.Second}, nil)
		wantErr(w.t, "another rate", err, contracts.CodeLockModeDiffers)
		want(w.t, "releases", len(w.of("release"))+len(w.of("renew")), 0)
	})
}

// TestModesDiffer: who asks for a lock in another mode than it is held in is told so at once, and nothing is changed.
func TestModesDiffer(t *testing.T) {
	inWorlds(t, func(w *world) {
		l := w.take(w.client(nil), "pool", &locks.LockOptions{Permits: 3})
		for name, o := range map[string]locks.LockOptions{"shared": {Shared: true}, "another number": {Permits: 4},
			"fair": {Fair: true}, "exclusive": {}} {
			_, err := w.client(nil).Lock(background, "pool", &o)
			wantErr(w.t, name, err, contracts.CodeLockModeDiffers)
		}
		want(w.t, "after", time.Since(w.begin), 0)
		want(w.t, "permit", l.Permit(), 1)
		want(w.t, "unlock", l.Unlock(background), nil)
		other := w.take(w.client(nil), "pool", &locks.LockOptions{Permits: 4}) // it is free
		want(w.t, "unlock", other.Unlock(background), nil)
	})
}

// TestShortLeasesWaitLong: a lease that is much shorter than the wait for it lasts from its grant.
func TestShortLeasesWaitLong(t *testing.T) {
	for name, o := range map[string]locks.LockOptions{"plain": {}, "fair": {Fair: true}, "permits": {Permits: 1}} {
		t.Run(name, func(t *testing.T) {
			inWorlds(t, func(w *world) {
				o.TTL = 3 * time.Second
				ann, bob := w.client(nil), w.client(nil)
				first := w.take(ann, "deploy", &o)
				time.AfterFunc(17*time.Second, func() { _ = first.Unlock(background) })
				second, err := bob.Lock(background, "deploy", &o)
				if err != nil {
					w.t.Fatal(err)
				}
				if at := time.Since(w.begin); at < 17*time.Second || at > 19*time.Second {
					w.t.Errorf("acquired after %v", at)
				}
				if left := second.Remaining(); left < 1700*time.Millisecond {
					w.t.Errorf("%v are left", left)
				}
				time.Sleep(10 * time.Second)
				want(w.t, "check", locks.Check(second.Context()), nil)
				want(w.t, "unlock", second.Unlock(background), nil)
			})
		})
	}
}
