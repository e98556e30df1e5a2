package placementsim

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/leasehold-dev/leasehold/cluster"
	"github.com/leasehold-dev/leasehold/contracts"
	"github.com/leasehold-dev/leasehold/functions/direct"
	"github.com/leasehold-dev/leasehold/proof/chaos"
	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/placement"
)

// process is one with a connection to the store of its own: a member, or a caller.
type process struct {
	sim      *simulation
	name     string
	requests commands
	member   *cluster.Member // nil for a caller

	mu     sync.Mutex
	random *rand.Rand
	dead   bool
	thaw   time.Time // until then the process is frozen
	mended time.Time // until then it is cut off
	bodies map[*body]bool
}

var chat = placement.Cluster{Tenant: "acme", Name: "chat"}

// newProcess starts a process, with a store that shows it the time as its clock does.
func (s *simulation) newProcess(name string) *process {
	p := &process{sim: s, name: name, random: s.random(name), bodies: map[*body]bool{}}
	var store docstore.Store = watched{s.open(p.random), s.ledger, p}
	off := p.time(4*time.Second) - 2*time.Second
	provider := func(s docstore.Store) cluster.Provider {
		return direct.Cluster(placement.New(s, &placement.Options{
			Now: func() time.Time { return time.Now().Add(off) }}), chat)
	}
	p.requests = commands{provider(line{store, p}), provider(store), p}
	return p
}

// chance is true once in n times while there are faults.
func (p *process) chance(n int) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return !p.sim.calm() && p.random.IntN(n) == 0
}

// time is a time of less than most.
func (p *process) time(most time.Duration) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return time.Duration(p.random.Int64N(int64(most/time.Microsecond))) * time.Microsecond
}

func (p *process) gone() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.dead
}

func (p *process) unreachable() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return time.Now().Before(p.mended)
}

// still waits while the process is frozen.
func (p *process) still() {
	p.mu.Lock()
	d := time.Until(p.thaw)
	p.mu.Unlock()
	time.Sleep(d)
}

func (p *process) latency() {
	most := time.Millisecond
	if p.chance(3) {
		most = 300 * time.Millisecond
	}
	time.Sleep(p.time(most))
}

// later carries a request out after its caller gave up.
func (p *process) later(request func()) {
	after := p.time(4 * ttl)
	p.sim.running.Go(func() {
		wait(p.sim.life, after)
		request()
	})
}

// freeze stops the process for half to three and a half times of its lease.
func (p *process) freeze() {
	d := ttl/2 + p.time(3*ttl)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.thaw = time.Now().Add(d)
	p.sim.tally.Add("processes frozen", 1)
}

// cut disconnects the process from the store for as long.
func (p *process) cut() {
	d := ttl/2 + p.time(3*ttl)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mended = time.Now().Add(d)
	p.sim.tally.Add("processes cut off", 1)
}

// kill ends the process: from here on it has no effect. What it has sent may still arrive.
func (p *process) kill() {
	p.mu.Lock()
	p.dead = true
	for b := range p.bodies {
		b.note(chaos.Over)
	}
	clear(p.bodies)
	p.mu.Unlock()
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	_ = p.member.Stop(ended) // of the dead process nothing is left to wait for
	p.sim.running.Go(func() { _ = p.member.Stop(context.Background()) })
}

// body is what an activation does.
type body struct {
	cluster.Activation

	p    *process
	stop chan struct{}
	done chan struct{}
}

// note tells the referee what happened to the body.
func (b *body) note(kind chaos.EventKind) { b.p.sim.referee.Note(b.event(kind)) }

func (b *body) event(kind chaos.EventKind) chaos.Event {
	return chaos.Event{Kind: kind, Subject: b.Kind + "/" + b.ID, Token: b.Token, Owner: b.p.name, At: time.Now()}
}

// serves reports whether a body runs under a token.
func (p *process) serves(where cluster.Location) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for b := range p.bodies {
		if b.Identity == where.Identity && b.Token == where.Token {
			return true
		}
	}
	return false
}

// host is what a process does with the identities of its member.
type host struct {
	*process

	mu   sync.Mutex
	runs map[cluster.Identity]*body
}

// Activate implements [cluster.Host]. Once in a while it takes longer than the lock phase, or fails.
func (h *host) Activate(ctx context.Context, a cluster.Activation) error {
	most := 50 * time.Millisecond
	if h.chance(30) {
		most = 2 * ttl
	}
	wait(ctx, h.time(most))
	h.still()
	if h.chance(30) {
		h.sim.tally.Add("activations that failed", 1)
		return errors.New("it cannot begin now")
	}
	b := &body{a, h.process, make(chan struct{}), make(chan struct{})}
	h.process.mu.Lock()
	defer h.process.mu.Unlock()
	if h.dead {
		return errGone
	}
	if err := cluster.Check(ctx); err != nil {
		return err
	}
	h.bodies[b] = true
	b.note(chaos.Begun)
	h.sim.tally.Add("bodies", 1)
	h.mu.Lock()
	h.runs[a.Identity] = b
	h.mu.Unlock()
	h.sim.running.Go(func() { b.run(ctx) })
	return nil
}

// Deactivate implements [cluster.Host]. It returns when the body runs no more.
func (h *host) Deactivate(ctx context.Context, a cluster.Activation, reason error) {
	h.mu.Lock()
	b := h.runs[a.Identity]
	delete(h.runs, a.Identity)
	h.mu.Unlock()
	if b == nil {
		return
	}
	close(b.stop)
	<-b.done
	if !errors.Is(reason, cluster.ErrLost) && h.chance(2) {
		_ = h.member.WriteState(ctx, a.Identity, b.state())
	}
}

// state is one that says under which token it was written.
func (b *body) state() []byte {
	return fmt.Appendf(nil, "%d %s %d", b.Token, b.p.name, b.p.time(time.Hour))
}

// run is a body: again and again it asks whether it still runs, and writes.
func (b *body) run(ctx context.Context) {
	defer close(b.done)
	defer func() {
		b.p.mu.Lock()
		defer b.p.mu.Unlock()
		if b.p.bodies[b] {
			delete(b.p.bodies, b)
			b.note(chaos.Over)
		}
	}()
	for n := 1; ; n++ {
		select {
		case <-b.stop:
			return
		case <-ctx.Done():
			return
		case <-time.After(b.p.time(2 * time.Second)):
		}
		b.p.still()
		if b.p.gone() || cluster.Check(ctx) != nil {
			return
		}
		b.note(chaos.Looked)
		careless := b.p.chance(25)
		if careless { // between the question and the write
			b.p.freeze()
			b.p.still()
		}
		if !b.write() {
			return
		}
		if careless {
			b.force(ctx)
			for range 4 { // when its process may have the activation anew
				b.p.later(func() { b.force(ctx) })
			}
		} else if n%4 == 0 && b.p.member != nil {
			_ = b.p.member.WriteState(ctx, b.Identity, b.state())
		}
	}
}

// write writes to the resource, in one moment of a process that lives.
func (b *body) write() bool {
	b.p.mu.Lock()
	defer b.p.mu.Unlock()
	if b.p.dead {
		return false
	}
	b.p.sim.operations.Add(1)
	return b.p.sim.referee.Step(b.event(chaos.Stepped))
}

// force sends a state that replaces whatever there is, as a program would that does not ask whether it still may.
func (b *body) force(ctx context.Context) {
	ctx = context.WithoutCancel(ctx)
	a, err := b.p.requests.Activation(ctx, b.Kind, b.ID)
	if err != nil {
		return
	}
	_, err = b.p.requests.WriteState(ctx, b.Kind, b.ID, contracts.ActivationStateRequest{
		Member: b.p.memberName(), Incarnation: a.Incarnation, FencingToken: b.Token,
		RequestID:    fmt.Sprint(b.p.name, b.p.time(time.Hour)),
		StateVersion: a.StateVersion, State: b.state(),
	})
	if errors.Is(err, contracts.CodeStaleToken) || errors.Is(err, contracts.CodeNotOwner) {
		b.p.sim.tally.Add("stale states rejected", 1)
	}
}
