package cluster

import (
	"context"
	"fmt"
	"time"

	"github.com/leasehold-dev/leasehold/contracts"
	"github.com/leasehold-dev/leasehold/internal/hold"
)

const (
	eventWait = 8 * time.Second // for new events, less than clients wait for a response
	eventPage = 1000
	// between reads of events that are known, which providers show again for some seconds
	eventPause = 250 * time.Millisecond
	longPause  = 10 * time.Second // that a provider asks for which does not wait for events itself
	readers    = 16               // activations that are read at a time
)

// follow reads the events of the cluster: what others claimed for this member is activated, what others have is lost.
func (m *Member) follow(l *incarnation) {
	after := l.since
	var known map[string]bool // the events of the round before
	room := make(chan struct{}, readers)
	always := hold.Insist{Final: func(error) bool { return false }} // as long as it is in the cluster
	for l.Check() == nil && l.Context().Err() == nil {
		var seen map[string]bool
		var news bool
		var next string
		pause := eventPause
		if _, err := m.component.insist(l.Context(), Event{Incarnation: l.number}, "events", always,
			func(context.Context) (err error) {
				seen, news, next, pause, err = m.round(l, after, known, room)
				return err
			}); err != nil {
			return
		}
		if !news {
			sleep(l.Context(), pause)
		}
		after, known = next, seen
	}
}

// round reads all events from a place on, once. If there is no news, the next round comes after a pause.
func (m *Member) round(l *incarnation, after string, known map[string]bool, room chan struct{}) (
	seen map[string]bool, news bool, next string, pause time.Duration, err error) {
	seen = map[string]bool{}
	q := EventQuery{After: after, Wait: eventWait, PageSize: eventPage}
	if len(known) >= eventPage {
		q.Wait = 0 // what is new comes behind the first page, for which alone a provider waits
	}
	for ; ; q.Wait = 0 {
		page, err := m.provider.Events(l.Context(), q)
		if err != nil {
			return nil, false, "", 0, err
		}
		if next == "" {
			next = page.Next
			pause = max(eventPause, min(time.Duration(page.PollAfterMs)*time.Millisecond, longPause))
		}
		for _, e := range page.Events {
			if seen[e.EventID] = true; !known[e.EventID] {
				news = true
				m.learn(l, e, room)
			}
		}
		if len(page.Events) < eventPage {
			return seen, news, next, pause, nil
		}
		// A provider that has shown a full page shows nothing until there is another one. By a time alone it shows all again.
		next = stamp(next)
		last := stamp(page.Events[len(page.Events)-1].EventID)
		if last <= q.After {
			return seen, news, next, pause, nil
		}
		q.After = last
	}
}

// stamp is the time with which the IDs of events, and the places between them, begin.
func stamp(id string) string { return id[:min(len(id), len(contracts.TimeFormat))] }

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
