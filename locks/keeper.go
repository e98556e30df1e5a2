package locks

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/leasehold-dev/leasehold/contracts"
	"github.com/leasehold-dev/leasehold/internal/backoff"
	"github.com/leasehold-dev/leasehold/internal/fencing"
	"github.com/leasehold-dev/leasehold/internal/hold"
	"github.com/leasehold-dev/leasehold/internal/lease"
	"github.com/leasehold-dev/leasehold/internal/term"
)

// keeper watches, renews and releases the lease of a [Lock], to which it does not refer: so the runtime can tell it
// that no one has the lock any more.
type keeper struct {
	client   *Client
	provider Provider
	key      string
	o        LockOptions
	token    int64
	permit   int
	request  contracts.AcquireRequest // of which it is the lease
	working  bool                     // Do knows when its work ends
	most     term.Moment
	term     *term.Term

	watching ending // of the lease
	renewing ending
	// whether no one has the lock any more. A flag, because what looks for it may run in no goroutine of the program's.
	forgotten atomic.Bool
	finished  chan struct{} // closed when the lock is released or lost, and with Do when the work has returned
	finish    func()
	leave     func() // lets the next goroutine ask for the key
	announce  func(error)

	mu        sync.Mutex
	expiresAt string      // as the provider knows it
	end       term.Moment // of the lease
	release   contracts.ReleaseRequest
	releasing *releasing // under way, or the last
}

// ending is the context of a goroutine.
type ending struct {
	ctx  context.Context //nolint:containedctx // it lasts as long as the goroutine
	stop context.CancelFunc
}

func begun(ctx context.Context) (e ending) {
	e.ctx, e.stop = context.WithCancel(ctx)
	return e
}

// hold begins to keep a lease, unless it is not wanted any more.
func (c *Client) hold(
	ctx, calling context.Context, a *acquisition, asked term.Moment, got contracts.Lease, leave func(), working bool,
) (*keeper, error) {
	k := &keeper{
		client: c, provider: a.provider, key: a.key, o: a.o, token: got.FencingToken, permit: int(got.Permit),
		request: a.request, working: working,
		finished: make(chan struct{}), leave: leave,
		most: asked.Add(100 * 365 * 24 * time.Hour), expiresAt: got.ExpiresAt, end: asked.End(a.lasts(got)),
		release: contracts.ReleaseRequest{OwnerID: c.o.Owner, FencingToken: got.FencingToken, RequestID: rand.Text()},
	}
	if a.o.MaxHold > 0 {
		k.most = c.o.clock().Add(a.o.MaxHold)
	}
	c.mu.Lock()
	if calling.Err() != nil || c.ctx.Err() != nil {
		c.mu.Unlock()
		c.discard(a, asked, got)
		return nil, cmp.Or(context.Cause(calling), context.Cause(c.ctx))
	}
	c.held[k] = struct{}{}
	k.finish = sync.OnceFunc(func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.held, k)
		close(k.finished)
	})
	var once sync.Once
	k.announce = func(err error) {
		once.Do(func() {
			c.events.emit(Event{What: Lost, Key: k.key, Token: k.token, Err: err})
			k.leave()
			if !k.working {
				k.finish()
			}
		})
	}
	k.watching = begun(context.WithoutCancel(ctx))
	k.renewing = begun(k.watching.ctx)
	carries := ctx
	if !working { // ctx is that of the acquire
		carries = context.WithoutCancel(ctx)
	}
	if !a.several { // no one token is that of several locks
		carries = fencing.With(carries, fencing.OfLock(k.key, k.permit, k.token))
	}
	k.term = term.New(carries, c.o.clock, k.contextEnd(k.end), k.expired)
	c.mu.Unlock()
	c.events.emit(Event{What: Acquired, Key: k.key, Token: k.token})
	if !working { // no one knows when the work ends, but when its context does
		context.AfterFunc(k.term.Context(), k.renewing.stop)
	}
	go func() {
		k.term.Watch(k.watching.ctx)
		k.noticeLoss()
	}()
	go k.renewals(k.due(asked, a.lasts(got)))
	return k, nil
}

// contextEnd is when the lock's context ends if its lease ends at end.
func (k *keeper) contextEnd(end term.Moment) term.Moment {
	end = end.Add(-k.o.Margin)
	if now := k.client.o.clock(); now.Until(end) > now.Until(k.most) {
		return k.most
	}
	return end
}

// expired is the cause of the end of the lock's context. It is called with the term's lock held.
func (k *keeper) expired(trouble error) error {
	defer k.watching.stop()
	k.mu.Lock()
	end := k.end
	k.mu.Unlock()
	now := k.client.o.clock()
	switch {
	case now.Until(k.most) <= 0 && now.Until(end.Add(-k.o.Margin)) > 0:
		return fmt.Errorf("%w: %w: %v", ErrLost, ErrMaxHold, k.o.MaxHold)
	case trouble != nil:
		return fmt.Errorf("%w: its lease expires, after renewals that failed: %w", ErrLost, trouble)
	default:
		return fmt.Errorf("%w: its lease expires, and was not renewed in time", ErrLost)
	}
}

// noticeLoss tells of a loss, if there is one, when one of those who look after the lease has ended.
func (k *keeper) noticeLoss() {
	if lost := k.term.Check(); lost != nil {
		k.watching.stop()
		k.announce(lost)
	}
}

// left is how long the lease lasts.
func (k *keeper) left() time.Duration {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.client.o.clock().Until(k.end)
}

// due is when a lease is to be renewed that was asked for at a time and lasted so long then: when a third of its ttl is
// over. One that lasts for as long as it may be held is not renewed.
func (k *keeper) due(asked term.Moment, lasts time.Duration) term.Moment {
	if k.contextEnd(asked.End(lasts)) == k.most {
		return k.most
	}
	return asked.Due(k.o.TTL/3, lasts, k.o.TTL)
}

// errForgotten ends the renewals of a lock that no one has.
var errForgotten = errors.New("no one has the lock any more")

// renewals renews the lease until the lock is lost, is to be released, or no one has it any more.
func (k *keeper) renewals(due term.Moment) {
	k.mu.Lock()
	r := contracts.RenewRequest{
		OwnerID: k.release.OwnerID, FencingToken: k.token, TTLSeconds: int64(k.o.TTL / time.Second), RequestID: rand.Text(),
		ExpiresAt: k.expiresAt,
	}
	k.mu.Unlock()
	var (
		got  contracts.Lease // of the latest renewal
		lost bool            // the response to one of the renewals since then: it may have been carried out
	)
	var tries hold.Tries // since the latest renewal that succeeded
	soon := min(time.Second, k.o.TTL/24)
	renew := &hold.Keep{
		Term: k.term, Clock: k.client.o.clock, Pauses: backoff.Policy{First: soon, Max: min(10*time.Second, k.o.TTL/6),
			Min: soon / 2},
		Renew: func(ctx context.Context) (err error) {
			if k.forgotten.Load() {
				k.client.events.emit(Event{What: Forgotten, Key: k.key, Token: k.token})
				k.renewing.stop()
				return errForgotten
			}
			request := r // of this try, which may go on when r is that of the next
			got, err = bounded(ctx, hold.Third(k.term.Left(), tries.Next()), func(ctx context.Context) (contracts.Lease, error) {
				return k.provider.Renew(ctx, k.key, request)
			})
			if err == nil {
				err = k.renewed(got)
			}
			lost = err != nil && (lost || lease.Unsettled(err))
			if at, elsewhere := lease.Changed(err, request.ExpiresAt, lost); elsewhere != nil {
				return elsewhere
			} else if at != "" {
				r.ExpiresAt = at
			}
			return err
		},
		Again: func(err error) bool { return errors.Is(err, contracts.CodeLeaseChanged) },
		Renewed: func(asked term.Moment) (end, due term.Moment) {
			lasts := min(time.Duration(got.RemainingMs)*time.Millisecond, k.o.TTL)
			r.RequestID, r.ExpiresAt, tries = rand.Text(), got.ExpiresAt, 0
			k.mu.Lock()
			k.expiresAt, k.end = got.ExpiresAt, asked.End(lasts)
			k.mu.Unlock()
			return k.contextEnd(asked.End(lasts)), k.due(asked, lasts)
		},
		Extended: func(context.Context, term.Moment) {
			k.client.events.emit(Event{What: Renewed, Key: k.key, Token: k.token})
		},
		Lost: func(err error) error {
			if !lease.Over(err) {
				return nil
			}
			return fmt.Errorf("%w: %w", ErrLost, err)
		},
		Failed: func(err error) {
			k.client.events.emit(Event{What: RenewalFailed, Key: k.key, Token: k.token, Err: err})
		},
	}
	renew.Run(k.renewing.ctx, due)
	k.noticeLoss()
}

// releasing is the end of a lock.
type releasing struct {
	done chan struct{}
	err  error // set before done is closed

	mu   sync.Mutex
	last error // of the provider
}

// failed notes what the provider said last.
func (r *releasing) failed(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.last = err
}

// because is why a release is not waited for any longer, and what the provider said last.
func (r *releasing) because(over error) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.last == nil {
		return over
	}
	return fmt.Errorf("%w, after %w", over, r.last)
}

// patience is for how long a release is waited for.
func (k *keeper) patience(ctx context.Context) (context.Context, context.CancelFunc) {
	if ctx.Err() != nil {
		return context.WithTimeout(context.WithoutCancel(ctx), hold.GraceTime)
	}
	return hold.Within(ctx, hold.CallTime)
}

// begin begins to release the lock, unless that is under way or done.
func (k *keeper) begin() *releasing {
	k.mu.Lock()
	defer k.mu.Unlock()
	if r := k.releasing; r != nil {
		select {
		case <-r.done:
			if r.err == nil || errors.Is(r.err, ErrLost) {
				return r
			}
		default:
			return r
		}
	}
	r := &releasing{done: make(chan struct{})}
	k.releasing = r
	k.client.underway.run(func() {
		r.err = k.tryRelease(r)
		k.released(r.err)
		close(r.done)
		if !k.working {
			k.finish()
		}
	})
	return r
}

// released says how a release ended.
func (k *keeper) released(err error) {
	switch {
	case err == nil:
		k.client.events.emit(Event{What: Released, Key: k.key, Token: k.token})
	case errors.Is(err, ErrLost):
		k.announce(err)
	default:
		k.client.events.emit(Event{What: ReleaseFailed, Key: k.key, Token: k.token, Err: err})
	}
	k.leave()
}

// tryRelease releases the lock, or says why it could not until the lease ended.
func (k *keeper) tryRelease(r *releasing) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(k.watching.ctx), k.left())
	defer cancel()
	var last error // of the provider
	var tries hold.Tries
	err := hold.Insist{Pauses: waits, Final: settled}.Do(ctx, func(ctx context.Context) error {
		left := k.left() // the clocks may say less than the context
		if left <= 0 {
			return errLeaseEnded
		}
		last = k.client.release(ctx, hold.Third(left, tries.Next()), k.provider, k.key, k.release)
		r.failed(last)
		return last
	})
	switch {
	case err == nil:
		return nil
	case lease.Gone(err):
		return fmt.Errorf("%w: %w", ErrLost, err)
	case lease.Final(err):
		return fmt.Errorf("%w: %w", ErrNotReleased, err)
	default:
		return fmt.Errorf("%w before its lease ended: %w", ErrNotReleased, cmp.Or(last, error(contracts.CodeLeaseExpired)))
	}
}

// errLeaseEnded says that there is nothing left to release.
var errLeaseEnded = errors.New("the lease has ended")

// settled reports whether a request about a lease need not be sent again.
func settled(err error) bool {
	return errors.Is(err, errLeaseEnded) || lease.Gone(err) || lease.Final(err)
}

// closingError is what [Client.Close] says of a lock that is not held any more.
func (k *keeper) closingError() error {
	k.mu.Lock()
	r := k.releasing
	k.mu.Unlock()
	if r == nil {
		if lost := k.term.Check(); lost != nil {
			return fmt.Errorf("lock %q: %w", k.key, lost)
		}
		return nil
	}
	select {
	case <-r.done:
		return r.err
	default:
		return nil // its holder waits for it
	}
}
