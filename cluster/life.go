package cluster

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/leasehold-dev/leasehold/contracts"
)

// ErrLost marks what a member lost: its incarnation, because its lease ended or it was evicted, or one activation, because another member has
// it. It is the cause with which contexts of activations end.
var ErrLost = errors.New("lost")

// errStopped is the cause of what ends because the member stops.
var errStopped = errors.New("the member stops")

// lookAgain bounds how long a timer is trusted: one that was set before the machine slept comes late by as much.
const lookAgain = time.Second

// life is one incarnation of a member.
type life struct {
	name   string // as the topology has it
	number int64
	clock  func() time.Time
	ctx    context.Context //nolint:containedctx // it is what ends with the incarnation
	cancel context.CancelCauseFunc

	work   sync.WaitGroup // of its activations
	closed bool           // with the member's lock: it takes no more work

	mu    sync.Mutex
	asked time.Time     // before the request that the lease rests on
	term  time.Duration // from asked, in which the member serves
	lost  error
}

// served is how long a member serves of a lease of which so much is left: it stops a tenth earlier.
func served(ttl, remaining time.Duration) time.Duration { return min(ttl, remaining) - ttl/10 }

// left is how long the member may serve. It counts on the monotonic clock and on the wall clock, whichever has gone further: the one can be
// set, the other may stand still while the machine sleeps.
func (l *life) left() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.clock()
	return l.term - max(now.Sub(l.asked), now.Round(0).Sub(l.asked.Round(0)))
}

// check consults the clocks. The error is an [ErrLost].
func (l *life) check() error {
	if l.left() <= 0 {
		l.end(fmt.Errorf("%w: the lease of incarnation %d of %q ended", ErrLost, l.number, l.name))
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lost
}

// end ends the incarnation, once.
func (l *life) end(cause error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.lost == nil {
		l.lost = cause
		l.cancel(cause)
	}
}

// extend moves the end of the lease, unless that comes too late.
func (l *life) extend(asked time.Time, term time.Duration) {
	if l.check() != nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.asked, l.term = asked, term
}

// watch ends the incarnation when its lease ends.
func (l *life) watch() {
	for l.check() == nil && l.ctx.Err() == nil {
		select {
		case <-l.ctx.Done():
		case <-time.After(min(max(l.left(), 0), lookAgain)):
		}
	}
}

// guarded is the context of an activation. Done and Err consult the clocks at each call, because after a thaw the program may be quicker than
// the goroutine that watches the time.
type guarded struct {
	context.Context //nolint:containedctx // it is one
	life            *life
}

func (c guarded) Done() <-chan struct{} {
	_ = c.life.check() // it cancels
	return c.Context.Done()
}

func (c guarded) Err() error {
	_ = c.life.check()
	return c.Context.Err()
}

func (c guarded) Value(key any) any {
	if key == (lifeKey{}) {
		return c.life
	}
	return c.Context.Value(key)
}

type lifeKey struct{}

// Check reports whether an activation may take its next step: nil while its context lives and the lease of its member lasts. Otherwise the
// error is the cause with which the context was, or is to be, cancelled; [ErrLost] if the activation is lost. ctx is the context of
// [Host.Activate] or one that was made of it. It consults the clocks at the time of the call and costs no request.
func Check(ctx context.Context) error {
	if l, ok := ctx.Value(lifeKey{}).(*life); ok {
		if err := l.check(); err != nil {
			return err
		}
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return nil
}

// beat extends the lease, every third of it, until it is lost.
func (m *Member) beat(l *life) {
	every := m.o.TTL / 3
	due := every
	for seq := int64(1); ; seq++ {
		if !sleep(l.ctx, due) {
			return
		}
		asked := l.clock()
		ctx, cancel := context.WithTimeout(l.ctx, max(min(every, l.left()), 10*time.Millisecond))
		s, err := m.provider.Heartbeat(ctx, m.name, contracts.MemberHeartbeatRequest{Incarnation: l.number, Seq: seq, TTLSeconds: m.seconds()})
		cancel()
		switch {
		case l.ctx.Err() != nil:
			return
		case err == nil:
			l.extend(asked, served(m.o.TTL, time.Duration(s.RemainingMs)*time.Millisecond))
			due = max(every-l.clock().Sub(asked), 0)
		case errors.Is(err, contracts.CodeStaleIncarnation), errors.Is(err, contracts.CodeMemberUnknown):
			l.end(fmt.Errorf("%w: %w", ErrLost, err))
			return
		default:
			m.emit(Event{What: RequestFailed, Incarnation: l.number, Err: fmt.Errorf("heartbeat: %w", err)})
			due = min(every/4, time.Second)
		}
	}
}

// sleep waits, and reports whether the context lives.
func sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return ctx.Err() == nil
	}
}
