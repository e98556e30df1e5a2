package locks

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"time"

	"github.com/leasehold-dev/leasehold/contracts"
	"github.com/leasehold-dev/leasehold/internal/backoff"
	"github.com/leasehold-dev/leasehold/internal/lease"
	"github.com/leasehold-dev/leasehold/internal/term"
)

// waits are those before a request is sent again to which there was no definite response.
var waits = backoff.Policy{First: 200 * time.Millisecond, Max: 5 * time.Second, Min: 10 * time.Millisecond}

// errWaited ends the wait for a lock.
var errWaited = errors.New("LockOptions.Wait is over")

// acquire is what the methods of a client have in common. working: the lock's work ends when Do says so.
func (c *Client) acquire(ctx context.Context, key string, o *LockOptions, working bool) (*Lock, error) {
	defer c.underway.begin()()
	s, err := c.settings(key, o)
	if err != nil {
		return nil, fmt.Errorf("lock %q: %w", key, err)
	}
	calling, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	if c.ctx.Err() != nil {
		cancel(ErrClosed)
	}
	defer context.AfterFunc(c.ctx, func() { cancel(ErrClosed) })()
	if calling.Err() != nil {
		return nil, fmt.Errorf("lock %q: %w", key, context.Cause(calling))
	}
	waiting, stop := context.WithCancelCause(calling)
	defer stop(nil)
	if s.Wait > 0 {
		defer time.AfterFunc(s.Wait, func() { stop(errWaited) }).Stop()
	}
	leave, ok := c.queues.enter(waiting, key, false)
	if !ok {
		taken := contracts.Errorf(contracts.CodeLockHeld, "another goroutine of this client has the lock, or waits for it")
		taken.Owner = c.o.Owner
		if s.NoWait {
			return nil, fmt.Errorf("lock %q: %w", key, taken)
		}
		c.events.emit(Event{What: Waiting, Key: key, Err: taken})
		if leave, ok = c.queues.enter(waiting, key, true); !ok {
			return nil, ended(key, s, waiting, taken)
		}
	}
	a := &acquisition{client: c, ctx: context.WithoutCancel(ctx), key: key, o: s, request: contracts.AcquireRequest{
		OwnerID: c.o.Owner, RequestID: rand.Text(), TTLSeconds: int64(s.TTL / time.Second), Metadata: s.Metadata,
	}}
	asked, got, err := a.ask(calling, waiting)
	if err == nil {
		var l *Lock
		if l, err = c.hold(ctx, calling, a, asked, got, leave, working); err == nil {
			return l, nil
		}
	} else if a.open {
		c.abandon(a)
	}
	leave()
	switch {
	case calling.Err() != nil:
		return nil, ended(key, s, calling, a.last)
	case waiting.Err() != nil:
		return nil, ended(key, s, waiting, a.last)
	default:
		return nil, fmt.Errorf("lock %q: %w", key, err)
	}
}

// ended is the error of a wait that ended. last is what was heard last, nil if nothing was.
func ended(key string, s LockOptions, waiting context.Context, last error) error { //nolint:revive // the context is what has ended
	cause := context.Cause(waiting)
	switch {
	case errors.Is(cause, errWaited):
		return fmt.Errorf("lock %q: not acquired within %v: %w", key, s.Wait, last)
	case last != nil:
		return fmt.Errorf("lock %q: %w, while waiting: %w", key, cause, last)
	default:
		return fmt.Errorf("lock %q: %w", key, cause)
	}
}

// acquisition is one intention to have a lock. Its tries have one request_id, so that one that is carried out late is not another.
type acquisition struct {
	client  *Client
	ctx     context.Context //nolint:containedctx // of what goes on when the caller has left
	key     string
	o       LockOptions
	request contracts.AcquireRequest
	open    bool  // a try may have been carried out, or may still be
	last    error // of the latest try that was not cut off
}

// ask asks for the lock until it is granted, waiting ends, or there is nothing to wait for. The first request is not part of the wait: whether
// the lock is held is known when there was a response. asked is the time before the request that the lease is the response to.
func (a *acquisition) ask(calling, waiting context.Context) (asked term.Moment, got contracts.Lease, err error) {
	c := a.client
	var failed int
	since := c.o.clock() // when there was no definite response for the first time
	for {
		asking := waiting
		if a.last == nil {
			asking = calling
		}
		asked = c.o.clock()
		request := a.request // of this try, which may go on when a.request is that of the next
		got, err = bounded(asking, min(tryTime, a.o.TTL), func(ctx context.Context) (contracts.Lease, error) {
			return c.provider.Acquire(ctx, a.key, request)
		})
		if err == nil {
			err = granted(got, a.key, a.request.OwnerID, 0)
		}
		if err == nil && c.o.clock().Until(asked.End(a.lasts(got)).Add(-a.o.Margin)) <= 0 {
			err = a.late(asked, got)
		}
		a.open = err != nil && (lease.Unsettled(err) || a.open && !lease.Settles(err))
		if err == nil || asking.Err() != nil {
			return asked, got, err
		}
		a.last = err
		if waiting.Err() != nil {
			return asked, got, err
		}
		pause := max(waits.Delay(failed), retryAfter(err))
		switch {
		case errors.Is(err, contracts.CodeLockHeld):
			if a.o.NoWait {
				return asked, got, err
			}
			failed, since = 0, c.o.clock()
			pause = a.pause(retryAfter(err))
		case errors.Is(err, contracts.CodeRequestIDReused), errors.Is(err, contracts.CodeLeaseExpired):
			a.request.RequestID = rand.Text() // what it obtained has ended
			failed++
		case lease.Rejected(err):
			return asked, got, err
		default:
			failed++
		}
		if failed > 0 {
			left := c.o.clock().Until(since.Add(c.o.RetryFor))
			if left <= 0 || retryAfter(err) > left {
				return asked, got, err
			}
			pause = min(pause, left)
		}
		c.events.emit(Event{What: Waiting, Key: a.key, After: pause, Err: err})
		if backoff.Sleep(waiting, pause) != nil {
			return asked, got, err
		}
	}
}

// pause is how long to wait for a lock that is held. The holder's lease may be renewed, or end earlier.
func (a *acquisition) pause(holder time.Duration) time.Duration {
	poll := a.o.Poll/2 + mathrand.N(a.o.Poll/2) + 1
	if holder <= 0 {
		return poll
	}
	return min(poll, max(holder, shortPause/2)+mathrand.N(shortPause)) // not all who wait at the same time
}

// lasts is how long a lease lasts from when it was asked for.
func (a *acquisition) lasts(l contracts.Lease) time.Duration {
	return min(time.Duration(l.RemainingMs)*time.Millisecond, a.o.TTL)
}

// late releases a lease whose response took so long that no work can be begun under it.
func (a *acquisition) late(asked term.Moment, got contracts.Lease) error {
	a.client.discard(a, asked, got)
	return contracts.Errorf(contracts.CodeLeaseExpired, "the response arrived when the lease was about to end: use a longer ttl than %v", a.o.TTL)
}

// discard releases in the background a lease that no one wants.
func (c *Client) discard(a *acquisition, asked term.Moment, got contracts.Lease) {
	left := c.o.clock().Until(asked.End(a.lasts(got)))
	if left <= 0 {
		return
	}
	c.underway.run(func() {
		ctx, cancel := context.WithTimeout(a.ctx, left)
		defer cancel()
		c.abandoned(a.key, got.FencingToken, c.free(ctx, a.key, got))
	})
}

// abandon releases in the background what an acquire that was given up may have obtained. Its request is sent again: if it had obtained the
// lock that returns the lease, and otherwise, once the lease that it obtains now is released, no delivery that comes late obtains another.
func (c *Client) abandon(a *acquisition) {
	c.underway.run(func() {
		ctx, cancel := context.WithTimeout(a.ctx, min(a.o.TTL, 30*time.Second))
		defer cancel()
		for retry := 0; ; retry++ {
			got, err := bounded(ctx, min(tryTime, a.o.TTL), func(ctx context.Context) (contracts.Lease, error) {
				return c.provider.Acquire(ctx, a.key, a.request)
			})
			if err == nil {
				err = granted(got, a.key, a.request.OwnerID, 0)
			}
			switch {
			case err == nil:
				err = c.free(ctx, a.key, got)
			case lease.Settles(err):
				err = nil // another has it, or the lease has ended
			}
			if err == nil || lease.Rejected(err) || waits.Sleep(ctx, retry) != nil {
				c.abandoned(a.key, got.FencingToken, err)
				return
			}
		}
	})
}

// abandoned says what became of an acquire that was given up.
func (c *Client) abandoned(key string, token int64, err error) {
	c.events.emit(Event{What: Abandoned, Key: key, Token: token, Err: err})
	if err != nil && c.ctx.Err() != nil {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.failed = append(c.failed, fmt.Errorf("lock %q: %w, which an acquire that was given up may have obtained: %w", key, ErrNotReleased, err))
	}
}

// free releases a lease that no one holds, until ctx ends.
func (c *Client) free(ctx context.Context, key string, got contracts.Lease) error {
	r := contracts.ReleaseRequest{OwnerID: c.o.Owner, FencingToken: got.FencingToken, RequestID: rand.Text()}
	for retry := 0; ; retry++ {
		err := c.release(ctx, tryTime, key, r)
		if lease.Gone(err) {
			return nil
		}
		if err == nil || lease.Rejected(err) || waits.Sleep(ctx, retry) != nil {
			return err
		}
	}
}

// release is one try.
func (c *Client) release(ctx context.Context, each time.Duration, key string, r contracts.ReleaseRequest) error {
	got, err := bounded(ctx, each, func(ctx context.Context) (contracts.EndedLease, error) { return c.provider.Release(ctx, key, r) })
	if err != nil {
		return err
	}
	if err := (lease.Asked{Key: key, Owner: r.OwnerID, Token: r.FencingToken}).Ended(got); err != nil {
		return fmt.Errorf("invalid response: %w", err)
	}
	return nil
}
