package cluster

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/leasehold-dev/leasehold/contracts"
)

// ErrIdle is why an activation ends that nothing has used for [Options.IdleAfter].
var ErrIdle = errors.New("the identity was idle")

// Held is an activation that something uses, such as a request or a connection. While it is held it is not idle, and
// when the member gives it away, that waits for its holders, for [Options.Grace] at most.
type Held struct {
	Activation // as it was when it was held

	m    *Member
	a    *activation
	once sync.Once
}

// Hold is [Member.Serve] for what lasts longer than the call. What is held must be released.
func (m *Member) Hold(ctx context.Context, id Identity, need *Need) (*Held, error) {
	a, known, err := m.serve(ctx, id, need, true)
	if err != nil {
		return nil, err
	}
	return &Held{Activation: known, m: m, a: a}, nil
}

// Ending is closed when the activation is to end: finish soon, and begin nothing long.
func (h *Held) Ending() <-chan struct{} { return h.a.closing }

// Context is a context made of one of the holder's that ends with the activation, too, with the cause of that. Like the
// context of [Host.Activate] it consults the clocks: see [Check].
func (h *Held) Context(of context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(h.a.life.Guard(of))
	stop := context.AfterFunc(h.a.ctx, func() { cancel(context.Cause(h.a.ctx)) })
	return h.a.life.Guard(heldContext{ctx, h.a.ctx, cancel}), func() {
		stop()
		cancel(nil)
	}
}

// heldContext ends with an activation at once, not only when a goroutine has run that says so.
type heldContext struct {
	context.Context //nolint:containedctx // it is one

	of     context.Context //nolint:containedctx // of the activation
	cancel context.CancelCauseFunc
}

func (c heldContext) Done() <-chan struct{} {
	_ = c.Err()
	return c.Context.Done()
}

func (c heldContext) Err() error {
	if c.of.Err() != nil {
		c.cancel(context.Cause(c.of))
	}
	return c.Context.Err()
}

// Release ends the holding. Only the first call counts.
func (h *Held) Release() {
	h.once.Do(func() {
		h.m.mu.Lock()
		defer h.m.mu.Unlock()
		h.a.holds--
		h.a.used = h.m.o.clock().Time()
		if h.a.holds == 0 && h.a.freed != nil {
			close(h.a.freed)
		}
	})
}

// serves reports whether the member serves an identity.
func (m *Member) serves(id Identity) bool {
	m.mu.Lock()
	a := m.acts[id]
	ok := a != nil && !a.ending
	m.mu.Unlock()
	if !ok {
		return false
	}
	select {
	case <-a.began:
		return a.err == nil && a.ctx.Err() == nil
	default:
		return false
	}
}

// serve is Serve; with hold the activation is held, too.
func (m *Member) serve(ctx context.Context, id Identity, need *Need, hold bool) (*activation, Activation, error) {
	for {
		if err := m.ready(); err != nil {
			return nil, Activation{}, notHere(id, err)
		}
		m.mu.Lock()
		l := m.life
		m.mu.Unlock()
		if l == nil || l.Check() != nil {
			return nil, Activation{}, notHere(id, &StateError{Status{NotReady, AsMember, time.Now(), ErrLost}})
		}
		a := m.open(l, id, 0, func(a *activation) {
			m.begin(a, func(a *activation) (contracts.Activation, bool, error) {
				if err := m.failures.paused(id); err != nil {
					return contracts.Activation{}, false, err
				}
				return m.claim(a, need)
			})
		})
		if a == nil {
			continue // the state is another one by now
		}
		select {
		case <-a.began:
		case <-ctx.Done():
			return nil, Activation{}, context.Cause(ctx)
		}
		if a.err == nil && a.ctx.Err() == nil {
			m.mu.Lock()
			known, ending := a.Activation, a.ending
			if !ending {
				a.used = m.o.clock().Time()
				if need != nil {
					a.need = need
				}
				if hold {
					a.holds++
				}
			}
			m.mu.Unlock()
			if !ending {
				return a, known, nil
			}
		}
		switch {
		case errors.Is(a.err, errStopped), errors.Is(a.err, errDrained):
			return nil, Activation{}, notHere(id, &StateError{m.Status()})
		case a.err != nil:
			return nil, Activation{}, elsewhere(id, a.err)
		}
		select { // until what was before is over
		case <-a.over:
		case <-ctx.Done():
			return nil, Activation{}, context.Cause(ctx)
		}
	}
}

// notHere is the error of Serve on a member that does not serve an identity, or not any more, without an idea of where
// it is.
func notHere(id Identity, err error) error { return &NotHereError{Location{Identity: id}, err} }

// elsewhere makes a NotHereError of an error which says that the member lost, or never had, what it was to serve.
func elsewhere(id Identity, err error) error {
	if _, ok := errors.AsType[*NotHereError](err); ok {
		return err
	}
	if errors.Is(err, ErrLost) || errors.Is(err, contracts.CodeStaleIncarnation) ||
		errors.Is(err, contracts.CodeMemberUnknown) {
		return notHere(id, err)
	}
	return err
}

// letGo says to those who hold an activation that it is to end, and waits until no one holds it, or until the grace has
// passed. What is lost ends at once.
func (m *Member) letGo(a *activation) {
	close(a.closing)
	m.mu.Lock()
	var freed chan struct{}
	if a.holds > 0 {
		freed = make(chan struct{})
		a.freed = freed
	}
	m.mu.Unlock()
	if freed == nil {
		return
	}
	timer := time.NewTimer(cmp.Or(m.o.Grace, defaultGrace))
	defer timer.Stop()
	select {
	case <-freed:
	case <-timer.C:
	case <-a.ctx.Done():
	}
}

const defaultGrace = 5 * time.Second

// passivate ends the activations of an incarnation that are idle. It looks four times in [Options.IdleAfter].
func (m *Member) passivate(l *incarnation) {
	for sleep(l.Context(), m.o.IdleAfter/4) {
		idle := slices.DeleteFunc(m.all(), func(a *activation) bool { return !m.idle(a) })
		room := m.hands(len(idle))
		for _, a := range idle {
			m.endIdle(l, a, room)
		}
	}
}

// idle reports whether nothing has used an activation for long enough.
func (m *Member) idle(a *activation) bool {
	select {
	case <-a.began:
	default:
		return false
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.unused(a)
}

// unused is idle, with the member's lock.
func (m *Member) unused(a *activation) bool {
	return a.err == nil && !a.ending && a.holds == 0 && m.o.clock().Time().Sub(a.used) >= m.o.IdleAfter
}

// endIdle begins to end an activation if it is idle still. From then on requests for the identity wait for the next
// activation.
func (m *Member) endIdle(l *incarnation, a *activation, r *hands) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if l.closed || !m.unused(a) {
		return
	}
	a.ending = true
	l.work.Go(func() { m.conclude(l.Context(), a, ErrIdle, r) })
}
