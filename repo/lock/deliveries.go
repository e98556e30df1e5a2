package lock

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/rule"
)

// errGivenUp is why a delivery is not sent to the store: a later one of the same request did not want to wait.
var errGivenUp = errors.New("a later delivery of the request does not wait: its caller has given the wait up")

// deliveries lets the deliveries of a request in this process be sent to the store one after the other, in the order in
// which they come. So one that does not wait is decided after those that came before it: it learns what they obtained,
// and none of them obtains anything later. The zero value is ready for use.
type deliveries struct {
	mu sync.Mutex
	of map[delivery][]chan struct{} // those that wait for their turn; none while one alone is being sent
}

// delivery is what the deliveries of a request have in common, whatever its parameters.
type delivery struct {
	ID
	owner, requestID string
}

func (c Acquire) delivery() delivery { return delivery{c.ID, c.Owner, c.RequestID} }

// enter waits for the turn of a delivery, which calls leave after it. The error is that of the context.
func (s *deliveries) enter(ctx context.Context, d delivery) error {
	s.mu.Lock()
	if s.of == nil {
		s.of = map[delivery][]chan struct{}{}
	}
	others, busy := s.of[d]
	if !busy {
		s.of[d] = nil
		s.mu.Unlock()
		return nil
	}
	turn := make(chan struct{})
	s.of[d] = append(others, turn)
	s.mu.Unlock()
	select {
	case <-turn:
		return nil
	case <-ctx.Done():
	}
	s.mu.Lock()
	i := slices.Index(s.of[d], turn)
	if i >= 0 {
		s.of[d] = slices.Delete(s.of[d], i, i+1)
	}
	s.mu.Unlock()
	if i < 0 { // it was its turn in the same moment
		s.leave(d)
	}
	return ctx.Err()
}

// leave gives the turn to the next delivery.
func (s *deliveries) leave(d delivery) {
	s.mu.Lock()
	defer s.mu.Unlock()
	others := s.of[d]
	if len(others) == 0 {
		delete(s.of, d)
		return
	}
	close(others[0])
	s.of[d] = others[1:]
}

// endWaits ends the waits of the deliveries of a request, because another one does not wait: they are not sent again.
func (s *waits) endWaits(d delivery) {
	s.mu.Lock()
	defer s.mu.Unlock()
	w := s.of[d.ID]
	if w == nil {
		return
	}
	for _, x := range w.waiters {
		if !x.givenUp && x.acquire.delivery() == d {
			x.givenUp = true
			close(x.end)
		}
	}
}

// sendable reports whether a delivery may be sent.
func (s *waits) sendable(x *waiter) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !x.givenUp
}

// givenUp is the refusal of a delivery that was given up before it was sent.
func (c Acquire) givenUp() Outcome {
	return Outcome{Code: Held, At: docstore.TruncateMilli(time.Now()), Lease: c.named(0), Detail: errGivenUp.Error()}
}

// inLine is an acquire that had a place in line when it was sent before. It obtains what that place brings, and nothing
// else: when it has lost the place, because the request was given up or the time of the place has passed, it neither
// joins the line again nor takes a lock that is free.
type inLine struct{ Acquire }

// Unwrap implements [rule.Wrapper].
func (c inLine) Unwrap() any { return c.Acquire }

// Write never applies: there is a place only in shared form.
func (c inLine) Write() docstore.Write { return c.never() }

// Fallback is that of the acquire while it has its place, or what the place has brought.
func (c inLine) Fallback(s State, w rule.When) (docstore.Write, bool) {
	if c.lost(s, w) {
		return docstore.Write{}, false
	}
	return c.Acquire.Fallback(s, w)
}

// Refusal is that of the acquire, or says that the place is lost.
func (c inLine) Refusal(s State, w rule.When) Outcome {
	if c.lost(s, w) {
		o := c.busy(s, w, 0, "the request has lost its place in line: send it again to join the line at its end")
		o.lost = true
		return o
	}
	return c.Acquire.Refusal(s, w)
}

// lost reports whether the request has neither its place nor a lease that came of it.
func (c inLine) lost(s State, w rule.When) bool {
	v, r := s.toShared(), c.request()
	if _, known := c.recognise(s, v, r, w); known {
		return false
	}
	v.dropExpired(w)
	i, _ := v.placeOf(r)
	return i < 0
}
