package projectlock

import (
	"encoding/json"
	"fmt"
	"runtime/debug"
	"slices"
	"sync"
	"time"
)

// EventType says what happened.
type EventType string

// The types of events.
const (
	Acquired       EventType = "lock:acquired"        // with Attempt
	Renewed        EventType = "lock:renewed"         // with TTLExpiresAt
	RetryScheduled EventType = "lock:retry"           // with Attempt, Delay and Reason
	CleanupWarning EventType = "lock:cleanup-warning" // with Message
	Failed         EventType = "lock:error"           // with Err, which is not retryable
	Released       EventType = "lock:released"
)

// Reason is why an attempt is repeated.
type Reason string

// The reasons.
const (
	Contended Reason = "contended" // another lease holds the lock, or its file is being changed
	// Unavailable:
	// there was no answer: the folder is missing, the service cannot be reached, the try took too long
	Unavailable Reason = "unavailable"
	// TransientError:
	// an error of the filesystem or the service that another attempt may not meet
	TransientError Reason = "transient-error"
)

// Event is what happened to a lock of a project. The fields after Scope are set for the types that name them.
type Event struct {
	Type EventType
	// in whole milliseconds of UTC; never before that of an earlier event, even if the clock was set back
	At      time.Time
	LeaseID string // before there is a lease, that of the attempt: the lease that follows has the same one
	Backend Backend
	Scope   Scope

	Attempt      int           // the attempt that succeeded, or failed and is repeated; from 1
	Delay        time.Duration // until the next attempt
	Reason       Reason        // of the repetition
	TTLExpiresAt time.Time     // when the renewed lease expires
	Message      string        // what was not cleaned up, and what happens next
	Err          *LockError    // not retryable
}

// MarshalJSON has the names and the units of the browser's events: at and ttlExpiresAt in ms since 1970, delayMs, and
// of an event only what its type has.
func (e Event) MarshalJSON() ([]byte, error) {
	type base struct {
		Type    EventType `json:"type"`
		At      int64     `json:"at"`
		LeaseID string    `json:"leaseId"`
		Backend Backend   `json:"backend"`
		Scope   Scope     `json:"scope"`
	}
	type lockError struct {
		Code      Code   `json:"code"`
		Retryable bool   `json:"retryable"`
		Message   string `json:"message"`
	}
	b := base{e.Type, e.At.UnixMilli(), e.LeaseID, e.Backend, e.Scope}
	switch e.Type {
	case Acquired:
		return json.Marshal(struct {
			base
			Attempt int `json:"attempt"`
		}{b, e.Attempt})
	case Renewed:
		return json.Marshal(struct {
			base
			TTLExpiresAt int64 `json:"ttlExpiresAt"`
		}{b, e.TTLExpiresAt.UnixMilli()})
	case RetryScheduled:
		return json.Marshal(struct {
			base
			Attempt int    `json:"attempt"`
			DelayMs int64  `json:"delayMs"`
			Reason  Reason `json:"reason"`
		}{b, e.Attempt, e.Delay.Milliseconds(), e.Reason})
	case CleanupWarning:
		return json.Marshal(struct {
			base
			Message string `json:"message"`
		}{b, e.Message})
	case Failed:
		var err lockError
		if e.Err != nil {
			err = lockError{e.Err.Code, e.Err.Retryable, e.Err.Error()}
		}
		return json.Marshal(struct {
			base
			Error lockError `json:"error"`
		}{b, err})
	default:
		return json.Marshal(b)
	}
}

// listener is one subscription.
type listener struct {
	call  func(Event)
	ended bool // with the lock of events
}

// events delivers events to listeners, one at a time and in their order, and without a lock: a listener may call the
// project.
type events struct {
	now  func() time.Time
	warn func(error)

	mu         sync.Mutex
	last       time.Time
	listeners  []*listener
	queue      []Event
	delivering bool
}

// subscribe adds a listener. The function that it returns removes it; calling that again does nothing.
func (s *events) subscribe(call func(Event)) (unsubscribe func()) {
	l := &listener{call: call}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.listeners = append(slices.Clip(s.listeners), l) // a copy: a delivery may be reading the old one
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if l.ended {
			return
		}
		l.ended = true
		rest := make([]*listener, 0, len(s.listeners))
		for _, other := range s.listeners {
			if other != l {
				rest = append(rest, other)
			}
		}
		s.listeners = rest
	}
}

// push gives an event its time and its place. It is called where the event happens; flush, which calls the listeners,
// where nothing is locked that a listener may need.
func (s *events) push(e Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e.At = s.now().UTC().Truncate(time.Millisecond)
	if e.At.Before(s.last) {
		e.At = s.last
	}
	s.last = e.At
	s.queue = append(s.queue, e)
}

// flush delivers what waits. If another goroutine is delivering, or a listener caused the event, that delivery goes on
// with it.
func (s *events) flush() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.delivering {
		return
	}
	s.delivering = true
	defer func() { s.delivering = false }() // also if a listener ends the goroutine
	for len(s.queue) > 0 {
		next := s.queue[0]
		s.queue = s.queue[1:]
		for _, l := range s.listeners {
			if !l.ended {
				s.tell(l, next)
			}
		}
	}
}

// tell calls a listener, without the lock. One that panics disturbs neither the project's lock nor the other listeners.
func (s *events) tell(l *listener, e Event) {
	s.mu.Unlock()
	defer s.mu.Lock()
	defer func() {
		if v := recover(); v != nil {
			s.warn(fmt.Errorf("a listener panicked at %s: %v\n%s", e.Type, v, debug.Stack()))
		}
	}()
	l.call(e)
}
