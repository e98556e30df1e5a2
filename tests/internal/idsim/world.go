// Package idsim runs a thousand processes that make 64-bit IDs under leased machine IDs, and looks at every ID.
//
// The processes are real generators (kazahana), the servers are the real service (repo/machineid) over a real store.
// Everything runs in a bubble of testing/synctest: its time passes by waiting only, so that minutes take seconds. What
// is simulated is what goes wrong:
//
//   - Each process has a clock of its own, up to five seconds off, which drifts and is set now and then, back and
//     forth. The store's clock is set as well, and the servers take time to reach it.
//   - The network loses requests and responses, makes them seconds late, sends releases twice, and is cut off.
//   - Processes are killed, or shut down and release their leases; they start again at the same instant or later, at
//     times with another clock or another layout.
//   - The table is 99 % full, so that a machine ID is in other hands as soon as it can be.
//
// The processes make IDs where it hurts: in about each millisecond around the beginning and the end of each of their
// leases, before a shutdown, and in bursts that use up sequences.
//
// # What is checked
//
// Of all IDs: each generator's are ascending; each ID without the fallback bit lies in a lease of its generator; no two
// of these are equal, and no two generators even stamp one machine ID with the same millisecond. IDs with the fallback
// bit are unique by likelihood only: their collisions are counted.
//
// # Replay
//
// A seed draws what happens: lives, clocks, cuts, losses, who asks for how much and when. Two packages draw for
// themselves what else is random (the page that a server looks at first, the time of a renewal), so a seed that found a
// fault mostly finds it again, if not to the letter: LEASEHOLD_ID_SEEDS=17 go test ./tests -run IDsAreUnique. So the
// report of a fault names both generators, their clocks and their leases.
package idsim

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leasehold-dev/leasehold/internal/suite"
	"github.com/leasehold-dev/leasehold/kazahana"
	"github.com/leasehold-dev/leasehold/repo/machineid"
)

// Config is a run.
type Config struct {
	Seed      uint64
	Processes int
	Lasts     time.Duration // of the bubble's time

	// Serve sets the servers up. It is called in the bubble.
	Serve func(t *testing.T, s Setting) Servers
}

// Setting is what servers need to know.
type Setting struct {
	Services []machineid.ServiceConfig
	Clock    *Clock     // the store's
	Random   *rand.Rand // for the setting up
}

// Servers returns what a process talks to.
type Servers func() kazahana.LeaseProvider

// Services of a run. All lease from one space.
const (
	narrow  = "narrow"  // 256 IDs in a millisecond
	wide    = "wide"    // 512
	earlier = "earlier" // processes that were killed before the run
	lasting = "lasting" // processes that live on and ask for nothing
)

const (
	startup  = 10 * time.Second    // of all processes
	lifetime = 20 * time.Second    // of a process on the average
	idle     = 3 * time.Second / 2 // between two things that a process does
	duration = 20 * time.Second    // of a lease
)

// Run carries a run out and says what happened.
func Run(t *testing.T, c Config) Result {
	t.Helper()
	var r Result
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Until(suite.Epoch.Add(time.Hour))) // bubbles begin in 2000
		r = newWorld(c).run(t)
	})
	return r
}

type world struct {
	Config
	random  *rand.Rand
	layout  kazahana.Layout
	serve   Servers
	ctx     context.Context //nolint:containedctx // ends with the run, which is what a world is
	stop    context.CancelFunc
	all     sync.WaitGroup
	checker *Checker
	counts  counts
	buffers sync.Pool

	mu   sync.Mutex
	errs []string
}

func newWorld(c Config) *world {
	w := &world{
		Config: c, random: rand.New(rand.NewPCG(c.Seed, 0)), layout: kazahana.DefaultLayout(),
		buffers: sync.Pool{New: func() any { return new([burst]kazahana.ID) }},
	}
	// The table has about eight units for each process: all 8192 of the default layout for a thousand.
	for w.layout.BitID > 5 && 1<<(w.layout.BitID-2) >= 8*c.Processes {
		w.layout.BitID--
		w.layout.BitTs++
	}
	w.checker = NewChecker(w.layout)
	return w
}

// services are the services of the space, of the two layouts.
func (w *world) services() []machineid.ServiceConfig {
	var services []machineid.ServiceConfig
	for _, name := range []string{narrow, wide, earlier, lasting} {
		s := machineid.ServiceConfig{ServiceID: name, Layout: w.layout, LeaseDuration: duration.Milliseconds()}
		switch name {
		case wide:
			s.BitID, s.BitSeq = s.BitID-1, s.BitSeq+1
			s.LeaseDuration += s.LeaseDuration / 2
		case lasting:
			s.LeaseDuration = (24 * time.Hour).Milliseconds()
		}
		services = append(services, s)
	}
	return services
}

func (w *world) run(t *testing.T) Result {
	t.Helper()
	store := newClock(w.random)
	services := w.services()
	units := int(services[0].MaxMachineID() + 1)
	w.serve = w.Serve(t, Setting{Services: services, Clock: store, Random: w.random})

	processes := make([]*process, w.Processes)
	demand := 0
	for i := range processes {
		random := rand.New(rand.NewPCG(w.Seed, uint64(i)+1))
		processes[i] = &process{world: w, index: i, random: random, clock: DrawClock(random), role: drawRole(random)}
		demand += processes[i].role.units()
	}
	w.fill(t, units, demand)

	w.ctx, w.stop = context.WithTimeout(t.Context(), w.Lasts)
	defer w.stop()
	for _, p := range processes {
		w.all.Go(p.run)
	}
	w.all.Go(func() {
		for sleep(w.ctx, exponential(w.random, 5*time.Second)) == nil {
			store.step(w.random, maxSkew/2)
			w.counts.storeSteps.Add(1)
		}
	})
	began := time.Now()
	w.all.Wait()
	lasted := time.Since(began)
	time.Sleep(time.Minute) // generators that were killed give up what they were about
	return w.result(lasted)
}

// fill leases 99 % of the table to others. A part, a tenth less than what the processes need, was leased by processes
// that were killed, one after the other, and will run out; the rest is leased by such as live on. So the table stays
// full.
func (w *world) fill(t *testing.T, units, demand int) {
	t.Helper()
	to := w.serve()
	lease := func(service string, n int) {
		r, err := to.Acquire(t.Context(), kazahana.AcquireOptions{ServiceID: service, ThroughputPerMs: int64(n) * blockSize})
		if err != nil || len(r.Leases) != n {
			t.Fatalf("%d leases for the service %s: %d, %v", n, service, len(r.Leases), err)
		}
	}
	killed := demand * 9 / 10
	const many, few = 100, 4 // a page has 128 units
	for left := units*99/100 - killed; left > 0; left -= many {
		lease(lasting, min(left, many))
	}
	for left := killed; left > 0; left -= few {
		lease(earlier, min(left, few))
		time.Sleep(duration * few / time.Duration(killed) * 3 / 4)
	}
}

// unexpected notes an error that nothing explains.
func (w *world) unexpected(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	const most = 5
	if w.counts.unexpected.Add(1) <= most {
		w.errs = append(w.errs, "unexpected: "+err.Error())
	}
}
