package lock_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leasehold-dev/leasehold/proof/suite"
	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/lock"
)

// mortal is the store as one server reaches it, in a millisecond. Nothing that a server sends after its death arrives;
// and until some time requests and responses of the living ones are lost.
type mortal struct {
	docstore.Store

	dead   atomic.Bool
	faulty time.Time

	mu     sync.Mutex
	random *rand.Rand
}

var errLost = fmt.Errorf("%w: lost", docstore.ErrUnavailable)

// lost draws whether a request is lost, or its response.
func (m *mortal) lost(ctx context.Context) (request, response bool) {
	time.Sleep(time.Millisecond)
	if m.dead.Load() {
		return true, false
	}
	if m.random == nil || !time.Now().Before(m.faulty) {
		return false, false
	}
	m.mu.Lock()
	fate := m.random.IntN(10)
	m.mu.Unlock()
	if fate == 0 { // it hangs
		select {
		case <-time.After(3 * time.Second):
		case <-ctx.Done():
		}
	}
	return fate <= 1, fate == 2
}

func (m *mortal) Get(ctx context.Context, keys ...docstore.Key) (docstore.Snapshot, error) {
	if request, response := m.lost(ctx); request || response {
		return docstore.Snapshot{}, errLost
	}
	return m.Store.Get(ctx, keys...)
}

func (m *mortal) Write(ctx context.Context, writes ...docstore.Write) (docstore.Result, error) {
	request, response := m.lost(ctx)
	if request {
		return docstore.Result{}, errLost
	}
	r, err := m.Store.Write(ctx, writes...)
	if response {
		return docstore.Result{}, errLost
	}
	return r, err
}

// asker waits for a lock until it has it, as clients do: it sends its request again when it was refused or is told
// nothing, and takes a new request_id when the old one has had its lease.
type asker struct {
	locks *lock.Locks
	c     lock.Acquire
	pause time.Duration // after a refusal that came at once
}

// ask returns the lease; how long that took is the caller's to measure. It gives up after most.
func (a asker) ask(ctx context.Context, most time.Duration) (lock.Outcome, error) {
	begun, used := time.Now(), 0
	for time.Since(begun) < most {
		sent := time.Now()
		o, err := a.locks.AcquireWithin(ctx, a.c, whole)
		switch {
		case err != nil && !errors.Is(err, docstore.ErrUnavailable):
			return o, err
		case err == nil && o.Code == lock.OK:
			return o, nil
		case err == nil && (o.Code == lock.RequestIDReused || o.Code == lock.LeaseExpired):
			used++
			a.c.RequestID = fmt.Sprint("r", used)
		}
		if time.Since(sent) < a.pause {
			time.Sleep(a.pause)
		}
	}
	return lock.Outcome{}, fmt.Errorf("%s is not served within %v", a.c.Owner, most)
}

// finds is how long a server takes to find out that another has released a lock: a read, and that it is sent by the
// next in line.
const finds = 2 * time.Second

// whole is how long a server may hold a request.
const whole = lock.MaxWaitSeconds * time.Second

// serversDie are the ways in which n requests wait on a server that is killed, beside which a living one waits: for
// what the holders have.
var serversDie = map[string]struct {
	hold, doomed, living func(n int) lock.Acquire
	holders              func(n int) int
	within               time.Duration // from the release of the holders on, beside the time of a claim
}{
	"readers, and a writer": {
		hold:   func(int) lock.Acquire { return lock.Acquire{Fair: true, TTLSeconds: 60} },
		doomed: func(int) lock.Acquire { return lock.Acquire{Mode: lock.Shared, TTLSeconds: 60} },
		living: func(int) lock.Acquire { return lock.Acquire{Fair: true, TTLSeconds: 60} },
	},
	"permits": {
		hold:    func(n int) lock.Acquire { return lock.Acquire{Mode: lock.Permits, Limit: int64(n), TTLSeconds: 60} },
		doomed:  func(n int) lock.Acquire { return lock.Acquire{Mode: lock.Permits, Limit: int64(n), TTLSeconds: 60} },
		living:  func(n int) lock.Acquire { return lock.Acquire{Mode: lock.Permits, Limit: int64(n), TTLSeconds: 60} },
		holders: func(n int) int { return n },
	},
	"in line": {
		hold:   func(int) lock.Acquire { return lock.Acquire{Fair: true, TTLSeconds: 60} },
		doomed: func(int) lock.Acquire { return lock.Acquire{Fair: true, TTLSeconds: 60} },
		living: func(int) lock.Acquire { return lock.Acquire{Fair: true, TTLSeconds: 60} },
	},
	"not in line": {
		hold:   func(int) lock.Acquire { return lock.Acquire{TTLSeconds: 60} },
		doomed: func(int) lock.Acquire { return lock.Acquire{TTLSeconds: 60} },
		living: func(int) lock.Acquire { return lock.Acquire{TTLSeconds: 60} },
	},
	"a rate": {
		hold:    func(n int) lock.Acquire { return lock.Acquire{Mode: lock.Rate, Limit: int64(n), WindowSeconds: 5} },
		doomed:  func(n int) lock.Acquire { return lock.Acquire{Mode: lock.Rate, Limit: int64(n), WindowSeconds: 5} },
		living:  func(n int) lock.Acquire { return lock.Acquire{Mode: lock.Rate, Limit: int64(n), WindowSeconds: 5} },
		holders: func(n int) int { return n },
		within:  2 * 5 * time.Second,
	},
}

// serverDies lets n requests wait on a server, kills it, ends what the holders have, and returns for how long a request
// on another server waits from then on.
func serverDies(ctx context.Context, name string, n int) (time.Duration, error) {
	way := serversDie[name]
	memory := docstore.NewMemory(nil)
	killed, alive := &mortal{Store: memory}, &mortal{Store: memory}
	doomed, living := lock.New(killed, nil), lock.New(alive, nil)
	var held []lock.Lease
	holders := 1
	if way.holders != nil {
		holders = way.holders(n)
	}
	for i := range holders {
		c := way.hold(n)
		c.ID, c.Owner, c.RequestID = deploy, fmt.Sprint("holder ", i), "r"
		o, err := living.Acquire(ctx, c)
		if err != nil || o.Code != lock.OK {
			return 0, fmt.Errorf("holder: %+v, %w", o, err)
		}
		held = append(held, o.Lease)
	}
	process, kill := context.WithCancel(ctx)
	defer kill()
	var ends sync.WaitGroup
	for i := range n {
		c := way.doomed(n)
		c.ID, c.Owner, c.RequestID, c.WaitSeconds = deploy, fmt.Sprint("doomed ", i), "r", lock.MaxWaitSeconds
		most := whole
		if i >= suite.AtDepth(10, n) { // what the others find out costs their process the square of their number
			most = 0
		}
		ends.Go(func() {
			if most == 0 {
				_, _ = doomed.LineUp(process, c)
				return
			}
			_, _ = doomed.AcquireWithin(process, c, most)
		})
		time.Sleep(5 * time.Millisecond)
	}
	served := make(chan error, 1)
	var got time.Time
	go func() {
		c := way.living(n)
		c.ID, c.Owner, c.RequestID, c.WaitSeconds = deploy, "living", "r", lock.MaxWaitSeconds
		_, err := asker{living, c, time.Second}.ask(ctx, 3*time.Minute)
		got = time.Now()
		served <- err
	}()
	time.Sleep(time.Second)
	killed.dead.Store(true)
	kill()
	ends.Wait()
	free := time.Now()
	for _, l := range held {
		if l.Mode == lock.Rate {
			break
		}
		if o, err := living.Release(ctx, lock.Release{ID: deploy, Owner: l.Owner, Token: l.Token,
			RequestID: "e"}); err != nil || o.Code != lock.OK {
			return 0, fmt.Errorf("release: %+v, %w", o, err)
		}
	}
	err := <-served
	return got.Sub(free), err
}

// TestWhatIsFreeIsObtainedAfterAServerDied: while requests wait on it, however many. A living request has its turn when
// one of them has not claimed what it was handed: the others of that server are passed over.
func TestWhatIsFreeIsObtainedAfterAServerDied(t *testing.T) {
	for name, way := range serversDie {
		for _, n := range suite.Everything.Dead {
			t.Run(fmt.Sprint(name, "/", n), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					took, err := serverDies(t.Context(), name, n)
					if err != nil || took > way.within+finds {
						t.Errorf("a request of a living server waits for %v, %v; want %v", took, err, way.within)
					}
				})
			})
		}
	}
}

// faultsStop are programs of callers on three servers, of which one dies, while requests and responses are lost. Some
// callers die with the lock, and of some only the connections are left. From the time on at which the faults stop, each
// living caller is served within a bound: the places and leases of the dead end, and those before it hold the lock for
// a moment.
type faultsStop struct {
	seed    uint64
	ask     func(*rand.Rand) lock.Acquire
	errs    []error
	longest time.Duration
	mu      sync.Mutex
}

const (
	faultsLast   = 20 * time.Second
	stopCallers  = 24
	stopHold     = 1500 * time.Millisecond
	stopLongest  = 4 * time.Second // ttl_seconds
	stopServed   = whole + lock.PlaceTime + lock.ClaimTime + stopLongest
	stopFollows  = stopHold + finds + time.Second // from one to the next
	stopPatience = 5 * time.Minute
)

func (p *faultsStop) play(ctx context.Context) {
	memory := docstore.NewMemory(nil)
	begun := time.Now()
	stop := begun.Add(faultsLast)
	var servers []*lock.Locks
	var stores []*mortal
	for n := range 3 {
		s := &mortal{Store: memory, faulty: stop, random: rand.New(rand.NewPCG(p.seed, uint64(n)))}
		stores, servers = append(stores, s), append(servers, lock.New(s, nil))
	}
	process, kill := context.WithCancel(ctx)
	defer kill()
	var all sync.WaitGroup
	all.Go(func() {
		time.Sleep(time.Duration(5+p.seed%10) * time.Second)
		stores[2].dead.Store(true)
		kill()
	})
	for n := range stopCallers {
		r := rand.New(rand.NewPCG(p.seed, 100+uint64(n)))
		all.Go(func() {
			time.Sleep(time.Duration(r.IntN(20_000)) * time.Millisecond)
			c := p.ask(r)
			c.ID, c.Owner, c.RequestID, c.WaitSeconds = deploy, fmt.Sprint("caller ", n), "r", lock.MaxWaitSeconds
			if c.Mode != lock.Rate {
				c.TTLSeconds = 2 + r.Int64N(int64(stopLongest/time.Second)-1)
			}
			switch {
			case n%3 == 2: // its server dies
				_, _ = servers[2].AcquireWithin(process, c, whole)
			case n%4 == 3: // it has gone, and its connection stays
				_, _ = servers[n%2].AcquireWithin(ctx, c, whole)
			default:
				p.live(ctx, servers[n%2], c, stop, n == 4)
			}
		})
	}
	all.Wait()
	time.Sleep(time.Minute) // what others left behind in the bubble ends
}

// live lets one caller get the lock, and release it or die.
func (p *faultsStop) live(ctx context.Context, l *lock.Locks, c lock.Acquire, stop time.Time, dies bool) {
	begun := time.Now()
	o, err := asker{l, c, 500 * time.Millisecond}.ask(ctx, stopPatience)
	if begun.Before(stop) {
		begun = stop
	}
	took := time.Since(begun)
	p.mu.Lock()
	p.longest = max(p.longest, took)
	if err != nil {
		p.errs = append(p.errs, err)
	}
	if bound := stopServed + stopCallers*stopFollows; took > bound {
		p.errs = append(p.errs, fmt.Errorf("%s is served %v after the faults have stopped, want %v", c.Owner, took, bound))
	}
	p.mu.Unlock()
	if err != nil || dies || c.Mode == lock.Rate {
		return
	}
	time.Sleep(stopHold)
	for range 5 {
		if _, err := l.Release(ctx, lock.Release{ID: deploy, Owner: c.Owner, Token: o.Lease.Token,
			RequestID: "e"}); err == nil {
			return
		}
	}
}

var stopModes = map[string]func(*rand.Rand) lock.Acquire{
	"not in line": func(*rand.Rand) lock.Acquire { return lock.Acquire{} },
	"in line":     func(*rand.Rand) lock.Acquire { return lock.Acquire{Fair: true} },
	"readers and writers": func(r *rand.Rand) lock.Acquire {
		if r.IntN(3) == 0 {
			return lock.Acquire{Fair: true}
		}
		return lock.Acquire{Mode: lock.Shared}
	},
	"permits": func(*rand.Rand) lock.Acquire { return lock.Acquire{Mode: lock.Permits, Limit: 2} },
	"a rate":  func(*rand.Rand) lock.Acquire { return lock.Acquire{Mode: lock.Rate, Limit: 2, WindowSeconds: 4} },
	"of whatever mode": func(r *rand.Rand) lock.Acquire {
		return []lock.Acquire{{}, {Fair: true}, {Mode: lock.Shared}, {Mode: lock.Permits, Limit: 2},
			{Mode: lock.Permits, Limit: 1}}[r.IntN(5)]
	},
}

// TestEveryWaiterIsServedOnceFaultsStop: within the bound, in every mode.
func TestEveryWaiterIsServedOnceFaultsStop(t *testing.T) {
	for name, ask := range stopModes {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var longest time.Duration
			for seed := range suite.AtDepth(uint64(5), 200) {
				p := &faultsStop{seed: seed, ask: ask}
				synctest.Test(t, func(t *testing.T) { p.play(t.Context()) })
				for _, err := range p.errs {
					t.Errorf("seed %d: %v", seed, err)
				}
				longest = max(longest, p.longest)
			}
			t.Logf("the longest wait: %v", longest)
		})
	}
}
