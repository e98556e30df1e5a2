package idsim

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/leasehold-dev/leasehold/kazahana"
	"github.com/leasehold-dev/leasehold/proof/suite/idtable"
)

// process is a place in which one generator lives after the other.
type process struct {
	*world

	index  int
	random *rand.Rand
	clock  *Clock
	role   role
	// Of this life.
	dies   time.Time
	holder *idtable.Holder
	link   *link
	g      *kazahana.Generator
}

// role is what a process leases.
type role struct {
	service    string
	throughput int64
}

// drawRole draws a role: one lease of 256 IDs in a millisecond for most.
func drawRole(random *rand.Rand) role {
	switch n := random.IntN(100); {
	case n < 80:
		return role{narrow, 256}
	case n < 88:
		return role{narrow, 512}
	case n < 90:
		return role{narrow, 1024}
	case n < 97:
		return role{wide, 512}
	default:
		return role{wide, 1024}
	}
}

func (p *process) run() {
	_ = sleep(p.ctx, time.Duration(p.random.Int64N(int64(startup))))
	for life := 1; p.ctx.Err() == nil; life++ {
		if err := p.begin(life); err != nil {
			p.table.Faultf("a process cannot begin: %v", err)
			return
		}
		for p.ctx.Err() == nil && time.Now().Before(p.dies) {
			p.act()
		}
		p.end()
	}
}

// begin starts a generator: at first and after a kill or shutdown, at times on another machine or in another role.
func (p *process) begin(life int) (err error) {
	if life == 1 || p.random.IntN(4) == 0 {
		p.clock = NewClock(p.random, maxSkew)
	}
	if life == 1 || p.random.IntN(10) == 0 {
		p.role = drawRole(p.random)
	}
	p.dies = time.Now().Add(exponential(p.random, lifetime))
	p.holder = p.table.Holder(fmt.Sprintf("process %d, life %d", p.index, life), p.servers[p.random.IntN(len(p.servers))])
	p.link = &link{
		world: p.world, to: p.holder, near: p.random.IntN(3) == 0, fresh: make(chan struct{}, 1),
		random: rand.New(rand.NewPCG(p.random.Uint64(), p.random.Uint64())),
	}
	o := &kazahana.Options{
		ServiceID: p.role.service, MaxThroughputPerMs: p.role.throughput, DisableFallback: p.random.IntN(4) == 0,
		AcquireRetryInterval: 5 * time.Second, AcquireRetryMaxInterval: 10 * time.Second,
		BitTs: p.layout.BitTs, DefaultEpoch: time.UnixMilli(p.layout.CustomEpoch),
		MaxSkew: 3 * maxSkew, Meta: map[string]string{}, Clock: p.clock, Log: slog.New(slog.DiscardHandler),
	}
	if p.random.IntN(4) == 0 {
		o.MaxSkew = 0 // the default, which at times is too little here
	}
	if n := p.random.IntN(4); n < 3 {
		o.MaxBackwardMs = []*int64{new(int64(0)), new(int64(-1)), new(int64(50))}[n]
	}
	if p.random.IntN(3) == 0 {
		o.BurstWindow = []time.Duration{8 * time.Millisecond, 100 * time.Millisecond}[p.random.IntN(2)]
	}
	p.g, err = kazahana.New(p.link, o)
	return err
}

// act waits for what comes first, an impulse of its own, an edge of a lease or a new lease, and does something.
func (p *process) act() {
	wait, atEdge := exponential(p.random, idle), false
	if edge := p.link.edge(p.clock.Wall()) - beforeEdge; edge < wait {
		wait, atEdge = edge, true
	}
	select {
	case <-p.link.fresh:
		if p.random.IntN(8) == 0 { // the service for time has come up, too
			p.step()
		}
		p.steadily(40)
		return
	case <-p.ctx.Done():
		return
	case <-time.After(min(wait, time.Until(p.dies))):
	}
	if atEdge {
		p.steadily(15)
		return
	}
	switch n := p.random.IntN(100); {
	case n < 40:
		p.some(1 + p.random.IntN(4))
	case n < 60:
		p.batch(1 + p.random.IntN(64))
	case n < 70: // more than the sequences of a few milliseconds
		p.batch(1 + p.random.IntN(burst))
	case n < 80:
		p.steadily(15)
	case n < 90:
		p.step()
	case n < 96:
		p.link.cutFor(exponential(p.random, 15*time.Second))
		p.tally.Add(partitions, 1)
	default: // no IDs are made for a while
		_ = sleep(p.ctx, min(exponential(p.random, 10*time.Second), time.Until(p.dies)))
	}
}

// beforeEdge is how long before a lease begins or ends IDs are made steadily, for twice as long.
const beforeEdge = 6 * time.Millisecond

// burst is how many IDs are made at once at most.
const burst = 6000

// step sets the clock.
func (p *process) step() {
	p.clock.step(p.random, maxSkew)
	p.tally.Add(steps, 1)
}

// steadily makes IDs, or tries to, in about each of so many milliseconds.
func (p *process) steadily(ms int) {
	for range ms {
		p.some(1 + p.random.IntN(2))
		if sleep(p.ctx, time.Millisecond*3/4+time.Duration(p.random.Int64N(int64(time.Millisecond/4)))) != nil {
			return
		}
	}
}

// some makes a few IDs one by one.
func (p *process) some(n int) {
	ctx, cancel := context.WithTimeout(p.ctx, 200*time.Millisecond)
	defer cancel()
	for range n {
		id, err := p.g.NextID(ctx)
		if !p.made(err, id) {
			return
		}
	}
}

// batch makes many at once.
func (p *process) batch(n int) {
	ctx, cancel := context.WithTimeout(p.ctx, time.Second)
	defer cancel()
	ids := make([]kazahana.ID, n)
	p.made(p.g.NextIDs(ctx, ids), ids...)
}

// made judges IDs, or counts why there are none. An error that is not documented is a fault.
func (p *process) made(err error, ids ...kazahana.ID) bool {
	if err == nil {
		fallback := p.holder.Made(p.layout, ids...)
		what := underLease
		if p.link.cached() {
			what = underCached
		}
		p.tally.Add(what, len(ids)-fallback)
		p.tally.Add(random, fallback)
		return true
	}
	_, backward := errors.AsType[*kazahana.ClockBackwardError](err)
	_, without := errors.AsType[*kazahana.LeaseAcquisitionError](err)
	switch {
	case backward:
		p.tally.Add(rejections, 1)
	case !without && !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, context.Canceled):
		p.table.Faultf("an ID: %v", err)
	}
	return false
}

// end ends the generator: by a kill, after which its leases run out, or by a shutdown, which releases them while others
// wait for them. Then it is quiet for a while, or for no time at all.
func (p *process) end() {
	switch {
	case p.ctx.Err() != nil: // the end of the run
		p.link.cutFor(time.Hour)
	case p.random.IntN(2) == 0:
		p.tally.Add(kills, 1)
		p.link.cutFor(time.Hour)
	default:
		p.tally.Add(shutdowns, 1)
		p.steadily(40)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	_ = p.g.Close(ctx) // what is not released expires
	st := p.g.Stats()
	p.tally.Add(waits, int(st.SequenceWaits))
	if p.random.IntN(3) > 0 {
		_ = sleep(p.ctx, exponential(p.random, 3*time.Second))
	}
}
