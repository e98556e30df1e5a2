package idsim

import (
	"cmp"
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/leasehold-dev/leasehold/kazahana"
	"github.com/leasehold-dev/leasehold/proof/suite/idtable"
)

var errNetwork = errors.New("the network lost the request or its response")

// link is a process's network to a server, during one life of it. It loses requests and responses, makes them late,
// sends releases twice, and can be cut.
type link struct {
	*world

	to    *idtable.Holder
	near  bool          // no time on the way: things happen at the same instant
	fresh chan struct{} // leases came

	mu      sync.Mutex
	random  *rand.Rand
	cut     time.Time // until then
	failing bool      // the last acquire failed
	edges   []int64   // at which leases that came begin and end
}

var _ kazahana.LeaseProvider = (*link)(nil)

// chance is true once in n times.
func (l *link) chance(n int) bool { return l.upTo(time.Duration(n)) == 0 }

// upTo draws a duration below a bound.
func (l *link) upTo(bound time.Duration) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return time.Duration(l.random.Int64N(int64(bound)))
}

// way lasts as long as a message takes.
func (l *link) way(ctx context.Context) error {
	switch {
	case l.chance(50): // a queue somewhere
		return sleep(ctx, l.upTo(6*time.Second))
	case l.near:
		return ctx.Err()
	case l.chance(5):
		return sleep(ctx, l.upTo(100*time.Millisecond))
	default:
		return sleep(ctx, l.upTo(2*time.Millisecond))
	}
}

// cutFor takes the network away for a while.
func (l *link) cutFor(d time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cut = time.Now().Add(d)
}

func (l *link) down() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return time.Now().Before(l.cut)
}

// call carries a request to a server and its response back. A request that has arrived is executed, whatever happens to
// the caller.
func (l *link) call(ctx context.Context, deliver func(context.Context) error) error {
	if l.down() {
		return cmp.Or(sleep(ctx, l.upTo(2*time.Second)), errNetwork)
	}
	if err := l.way(ctx); err != nil {
		return err
	}
	if l.chance(50) || l.down() {
		l.tally.Add(lostRequests, 1)
		return errNetwork
	}
	err := deliver(context.WithoutCancel(ctx))
	if err := l.way(ctx); err != nil {
		return err
	}
	if l.chance(50) || l.down() {
		l.tally.Add(lostResponses, 1)
		return errNetwork
	}
	return err
}

// Acquire implements [kazahana.LeaseProvider].
func (l *link) Acquire(ctx context.Context, o kazahana.AcquireOptions) (r kazahana.AcquireResponse, err error) {
	err = l.call(ctx, func(ctx context.Context) (err error) {
		r, err = l.to.Acquire(ctx, o)
		switch {
		case err == nil:
			l.tally.Add(leased, len(r.Leases))
		case errors.Is(err, kazahana.ErrExhausted):
			l.tally.Add(exhausted, 1)
		default:
			l.table.Faultf("an acquire: %v", err)
		}
		return err
	})
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.failing = err != nil; err != nil {
		return kazahana.AcquireResponse{}, err
	}
	for _, lease := range r.Leases {
		l.edges = append(l.edges, lease.Created, lease.Expired)
	}
	select {
	case l.fresh <- struct{}{}:
	default:
	}
	return r, nil
}

// Release implements [kazahana.LeaseProvider].
func (l *link) Release(ctx context.Context, o kazahana.ReleaseOptions) error {
	if l.chance(5) { // it arrives once more later, when no one waits for the response
		l.all.Go(func() {
			if sleep(l.ctx, l.upTo(20*time.Second)) == nil {
				_ = l.to.Release(l.ctx, o)
				l.tally.Add(replays, 1)
			}
		})
	}
	err := l.call(ctx, func(ctx context.Context) error { return l.to.Release(ctx, o) })
	if err == nil {
		l.tally.Add(releases, 1)
	}
	return err
}

// cached reports whether the last attempt to reach a server failed.
func (l *link) cached() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.failing
}

// edge is how long it is until a lease begins or ends by a clock, or forever.
func (l *link) edge(now time.Time) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	next := time.Duration(1<<63 - 1)
	for _, ms := range l.edges {
		if left := time.UnixMilli(ms).Sub(now); left > 0 {
			next = min(next, left)
		}
	}
	return next
}

// sleep returns the context's error if that ends before.
func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(max(d, 0)):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
