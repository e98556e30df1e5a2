package idsim

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/leasehold-dev/leasehold/kazahana"
)

// process is a place in which one generator lives after the other.
type process struct {
	*world
	index  int
	random *rand.Rand
	role   role
	clock  *Clock
	// Of this life.
	life  int
	dies  time.Time
	link  *link
	maker *Maker
	g     *kazahana.Generator
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

// burst is how many IDs are made at once at most.
const burst = 6000

// units is how much of the table it takes.
func (r role) units() int { return int(r.throughput / blockSize) }

func (p *process) run() {
	_ = sleep(p.ctx, time.Duration(p.random.Int64N(int64(startup))))
	for p.ctx.Err() == nil {
		p.begin()
		for p.ctx.Err() == nil && time.Now().Before(p.dies) {
			p.act()
		}
		p.end()
	}
}

// begin starts a generator: at first and after a kill or shutdown, at times on another machine or in another role.
func (p *process) begin() {
	if p.life > 0 {
		p.counts.restarts.Add(1)
		if p.random.IntN(4) == 0 {
			p.clock = DrawClock(p.random)
		}
		if p.random.IntN(10) == 0 {
			p.role = drawRole(p.random)
		}
	}
	p.life++
	p.dies = time.Now().Add(exponential(p.random, lifetime))
	p.maker = p.checker.Maker(fmt.Sprintf("process %d, life %d (clock %+v off)", p.index, p.life,
		time.Duration(p.clock.off.Load())))
	p.link = &link{
		world: p.world, to: p.serve(), maker: p.maker, near: p.random.IntN(3) == 0, fresh: make(chan struct{}, 1),
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
	g, err := kazahana.New(p.link, o)
	if err != nil {
		p.unexpected(err)
		p.stop()
		return
	}
	p.g = g
}

// act waits for what comes first, an impulse of its own, an edge of a lease or a new lease, and does something.
func (p *process) act() {
	wait, atEdge := exponential(p.random, idle), false
	if edge, ok := p.link.edge(p.clock.Wall()); ok && edge-beforeEdge < wait {
		wait, atEdge = max(edge-beforeEdge, 0), true
	}
	timer := time.NewTimer(min(wait, time.Until(p.dies)))
	defer timer.Stop()
	select {
	case <-p.link.fresh:
		if p.random.IntN(8) == 0 { // the service for time has come up, too
			p.step()
		}
		p.steadily(40)
		return
	case <-p.ctx.Done():
		return
	case <-timer.C:
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
		p.link.cut(exponential(p.random, 15*time.Second))
		p.counts.partitions.Add(1)
	default: // no IDs are made for a while
		_ = sleep(p.ctx, min(exponential(p.random, 10*time.Second), time.Until(p.dies)))
	}
}

// beforeEdge is how long before a lease begins or ends IDs are made steadily, for twice as long.
const beforeEdge = 6 * time.Millisecond

// step sets the clock.
func (p *process) step() {
	p.clock.step(p.random, maxSkew)
	p.counts.steps.Add(1)
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
		if err != nil {
			p.failed(err)
			return
		}
		p.check(id)
	}
}

// batch makes many at once.
func (p *process) batch(n int) {
	ctx, cancel := context.WithTimeout(p.ctx, time.Second)
	defer cancel()
	buffer := p.buffers.Get().(*[burst]kazahana.ID)
	defer p.buffers.Put(buffer)
	ids := buffer[:n]
	if err := p.g.NextIDs(ctx, ids); err != nil {
		p.failed(err)
		return
	}
	p.check(ids...)
}

func (p *process) check(ids ...kazahana.ID) {
	p.checker.Check(p.maker, time.Now(), p.link.cached(), ids...)
}

// failed counts an error of NextID. An undocumented one is a fault.
func (p *process) failed(err error) {
	_, backward := errors.AsType[*kazahana.ClockBackwardError](err)
	_, without := errors.AsType[*kazahana.LeaseAcquisitionError](err)
	switch {
	case backward:
		p.counts.backward.Add(1)
	case without:
		p.counts.without.Add(1)
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		p.counts.timeouts.Add(1)
	default:
		p.unexpected(err)
	}
}

// end ends the generator: by a kill, after which its leases run out, or by a shutdown, which releases them while others
// wait for them. Then it is quiet for a while, or for no time at all.
func (p *process) end() {
	if p.g == nil {
		return
	}
	switch {
	case p.ctx.Err() != nil: // the end of the run
		p.link.kill()
	case p.random.IntN(2) == 0:
		p.counts.kills.Add(1)
		p.link.kill()
	default:
		p.counts.shutdowns.Add(1)
		p.steadily(40)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	_ = p.g.Close(ctx) // what is not released expires
	st := p.g.Stats()
	p.counts.waits.Add(int64(st.SequenceWaits))
	p.counts.rejected.Add(int64(st.LeasesRejected))
	if p.random.IntN(3) > 0 {
		_ = sleep(p.ctx, exponential(p.random, 3*time.Second))
	}
}
