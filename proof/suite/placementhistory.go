package suite

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/placement"
)

// PlacementHistory is [AnalysisHistory] for one identity of a cluster whose members come and go. Callers are processes
// of their own: each knows the epochs that it has seen.
func PlacementHistory(ctx context.Context, store docstore.Store, clock *Clock, name string, seed uint64) error {
	first := newPlacementRun(store, clock, strings.ReplaceAll(name, " ", "-"))
	paused := &pausing{through: through{newFaultyStore(store, seed)}, random: rand.New(rand.NewPCG(seed, 99))}
	// its tokens have to be known, of which the first is the store's time
	for _, do := range []string{"join", "claim", "deactivate"} {
		c := placementCommand{do: do, member: "ann", id: "x", request: "first", ttl: historyTTL, self: true,
			number: first.oracle.seat("ann").Number, token: first.oracle.activation("x").token}
		if err := first.send(ctx, c, PlacementStep{}); err != nil {
			return fmt.Errorf("the first %s: %w", do, err)
		}
	}
	return record(clock, seed, placementModel(first.oracle), func(c *caller) func() error {
		c.told = true
		p := &placing{
			caller: c, cluster: first.cluster, lives: map[string]int64{}, seqs: map[string]int64{},
			service: placement.New(oneCluster{through{paused}, "acme/" + first.cluster.Name},
				&placement.Options{Now: clock.Now, Sleep: clock.Sleep}),
		}
		return func() error { return p.command(ctx) }
	})
}

// historyMembers are the names of members in histories.
var historyMembers = []string{"ann", "bob", "cleo"}

const historyTTL = 8 * tick // of leases; lock phases last half as long

// placing is a caller of placement.
type placing struct {
	*caller

	cluster placement.Cluster
	service *placement.Service
	holds   []placementCommand
	lives   map[string]int64 // incarnations that it made
	seqs    map[string]int64
}

// command sends a random command until it has a response.
func (p *placing) command(ctx context.Context) error {
	c := placementCommand{id: "x", member: historyMembers[p.random.IntN(len(historyMembers))], request: p.request(),
		ttl: historyTTL}
	c.number = p.lives[c.member]
	hold := func(do string) {
		if len(p.holds) == 0 {
			c.do = "lookup"
			return
		}
		h := p.holds[len(p.holds)-1]
		if p.random.IntN(3) == 0 {
			h = p.holds[p.random.IntN(len(p.holds))]
		}
		c.do, c.member, c.number, c.token, c.version = do, h.member, h.number, h.token, h.version
	}
	switch n := p.random.IntN(20); {
	case n < 3 || n < 9 && c.number == 0:
		c.do = "join"
	case n < 6:
		p.seqs[c.member]++
		c.do, c.seq = "beat", p.seqs[c.member]
	case n < 7:
		c.do = "leave"
	case n < 12:
		c.do, c.self, c.ttl = "claim", p.random.IntN(3) == 0 && c.number > 0, historyTTL/2
	case n < 13:
		hold("activated")
	case n < 16:
		hold("write")
	case n < 17:
		hold("deactivate")
	case n < 18:
		return p.sweep(ctx)
	default:
		c.do = "lookup"
	}
	return p.send(c, false, func() (output, error) {
		seen := &witness{}
		a, at, err := sendPlacementAt(context.WithValue(ctx, witnessKey{}, seen), p.service, p.cluster, c)
		if errors.Is(err, docstore.ErrUnavailable) { // what it did before its last write, evictions, others may have done
			return output{nothing: seen.applied.IsZero(), at: seen.applied}, nil
		}
		if err != nil {
			return output{}, err
		}
		p.learn(c, a)
		o := outputOf(c, a)
		o.at = at
		return o, nil
	})
}

// sweep sweeps the cluster. What matters of it is whether it freed the activation: members whose leases are over may be
// evicted at any moment anyway.
func (p *placing) sweep(ctx context.Context) error {
	return p.send(placementCommand{do: "sweep", member: historyMembers[0]}, false, func() (output, error) {
		seen := &witness{}
		_, err := p.service.Sweep(context.WithValue(ctx, witnessKey{}, seen), 0)
		// a busy machine may take too long to note how far it came
		if errors.Is(err, docstore.ErrUnavailable) || errors.Is(err, context.DeadlineExceeded) {
			err = nil
		}
		return output{known: true, code: "OK", nothing: seen.freed.IsZero(), at: seen.freed}, err
	})
}

// learn keeps what a caller needs for its next commands. It may be of a response that the history takes for lost.
func (p *placing) learn(c placementCommand, a placementAnswer) {
	switch {
	case a.Code == "OK" && c.do == "join":
		if p.lives[c.member] != a.Number {
			p.lives[c.member], p.seqs[c.member] = a.Number, 0
		}
	case a.Code == "OK" && c.do == "write":
		for i := range p.holds {
			if p.holds[i].token == c.token {
				p.holds[i].version = c.version + 1
			}
		}
	case a.Code == "OK" && (c.do == "claim" || c.do == "lookup") && a.Phase != "FREE":
		if n := len(p.holds); n == 0 || p.holds[n-1].token != a.Token || p.holds[n-1].version < a.Version {
			p.holds = append(p.holds, placementCommand{member: a.Owner, number: a.Number, token: a.Token, version: a.Version})
		}
	}
}

// outputOf is the part of an answer that the model says as well.
func outputOf(c placementCommand, a placementAnswer) output {
	o := output{known: true, code: a.Code}
	switch c.do {
	case "join":
		if a.Code == "OK" {
			o.token = a.Number
		}
	case "lookup", "claim":
		if a.Code != "MEMBER_INELIGIBLE" && a.Code != "TOPOLOGY_UNDETERMINED" {
			o.token, o.holder, o.acquired, o.expires = a.Token, a.Owner, a.Phase, strconv.FormatInt(a.Version, 10)
		}
	}
	return o
}

// pausing lets others come first before some writes: a process that is stopped between what it read and what it writes.
type pausing struct {
	through

	mu     sync.Mutex
	random *rand.Rand
	writes atomic.Int64
}

func (p *pausing) Write(ctx context.Context, writes ...docstore.Write) (docstore.Result, error) {
	p.mu.Lock()
	pause := p.random.IntN(3) == 0
	p.mu.Unlock()
	if pause {
		for range 200 {
			if until := p.writes.Load() + 3; p.writes.Load() < until {
				runtime.Gosched()
			}
		}
	}
	r, err := p.Store.Write(ctx, writes...)
	p.writes.Add(1)
	return r, err
}

// placementModel is what may happen to one identity, one command at a time, by the oracle. Members whose leases are
// over may be evicted at any moment: any caller does it on its way.
func placementModel(first *placementOracle) porcupine.Model {
	first.top = nil
	for _, name := range historyMembers {
		first.seat(name)
	}
	return numbered(first, (*placementOracle).key, followPlacement).ToModel()
}

// clone is for histories.
func (o *placementOracle) clone() *placementOracle {
	c := &placementOracle{members: map[string]*seatOracle{}, activations: map[string]*activationOracle{}}
	for name, s := range o.members {
		s := *s
		c.members[name] = &s
	}
	for id, a := range o.activations {
		a := *a
		c.activations[id] = &a
	}
	return c
}

// key tells what leads to different outcomes in histories.
func (o *placementOracle) key() string {
	a := *o.activations["x"]
	a.reason, a.changed = "", time.Time{}
	var key strings.Builder
	for _, name := range historyMembers {
		s := o.members[name]
		fmt.Fprint(&key, s.Number, s.Status, s.seq, s.ends, s.joins)
	}
	fmt.Fprint(&key, a)
	return key.String()
}

// followPlacement are the states to which a command with what its caller learned may lead.
func followPlacement(from *placementOracle, in *input, out output) (next []*placementOracle) {
	first, last := in.from, in.to
	if !out.at.IsZero() {
		first, last, out.at = out.at, out.at, time.Time{}
	}
	for at := first; !at.After(last); at = at.Add(tick) {
		for _, s := range evictions(from, at) {
			if !out.known {
				next = append(next, s) // a store that failed may have done nothing
			}
			for _, o := range stepPlacement(s, in, at) {
				if !out.known || o.out == out {
					next = append(next, o.after)
				}
			}
		}
	}
	return next
}

// evictions are the states to which a state may have come by evictions alone. Who evicts one evicts all whose leases
// ended before.
func evictions(s *placementOracle, at time.Time) []*placementOracle {
	all := []*placementOracle{s}
	for {
		var over time.Time // the first of the leases that are
		for _, m := range s.members {
			if m.live() && !at.Before(m.ends) && (over.IsZero() || m.ends.Before(over)) {
				over = m.ends
			}
		}
		if over.IsZero() {
			return all
		}
		s = s.clone()
		s.evict(over)
		all = append(all, s)
	}
}

type placementOutcome struct {
	after *placementOracle
	out   output
}

// stepPlacement are the ways in which a command may end that is carried out now: the number of a join is of the time at
// which it was decided, an identity is placed by any epoch that its caller knew, and the response may be late.
func stepPlacement(from *placementOracle, in *input, now time.Time) (ends []placementOutcome) {
	c := in.command.(placementCommand)
	step := func(born int64, to string) {
		s := from.clone()
		s.born, s.to = born, to
		a := s.answer(c, now)
		ends = append(ends, placementOutcome{s, outputOf(c, a)})
		if fresh := !a.Replayed && (c.do == "join" || c.do == "claim"); a.Code == "OK" && (fresh || c.do == "beat") {
			a.Code = "LEASE_EXPIRED"
			ends = append(ends, placementOutcome{s, outputOf(c, a)})
		}
	}
	switch c.do {
	case "sweep":
		if a := from.activation("x"); a.phase != "FREE" && from.alive(a) == nil {
			s := from.clone()
			s.free("x", "its owner is gone")
			ends = append(ends, placementOutcome{s, output{known: true, code: "OK"}})
		}
	case "join":
		for read := in.from; !read.After(now); read = read.Add(tick) {
			step(max(from.seat(c.member).Number, read.UnixMicro())+1, "")
		}
	case "claim", "lookup":
		for _, m := range from.members {
			if m.live() {
				step(0, m.Member.Member)
			}
		}
		if c.self || !from.ready() {
			step(0, "")
		}
	default:
		step(0, "")
	}
	return ends
}
