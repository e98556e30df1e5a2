package docstore

import (
	"context"
	"sync"
)

// Calls knows which calls of a store are in progress, so that Close can let them end. An adapter keeps one, begins
// every call with it and ends every one that has begun:
//
//	if err := s.calls.Begin(ctx); err != nil {
//		return docstore.Result{}, err
//	}
//	defer s.calls.End()
//
// The zero value is ready for use.
type Calls struct {
	mu      sync.Mutex
	closed  bool
	running sync.WaitGroup // grows only under mu and before closed

	closing sync.Once
	err     error // of the release
}

// Begin begins a call, or says why it must not begin: [ErrClosed] after Close, or the error of a context that has ended.
// A nil error obliges the caller to End.
func (c *Calls) Begin(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return ErrClosed
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	c.running.Add(1)
	return nil
}

// End ends a call that Begin let begin.
func (c *Calls) End() { c.running.Done() }

// Close lets no further call begin, waits for those in progress, and then releases what the store holds; nil if that is
// nothing. It does so once: whoever closes again, or meanwhile, waits for the first and gets the same answer.
func (c *Calls) Close(release func() error) error {
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
