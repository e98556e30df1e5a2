package cluster

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/leasehold-dev/leasehold/contracts"
)

const (
	eventPause = 250 * time.Millisecond // between requests to a provider that waits for nothing
	longPause  = 10 * time.Second       // that a provider asks for which does not wait for events itself
	eventAgain = 30 * time.Second       // for which an event is remembered: one of the last ten can come again
)

// EventReader reads the events of a cluster, page after page, each event once: a provider may show one of the last ten
// seconds again. Its methods may not be called at the same time.
type EventReader struct {
	from  Directory
	q     EventQuery
	pause time.Duration // before the next request
	seen  map[string]time.Time
	late  time.Time // of the latest event
}

// NewEventReader returns a reader of the events that a query selects. With its Wait the reader follows the cluster:
// Next waits for something new. A query whose After is [EventReader.Place] of another reader, of the same Member, goes
// on where that one was, in any process.
func NewEventReader(from Directory, q EventQuery) *EventReader {
	return &EventReader{from: from, q: q, seen: map[string]time.Time{}}
}

// Place is the place after all that was read, for EventQuery.After. It is empty before the first page, unless the query
// had one.
func (r *EventReader) Place() string { return r.q.After }

// Next returns the next page, without the events that were in one before; more is false for one that was not full. With
// Wait, a page without events is one for which the provider has waited in vain. The error is the provider's, and the
// next call asks for the same page again: CURSOR_EXPIRED is that of a place whose events were removed, after which
// [EventReader.Restart] goes on, and INVALID_ARGUMENT that of a place that no page gave.
func (r *EventReader) Next(ctx context.Context) (page contracts.EventPage, more bool, err error) {
	pause := r.pause
	if r.pause = 0; !sleep(ctx, pause) {
		return page, false, ctx.Err()
	}
	begin := time.Now()
	if page, err = r.from.Events(ctx, r.q); err != nil {
		return page, false, err
	}
	news := page.Events[:0:0]
	for _, e := range page.Events {
		if _, again := r.seen[e.EventID]; again {
			continue
		}
		at, err := time.Parse(time.RFC3339, e.At)
		if err == nil && at.After(r.late) {
			r.late = at
		}
		r.seen[e.EventID] = at
		news = append(news, e)
	}
	for id, at := range r.seen {
		if r.late.Sub(at) > eventAgain {
			delete(r.seen, id)
		}
	}
	more = len(page.Events) >= max(r.q.PageSize, 1)
	if r.q.Wait > 0 && len(news) == 0 && !more { // of two servers, one may show again at once what the other has shown
		ask := min(time.Duration(page.PollAfterMs)*time.Millisecond, longPause)
		r.pause = max(ask, eventPause-time.Since(begin))
	}
	page.Events, r.q.After = news, page.Next
	return page, more, nil
}

// Restart has the reader begin with the oldest events that are kept.
func (r *EventReader) Restart() { r.q.After = "" }

// CompareEvents orders two events of one identity, or of one member, as they happened; it is for [slices.SortFunc]. Of
// an identity it compares the token, then the phase, then the time; of a member the incarnation, then the epoch, then
// the status. The order of the feed is another one where two servers have written them: each names its events by its
// own idea of the time.
func CompareEvents(a, b contracts.PlacementEvent) int {
	of := func(e contracts.PlacementEvent) int { return slices.Index(eventOrder, e.To) }
	if a.Kind != "" {
		return cmp.Or(cmp.Compare(a.FencingToken, b.FencingToken), cmp.Compare(of(a), of(b)), cmp.Compare(a.At, b.At))
	}
	return cmp.Or(cmp.Compare(a.Incarnation, b.Incarnation), cmp.Compare(a.Epoch, b.Epoch), cmp.Compare(of(a), of(b)))
}

// eventOrder has the phases of an activation, and the statuses of a member, in their order.
var eventOrder = []string{
	string(contracts.PhaseLocked), string(contracts.PhaseActive), "ALARM_FAILED", string(contracts.MemberDraining),
	string(contracts.PhaseFree), "REFUSED", string(contracts.MemberLeft), string(contracts.MemberDead),
}
