package locks

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/leasehold-dev/leasehold/contracts"
	"github.com/leasehold-dev/leasehold/internal/backoff"
	"github.com/leasehold-dev/leasehold/internal/fencing"
	"github.com/leasehold-dev/leasehold/internal/hold"
	"github.com/leasehold-dev/leasehold/internal/lease"
	"github.com/leasehold-dev/leasehold/internal/term"
)

// Lock is a lock that is held, until [Lock.Unlock] or until its context ends. Its methods may be called from several
// goroutines at once.
type Lock struct {
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
	finished chan struct{} // closed when the lock is released or lost, and with Do when the work has returned
	finish   func()
	leave    func() // lets the next goroutine ask for the key
	announce func(error)

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

// hold makes a lock of a lease, unless it is not wanted any more.
func (c *Client) hold(
	ctx, calling context.Context, a *acquisition, asked term.Moment, got contracts.Lease, leave func(), working bool,
) (*Lock, error) {
	l := &Lock{
		client: c, provider: a.provider, key: a.key, o: a.o, token: got.FencingToken, permit: int(got.Permit),
		request: a.request, working: working,
		finished: make(chan struct{}), leave: leave,
		most: asked.Add(100 * 365 * 24 * time.Hour), expiresAt: got.ExpiresAt, end: asked.End(a.lasts(got)),
		release: contracts.ReleaseRequest{OwnerID: c.o.Owner, FencingToken: got.FencingToken, RequestID: rand.Text()},
	}
	if a.o.MaxHold > 0 {
		l.most = c.o.clock().Add(a.o.MaxHold)
	}
	c.mu.Lock()
	if calling.Err() != nil || c.ctx.Err() != nil {
		c.mu.Unlock()
		c.discard(a, asked, got)
		return nil, cmp.Or(context.Cause(calling), context.Cause(c.ctx))
	}
	c.held[l] = struct{}{}
	l.finish = sync.OnceFunc(func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.held, l)
		close(l.finished)
	})
	var once sync.Once
	l.announce = func(err error) {
		once.Do(func() {
			c.events.emit(Event{What: Lost, Key: l.key, Token: l.token, Err: err})
			l.leave()
			if !l.working {
				l.finish()
			}
		})
	}
	l.watching = begun(context.WithoutCancel(ctx))
	l.renewing = begun(l.watching.ctx)
	carries := ctx
	if !a.several { // no one token is that of several locks
		carries = fencing.With(ctx, l.token)
	}
	l.term = term.New(carries, c.o.clock, l.contextEnd(l.end), l.expired)
	c.mu.Unlock()
	c.events.emit(Event{What: Acquired, Key: l.key, Token: l.token})
	if !working { // no one knows when the work ends, but with its context
		context.AfterFunc(l.term.Context(), l.renewing.stop)
	}
	go func() {
		l.term.Watch(l.watching.ctx)
		l.noticeLoss()
	}()
	go l.renewals(l.due(asked, a.lasts(got)))
	return l, nil
}

// Key is that of the lock.
func (l *Lock) Key() string { return l.key }

// Token is the fencing token: higher than that of every earlier holder. Pass it on to whatever the work writes to,
// which rejects a lower one. With several holders at a time the one that came last has the highest: see [Lock.Permit].
func (l *Lock) Token() int64 { return l.token }

// Permit is which permit of the lock is held, from 1 to LockOptions.Permits; 0 if the lock has none. No two hold the
// same at a time. The tokens of one permit only ever increase, but not those of all together: what the work writes to
// must be told apart by permit, such as "pool#2", to reject the lower tokens of that permit.
func (l *Lock) Permit() int { return l.permit }

// Context is the context of the work. It ends with an [ErrLost] so much before the lease as LockOptions.Margin says,
// with [ErrUnlocked], with [ErrClosed], or when the context ends that was passed to the acquire. Err, Done and
// [context.Cause] consult the clocks at each call, and so notice that the process was stopped for longer than the lease
// before its next step is taken; for contexts derived from it [Check] does.
func (l *Lock) Context() context.Context { return l.term.Context() }

// Remaining is after how long Context ends unless the lease is renewed; 0 if it has ended.
func (l *Lock) Remaining() time.Duration {
	if Check(l.Context()) != nil {
		return 0
	}
	return max(0, l.term.Left())
}

// Left is after how long the lease itself ends unless it is renewed, which is LockOptions.Margin later than Context:
// what is done under the lock must have ended by then. 0 if it has ended, or the provider says that it is over.
func (l *Lock) Left() time.Duration {
	if lost := l.term.Check(); lost != nil && lease.Over(lost) {
		return 0
	}
	return max(0, l.left())
}

// contextEnd is when the lock's context ends if its lease ends at end.
func (l *Lock) contextEnd(end term.Moment) term.Moment {
	end = end.Add(-l.o.Margin)
	if now := l.client.o.clock(); now.Until(end) > now.Until(l.most) {
		return l.most
	}
	return end
}

// expired is the cause of the end of the lock's context. It is called with the term's lock held.
func (l *Lock) expired(trouble error) error {
	defer l.watching.stop()
	l.mu.Lock()
	end := l.end
	l.mu.Unlock()
	now := l.client.o.clock()
	switch {
	case now.Until(l.most) <= 0 && now.Until(end.Add(-l.o.Margin)) > 0:
		return fmt.Errorf("%w: %w: %v", ErrLost, ErrMaxHold, l.o.MaxHold)
	case trouble != nil:
		return fmt.Errorf("%w: its lease expires, after renewals that failed: %w", ErrLost, trouble)
	default:
		return fmt.Errorf("%w: its lease expires, and was not renewed in time", ErrLost)
	}
}

// noticeLoss tells of a loss, if there is one, when one of those who look after the lease has ended.
func (l *Lock) noticeLoss() {
	if lost := l.term.Check(); lost != nil {
		l.watching.stop()
		l.announce(lost)
	}
}

// left is how long the lease lasts.
func (l *Lock) left() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.client.o.clock().Until(l.end)
}

// due is when a lease is to be renewed that was asked for at a time and lasted so long then: when a third of its ttl is
// over. One that lasts for as long as it may be held is not renewed.
func (l *Lock) due(asked term.Moment, lasts time.Duration) term.Moment {
	if l.contextEnd(asked.End(lasts)) == l.most {
		return l.most
	}
	return asked.Add(lasts - l.o.TTL*2/3)
}

// renewals renews the lease until the lock is lost, or is to be released.
func (l *Lock) renewals(due term.Moment) {
	l.mu.Lock()
	r := contracts.RenewRequest{
		OwnerID: l.release.OwnerID, FencingToken: l.token, TTLSeconds: int64(l.o.TTL / time.Second), RequestID: rand.Text(),
		ExpiresAt: l.expiresAt,
	}
	l.mu.Unlock()
	var (
		got  contracts.Lease // of the latest renewal
		lost bool            // the response to one of the renewals since then: it may have been carried out
	)
	var tries hold.Tries // since the latest renewal that succeeded
	soon := min(time.Second, l.o.TTL/24)
	k := &hold.Keep{
		Term: l.term, Clock: l.client.o.clock, Pauses: backoff.Policy{First: soon, Max: min(10*time.Second, l.o.TTL/6),
			Min: soon / 2},
		Renew: func(ctx context.Context) (err error) {
			request := r // of this try, which may go on when r is that of the next
			got, err = bounded(ctx, hold.Third(l.term.Left(), tries.Next()), func(ctx context.Context) (contracts.Lease, error) {
				return l.provider.Renew(ctx, l.key, request)
			})
			if err == nil {
				err = l.renewed(got)
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
			lasts := min(time.Duration(got.RemainingMs)*time.Millisecond, l.o.TTL)
			r.RequestID, r.ExpiresAt, tries = rand.Text(), got.ExpiresAt, 0
			l.mu.Lock()
			l.expiresAt, l.end = got.ExpiresAt, asked.End(lasts)
			l.mu.Unlock()
			return l.contextEnd(asked.End(lasts)), l.due(asked, lasts)
		},
		Extended: func(context.Context, term.Moment) {
			l.client.events.emit(Event{What: Renewed, Key: l.key, Token: l.token})
		},
		Lost: func(err error) error {
			if !lease.Over(err) {
				return nil
			}
			return fmt.Errorf("%w: %w", ErrLost, err)
		},
		Failed: func(err error) {
			l.client.events.emit(Event{What: RenewalFailed, Key: l.key, Token: l.token, Err: err})
		},
	}
	k.Run(l.renewing.ctx, due)
	l.noticeLoss()
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

// Unlock ends the lock's context and releases the lock. A release that fails is tried again until the lease ends, in
// the background when ctx ends before, or after 5 s if it has no deadline; if ctx has ended already, Unlock waits for 1
// s at most. An [Event] says how that ended. The error is an [ErrNotReleased] if the lock may still be held, and an
// [ErrLost] if it was lost before. Unlock may be called again, which waits again, or tries again what has failed.
func (l *Lock) Unlock(ctx context.Context) error {
	lost := l.term.Settle()
	l.term.Cancel(ErrUnlocked)
	l.watching.stop()
	if lost != nil {
		l.announce(lost)
	}
	if lost != nil && (lease.Over(lost) || l.left() <= 0) { // there is nothing to release
		return fmt.Errorf("lock %q: %w", l.key, lost)
	}
	r := l.begin()
	wait, cancel := l.patience(ctx)
	defer cancel()
	var err error
	select {
	case <-r.done:
		err = r.err
	case <-wait.Done():
		err = fmt.Errorf("%w: %w, and the release goes on in the background", ErrNotReleased, r.because(context.Cause(wait)))
	}
	l.leave()
	if err = errors.Join(lost, err); err != nil {
		return fmt.Errorf("lock %q: %w", l.key, err)
	}
	return nil
}

// patience is for how long a release is waited for.
func (l *Lock) patience(ctx context.Context) (context.Context, context.CancelFunc) {
	if ctx.Err() != nil {
		return context.WithTimeout(context.WithoutCancel(ctx), hold.GraceTime)
	}
	return hold.Within(ctx, hold.CallTime)
}

// begin begins to release the lock, unless that is under way or done.
func (l *Lock) begin() *releasing {
	l.mu.Lock()
	defer l.mu.Unlock()
	if r := l.releasing; r != nil {
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
	l.releasing = r
	l.client.underway.run(func() {
		r.err = l.tryRelease(r)
		l.released(r.err)
		close(r.done)
		if !l.working {
			l.finish()
		}
	})
	return r
}

// released says how a release ended.
func (l *Lock) released(err error) {
	switch {
	case err == nil:
		l.client.events.emit(Event{What: Released, Key: l.key, Token: l.token})
	case errors.Is(err, ErrLost):
		l.announce(err)
	default:
		l.client.events.emit(Event{What: ReleaseFailed, Key: l.key, Token: l.token, Err: err})
	}
	l.leave()
}

// tryRelease releases the lock, or says why it could not until the lease ended.
func (l *Lock) tryRelease(r *releasing) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(l.watching.ctx), l.left())
	defer cancel()
	var last error // of the provider
	var tries hold.Tries
	err := hold.Insist{Pauses: waits, Final: settled}.Do(ctx, func(ctx context.Context) error {
		left := l.left() // the clocks may say less than the context
		if left <= 0 {
			return errLeaseEnded
		}
		last = l.client.release(ctx, hold.Third(left, tries.Next()), l.provider, l.key, l.release)
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
func (l *Lock) closingError() error {
	l.mu.Lock()
	r := l.releasing
	l.mu.Unlock()
	if r == nil {
		if lost := l.term.Check(); lost != nil {
			return fmt.Errorf("lock %q: %w", l.key, lost)
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
