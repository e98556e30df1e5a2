package suite

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"runtime"
	"slices"
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
	cluster := placement.Cluster{Tenant: "acme", Name: strings.ReplaceAll(name, " ", "-")}
	paused := &pausing{through: through{newFaultyStore(store, seed)}, random: rand.New(rand.NewPCG(seed, 99))}
	first, err := firstActivation(ctx, placement.New(store, &placement.Options{Now: clock.Now, Sleep: clock.Sleep}),
		cluster)
	if err != nil {
		return err
	}
	first.members[0].ends = clock.Now().Add(historyTTL).UnixMilli()
	return record(clock, seed, placementModel(first), func(c *caller) func() error {
		c.told = true
		p := &placing{
			caller: c, cluster: cluster, lives: map[string]int64{}, seqs: map[string]int64{},
			service: placement.New(oneCluster{through{paused}, "acme/" + cluster.Name},
				&placement.Options{Now: clock.Now, Sleep: clock.Sleep, Changes: true}),
		}
		return func() error { return p.command(ctx) }
	})
}

// historyMembers are the names of members in histories.
var historyMembers = []string{"ann", "bob", "cleo"}

const historyTTL = 8 * tick // of leases; lock phases last half as long

// firstActivation begins the history of an identity, so that its tokens are known: the first is the store's time.
func firstActivation(ctx context.Context, s *placement.Service, cluster placement.Cluster) (placementState, error) {
	m, err := s.Join(ctx, placement.Join{
		Cluster: cluster, Member: "ann", RequestID: "first", Partitions: placement.MinPartitions, TTL: historyTTL,
		Offer: placement.Offer{Kinds: []string{"room"}},
	})
	if err != nil {
		return placementState{}, err
	}
	o, err := s.Claim(ctx, placement.Claim{Cluster: cluster, Identity: roomOf("x"), RequestID: "first", By: m.Incarnation})
	if err != nil || o.Code != placement.OK {
		return placementState{}, errors.Join(err, fmt.Errorf("the first claim: %+v", o))
	}
	hold := placement.Hold{Cluster: cluster, Identity: roomOf("x"), Owner: m.Incarnation, Token: o.Activation.Token}
	if o, err = s.Deactivate(ctx, placement.Deactivate{Hold: hold}); err != nil || o.Code != placement.OK {
		return placementState{}, errors.Join(err, fmt.Errorf("the first end: %+v", o))
	}
	first := placementState{token: hold.Token, phase: "FREE", owner: 0, number: m.Incarnation.Number}
	first.members[0] = placementMember{number: m.Incarnation.Number, live: true}
	first.claims[0] = "first"
	return first, nil
}

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

// placementState is a cluster of three members and one activation, as the model has it.
type placementState struct {
	token   int64
	phase   string
	owner   int
	number  int64
	until   int64 // Unix milliseconds
	version int64
	claims  [4]string // the newest first
	writes  [4]string
	members [3]placementMember
}

type placementMember struct {
	number int64
	live   bool
	ends   int64 // Unix milliseconds
	seq    int64
	joins  [4]string // the newest first
}

func push(m *[4]string, request string) {
	copy(m[1:], m[:3])
	m[0] = request
}

// alive reports whether the activation has an owner that is a member.
func (s *placementState) alive() bool {
	m := s.members[s.owner]
	return s.phase != "FREE" && m.live && m.number == s.number
}

func (s *placementState) determined() bool {
	return slices.ContainsFunc(s.members[:], func(m placementMember) bool { return m.live })
}

func (s *placementState) shown(code string) output {
	return output{known: true, code: code, token: s.token, holder: historyMembers[s.owner], acquired: s.phase,
		expires: strconv.FormatInt(s.version, 10)}
}

// placementModel is what may happen to one identity, one command at a time. Members whose leases are over may be
// evicted at any moment: any caller does it on its way.
func placementModel(first placementState) porcupine.Model {
	itself := func(s placementState) placementState { return s }
	return numbered(first, itself, func(from placementState, by *input, o output) []placementState {
		return slices.Collect(maps.Keys(followPlacement(from, by, o)))
	}).ToModel()
}

// followPlacement are the states to which a command with what its caller learned may lead.
func followPlacement(from placementState, in *input, out output) map[placementState]bool {
	next := map[placementState]bool{}
	c, first, last := in.command.(placementCommand), in.from, in.to
	if !out.at.IsZero() {
		first, last, out.at = out.at, out.at, time.Time{}
	}
	for at := first; !at.After(last); at = at.Add(tick) {
		for _, s := range evictions(from, at.UnixMilli()) {
			if !out.known {
				next[s] = true // a store that failed may have done nothing
			}
			for _, step := range stepPlacement(s, c, in.from, at) {
				if !out.known || step.out == out {
					next[step.after] = true
				}
			}
		}
	}
	return next
}

// evictions are the states to which a state may have come by evictions alone. Who evicts one evicts all whose leases
// ended before.
func evictions(s placementState, at int64) []placementState {
	all := []placementState{s}
	for {
		ended := -1
		for i, m := range s.members {
			if m.live && m.ends <= at && (ended < 0 || m.ends < s.members[ended].ends) {
				ended = i
			}
		}
		if ended < 0 {
			return all
		}
		s.members[ended].live = false
		all = append(all, s)
	}
}

type placementOutcome struct {
	after placementState
	out   output
}

// stepPlacement are the ways in which a command may end that was sent at since and is carried out now.
func stepPlacement(s placementState, c placementCommand, since, now time.Time) []placementOutcome {
	at := now.UnixMilli()
	i := slices.Index(historyMembers, c.member)
	m := &s.members[i]
	says := func(code string) []placementOutcome { return []placementOutcome{{s, output{known: true, code: code}}} }
	shows := func(code string) []placementOutcome { return []placementOutcome{{s, s.shown(code)}} }
	switch c.do {
	case "sweep":
		if s.phase == "FREE" || s.alive() {
			return nil
		}
		s.phase, s.until = "FREE", 0
		return says("OK")
	case "join":
		n := slices.Index(m.joins[:], c.request)
		switch {
		case n == 0 && m.live:
			return []placementOutcome{{s, output{known: true, code: "OK", token: m.number}}}
		case n >= 0:
			return says("REQUEST_ID_REUSED")
		case m.live && at < m.ends:
			return says("MEMBER_EXISTS")
		}
		push(&m.joins, c.request)
		m.live, m.ends, m.seq = true, now.Add(c.ttl).UnixMilli(), 0
		last := m.number
		var ends []placementOutcome
		// the number is of the time at which the join was decided
		for read := since; !read.After(now); read = read.Add(tick) {
			m.number = max(last+1, read.UnixMicro()+1)
			ends = append(ends, placementOutcome{s, output{known: true, code: "OK", token: m.number}},
				placementOutcome{s, output{known: true, code: "LEASE_EXPIRED"}}) // if the response was late
		}
		return ends
	case "beat":
		switch {
		case m.number == 0:
			return says("MEMBER_UNKNOWN")
		case !m.live || m.number != c.number:
			return says("STALE_INCARNATION")
		case c.seq > m.seq:
			m.seq, m.ends = c.seq, now.Add(c.ttl).UnixMilli()
			// if the response was late
			return append(says("OK"), placementOutcome{s, output{known: true, code: "LEASE_EXPIRED"}})
		case m.ends <= at:
			return says("LEASE_EXPIRED")
		default:
			return append(says("OK"), placementOutcome{s, output{known: true, code: "LEASE_EXPIRED"}})
		}
	case "leave":
		if !m.live || m.number != c.number {
			// One that left by itself is told so again; who it was, the model does not keep.
			return append(says("STALE_INCARNATION"), says("OK")...)
		}
		m.live = false
		return says("OK")
	case "lookup":
		if !s.determined() {
			return says("TOPOLOGY_UNDETERMINED")
		}
		return shows("OK")
	case "claim":
		n := slices.Index(s.claims[:], c.request)
		switch {
		case n == 0 && s.alive() && (s.phase != "LOCKED" || at < s.until):
			return shows("OK")
		case n >= 0:
			return shows("REQUEST_ID_REUSED")
		case !s.determined():
			return says("TOPOLOGY_UNDETERMINED")
		case s.alive() && s.phase == "LOCKED" && at < s.until:
			return shows("ACTIVATION_LOCKED")
		case s.alive() && s.phase != "LOCKED":
			return shows("ACTIVATION_EXISTS")
		}
		var ends []placementOutcome
		for j, to := range s.members {
			if !to.live || c.self && (j != i || to.number != c.number) {
				continue
			}
			g := s
			push(&g.claims, c.request)
			g.token, g.owner, g.number, g.phase, g.until = s.token+1, j, to.number, "LOCKED", now.Add(c.ttl).UnixMilli()
			if c.self {
				g.phase, g.until = "ACTIVE", 0
			}
			ends = append(ends, placementOutcome{g, g.shown("OK")}, placementOutcome{g, g.shown("LEASE_EXPIRED")})
		}
		if c.self { // it is placed on another member
			ends = append(ends, says("MEMBER_INELIGIBLE")...)
		}
		return ends
	}
	held := s.token == c.token && s.owner == i && s.number == c.number
	switch {
	case s.token != c.token:
		return says("STALE_TOKEN")
	case !held:
		return says("NOT_OWNER")
	case c.do == "activated" && s.phase == "LOCKED" && !s.alive():
		return says("MEMBER_INELIGIBLE")
	case c.do == "activated" && s.phase == "LOCKED":
		s.phase, s.until = "ACTIVE", 0
	case c.do == "activated" && s.phase == "ACTIVE":
	case c.do == "deactivate":
		s.phase, s.until = "FREE", 0
	case c.do == "write" && slices.Contains(s.writes[:], c.request):
	case c.do == "write" && s.phase != "FREE" && s.version == c.version:
		push(&s.writes, c.request)
		s.version++
	case c.do == "write" && s.phase != "FREE":
		return says("STATE_CHANGED")
	default:
		return says("WRONG_PHASE")
	}
	return says("OK")
}
