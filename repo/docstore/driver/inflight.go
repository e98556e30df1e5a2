package driver

import (
	"context"
	"sync"

	"github.com/leasehold-dev/leasehold/repo/docstore"
)

// InFlight counts the calls of a store that are in progress, so that Close can wait for them. An adapter keeps one and
// brackets every call with it:
//
//	if err := s.calls.Begin(ctx); err != nil {
//		return docstore.Result{}, err
//	}
//	defer s.calls.End()
//
// The zero value is ready for use.
type InFlight struct {
	mu      sync.Mutex
	closed  bool
	running sync.WaitGroup // grows only under mu and before closed

	closing sync.Once
	err     error // of the release
}

// Begin begins a call. The error is [docstore.ErrClosed] after Close, or that of a context that has ended; after a nil
// error the caller must call End.
func (c *InFlight) Begin(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return docstore.ErrClosed
	}
	if err := docstore.Gone(ctx); err != nil {
		return err
	}
	c.running.Add(1)
	return nil
}

// End ends a call that Begin accepted.
func (c *InFlight) End() { c.running.Done() }

// Close rejects further calls, waits for those in progress, and then calls release, which may be nil. Release is called
// once: later and concurrent calls of Close wait for the first and return its error.
func (c *InFlight) Close(release func() error) error {
	c.closing.Do(func() {
		c.mu.Lock()
		c.closed = true
		c.mu.Unlock()
		c.running.Wait()
		if release != nil {
			c.err = release()
		}
	})
	return c.err
}
