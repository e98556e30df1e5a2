package cluster

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/leasehold-dev/leasehold/contracts"
	"github.com/leasehold-dev/leasehold/internal/backoff"
	"github.com/leasehold-dev/leasehold/internal/hold"
	"github.com/leasehold-dev/leasehold/internal/lease"
	"github.com/leasehold-dev/leasehold/internal/term"
)

// ErrLost marks what a member lost: its incarnation, because its lease ended or it was evicted, or one activation,
// because another member has it. It is the cause with which contexts of activations end.
var ErrLost = lease.Lost("lost")

// The causes of what ends because the member hands over what it has.
var (
	errStopped = errors.New("the member stops")
	errDrained = errors.New("the member is drained")
)

// incarnation is one incarnation of a member.
type incarnation struct {
	*term.Term // its context is that of the incarnation

	name   string // as the topology has it
	number int64
	since  string // time before the first claim for it, empty if it is not known
	clock  term.Clock
	due    term.Moment    // of its first heartbeat
	work   sync.WaitGroup // of its activations

	drain   chan struct{} // closed when it is to hand over what it has
	drained chan struct{} // closed when it has, or has ended

	// With the member's lock:
	closed bool                  // it takes no more work
	stays  map[Identity]struct{} // what could not be handed over to where the epoch places it; nil if that is not tried
	why    error                 // it is to hand over what it has, nil if it is not
}

// live begins an incarnation by the response to a join that was sent at a moment, and by its first try at another.
func (m *Member) live(s contracts.MemberState, asked, first term.Moment) *incarnation {
	l := &incarnation{name: s.Member, since: m.since(s), number: s.Incarnation, clock: m.o.clock,
		drain: make(chan struct{}), drained: make(chan struct{})}
	end, due := m.served(s, asked, first)
	l.due = due
	l.Term = term.New(m.ctx, m.o.clock, end, func(trouble error) error {
		err := fmt.Errorf("%w: the lease of incarnation %d of %q ended", ErrLost, s.Incarnation, s.Member)
		if trouble != nil {
			err = fmt.Errorf("%w, after heartbeats that failed: %w", err, trouble)
		}
		return err
	})
	return l
}

// since is a time before the first event of an incarnation, as it was when it joined. Its lease is then the one that it
// joined with, also if the response is late, or is that to a repeated request.
func (m *Member) since(joined contracts.MemberState) string {
	ends, err := time.Parse(contracts.TimeFormat, joined.ExpiresAt)
	if err != nil {
		return "" // all events that there are
	}
	return ends.Add(-m.o.TTL - claimAhead).Format(contracts.TimeFormat)
}

// claimAhead is how much earlier than the incarnation the events of its first claims can be called: their names are
// drawn a moment before.
const claimAhead = time.Minute

// served is until when a member serves by a response to a request that was sent at a moment, and by its first try at
// another: it stops a tenth before the end of its lease. due is when its next heartbeat is. A provider need not say how
// much is left: then the lease lasts from the first try on.
func (m *Member) served(s contracts.MemberState, asked, first term.Moment) (end, due term.Moment) {
	lasts := min(m.o.TTL, time.Duration(s.RemainingMs)*time.Millisecond)
	if s.RemainingMs == 0 {
		asked, lasts = first, m.o.TTL
	}
	return asked.Add(lasts - m.o.TTL/10), asked.Due(m.every(), lasts, m.o.TTL)
}

// every is the time from one heartbeat to the next.
func (m *Member) every() time.Duration { return m.o.TTL / 3 }

// Check reports whether an activation may take its next step: nil while its context lives and the lease of its member
// lasts. Otherwise the error is the cause with which the context was, or is to be, cancelled; [ErrLost] if the
// activation is lost. ctx is the context of [Host.Activate] or one that was made of it. It consults the clocks at the
// time of the call and costs no request.
func Check(ctx context.Context) error { return term.Check(ctx) }

// heartbeat extends the lease, every third of it. A try may take as long, or what is left: it extends the lease of all
// activations. One that fails is sent again after a quarter of that, or a second.
func (m *Member) heartbeat(l *incarnation) *hold.Keep {
	every := m.every()
	again := min(every/4, time.Second)
	var seq int64
	var s contracts.MemberState // of the latest heartbeat
	return &hold.Keep{
		Term: l.Term, Clock: l.clock, Pauses: backoff.Policy{First: again, Max: again, Min: again},
		Each: func(left time.Duration) time.Duration { return max(min(every, left), 10*time.Millisecond) },
		Renew: func(ctx context.Context) (err error) {
			seq++
			s, err = m.provider.Heartbeat(ctx, m.name, contracts.MemberHeartbeatRequest{Incarnation: l.number, Seq: seq,
				TTLSeconds: m.seconds()})
			return err
		},
		Renewed: func(asked term.Moment) (end, due term.Moment) { return m.served(s, asked, asked) },
		Extended: func(context.Context, term.Moment) {
			if s.Status == contracts.MemberDraining { // an operator, or a member that replaces this one
				m.change(Draining, l.number, errDrained, Ready)
				m.toDrain(l, errDrained)
			}
		},
		Lost: func(err error) error {
			if !errors.Is(err, contracts.CodeStaleIncarnation) && !errors.Is(err, contracts.CodeMemberUnknown) {
				return nil
			}
			return fmt.Errorf("%w: %w", ErrLost, err)
		},
		Failed: func(err error) {
			m.emit(Event{What: RequestFailed, Incarnation: l.number, Err: fmt.Errorf("heartbeat: %w", err)})
		},
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
