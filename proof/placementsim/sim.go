package placementsim

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leasehold-dev/leasehold/cluster"
	"github.com/leasehold-dev/leasehold/contracts"
	"github.com/leasehold-dev/leasehold/proof/chaos"
	"github.com/leasehold-dev/leasehold/repo/docstore"
)

// The size of a simulation, and its times.
const (
	rooms   = 12
	slots   = 4 // members at a time, but for a moment in which one replaces another
	callers = 3

	ttl = 10 * time.Second

	faultTime = 2 * time.Minute // from then on there are no faults
	limit     = 6 * time.Minute // by then every identity must be served
)

// Opener opens a store for one process, inside the bubble. Its clock may be off by as much as the store allows.
type Opener func(r *rand.Rand) docstore.Store

// simulation is one [Run].
type simulation struct {
	seed    uint64
	open    Opener
	tally   *chaos.Tally
	ledger  *ledger
	referee *chaos.Referee
	begin   time.Time
	life    context.Context //nolint:containedctx // of everything that runs
	running sync.WaitGroup

	operations atomic.Int64 // requests of members and callers, and writes to the resource

	mu   sync.Mutex
	live map[string]*process // members by name
}

// Run plays two minutes of faults and until every identity is served again. It returns how many requests of members and
// callers, each delivery for itself, and writes of bodies to the resource there were. The error is what must never
// happen. It belongs into a bubble of testing/synctest.
func Run(open Opener, seed uint64, tally *chaos.Tally) (operations int, err error) {
	life, end := context.WithCancel(context.Background())
	defer end()
	s := &simulation{seed: seed, open: open, tally: tally, referee: chaos.NewReferee(), begin: time.Now(),
		life: life, live: map[string]*process{}}
	s.ledger = newLedger(s.referee)
	var loops sync.WaitGroup
	for i := range slots {
		loops.Go(func() { s.slot(fmt.Sprint("member-", i)) })
	}
	for i := range callers {
		loops.Go(func() { s.caller(fmt.Sprint("caller-", i)) })
	}
	wait(life, faultTime)
	late := s.settle()
	end()
	loops.Wait()
	s.running.Wait()
	time.Sleep(time.Minute) // requests of members whose Stop was not waited for are still on their way
	took := map[string]int{}
	for _, e := range s.referee.Of(chaos.Stepped) {
		if !e.Passed {
			tally.Add("stale writes rejected", 1)
			continue
		}
		took[fmt.Sprint(e.Subject, e.Token)]++
		tally.Add("writes taken", 1)
	}
	tally.Add("activations that took effect", len(took))
	operations = int(s.operations.Load())
	if err := errors.Join(late, s.ledger.err(), s.referee.Err()); err != nil {
		return operations, fmt.Errorf("placement of seed %d:\n%w", seed, err)
	}
	return operations, nil
}

func (s *simulation) calm() bool { return time.Since(s.begin) >= faultTime }

func (s *simulation) random(name string) *rand.Rand {
	h := fnv.New64a()
	_, _ = h.Write([]byte(name)) // it never fails
	return rand.New(rand.NewPCG(s.seed, h.Sum64()))
}

// wait waits while ctx lives.
func wait(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

func room(i int) cluster.Identity { return cluster.Identity{Kind: "room", ID: fmt.Sprint("r", i)} }

// slot keeps a member running, one process after the other.
func (s *simulation) slot(name string) {
	r := s.random(name)
	upTo := func(d time.Duration) time.Duration { return time.Duration(r.Int64N(int64(d))) }
	var old *process // that the next one is to replace
	for n := 0; s.life.Err() == nil; n++ {
		as := name
		if n%2 == 1 && (old != nil || r.IntN(2) == 0) {
			as += "b"
		}
		p := s.start(as, n, old, r.IntN(3) == 0)
		if old != nil {
			s.stop(old)
			old = nil
		}
		if p == nil {
			wait(s.life, time.Second+upTo(3*time.Second))
			continue
		}
		for alive := true; alive && s.life.Err() == nil; {
			wait(s.life, 3*time.Second+upTo(25*time.Second))
			if s.calm() {
				wait(s.life, limit)
				break
			}
			switch fate := r.IntN(10); {
			case fate < 3:
				s.forget(p)
				s.tally.Add("processes killed", 1)
				p.kill()
				alive = false
			case fate < 5:
				p.freeze()
			case fate < 7:
				p.cut()
			case fate < 9:
				s.tally.Add("processes stopped", 1)
				s.stop(p)
				alive = false
			default:
				s.tally.Add("processes replaced", 1)
				old, alive = p, false
			}
		}
		if s.life.Err() != nil {
			s.forget(p)
			p.kill()
			return
		}
		if old == nil {
			wait(s.life, upTo(15*time.Second))
		}
	}
	if old != nil {
		s.forget(old)
		old.kill()
	}
}

// start lets a process join; nil if it was rejected.
func (s *simulation) start(name string, n int, old *process, serveOnly bool) *process {
	p := s.newProcess(fmt.Sprint(name, "#", n))
	h := &host{process: p, runs: map[cluster.Identity]*body{}}
	o := &cluster.Options{Kinds: []string{"room"}, Address: p.name, Partitions: 16, TTL: ttl, ServeOnly: serveOnly}
	if old != nil {
		o.Replaces = contracts.Incarnation{Member: old.memberName(), Incarnation: old.member.Incarnation()}
		if o.Replaces.Incarnation == 0 || o.Replaces.Member == name {
			o.Replaces = contracts.Incarnation{}
		}
	}
	var err error
	if p.member, err = cluster.NewMember(p.requests, name, h, o); err != nil {
		panic(err)
	}
	joining, cancel := context.WithTimeout(s.life, 3*ttl)
	defer cancel()
	if err := p.member.Start(joining); err != nil {
		s.tally.Add("joins rejected or given up", 1)
		return nil
	}
	s.mu.Lock()
	s.live[name] = p
	s.mu.Unlock()
	return p
}

func (p *process) memberName() string {
	name, _, _ := strings.Cut(p.name, "#")
	return name
}

// forget takes a process off the list of those that callers reach.
func (s *simulation) forget(p *process) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.live[p.memberName()] == p {
		delete(s.live, p.memberName())
	}
}

// stop ends a process as intended; if that takes too long, it is killed, as by its supervisor.
func (s *simulation) stop(p *process) {
	ctx, cancel := context.WithTimeout(s.life, 30*time.Second)
	defer cancel()
	err := p.member.Stop(ctx)
	s.forget(p)
	if err != nil {
		p.kill()
	}
}

// reach is the process of a member that callers reach.
func (s *simulation) reach(name string) *process {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.live[name]
}

// caller looks for identities, and has them activated.
func (s *simulation) caller(name string) {
	p := s.newProcess(name)
	l := cluster.NewLocator(p.requests, nil)
	defer l.Stop()
	for l.Start(s.life) != nil {
		if s.life.Err() != nil {
			return
		}
	}
	for s.life.Err() == nil {
		wait(s.life, p.time(400*time.Millisecond))
		id := room(int(p.time(rooms*time.Millisecond) / time.Millisecond))
		ctx, cancel := context.WithTimeout(s.life, time.Second+p.time(20*time.Second))
		switch p.time(10*time.Millisecond) / time.Millisecond {
		case 0, 1, 2, 3:
			if where, err := l.Activate(ctx, id, nil); err == nil {
				s.visit(ctx, l, where)
			}
		case 4, 5, 6:
			if where, err := l.Locate(ctx, id, nil); err == nil {
				s.visit(ctx, l, where)
			}
		case 7:
			_, _ = p.requests.Claim(ctx, id.Kind, id.ID, contracts.ActivationClaimRequest{
				RequestID: fmt.Sprint(name, p.time(time.Hour)), LockTTLSeconds: 2})
		case 8:
			if where, err := l.Locate(ctx, id, nil); err == nil {
				if there := s.reach(where.Member); there != nil {
					_ = there.member.Deactivate(ctx, id, "it was idle")
				}
			}
		default:
			_, _ = p.requests.Lookup(ctx, id.Kind, id.ID, cluster.Query{})
		}
		cancel()
	}
}

// visit goes to the member of an identity, as a caller does who connects to its address.
func (s *simulation) visit(ctx context.Context, l *cluster.Locator, where cluster.Location) {
	there := s.reach(where.Member)
	if there == nil {
		l.Forget(where)
		return
	}
	if _, err := there.member.Serve(ctx, where.Identity, nil); err != nil {
		l.Forget(where)
	}
}

// settle waits until every identity is served by the process that has its latest token. The error says which is not.
func (s *simulation) settle() error {
	p := s.newProcess("the last caller")
	l := cluster.NewLocator(p.requests, nil)
	defer l.Stop()
	ctx, cancel := context.WithTimeout(s.life, limit-faultTime)
	defer cancel()
	if err := l.Start(ctx); err != nil {
		return fmt.Errorf("the last locator does not start: %w", err)
	}
	for i := range rooms {
		id := room(i)
		for {
			where, err := l.Activate(ctx, id, nil)
			if err == nil {
				s.visit(ctx, l, where)
			}
			if there := s.reach(where.Member); err == nil && there != nil && there.serves(where) {
				break
			}
			l.Forget(where)
			if ctx.Err() != nil {
				return fmt.Errorf("%v after the faults %s is not served: %+v, %w", limit-faultTime, id.ID, where, err)
			}
			wait(ctx, time.Second)
		}
	}
	return nil
}

// Inside opens stores for one simulation in its bubble.
type Inside func(t *testing.T) Opener

// Proof runs simulations until so many operations have been carried out, and prints what they came to.
func Proof(t *testing.T, operations int, inside Inside) {
	t.Helper()
	var (
		sum   int
		tally chaos.Tally
		seeds uint64
	)
	for ; sum < operations; seeds++ {
		synctest.Test(t, func(t *testing.T) {
			n, err := Run(inside(t), seeds, &tally)
			if err != nil {
				t.Fatal(err)
			}
			sum += n
		})
		if t.Failed() {
			return
		}
	}
	t.Logf("%d operations in %d simulations: no activation took effect beside another of its identity\n%s", sum, seeds,
		&tally)
	for _, what := range happens {
		if seeds >= enough && tally.Of(what) == 0 {
			t.Errorf("%q never happened", what)
		}
	}
}

// enough is how many simulations it takes for everything to happen that can.
const enough = 50

var happens = []string{
	"processes killed", "processes frozen", "processes cut off", "processes stopped", "processes replaced",
	"requests lost", "responses lost",
	"requests aborted", "writes that arrived twice", "writes that arrived after their caller gave up",
	"commands delivered again, late",
	"commands that arrived after their caller gave up", "members evicted", "activations taken over",
	"activations that failed", "states written",
	"stale states rejected", "stale writes rejected",
}
