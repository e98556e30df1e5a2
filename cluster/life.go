package cluster

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/leasehold-dev/leasehold/contracts"
	"github.com/leasehold-dev/leasehold/internal/term"
)

// ErrLost marks what a member lost: its incarnation, because its lease ended or it was evicted, or one activation, because another member has
// it. It is the cause with which contexts of activations end.
var ErrLost = errors.New("lost")

// The causes of what ends because the member hands over what it has.
var (
	errStopped = errors.New("the member stops")
	errDrained = errors.New("the member is drained")
)

// life is one incarnation of a member.
type life struct {
	*term.Term // its context is that of the incarnation

	name   string // as the topology has it
	number int64
	since  string // time before the first claim for it, empty if it is not known
	clock  term.Clock
	work   sync.WaitGroup // of its activations

	drain   chan struct{} // closed when it is to hand over what it has
	drained chan struct{} // closed when it has, or has ended

	// With the member's lock:
	closed bool  // it takes no more work
	why    error // it is to hand over what it has, nil if it is not
}

// live begins an incarnation whose lease was asked for at a moment, and has so much left.
func (m *Member) live(s contracts.MemberState, asked term.Moment) *life {
	l := &life{name: s.Member, since: m.since(s), number: s.Incarnation, clock: m.o.clock, drain: make(chan struct{}), drained: make(chan struct{})}
	l.Term = term.New(m.ctx, m.o.clock, m.served(s, asked), func(trouble error) error {
		err := fmt.Errorf("%w: the lease of incarnation %d of %q ended", ErrLost, s.Incarnation, s.Member)
		if trouble != nil {
			err = fmt.Errorf("%w, after heartbeats that failed: %w", err, trouble)
		}
		return err
	})
	return l
}

// since is a time before the first event of an incarnation, as it was when it joined. Its lease is then the one that it joined with, also if
// the response is late, or is that to a repeated request.
func (m *Member) since(joined contracts.MemberState) string {
	ends, err := time.Parse(contracts.TimeFormat, joined.ExpiresAt)
	if err != nil {
		return "" // all events that there are
	}
	return ends.Add(-m.o.TTL - claimAhead).Format(contracts.TimeFormat)
}

// claimAhead is how much earlier than the incarnation the events of its first claims can be called: their names are drawn a moment before.
const claimAhead = time.Minute

// served is until when a member serves, of a lease that was asked for at a moment: it stops a tenth earlier.
func (m *Member) served(s contracts.MemberState, asked term.Moment) term.Moment {
	return asked.Add(min(m.o.TTL, time.Duration(s.RemainingMs)*time.Millisecond) - m.o.TTL/10)
}

// Check reports whether an activation may take its next step: nil while its context lives and the lease of its member lasts. Otherwise the
// error is the cause with which the context was, or is to be, cancelled; [ErrLost] if the activation is lost. ctx is the context of
// [Host.Activate] or one that was made of it. It consults the clocks at the time of the call and costs no request.
func Check(ctx context.Context) error { return term.Check(ctx) }

// beat extends the lease, every third of it, until it is lost.
func (m *Member) beat(l *life) {
	every, ctx := m.o.TTL/3, l.Context()
	due := l.clock().Add(every)
	for seq := int64(1); l.clock.Sleep(ctx, due) == nil; seq++ {
		asked := l.clock()
		asking, cancel := context.WithTimeout(ctx, max(min(every, l.Left()), 10*time.Millisecond))
		s, err := m.provider.Heartbeat(asking, m.name, contracts.MemberHeartbeatRequest{Incarnation: l.number, Seq: seq, TTLSeconds: m.seconds()})
		cancel()
		switch {
		case ctx.Err() != nil:
			return
		case err == nil:
			l.Extend(m.served(s, asked))
			due = asked.Add(every)
			if s.Status == contracts.MemberDraining { // an operator, or a member that replaces this one
				m.change(Draining, l.number, errDrained, Ready)
				m.toDrain(l, errDrained)
			}
		case errors.Is(err, contracts.CodeStaleIncarnation), errors.Is(err, contracts.CodeMemberUnknown):
			l.Lose(fmt.Errorf("%w: %w", ErrLost, err))
			return
		default:
			l.Failed(err)
			m.emit(Event{What: RequestFailed, Incarnation: l.number, Err: fmt.Errorf("heartbeat: %w", err)})
			due = l.clock().Add(min(every/4, time.Second))
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
