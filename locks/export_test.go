package locks

import (
	"context"

	"github.com/leasehold-dev/leasehold/contracts"
	"github.com/leasehold-dev/leasehold/internal/term"
)

// WithClock are the options with another clock.
func (o Options) WithClock(c term.Clock) *Options {
	o.clock = c
	return &o
}

// Queues are those of a client.
type Queues = queues

// Enter takes the place of a key.
func (q *queues) Enter(ctx context.Context, key string, wait bool) (leave func(), ok bool) {
	return q.enter(ctx, key, wait)
}

// Clone is a lock as a copy of its process holds it, with a client of its own.
func Clone(c *Client, l *Lock) (*Lock, error) {
	k := l.keeper
	k.mu.Lock()
	asked, expiresAt, left := k.client.o.clock(), k.expiresAt, k.client.o.clock().Until(k.end)
	k.mu.Unlock()
	a := &acquisition{client: c, provider: k.provider, ctx: context.Background(), key: k.key, o: k.o, request: k.request,
		leave: func() {}}
	k, err := c.hold(a.ctx, a.ctx, a, asked, contracts.Lease{
		FencingToken: k.token, Permit: int64(k.permit), ExpiresAt: expiresAt, RemainingMs: left.Milliseconds(),
	}, a.leave, false)
	return &Lock{k}, err
}

// HasForgotten reports whether a client has learned that no one has a lock of a key any more.
func HasForgotten(c *Client, key string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for k := range c.held {
		if k.key == key && k.forgotten.Load() {
			return true
		}
	}
	return false
}
