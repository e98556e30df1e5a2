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
	l.mu.Lock()
	asked, expiresAt, left := l.client.o.clock(), l.expiresAt, l.client.o.clock().Until(l.end)
	l.mu.Unlock()
	a := &acquisition{client: c, provider: l.provider, ctx: context.Background(), key: l.key, o: l.o, request: l.request,
		leave: func() {}}
	return c.hold(a.ctx, a.ctx, a, asked, contracts.Lease{
		FencingToken: l.token, Permit: int64(l.permit), ExpiresAt: expiresAt, RemainingMs: left.Milliseconds(),
	}, a.leave, false)
}
