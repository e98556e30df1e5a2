package locks

import (
	"context"
	"sync"
	"time"
)

// What happened, as [Event.What] says it.
const (
	// Waiting:
	// for a lock: Event.Err is why, LOCK_HELD or a request that failed; Event.After is when it is asked again
	Waiting       = "Waiting"
	Acquired      = "Acquired"      // a lock, with Event.Token
	Taken         = "Taken"         // a grant of a rate, with Event.Token
	Renewed       = "Renewed"       // its lease
	RenewalFailed = "RenewalFailed" // and is to be tried again: Event.Err is why
	Lost          = "Lost"          // Event.Err is the cause with which its context ended, an [ErrLost]
	// Forgotten:
	// no one refers to the [Lock] any more, nor to its context, and it was not unlocked: its goroutine may have panicked.
	// It is not renewed any more, and expires, because what it protected may still be at work.
	Forgotten     = "Forgotten"
	Released      = "Released"      // by its holder
	ReleaseFailed = "ReleaseFailed" // the lease expires: Event.Err is why
	// Abandoned:
	// an acquire that was given up, and what it may have obtained; Event.Err is why that may not have been released
	Abandoned = "Abandoned"
)

// Event is what happened to a lock.
type Event struct {
	At    time.Time
	What  string
	Key   string
	Token int64 // the fencing token, 0 before the lock is acquired
	// of Waiting; 0 if it is waited for at the provider, or in this client, because another goroutine of it goes first
	After time.Duration
	Err   error
}

// events are delivered in their order, one at a time.
type events struct {
	observe func(Event)

	mu    sync.Mutex
	queue []Event
	idle  chan struct{} // closed when all have been delivered; nil while none is under way
}

// emit tells the observer, in another goroutine: no lock waits for it.
func (e *events) emit(v Event) {
	if e.observe == nil {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	v.At = time.Now()
	e.queue = append(e.queue, v)
	if e.idle == nil {
		e.idle = make(chan struct{})
		go e.deliver()
	}
}

func (e *events) deliver() {
	e.mu.Lock()
	defer e.mu.Unlock()
	for len(e.queue) > 0 {
		v := e.queue[0]
		e.queue = e.queue[1:]
		e.mu.Unlock()
		e.observe(v)
		e.mu.Lock()
	}
	close(e.idle)
	e.idle = nil
}

// flush waits until all events have been delivered, or ctx ends.
func (e *events) flush(ctx context.Context) {
	e.mu.Lock()
	idle := e.idle
	e.mu.Unlock()
	if idle == nil {
		return
	}
	select {
	case <-idle:
	case <-ctx.Done():
	}
}
