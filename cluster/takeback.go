package cluster

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/leasehold-dev/leasehold/contracts"
	"github.com/leasehold-dev/leasehold/internal/term"
)

// attempt is a join under one request_id.
type attempt struct {
	id       string
	replaces contracts.Incarnation
	begun    bool
	first    term.Moment // when the first try was sent
	until    term.Moment // when the latest try was over, for its caller
	unsure   bool        // a try may have had its effect, or may still have it
}

const (
	// longPast is the end of a join that asks what became of an earlier one, and joins nothing.
	longPast = "1970-01-01T00:00:00.000Z"

	// lateJoin is for how long after its try a join may have its effect: clients let it end 2 s after the time of one
	// request, which is 15 s, by a clock that may be off by as much.
	lateJoin = 20 * time.Second
)

// takeBack makes the member leave again that a join without a definite response may have made, or may still make. It
// asks the provider for what became of the join, by the same request with an end in the past. It returns after the
// first try, and goes on in the background for as long as the join may arrive.
func (m *Member) takeBack(ctx context.Context, a attempt) {
	if !a.unsure {
		return
	}
	over := a.until.Add(lateJoin)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lateJoin+m.o.TTL)
	first, once := make(chan struct{}), sync.Once{}
	send := func(ctx context.Context) error {
		for {
			asked := m.o.clock()
			err := m.leaveAfter(ctx, a)
			once.Do(func() { close(first) })
			switch {
			case !errors.Is(err, contracts.CodeTooLate):
				return err
			case asked.Until(over) <= 0: // there is no such member, and none comes any more
				return nil
			case !sleep(ctx, time.Second):
				return context.Cause(ctx)
			}
		}
	}
	go func() {
		defer cancel()
		m.carryOut(ctx, Event{}, "leave after a join that was given up", send)
	}()
	<-first
}

// leaveAfter leaves as what a join has made. What has ended is left already. The error is TOO_LATE if
// the join has made nothing so far.
func (m *Member) leaveAfter(ctx context.Context, a attempt) error {
	ctx, cancel := context.WithTimeout(ctx, m.every())
	defer cancel()
	s, err := m.ask(ctx, a, longPast)
	if err == nil {
		_, err = m.provider.Leave(ctx, m.name, contracts.MemberRequest{Incarnation: s.Incarnation})
	}
	for _, over := range []contracts.Code{contracts.CodeRequestIDReused, contracts.CodeLeaseExpired,
		contracts.CodeStaleIncarnation, contracts.CodeMemberUnknown} {
		if errors.Is(err, over) {
			return nil
		}
	}
	return err
}
