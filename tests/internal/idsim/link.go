package idsim

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/leasehold-dev/leasehold/kazahana"
)

var errNetwork = errors.New("the network lost the request or its response")

// link is a process's network to the servers, during one life of it. It loses requests and responses, makes them late,
// sends releases twice, and can be cut.
type link struct {
	world *world
	to    kazahana.LeaseProvider
	maker *Maker
	near  bool          // no time on the way: things happen at the same instant
	fresh chan struct{} // leases came

	mu       sync.Mutex
	random   *rand.Rand
	cutUntil time.Time
	dead     bool // for good: the process was killed
	failing  bool // the last acquire failed
}

var _ kazahana.LeaseProvider = (*link)(nil)

// callFaults are what happens to one call.
type callFaults struct {
	there, back         time.Duration
	lost, answerLost    bool
	again               bool // a copy of the request arrives later
	againAfter, timeout time.Duration
}

func (l *link) faults() callFaults {
	l.mu.Lock()
	defer l.mu.Unlock()
	way := func() time.Duration {
		switch n := l.random.IntN(100); {
		case n < 2: // a queue somewhere
			return time.Duration(l.random.Int64N(int64(6 * time.Second)))
		case l.near:
			return 0
		case n < 20:
			return time.Duration(l.random.Int64N(int64(100 * time.Millisecond)))
		default:
			return time.Duration(l.random.Int64N(int64(2 * time.Millisecond)))
		}
	}
	return callFaults{
		there: way(), back: way(), lost: l.random.IntN(50) == 0, answerLost: l.random.IntN(50) == 0,
		again: l.random.IntN(5) == 0, againAfter: exponential(l.random, 5*time.Second),
		timeout: time.Duration(l.random.Int64N(int64(2 * time.Second))),
	}
}

// cut takes the network away for a while.
func (l *link) cut(d time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cutUntil = time.Now().Add(d)
}

// kill takes the network away for good.
func (l *link) kill() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.dead = true
}

func (l *link) down() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.dead || time.Now().Before(l.cutUntil)
}

// call carries a request to a server and its response back. A request that has arrived is executed, whatever happens to
// the caller.
func (l *link) call(ctx context.Context, f callFaults, deliver func(context.Context) error) error {
	count := &l.world.counts
	if l.down() {
		count.cutOff.Add(1)
		if err := sleep(ctx, f.timeout); err != nil {
			return err
		}
		return errNetwork
	}
	if err := sleep(ctx, f.there); err != nil {
		return err
	}
	if f.lost || l.down() {
		count.lostRequests.Add(1)
		return errNetwork
	}
	err := deliver(context.WithoutCancel(ctx))
	if err := sleep(ctx, f.back); err != nil {
		return err
	}
	if f.answerLost || l.down() {
		count.lostResponses.Add(1)
		return errNetwork
	}
	return err
}

// Acquire implements [kazahana.LeaseProvider].
func (l *link) Acquire(ctx context.Context, o kazahana.AcquireOptions) (r kazahana.AcquireResponse, err error) {
	count := &l.world.counts
	err = l.call(ctx, l.faults(), func(ctx context.Context) (err error) {
		r, err = l.to.Acquire(ctx, o)
		switch {
		case err == nil:
			count.leases.Add(int64(len(r.Leases)))
		case errors.Is(err, kazahana.ErrExhausted):
			count.exhausted.Add(1)
		default:
			l.world.unexpected(err)
		}
		return err
	})
	l.mu.Lock()
	l.failing = err != nil
	l.mu.Unlock()
	if err != nil {
		return kazahana.AcquireResponse{}, err
	}
	l.maker.granted(r.Leases)
	select {
	case l.fresh <- struct{}{}:
	default:
	}
	return r, nil
}

// Release implements [kazahana.LeaseProvider].
func (l *link) Release(ctx context.Context, o kazahana.ReleaseOptions) error {
	deliver := func(ctx context.Context) error { return l.to.Release(ctx, o) }
	f := l.faults()
	if f.again {
		l.world.all.Go(func() {
			if sleep(l.world.ctx, f.againAfter) == nil {
				_ = deliver(l.world.ctx) // rejected, or without effect; the caller does not wait for the response
				l.world.counts.replays.Add(1)
			}
		})
	}
	err := l.call(ctx, f, deliver)
	if err == nil {
		l.world.counts.releases.Add(1)
	}
	return err
}

// cached reports whether the last attempt to reach a server failed.
func (l *link) cached() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.failing
}

// edge is how long it is until a lease begins or ends by a clock. ok is false if none does.
func (l *link) edge(now time.Time) (d time.Duration, ok bool) {
	l.maker.mu.Lock()
	defer l.maker.mu.Unlock()
	for _, lease := range l.maker.leases {
		for _, ms := range [...]int64{lease.Created, lease.Expired} {
			if left := time.UnixMilli(ms).Sub(now); left > 0 && (!ok || left < d) {
				d, ok = left, true
			}
		}
	}
	return d, ok
}

// sleep returns the context's error if that ends before.
func sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
