package locks

import (
	"context"

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
