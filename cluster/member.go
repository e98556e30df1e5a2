package cluster

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/leasehold-dev/leasehold/contracts"
	"github.com/leasehold-dev/leasehold/internal/backoff"
	"github.com/leasehold-dev/leasehold/internal/hold"
	"github.com/leasehold-dev/leasehold/internal/lease"
	"github.com/leasehold-dev/leasehold/internal/term"
)

// Activation is an identity that a member serves, or is to serve.
type Activation struct {
	Identity

	Token        int64  // the fencing token: higher than all before; pass it on to whatever the activation writes to
	State        []byte // that owners stored, as far as the member knows
	StateVersion int64  // how often it was stored

	Alarm time.Time // for when its alarm is set, see [Member.SetAlarm]; zero for none
}

// Host is what a program does with the identities that its member is given. Its methods are called from several
// goroutines at once, and for one identity one after the other.
type Host interface {
	// Activate begins to serve an identity. ctx lasts as long as the activation; when it is lost, it ends with an
	// [ErrLost]. An error, or a panic, frees the identity, and is the reason that those who wait for it are given. It must
	// return when ctx ends, within [Options.DeactivateWithin].
	Activate(ctx context.Context, a Activation) error

	// Deactivate ends what Activate began; the context of Activate has ended. While the identity still belongs to the
	// member, that is unless reason is an [ErrLost], a last state can be stored with [Member.WriteState].
	Deactivate(ctx context.Context, a Activation, reason error)
}

// Options are the settings of [NewMember]. Without Kinds the member hosts nothing.
type Options struct {
	Kinds   []string          // of identities that the member hosts
	Labels  map[string]string // for placements that require or prefer some
	Weight  int64             // share of the partitions, relative to the other members; 0 means 1
	Address string            // where the member is reached, for its clients

	// TTL is how long the member's lease lasts after a heartbeat, in whole seconds from 3 s to an hour; 0 means 10 s. A
	// heartbeat is sent every third of it. Another member can have the identities of a process that died when so much has
	// passed.
	TTL time.Duration

	// ActivateWithin bounds [Host.Activate]: after it the context of an activation ends, and the identity is free with
	// that reason. It is for hosts that hang. 0 means 9 minutes, and more than that is refused: a provider gives the
	// identity to the next claim 10 minutes after the one before.
	ActivateWithin time.Duration

	// DeactivateWithin bounds [Host.Deactivate], and [Host.Activate] from when its context has ended. A call that has not
	// returned by then is an event, [Abandoned], and the identity goes on without it: it is free, or another member's, and
	// its token protects it. The context of Deactivate ends when nine tenths of the time have passed. What the call does
	// with the member it must do by that context, since the member may have the identity again. 0 means 10 s; 9 minutes at
	// most.
	DeactivateWithin time.Duration

	// AlarmWithin bounds [Alarmer.Alarm]: after it its context ends, and DeactivateWithin later the call is an event,
	// [Abandoned], and no one waits for it any more; the alarm is fired again. 0 means a minute; 9 minutes at most.
	AlarmWithin time.Duration

	// Partitions is what the first member of a cluster sets it up with; 0 means the provider's default.
	Partitions int64

	// Replaces is an incarnation in whose place the member joins, for rolling deployments: it gets its partitions, and no
	// others. It is used for the first join.
	Replaces contracts.Incarnation

	// ServeOnly: the member does not follow the events of the cluster, so that [Member.Serve] alone activates. It is the
	// way for callers that connect to members anyway. One that follows them gets those that concern it, within about a
	// second; a look at the store a second serves all members of a process, or of a server. A host that is an [Alarmer]
	// cannot have ServeOnly: members learn of alarms by events.
	ServeOnly bool

	// IdleAfter is how long nothing has used an activation when the member ends it, with [ErrIdle]: it calls
	// [Host.Deactivate], in which the last state can be stored, then frees the identity. A request that comes meanwhile is
	// served by the next activation. What uses one is [Member.Serve] when it is called, and [Member.Hold] until the
	// release. It ends up to a quarter later. 0 means never; otherwise 1 ms or more.
	IdleAfter time.Duration

	// Grace is how long the member waits for those who hold an activation ([Member.Hold], [Handler]) before it gives it
	// away, because it stops, is drained, or [Member.Deactivate] was called. Then their contexts end. 0 means 5 s.
	Grace time.Duration

	// Rebalance has the member hand over what it has and the current epoch places elsewhere, a few at a time. nil is
	// never: what is active stays where it is, which suffices where IdleAfter ends most activations soon.
	Rebalance *Rebalance

	// Observe is called for each event, in their order, one at a time. nil drops them. Nothing waits for it for longer
	// than a second; a thousand events wait for one that takes longer, and those beyond them are dropped: see
	// [Event.Dropped].
	Observe func(Event)

	clock term.Clock // nil means the process's clocks
}

// maxActivation is the longest time that an activation may take: less than the lock of its claim lasts, by the time
// until the member has learned of it.
const maxActivation = 9 * time.Minute

// deactivation is the time that a host has to end an activation.
const deactivation = 10 * time.Second

// Member hosts identities in a cluster. Its methods may be called from several goroutines at once.
type Member struct {
	*component

	provider Provider
	host     Host
	o        Options

	mu     sync.Mutex
	ctx    context.Context //nolint:containedctx // from Start to Stop
	cancel context.CancelCauseFunc
	done   chan struct{} // closed when Stop has released everything
	offer  Offer         // with which it joins again

	failures failures

	stopping bool         // by Stop
	life     *incarnation // nil without an incarnation
	acts     map[Identity]*activation
}

// NewMember returns a member of this name, which differs from that of every other member. Options may be nil.
func NewMember(p Provider, name string, host Host, o *Options) (*Member, error) {
	m := &Member{provider: p, host: host, acts: map[Identity]*activation{}}
	if o != nil {
		m.o = *o
	}
	m.o.TTL = cmp.Or(m.o.TTL, 10*time.Second)
	m.o.ActivateWithin = cmp.Or(m.o.ActivateWithin, maxActivation)
	m.o.DeactivateWithin = cmp.Or(m.o.DeactivateWithin, deactivation)
	m.o.AlarmWithin = cmp.Or(m.o.AlarmWithin, alarmWithin)
	m.offer = Offer{Kinds: m.o.Kinds, Labels: m.o.Labels, Weight: m.o.Weight, Address: m.o.Address}
	if m.o.clock == nil {
		m.o.clock = term.Now
	}
	m.component = newComponent(AsMember, name, m.o.Observe)
	m.left = m.leaseLeft
	_, alarms := host.(Alarmer)
	switch {
	case p == nil || host == nil:
		return nil, errors.New("a member needs a Provider and a Host")
	case name == "":
		return nil, errors.New(
			"the name of a member must not be empty: take one that no other process has, such as the host's")
	case m.o.TTL < 3*time.Second || m.o.TTL > time.Hour || m.o.TTL%time.Second != 0:
		return nil, fmt.Errorf("Options.TTL is %v: must be whole seconds from 3s to 1h", m.o.TTL)
	case m.o.ActivateWithin < 0 || m.o.ActivateWithin > maxActivation:
		return nil, fmt.Errorf("Options.ActivateWithin is %v: must be up to %v", m.o.ActivateWithin, maxActivation)
	case m.o.DeactivateWithin < 0 || m.o.DeactivateWithin > maxActivation:
		return nil, fmt.Errorf("Options.DeactivateWithin is %v: must be up to %v", m.o.DeactivateWithin, maxActivation)
	case m.o.AlarmWithin < 0 || m.o.AlarmWithin > maxActivation:
		return nil, fmt.Errorf("Options.AlarmWithin is %v: must be up to %v", m.o.AlarmWithin, maxActivation)
	case m.o.ServeOnly && alarms:
		return nil, errors.New("Options.ServeOnly: a host with a method Alarm needs a member that follows events: leave it out")
	case m.o.IdleAfter != 0 && m.o.IdleAfter < time.Millisecond:
		return nil, fmt.Errorf("Options.IdleAfter is %v: must be 0, or 1ms or more", m.o.IdleAfter)
	case m.o.Grace < 0:
		return nil, fmt.Errorf("Options.Grace is %v: must not be negative", m.o.Grace)
	}
	if m.o.Rebalance != nil {
		r := *m.o.Rebalance
		if err := r.complete(); err != nil {
			return nil, err
		}
		m.o.Rebalance = &r
	}
	return m, nil
}

func (m *Member) seconds() int64 { return int64(m.o.TTL / time.Second) }

// Incarnation is under which number the member is in the cluster; 0 if it is not.
func (m *Member) Incarnation() int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.life == nil || m.life.Check() != nil {
		return 0
	}
	return m.life.number
}

// Start joins the cluster and serves from then on, until [Member.Stop]. A join that is rejected is an error, and the
// member is Stopped. A process that died and was started again finds a member of its name, and waits until the lease of
// that ends; if it is extended meanwhile, another process has the name: the error is MEMBER_EXISTS. While the
// provider cannot be reached, Start tries again until ctx ends. What it joined as then, without learning of it, leaves
// again in the background, also if the request arrives later; Stop waits for the first try of that.
func (m *Member) Start(ctx context.Context) error {
	if !m.change(Starting, 0, nil, Stopped) {
		return &StateError{m.Status()}
	}
	m.mu.Lock()
	m.ctx, m.cancel = context.WithCancelCause(context.WithoutCancel(ctx))
	done := make(chan struct{})
	m.done, m.stopping = done, false
	joining, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(m.ctx, func() { cancel(errStopped) })()
	m.mu.Unlock()
	l, a, err := m.join(joining, m.o.Replaces, false)
	if err != nil {
		m.cancel(err)
		m.change(Stopped, 0, err, Starting)
		go func() {
			m.takeBack(ctx, a)
			close(done)
		}()
		return err
	}
	m.change(Ready, l.number, nil, Starting)
	go m.run(l)
	return nil
}

// joinTry is the time of a try to join, or a third of the lease if that is more: a provider that takes longer would be
// too slow for the heartbeats, too.
const joinTry = 2 * time.Second

// soon are the pauses of a member that is not in the cluster: it is back within a second of its provider.
var soon = backoff.Policy{First: 200 * time.Millisecond, Max: time.Second, Min: 50 * time.Millisecond}

// join makes a new incarnation. With again, it waits for the lease of an earlier one to end, and does not give up
// before ctx ends.
func (m *Member) join(ctx context.Context, replaces contracts.Incarnation, again bool) (*incarnation, attempt, error) {
	earlier := again // the member of this name may be an incarnation of this one
	a := attempt{id: rand.Text(), replaces: replaces}
	var l *incarnation
	var named contracts.Error // the member of this name, as the first response had it
	lives := false            // it has sent a heartbeat since, or is another one
	try := func(ctx context.Context) (spent bool, err error) {
		asked := m.o.clock()
		if !a.begun {
			a.begun, a.first = true, asked
		}
		s, err := m.ask(ctx, a, "")
		a.until, a.unsure = m.o.clock(), a.unsure || err != nil && lease.Unsettled(err)
		if err == nil {
			l = m.live(s, asked, a.first)
			if l.Check() == nil {
				return false, nil
			}
			err = contracts.CodeLeaseExpired
		}
		if e, ok := errors.AsType[*contracts.Error](err); ok && e.Code == contracts.CodeMemberExists {
			if named.Code == "" {
				named = *e
			}
			lives = e.RetryAfter <= 0 || e.Incarnation != named.Incarnation || !e.ExpiresAt.Equal(named.ExpiresAt)
		}
		// it had joined, for a moment
		if errors.Is(err, contracts.CodeLeaseExpired) || errors.Is(err, contracts.CodeRequestIDReused) {
			a, earlier, spent = attempt{id: rand.Text()}, true, true
		}
		return spent, err
	}
	final := func(err error) bool {
		switch {
		case errors.Is(err, contracts.CodeLeaseExpired), errors.Is(err, contracts.CodeRequestIDReused):
			return false
		case errors.Is(err, contracts.CodeMemberExists):
			return lives && !earlier
		default:
			return !again && lease.Final(err)
		}
	}
	insist := hold.Insist{Each: max(joinTry, m.every()), Pauses: soon, Final: final}
	_, err := m.component.insist(ctx, Event{}, "join", insist, func(ctx context.Context) error {
		repeated := a.unsure
		spent, err := try(ctx)
		if spent && repeated { // what an earlier try has joined as is over: nothing is to be waited for
			_, err = try(ctx)
		}
		return err
	})
	if err != nil {
		return nil, a, fmt.Errorf("join as %q: %w", m.name, err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.life = l
	return l, a, nil
}

// ask sends a join once, with an end if that is not empty.
func (m *Member) ask(ctx context.Context, a attempt, end contracts.NotAfter) (contracts.MemberState, error) {
	m.mu.Lock()
	o := m.offer
	m.mu.Unlock()
	if a.replaces.Member != "" {
		return m.provider.Replace(ctx, m.name, contracts.MemberReplaceRequest{
			RequestID: a.id, NotAfter: end, Kinds: o.Kinds, Labels: o.Labels, Weight: o.Weight, Full: o.Full,
			Address: o.Address, TTLSeconds: m.seconds(), Replaces: a.replaces,
		})
	}
	return m.provider.Join(ctx, m.name, contracts.MemberJoinRequest{
		RequestID: a.id, NotAfter: end, Kinds: o.Kinds, Labels: o.Labels, Weight: o.Weight, Full: o.Full,
		Address: o.Address, TTLSeconds: m.seconds(), Partitions: m.o.Partitions,
	})
}

// run keeps the member in the cluster until it stops.
func (m *Member) run(l *incarnation) {
	defer func() {
		m.change(Stopped, 0, nil, Draining, NotReady, Ready)
		close(m.done)
	}()
	for {
		var keepers sync.WaitGroup
		keepers.Go(func() { l.Watch(l.Context()) })
		keepers.Go(func() { m.heartbeat(l).Run(l.Context(), l.due) })
		keepers.Go(func() { m.handOver(l) })
		if !m.o.ServeOnly {
			keepers.Go(func() { m.follow(l) })
		}
		if m.o.IdleAfter > 0 {
			keepers.Go(func() { m.passivate(l) })
		}
		if m.o.Rebalance != nil {
			keepers.Go(func() { m.rebalance(l) })
		}
		<-l.Context().Done()
		cause := context.Cause(l.Context())
		m.change(NotReady, l.number, cause, Ready)
		for _, a := range m.stopAccepting(l) {
			keepers.Go(func() { m.finish(m.ctx, a, cause, nil) })
		}
		keepers.Wait()
		l.work.Wait() // only then may the identities be activated here again
		m.mu.Lock()
		m.life = nil
		m.mu.Unlock()
		if m.ctx.Err() != nil {
			return
		}
		// If the cluster still has the old incarnation, its activations are free sooner when it leaves.
		ctx, cancel := context.WithTimeout(m.ctx, m.every())
		_, _ = m.provider.Leave(ctx, m.name, contracts.MemberRequest{Incarnation: l.number}) // or its lease ends
		cancel()
		if m.Status().State == Draining { // it would be given activations if it joined again
			<-m.ctx.Done()
			return
		}
		next, a, err := m.join(m.ctx, contracts.Incarnation{}, true)
		if err != nil {
			m.takeBack(m.ctx, a)
			return
		}
		l = next
		m.change(Ready, l.number, nil, NotReady)
	}
}

// Stop hands over what the member serves, leaves the cluster and releases everything. When ctx ends first, what is left
// is dropped: its contexts end, and others have it when the lease of the member ends; the error says so.
func (m *Member) Stop(ctx context.Context) error {
	var is State
	for again := true; again; again = is == Ready || is == NotReady { // it was Starting, and became Ready in between
		m.change(Draining, m.Incarnation(), nil, Ready, NotReady)
		is = m.Status().State
	}
	m.mu.Lock()
	cancel, done, l, first := m.cancel, m.done, m.life, !m.stopping
	m.stopping = true
	m.mu.Unlock()
	if done == nil {
		return nil
	}
	switch is {
	case Starting:
		cancel(errStopped)
	case Draining:
		if first {
			go func() {
				m.leave(ctx, l)
				cancel(errStopped)
			}()
		}
	default:
	}
	select {
	case <-done:
	case <-ctx.Done():
		cancel(errStopped)
		return fmt.Errorf("stop %q: what it serves was not handed over: %w", m.name, context.Cause(ctx))
	}
	return nil
}

// leave hands over what the member has, and leaves the cluster.
func (m *Member) leave(ctx context.Context, l *incarnation) {
	if l == nil {
		return
	}
	m.toDrain(l, errStopped)
	select {
	case <-l.drained:
	case <-ctx.Done():
		return
	}
	if l.Check() != nil {
		return
	}
	m.carryOut(ctx, Event{Incarnation: l.number}, "leave", func(ctx context.Context) error {
		_, err := m.provider.Leave(ctx, m.name, contracts.MemberRequest{Incarnation: l.number})
		return err
	})
}

// Drain hands over what the member serves. From then on it is Draining: it stays in the cluster and serves nothing,
// until [Member.Stop]. So it is when an operator drains it, or another member takes its place, of which it learns by
// its next heartbeat. A member that loses its lease then does not join again.
//
// Drain returns when everything was handed over. When ctx ends before, that goes on. A member that is Draining is
// waited for; in any other state than Ready the error is a [StateError].
func (m *Member) Drain(ctx context.Context) error {
	m.change(Draining, m.Incarnation(), errDrained, Ready)
	if s := m.Status(); s.State != Draining {
		return &StateError{s}
	}
	m.mu.Lock()
	l := m.life
	m.mu.Unlock()
	if l == nil {
		return nil
	}
	m.toDrain(l, errDrained)
	select {
	case <-l.drained:
		return l.Check()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// toDrain makes an incarnation hand over what it has, once.
func (m *Member) toDrain(l *incarnation, why error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if l.why == nil {
		l.why = why
		close(l.drain)
	}
}

// handOvers is how many identities a member hands over at a time.
const handOvers = 16

// hands has room for so many identities that end at a time. One whose host takes long gives its place back meanwhile:
// all begin to end within the time that a host has for one, whatever others do.
type hands struct {
	room chan struct{}
	most time.Duration // in a place
}

func (m *Member) hands(all int) *hands {
	return &hands{make(chan struct{}, handOvers), m.o.DeactivateWithin * handOvers / time.Duration(max(all, handOvers))}
}

// enter waits for a place, which is given back by the result at the latest. Without hands there is room for all.
func (h *hands) enter() (leave func()) {
	if h == nil {
		return func() {}
	}
	h.room <- struct{}{}
	back := sync.OnceFunc(func() { <-h.room })
	end := time.AfterFunc(h.most, back)
	return func() {
		end.Stop()
		back()
	}
}

// handOver gives away what an incarnation has, when it is to.
func (m *Member) handOver(l *incarnation) {
	defer close(l.drained)
	ctx := l.Context()
	select {
	case <-l.drain:
	case <-ctx.Done():
		return
	}
	m.carryOut(ctx, Event{Incarnation: l.number}, "drain", func(ctx context.Context) error {
		_, err := m.provider.Drain(ctx, m.name, contracts.MemberRequest{Incarnation: l.number})
		return err
	})
	var ends sync.WaitGroup
	all := m.stopAccepting(l)
	room := m.hands(len(all))
	for _, a := range all {
		ends.Go(func() { m.finish(ctx, a, l.why, room) })
	}
	ends.Wait()
}

// Offer is what a member offers to host.
type Offer struct {
	Kinds   []string          // of identities
	Labels  map[string]string // for placements that require or prefer some
	Weight  int64             // share of the partitions, relative to the other members; 0 means 1
	Full    bool              // it keeps what it has, and is given no new activations
	Address string            // where the member is reached; empty: as before
}

// ChangeOffer changes what the member offers, all of it, from a new epoch on, and for when it joins again. What it
// serves stays. While the provider cannot be reached, it is tried again until ctx ends; then the outcome is unknown.
func (m *Member) ChangeOffer(ctx context.Context, o Offer) error {
	if err := m.ready(); err != nil {
		return err
	}
	r := contracts.MemberOfferRequest{
		Incarnation: m.Incarnation(), RequestID: rand.Text(), Kinds: o.Kinds, Labels: o.Labels, Weight: o.Weight,
		Full: o.Full, Address: o.Address,
	}
	err := m.insist(ctx, func(ctx context.Context) error {
		_, err := m.provider.ChangeOffer(ctx, m.name, r)
		return err
	})
	if err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	o.Address = cmp.Or(o.Address, m.offer.Address)
	m.offer = o
	return nil
}

// leaseLeft is how long the lease lasts: without one, there is all the time.
func (m *Member) leaseLeft() time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.life == nil {
		return hold.Forever
	}
	return m.life.Left()
}

// insist sends a request until there is a definite response or the context ends. The codes count as definite, too.
func (m *Member) insist(ctx context.Context, request func(context.Context) error, codes ...contracts.Code) error {
	_, err := m.component.insist(ctx, Event{}, "",
		hold.Insist{Final: func(err error) bool { return lease.Final(err, codes...) }}, request)
	return err
}

// carryOut is insist for a request that no caller waits for: that it was given up is an event.
func (m *Member) carryOut(ctx context.Context, e Event, what string, request func(context.Context) error) {
	if told, err := m.component.insist(ctx, e, what, hold.Insist{}, request); err != nil && !told {
		m.failed(e, what, err)
	}
}

// reason is a text of at most so many bytes as a provider takes.
func reason(why string) string {
	const most = 512
	text := strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(why, "?"))
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "")
	}
	return cmp.Or(text, "no reason was given")
}
