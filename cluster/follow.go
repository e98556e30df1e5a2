package cluster

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/leasehold-dev/leasehold/contracts"
	"github.com/leasehold-dev/leasehold/internal/hold"
)

const (
	eventWait = 8 * time.Second // for new events, less than clients wait for a response
	eventPage = 1000
	readers   = 16 // activations that are read at a time
)

// follow reads the events of the cluster that concern the member: what others claimed for it is activated, what others
// have is lost, and alarms of what it has are due.
func (m *Member) follow(l *incarnation) {
	events := NewEventReader(m.provider, EventQuery{Member: l.name, After: l.since, Wait: eventWait, PageSize: eventPage})
	room := make(chan struct{}, readers)
	always := hold.Insist{Final: func(error) bool { return false }} // as long as it is in the cluster
	for l.Check() == nil && l.Context().Err() == nil {
		var page contracts.EventPage
		if _, err := m.component.insist(l.Context(), Event{Incarnation: l.number}, "events", always,
			func(context.Context) (err error) {
				if page, _, err = events.Next(l.Context()); errors.Is(err, contracts.CodeCursorExpired) {
					events.Restart() // locks last for an hour at most: what was claimed then has expired
				}
				return err
			}); err != nil {
			return
		}
		for _, e := range page.Events {
			m.learn(l, e, room)
		}
	}
}

// learn acts on one event of an activation.
func (m *Member) learn(l *incarnation, e contracts.PlacementEvent, room chan struct{}) {
	if e.Kind == "" {
		return
	}
	id, mine := Identity{e.Kind, e.ID}, e.Member == l.name && e.Incarnation == l.number
	m.mu.Lock()
	a := m.acts[id]
	var token int64
	if a != nil {
		token = a.Token
	}
	m.mu.Unlock()
	if a != nil && token == 0 { // its own claim is under way; if that fails, this may be another one for this member
		work := func() {
			select {
			case <-a.began:
				m.learn(l, e, room)
			case <-l.Context().Done():
			}
		}
		if !m.spawn(l, work) {
			work() // it is being ended
		}
		return
	}
	if a != nil {
		if mine && e.FencingToken == token && e.From == string(contracts.PhaseActive) &&
			e.To == string(contracts.PhaseActive) {
			m.spawn(l, func() { m.rings(a, room) })
			return
		}
		if e.FencingToken <= token {
			return // it is of this activation, or late
		}
		m.lose(a, fmt.Errorf("%w: token %d was given to %s", ErrLost, e.FencingToken, e.Member))
	}
	if !mine || e.To != string(contracts.PhaseLocked) {
		return
	}
	// it was claimed before the cluster knew that this member drains: who claimed it can claim it again at once
	decline := func() {
		_ = m.insist(l.Context(), func(ctx context.Context) error { // or its lock expires
			_, err := m.provider.Deactivate(ctx, e.Kind, e.ID, contracts.ActivationEndRequest{
				Member: m.name, Incarnation: l.number, FencingToken: e.FencingToken, Reason: "the member drains",
			})
			return err
		})
	}
	if m.ready() != nil {
		decline()
		return
	}
	work := func() {
		if a != nil {
			<-a.over
		}
		if m.open(l, id, e.FencingToken, func(a *activation) {
			m.begin(a, func(a *activation) (contracts.Activation, bool, error) {
				select {
				case room <- struct{}{}:
					defer func() { <-room }()
				case <-a.ctx.Done():
					return contracts.Activation{}, false, context.Cause(a.ctx)
				}
				got, locked, err := m.record(a)
				if err == nil && !locked {
					err = notOurs()
				}
				return got, locked, err
			})
		}) == nil {
			decline() // it began to drain meanwhile
		}
	}
	if !m.spawn(l, work) {
		work()
	}
}
