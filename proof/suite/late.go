package suite

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/leasehold-dev/leasehold/kazahana"
	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/machineid"
	"github.com/leasehold-dev/leasehold/repo/placement"
)

// Late is where programs of late requests run: each request names its end, is held back, and delivered twice, to any
// process, or stopped there between what it reads and what it writes.
type Late struct {
	Stores []docstore.Store // of the processes
	Now    func() time.Time // the true time
	Sleep  func(time.Duration)

	// Unsure is how much earlier than at its end a request may be refused: how wide the time of a store without a clock
	// is.
	Unsure time.Duration
}

// LateOn is [Late] on a store with a clock, with two processes.
func LateOn(store docstore.Store, clock *Clock) Late {
	return Late{Stores: []docstore.Store{store, store}, Now: clock.Now, Sleep: clock.Advance}
}

// LateCounts is what became of the deliveries of a program.
type LateCounts struct{ Effects, TooLate, TooFar, Repeated int }

// enough reports whether a program, or several, put the ends to the test.
func (c LateCounts) enough() bool { return min(c.Effects, c.TooLate, c.TooFar) > 0 }

// Add adds what became of the deliveries of another program.
func (c *LateCounts) Add(o LateCounts) {
	c.Effects, c.TooLate, c.TooFar = c.Effects+o.Effects, c.TooLate+o.TooLate, c.TooFar+o.TooFar
	c.Repeated += o.Repeated
}

// lateRequests runs a program of late requests on a store.
func lateRequests(t *testing.T, newStore func(*testing.T, func() time.Time) docstore.Store,
	run func(ctx context.Context, l Late, name string, seed uint64) (LateCounts, error)) {
	clock := NewClock()
	store := newStore(t, clock.Now)
	var sum LateCounts
	for seed := range AtDepth(uint64(3), 40) {
		n, err := run(t.Context(), LateOn(store, clock), fmt.Sprint("late-", seed), seed)
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		sum.Add(n)
		clock.Advance(24 * time.Hour) // what it leased has ended
	}
	if !sum.enough() {
		t.Errorf("the ends were not put to the test: %+v", sum)
	}
}

// stopped is a store before which a process stops: the next write comes later.
type stopped struct {
	through

	l    *Late
	stop time.Duration
	sent time.Time // the latest write
}

func (s *stopped) Write(ctx context.Context, writes ...docstore.Write) (docstore.Result, error) {
	if s.stop > 0 {
		s.l.Sleep(s.stop)
		s.stop = 0
	}
	s.sent = s.l.Now()
	return s.through.Write(ctx, writes...)
}

// lateRequest is a request with an end.
type lateRequest struct {
	what string
	end  time.Time
	do   func(ctx context.Context, process int, end time.Time) (lateOutcome, error)
	did  bool // it had its effect
}

// lateOutcome is what a delivery led to.
type lateOutcome struct {
	code string // OK, TOO_LATE, TOO_FAR or another
	at   time.Time
	once bool // a second delivery has no effect of its own
}

// lateDelivery is a delivery of a request.
type lateDelivery struct {
	*lateRequest

	at      time.Time
	process int
	stop    time.Duration
}

// lateProgram delivers requests and looks at what each delivery changes.
type lateProgram struct {
	Late

	random *rand.Rand
	stores []*stopped
	dump   func(context.Context) (string, error)
	counts LateCounts
}

func newLateProgram(l Late, seed uint64) *lateProgram {
	p := &lateProgram{Late: l, random: rand.New(rand.NewPCG(seed, 7))}
	for _, s := range l.Stores {
		p.stores = append(p.stores, &stopped{through: through{s}, l: &p.Late})
	}
	return p
}

// deliveries are those of a request that is sent now.
func (p *lateProgram) deliveries(r *lateRequest) (all []lateDelivery) {
	now := p.Now()
	pick := func(ms ...int) time.Duration { return time.Duration(ms[p.random.IntN(len(ms))]) * time.Millisecond }
	left := pick(1, 100, 1000, 2000, 9000, 30_000)
	switch p.random.IntN(6) {
	case 0: // further away than it may be, by a little or by much
		left = docstore.MaxAhead + pick(1, 1000, 9*3_600_000) + p.Unsure
	case 1: // as far as it may be
		left = docstore.MaxAhead - p.Unsure
	default:
	}
	r.end = now.Add(left)
	for range 2 {
		d := lateDelivery{lateRequest: r, process: p.random.IntN(len(p.stores))}
		held := pick(0, 0, 100, 1000, 5000, 9000, 30_000, 120_000)
		if left < docstore.MaxAhead/2 && p.random.IntN(3) == 0 { // at the end, and beyond it
			held = left + pick(0, 1, 10*int(left.Milliseconds()))
		}
		d.at = now.Add(held)
		if p.random.IntN(4) == 0 {
			d.stop = pick(1, 100, 2000, 9000, 120_000)
		}
		all = append(all, d)
	}
	return all
}

// deliver delivers a request, and says what is wrong with its effect.
func (p *lateProgram) deliver(ctx context.Context, d lateDelivery) error {
	if wait := d.at.Sub(p.Now()); wait > 0 {
		p.Sleep(wait)
	}
	before, err := p.dump(ctx)
	if err != nil {
		return err
	}
	store := p.stores[d.process]
	begin := p.Now()
	store.stop, store.sent = d.stop, time.Time{}
	got, err := d.do(ctx, d.process, d.end)
	stop := d.stop - store.stop // it may not have come to a write
	store.stop = 0
	if err != nil {
		return fmt.Errorf("%s: %w", d.what, err)
	}
	after, err := p.dump(ctx)
	if err != nil {
		return err
	}
	bad := func(what string) error {
		return fmt.Errorf("%s, which ends at %s, delivered at %s and written at %s: %s: %+v\nbefore %s\nafter  %s", d.what,
			written(d.end), written(begin), written(store.sent), what, got, before, after)
	}
	changed, last := before != after, begin.Add(stop)
	switch {
	case changed && (store.sent.After(d.end) || d.end.After(store.sent.Add(docstore.MaxAhead+p.Unsure))):
		return bad("changed something out of its time")
	case changed && got.code != "OK":
		return bad("changed something, and was refused")
	case changed && d.did && got.once:
		return bad("had its effect twice")
	case got.code == "TOO_LATE" && (!got.at.After(d.end) || !last.Add(p.Unsure).After(d.end)):
		return bad("is not too late")
	case got.code == "TOO_FAR" && !d.end.After(begin.Add(docstore.MaxAhead-p.Unsure)):
		return bad("is not too far away")
	case (got.code == "TOO_LATE" || got.code == "TOO_FAR") && d.did && got.once:
		return bad("had its effect before")
	case got.code == "OK" && !changed && !d.did:
		return bad("had no effect")
	case got.code != "TOO_LATE" && last.After(d.end) && !d.did:
		return bad("is too late")
	}
	switch {
	case changed:
		p.counts.Effects++
		d.did = true
	case got.code == "TOO_LATE":
		p.counts.TooLate++
	case got.code == "TOO_FAR":
		p.counts.TooFar++
	case d.did:
		p.counts.Repeated++
	}
	return nil
}

// play sends requests, one a second on the average, and delivers them.
func (p *lateProgram) play(ctx context.Context, n int, next func(i int) (*lateRequest, error)) error {
	var due []lateDelivery
	flush := func(until time.Time) error {
		slices.SortStableFunc(due, func(a, b lateDelivery) int { return a.at.Compare(b.at) })
		for len(due) > 0 && !due[0].at.After(until) {
			d := due[0]
			due = due[1:]
			if err := p.deliver(ctx, d); err != nil {
				return err
			}
		}
		return nil
	}
	for i := range n {
		if err := flush(p.Now()); err != nil {
			return err
		}
		r, err := next(i)
		if err != nil {
			return err
		}
		due = append(due, p.deliveries(r)...)
		p.Sleep(time.Duration(p.random.IntN(2000)) * time.Millisecond)
	}
	return flush(p.Now().Add(24 * time.Hour))
}

// LatePlacements is a program of joins, replaces, claims and transfers that come late. What comes after its end changes
// nothing, in whatever step it was stopped; what had its effect before returns that.
func LatePlacements(ctx context.Context, l Late, name string, seed uint64) (LateCounts, error) {
	p := newLateProgram(l, seed)
	cluster := placement.Cluster{Tenant: "acme", Name: name}
	var processes []*placement.Service
	for _, s := range p.stores {
		processes = append(processes, placement.New(s, &placement.Options{
			Now: p.Now, Sleep: func(ctx context.Context, _ time.Duration) error { return ctx.Err() },
		}))
	}
	p.dump = func(ctx context.Context) (string, error) {
		var b strings.Builder
		for _, kind := range []string{"placement_clusters", "placement_epochs", "placement_members",
			"placement_member_leases", "placement_events", placement.ActivationKind} {
			page, err := l.Stores[0].List(ctx, docstore.Query{Kind: kind, Tenant: "acme/" + name, Limit: docstore.MaxLimit})
			if err != nil {
				return "", err
			}
			for _, e := range page.Entries {
				fmt.Fprintf(&b, "\n\t%s %v", e.Key, e.Doc)
			}
		}
		return b.String(), nil
	}
	join := func(member string, request string) placement.Join {
		return placement.Join{
			Cluster: cluster, Member: member, RequestID: request, TTL: time.Hour, Partitions: placement.MinPartitions,
			Offer: placement.Offer{Kinds: []string{"room"}},
		}
	}
	of := func(what string, do func(context.Context, *placement.Service, time.Time) (placement.Code, time.Time,
		error)) *lateRequest {
		return &lateRequest{what: what, do: func(ctx context.Context, process int, end time.Time) (lateOutcome, error) {
			code, at, err := do(ctx, processes[process], end)
			return lateOutcome{string(code), at, true}, err
		}}
	}
	joins := func(what string, c placement.Join) *lateRequest {
		return of(what+" "+c.Member, func(ctx context.Context, s *placement.Service, end time.Time) (placement.Code,
			time.Time, error) {
			c.NotAfter = end
			o, err := s.Join(ctx, c)
			return o.Code, o.At, err
		})
	}
	if p.random.IntN(2) == 0 { // otherwise the first join sets the cluster up, perhaps too late
		if _, err := processes[0].Join(ctx, join("ann", "first")); err != nil {
			return p.counts, err
		}
	}
	err := p.play(ctx, 16, func(i int) (*lateRequest, error) {
		member, request := fmt.Sprint("m", i), fmt.Sprint("r", i)
		id := roomOf(fmt.Sprint("x", i))
		top, err := processes[0].Topology(ctx, cluster)
		if err != nil || !top.Ready() {
			return joins("join", join(member, request)), err
		}
		claim := placement.Claim{Cluster: cluster, Identity: id, RequestID: request, LockTTL: time.Hour}
		switch p.random.IntN(4) {
		case 0:
			return joins("join", join(member, request)), nil
		case 1:
			c := join(member, request)
			c.Replaces = top.Members[p.random.IntN(len(top.Members))].Incarnation
			return joins("replace", c), nil
		case 2:
			return of("claim", func(ctx context.Context, s *placement.Service, end time.Time) (placement.Code, time.Time,
				error) {
				claim.NotAfter = end
				o, err := s.Claim(ctx, claim)
				return o.Code, o.At, err
			}), nil
		default:
			o, err := processes[0].Claim(ctx, claim)
			if err != nil || o.Code != placement.OK {
				return nil, cmp.Or(err, fmt.Errorf("a claim in time: %+v", o))
			}
			hold := placement.Hold{Cluster: cluster, Identity: id, Owner: o.Activation.Owner, Token: o.Activation.Token}
			if o, err = processes[0].Activated(ctx, placement.Activated{Hold: hold}); err != nil || o.Code != placement.OK {
				return nil, cmp.Or(err, fmt.Errorf("an activation: %+v", o))
			}
			transfer := placement.Transfer{Hold: hold, RequestID: request, LockTTL: time.Hour}
			transfer.To = top.Members[p.random.IntN(len(top.Members))].Member
			return of("transfer", func(ctx context.Context, s *placement.Service, end time.Time) (placement.Code, time.Time,
				error) {
				transfer.NotAfter = end
				o, err := s.Transfer(ctx, transfer)
				return o.Code, o.At, err
			}), nil
		}
	})
	return p.counts, err
}

// LateMachineIDs is a program of requests for one and several machine IDs, in one page and in two, that come late. What
// comes after its end leases nothing.
func LateMachineIDs(ctx context.Context, l Late, _ string, seed uint64) (LateCounts, error) {
	p := newLateProgram(l, seed)
	config := machineid.DefaultService()
	config.BitTs, config.BitID = 45, 10                                          // four pages
	config.CustomEpoch = time.Date(1999, 1, 1, 0, 0, 0, 0, time.UTC).UnixMilli() // clocks of bubbles begin in 2000
	var processes []*machineid.Service
	for _, s := range p.stores {
		m, err := machineid.New(s, []machineid.ServiceConfig{config}, &machineid.Options{Now: p.Now})
		if err != nil {
			return p.counts, err
		}
		processes = append(processes, m)
	}
	p.dump = func(ctx context.Context) (string, error) {
		page, err := l.Stores[0].List(ctx, docstore.Query{Kind: machineid.Kind, Tenant: machineid.DefaultSpace,
			Limit: docstore.MaxLimit})
		return fmt.Sprint(page.Entries), err
	}
	if _, err := processes[0].Acquire(ctx, kazahana.AcquireOptions{}); err != nil { // it sets the space up
		return p.counts, err
	}
	err := p.play(ctx, 16, func(int) (*lateRequest, error) {
		n := []int64{1, 1, 3, 200}[p.random.IntN(4)]
		return &lateRequest{what: fmt.Sprint(n, " leases"), do: func(ctx context.Context, process int,
			end time.Time) (lateOutcome, error) {
			_, err := processes[process].Acquire(ctx, kazahana.AcquireOptions{ThroughputPerMs: n * 256, NotAfter: end})
			o := lateOutcome{code: "OK"}
			if ended, ok := errors.AsType[*machineid.EndError](err); ok {
				o.code, o.at = ended.Code, ended.At
				return o, nil
			}
			if errors.Is(err, kazahana.ErrExhausted) {
				return lateOutcome{code: "EXHAUSTED"}, nil
			}
			return o, err
		}}, nil
	})
	return p.counts, err
}

// Unsure is a store without a clock of its own: the time may be later by a margin, and it refuses a write by the latest
// that it can be.
type Unsure struct {
	docstore.Store

	Now    func() time.Time
	Margin time.Duration
}

// Write refuses what comes too late by the latest time, and asks the store about everything else.
func (s Unsure) Write(ctx context.Context, writes ...docstore.Write) (docstore.Result, error) {
	at := s.Now()
	for i, w := range writes {
		if w.InTime(at.Add(s.Margin)) {
			continue
		}
		snap, err := s.Get(ctx, w.Key)
		r := docstore.Result{At: at, Margin: s.Margin, Docs: make([]docstore.Doc, len(writes)), Refused: []int{i}}
		if err == nil {
			r.Docs[i] = snap.Docs[0]
		}
		return r, err
	}
	return s.Store.Write(ctx, writes...)
}
