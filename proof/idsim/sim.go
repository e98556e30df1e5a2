// Package idsim runs a thousand processes that make 64-bit IDs under leased machine IDs, and judges every ID.
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
//   - The processes need more machine IDs than there are, so that one is in other hands as soon as it can be.
//
// The processes make IDs where it hurts: in about each millisecond around the beginning and the end of each of their
// leases, before a shutdown, and in bursts that use up sequences.
//
// The oracle of package idtable says what must be true: no two IDs that are made under leases are equal. IDs with
// the fallback bit are unique by likelihood only.
//
// A seed draws what happens: lives, clocks, cuts, losses, who asks for how much and when. Two packages draw for
// themselves what else is random (the page that a server looks at first, the time of a renewal), so a seed that found a
// fault mostly finds it again, if not to the letter.
package idsim

import (
	"context"
	"math/bits"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leasehold-dev/leasehold/kazahana"
	"github.com/leasehold-dev/leasehold/proof/chaos"
	"github.com/leasehold-dev/leasehold/proof/suite"
	"github.com/leasehold-dev/leasehold/proof/suite/idtable"
	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/machineid"
)

// Config is a run.
type Config struct {
	Seed      uint64
	Processes int
	Lasts     time.Duration // of the bubble's time

	// Open opens one store in the bubble, for one server after the other.
	Open func(t *testing.T, now func() time.Time, random *rand.Rand) func() docstore.Store
}

// Services of a run. Both lease from one space.
const (
	narrow = "narrow" // 256 IDs in a millisecond
	wide   = "wide"   // 512
)

const (
	startup  = 10 * time.Second    // of all processes
	lifetime = 20 * time.Second    // of a process on the average
	idle     = 3 * time.Second / 2 // between two things that a process does
	duration = 20 * time.Second    // of a lease
)

// What is counted.
const (
	underLease    = "IDs under a lease"
	underCached   = "IDs under a lease while no server can be reached"
	random        = "IDs without a lease"
	leased        = "leases"
	exhausted     = "responses that none is free"
	releases      = "releases"
	replays       = "releases that arrived again"
	kills         = "kills"
	shutdowns     = "shutdowns"
	partitions    = "partitions"
	steps         = "steps of clocks"
	lostRequests  = "requests lost"
	lostResponses = "responses lost"
	waits         = "waits for sequences"
	rejections    = "IDs rejected by the clock"
)

// reached are in how many seconds of a process each happens once at the least: far fewer than was seen.
var reached = map[string]int{
	underLease: 1, underCached: 100, random: 1, leased: 200, exhausted: 200, releases: 1000, replays: 4000, kills: 200,
	shutdowns: 400, partitions: 200, steps: 100, lostRequests: 4000, lostResponses: 4000, waits: 100, rejections: 500,
}

type world struct {
	Config

	layout  kazahana.Layout
	servers []kazahana.LeaseProvider
	table   *idtable.Table
	tally   chaos.Tally
	ctx     context.Context //nolint:containedctx // ends with the run, which is what a world is
	all     sync.WaitGroup
}

// Run carries a run out. It fails the test on any fault, and if the run did not reach what it is meant to.
func Run(t *testing.T, c Config) {
	t.Helper()
	w := &world{Config: c, layout: kazahana.DefaultLayout()}
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Until(suite.Epoch.Add(time.Hour))) // bubbles begin in 2000
		w.run(t)
	})
	t.Logf("seed %d\n%v", c.Seed, &w.tally)
	if err := w.table.Err(); err != nil {
		t.Error(err)
	}
	for what, each := range reached {
		want := max(1, c.Processes*int(c.Lasts/time.Second)/each)
		if got := w.tally.Of(what); got < want {
			t.Errorf("%d %s, want %d at least: the run does not reach what it is meant to", got, what, want)
		}
	}
}

func (w *world) run(t *testing.T) {
	t.Helper()
	random := rand.New(rand.NewPCG(w.Seed, 0))
	store := NewClock(random, 0)
	w.table = idtable.New(store.Wall)
	w.layout.BitID = bits.Len(uint(w.Processes)) + 1 // about as many machine IDs as processes: they need more
	w.layout.BitTs = 63 - w.layout.BitID - w.layout.BitSeq
	one := machineid.ServiceConfig{ServiceID: narrow, Layout: w.layout, LeaseDuration: duration.Milliseconds()}
	two := one
	two.ServiceID, two.BitID, two.BitSeq, two.LeaseDuration = wide, one.BitID-1, one.BitSeq+1, one.LeaseDuration*3/2
	open := w.Open(t, store.Wall, random)
	for range 3 { // servers, some way from their stores
		far := suite.NewFar(open(), 2*time.Millisecond, random.Uint64())
		server, err := machineid.New(far, []machineid.ServiceConfig{one, two}, nil)
		if err != nil {
			t.Fatal(err)
		}
		w.servers = append(w.servers, server)
	}
	var stop context.CancelFunc
	w.ctx, stop = context.WithTimeout(t.Context(), w.Lasts)
	defer stop()
	for i := range w.Processes {
		p := &process{world: w, index: i, random: rand.New(rand.NewPCG(w.Seed, uint64(i)+1))}
		w.all.Go(p.run)
	}
	w.all.Go(func() {
		for sleep(w.ctx, exponential(random, 5*time.Second)) == nil {
			store.step(random, maxSkew/2)
		}
	})
	w.all.Wait()
	time.Sleep(time.Minute) // generators that were killed give up what they were about
}
