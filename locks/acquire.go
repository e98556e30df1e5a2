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
	"github.com/leasehold-dev/leasehold/internal/hold"
	"github.com/leasehold-dev/leasehold/internal/lease"
	"github.com/leasehold-dev/leasehold/internal/term"
)

// waits are those before a request is sent again to which there was no definite response.
var waits = backoff.Policy{First: 200 * time.Millisecond, Max: 5 * time.Second, Min: 10 * time.Millisecond}

// errWaited ends the wait for a lock, errSilent the call of a caller that waits for no longer.
var (
	errWaited = errors.New("LockOptions.Wait is over")
	errSilent = errors.New("no definite response arrived in time")
)

// acquire is what the methods of a client have in common. working: the lock's work ends when Do says so.
func (c *Client) acquire(ctx context.Context, key string, o *LockOptions, working bool) (*keeper, error) {
	defer c.underway.begin()()
	s, err := c.settings(key, o)
	if err != nil {
		return nil, fmt.Errorf("lock %q: %w", key, err)
	}
	a := &acquisition{
		client: c, provider: c.provider, ctx: context.WithoutCancel(ctx), key: key, o: s, request: s.request(c.o.Owner),
		leave: func() {}, skipsLocalQueue: s.MaxWaiting > 0 || s.Replace, exclusive: !s.Shared && s.Permits == 0,
	}
	return a.hold(ctx, working)
}

// hold acquires the lock.
func (a *acquisition) hold(ctx context.Context, working bool) (k *keeper, err error) {
	c := a.client
	err = a.run(ctx, func(calling context.Context, asked term.Moment, got contracts.Lease) error {
		leave := func() {}
		if a.exclusive { // until it is not held any more
			leave, a.leave = a.leave, leave
		}
		if k, err = c.hold(ctx, calling, a, asked, got, leave, working); err != nil {
			leave()
		}
		return err
	})
	return k, err
}

// run asks for what is to be acquired, and gives it to use if it was granted.
func (a *acquisition) run(ctx context.Context, use func(calling context.Context, asked term.Moment,
	got contracts.Lease) error) error {
	c := a.client
	calling, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	if c.ctx.Err() != nil {
		cancel(ErrClosed)
	}
	defer context.AfterFunc(c.ctx, func() { cancel(ErrClosed) })()
	if calling.Err() != nil {
		return fmt.Errorf("lock %q: %w", a.key, context.Cause(calling))
	}
	if wait := *a.o.Wait; wait < Forever {
		bounded, stop := context.WithTimeoutCause(calling, wait+min(a.o.beyond(&c.o), Forever-wait), errSilent)
		defer stop()
		calling = bounded
	}
	waiting := calling
	if wait := *a.o.Wait; wait > 0 && wait < Forever {
		bounded, stop := context.WithTimeoutCause(calling, wait, errWaited)
		defer stop()
		waiting = bounded
	}
	if a.exclusive && !a.skipsLocalQueue {
		taken := contracts.Errorf(contracts.CodeLockHeld, "another goroutine of this client has the lock, or waits for it")
		taken.Owner = c.o.Owner
		var ok bool
		if a.leave, ok = c.queues.enter(waiting, a.key, false); !ok {
			a.leave = func() {}
			if *a.o.Wait == 0 {
				return fmt.Errorf("lock %q: %w", a.key, taken)
			}
			c.events.emit(Event{What: Waiting, Key: a.key, Err: taken})
			if !a.turn(waiting) {
				return ended(a.key, a.o, waiting, taken)
			}
		}
		a.inside = true
	}
	defer func() { a.leave() }()
	asked, got, err := a.ask(calling, waiting)
	if err == nil {
		if err = use(calling, asked, got); err == nil {
			return nil
		}
	} else if a.queued || a.uncertain {
		c.abandon(a)
	}
	switch {
	case calling.Err() != nil:
		return ended(a.key, a.o, calling, a.last)
	case waiting.Err() != nil:
		return ended(a.key, a.o, waiting, a.last)
	default:
		return fmt.Errorf("lock %q: %w", a.key, err)
	}
}

// turn waits until no other goroutine of this client is before this one. ok is false if waiting ended.
func (a *acquisition) turn(waiting context.Context) (ok bool) {
	if a.skipsLocalQueue || a.inside {
		return true
	}
	leave, ok := a.client.queues.enter(waiting, a.key, true)
	if ok {
		a.leave, a.inside = leave, true
	}
	return ok
}

// ended is the error of a wait that ended. last is what was heard last, nil if nothing was.
//
//nolint:revive // the context is what has ended
func ended(key string, s LockOptions, waiting context.Context, last error) error {
	cause := context.Cause(waiting)
	switch {
	case errors.Is(cause, errWaited):
		return fmt.Errorf("lock %q: not acquired within %v: %w", key, *s.Wait, last)
	case errors.Is(cause, errSilent) && last != nil:
		return fmt.Errorf("lock %q: %w: %w", key, cause, last)
	case errors.Is(cause, errSilent):
		return fmt.Errorf("lock %q: %w", key, lease.NoResponse(contracts.Errorf(contracts.CodeDeadlineExceeded, "%v", cause)))
	case last != nil:
		return fmt.Errorf("lock %q: %w, while waiting: %w", key, cause, last)
	default:
		return fmt.Errorf("lock %q: %w", key, cause)
	}
}

// acquisition is one intention to have a lock. Its tries have one request_id, so that one that is carried out late is
// not another.
type acquisition struct {
	client          *Client
	provider        Provider
	ctx             context.Context //nolint:containedctx // of what goes on when the caller has left
	key             string
	o               LockOptions
	request         contracts.AcquireRequest // but for how long the provider is to wait
	skipsLocalQueue bool                     // it does not let other goroutines of the client go first
	exclusive       bool                     // no others hold the lock meanwhile
	isRate          bool                     // of a rate, which is not held
	several         bool                     // locks, see [Client.LockAll]

	leave     func()      // lets the next goroutine of the client ask
	inside    bool        // it is this one's turn
	uncertain bool        // a try without a response may have been carried out, or may still be
	queued    bool        // it may have a place in line
	until     term.Moment // when the last wait of a try ends to which there was no definite response
	last      error       // of the latest try that was not cut off
}

// try is one request.
type try struct {
	asked term.Moment   // before it
	wait  time.Duration // that the provider was asked for
	got   contracts.Lease
	err   error
}

// ask asks for the lock until it is granted, waiting ends, or there is nothing to wait for. Until there was a definite
// response calling bounds it, because it is not known whether the lock is held. After that the requests let the
// provider wait. asked is the time from which the lease is counted.
func (a *acquisition) ask(calling, waiting context.Context) (asked term.Moment, got contracts.Lease, err error) {
	c := a.client
	var (
		failed int           // tries without a definite response, one after the other
		polls  int           // tries that are not to wait
		wait   time.Duration // of the next try
		since  = c.o.clock() // when there was no definite response for the first time
		first  lease.Meeting

		answered bool // the provider has said that the lock is held
	)
	for {
		asking := waiting
		if !answered {
			asking = calling
		}
		each := hold.TryTime(failed)
		if failed > 0 {
			each = max(lastLook, min(each, c.o.clock().Until(since.Add(c.o.RetryFor))))
		}
		t := a.try(asking, wait, each)
		if t.err == nil || asking.Err() != nil {
			return t.asked, t.got, t.err
		}
		before := a.last
		a.last = t.err
		answered = answered || a.held(t.err)
		if asking = waiting; !answered {
			asking = calling
		}
		if asking.Err() != nil {
			return t.asked, t.got, t.err
		}
		took := t.asked.Until(c.o.clock())
		pause := max(waits.Delay(failed), contracts.RetryAfter(t.err))
		switch {
		case a.held(t.err):
			if *a.o.Wait == 0 {
				return t.asked, t.got, t.err
			}
			if errors.Is(t.err, contracts.CodeLockQueueFull) {
				polls = fewPolls
			}
			switch again := pollAfter(t.err); {
			case again > 0: // it holds no response for so long
				pause = inTime(waiting, again)
			case polls > 0 || a.left(waiting) == 0 || t.wait > 0 && took < t.wait/2: // it does not wait as it is asked to
				pause = a.pause(contracts.RetryAfter(t.err))
			default:
				pause = 0
			}
			c.events.emit(Event{What: Waiting, Key: a.key, After: pause, Err: t.err})
			if !a.turn(waiting) || backoff.Sleep(waiting, pause) != nil {
				return t.asked, t.got, t.err
			}
			failed, since, wait = 0, c.o.clock(), a.left(waiting)
			if polls > 0 {
				polls, wait = polls-1, 0
			}
			continue
		case errors.Is(t.err, contracts.CodeRequestIDReused), errors.Is(t.err, contracts.CodeLeaseExpired):
			a.request.RequestID = rand.Text() // what it obtained has ended
			if failed > 0 && errors.Is(t.err, contracts.CodeRequestIDReused) {
				a.last = before // the caller knows of no request_id, but may ask why there was no response
			}
			failed++
		case lease.Final(t.err), errors.Is(t.err, contracts.CodeLockQueueFull):
			return t.asked, t.got, t.err
		default:
			if failed == 0 && t.wait > 0 {
				since = c.o.clock() // there was none to expect before
			}
			failed++
			if errors.Is(t.err, contracts.CodeOverloaded) && t.wait > 0 {
				polls = fewPolls
			}
		}
		if first.Unmet(t.err) && !c.o.insists {
			return t.asked, t.got, t.err
		}
		if failed > 0 {
			left := min(c.o.clock().Until(since.Add(c.o.RetryFor)), hold.Left(asking))
			if left <= 0 || contracts.RetryAfter(t.err) > left {
				return t.asked, t.got, a.last
			}
			pause = min(pause, left)
		}
		if wait = 0; a.queued && (polls == 0 || failed < 3) { // otherwise the place is given up
			wait = min(time.Second, a.left(waiting))
		}
		c.events.emit(Event{What: Waiting, Key: a.key, After: pause, Err: t.err})
		// A try that begins at the end is cut off, and its outcome would not be known.
		if backoff.Sleep(asking, pause) != nil || hold.Left(asking) <= 0 {
			return t.asked, t.got, a.last
		}
	}
}

// fewPolls is how often a lock is asked for without a wait when the provider has no room for those who wait.
const fewPolls = 5

// try sends the request once, and waits for the response for so long, beside the wait that the provider is asked for.
func (a *acquisition) try(ctx context.Context, wait, each time.Duration) (t try) {
	c := a.client
	request := a.request // of this try, which may go on when a.request is that of the next
	request.WaitSeconds = int64(wait / time.Second)
	t.asked, t.wait = c.o.clock(), wait
	t.got, t.err = bounded(ctx, min(each, a.o.TTL)+wait, func(ctx context.Context) (contracts.Lease, error) {
		return a.provider.Acquire(ctx, a.key, request)
	})
	if t.err == nil {
		t.err = acquired(t.got, a.key, request)
	}
	if t.err == nil {
		t.asked = t.asked.Add(lease.Waited(request, t.got, t.asked.Until(c.o.clock())))
		if !a.isRate && c.o.clock().Until(t.asked.End(a.lasts(t.got)).Add(-a.o.Margin)) <= 0 {
			t.err = a.late(t.asked, t.got)
		}
	}
	// That a lock is held does not say what becomes of a try before, which may still be on its way; that the request would
	// be rejected again does.
	a.uncertain = t.err != nil && (lease.Unsettled(t.err) || a.uncertain && (!lease.Settles(t.err) || !lease.Final(t.err)))
	if end := t.asked.Add(wait); a.uncertain && a.until.Until(end) > 0 {
		a.until = end
	}
	switch {
	case t.err == nil:
		a.queued = false
	case lease.Settles(t.err):
		e, _ := errors.AsType[*contracts.Error](t.err)
		a.queued = wait > 0 && a.held(t.err) && !errors.Is(t.err, contracts.CodeLockQueueFull) &&
			(a.queues() || e != nil && e.Position > 0)
	case lease.Unsettled(t.err):
		a.queued = a.queued || wait > 0 && a.queues()
	}
	return t
}

// held reports whether an error says that the lock cannot be had now, but can later without anything being wrong.
func (a *acquisition) held(err error) bool {
	return errors.Is(err, contracts.CodeLockHeld) || errors.Is(err, contracts.CodeLockDelayed) ||
		errors.Is(err, contracts.CodeLockQueueFull) && a.o.MaxWaiting == 0
}

// queues reports whether the request waits in line.
func (a *acquisition) queues() bool { return a.o.Fair || !a.exclusive }

// left is for how long the provider is asked to wait: whole seconds, and not much longer than the caller does.
func (a *acquisition) left(waiting context.Context) time.Duration {
	end, ok := waiting.Deadline()
	if !ok {
		return waitTime
	}
	return max(0, min(waitTime, (time.Until(end)+time.Second-1).Truncate(time.Second)))
}

// pause is how long to wait for a lock that is held. The holder's lease may be renewed, or end earlier.
func (a *acquisition) pause(holder time.Duration) time.Duration {
	poll := a.o.Poll/2 + mathrand.N(a.o.Poll/2) + 1
	if a.queued {
		poll = min(poll, placedPause)
	}
	if holder <= 0 {
		return poll
	}
	return min(poll, max(holder, shortPause/2)+mathrand.N(shortPause)) // not all who wait at the same time
}

// pollAfter is when the request comes again to a provider that holds no response for as long as it is asked to; 0 if it
// does not say.
func pollAfter(err error) time.Duration {
	if e, ok := errors.AsType[*contracts.Error](err); ok {
		return e.PollAfter
	}
	return 0
}

// inTime is a pause that ends before the wait does, so that what the lock's line has granted by then is not missed.
func inTime(waiting context.Context, pause time.Duration) time.Duration {
	return min(pause, max(hold.Left(waiting)-lastLook, lastLook+shortPause))
}

// lasts is how long a lease lasts from when it was asked for.
func (a *acquisition) lasts(l contracts.Lease) time.Duration {
	return min(time.Duration(l.RemainingMs)*time.Millisecond, a.o.TTL)
}

// late releases a lease whose response took so long that no work can be begun under it.
func (a *acquisition) late(asked term.Moment, got contracts.Lease) error {
	a.client.discard(a, asked, got)
	return contracts.Errorf(contracts.CodeLeaseExpired,
		"the response arrived when the lease was about to end: use a longer ttl than %v", a.o.TTL)
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
		c.abandoned(a.key, got.FencingToken, c.releaseOrphan(ctx, a.provider, a.key, got))
	})
}

// abandon gives up in the background an acquire whose caller does not want it any more: the request is sent again as
// one that gives up. Then what it obtained ends, its place in line too, and no delivery of it obtains anything, however
// late it comes and wherever it waits. That takes one request. It is sent until it is carried out or rejected for good:
// no other answer says that nothing comes of the request any more, also not that the lock is held.
func (c *Client) abandon(a *acquisition) {
	c.underway.run(func() {
		ctx, cancel := context.WithTimeout(a.ctx, max(0, c.o.clock().Until(a.until))+min(a.o.TTL, 30*time.Second))
		defer cancel()
		request := a.request
		request.GiveUp = true
		var got contracts.Lease
		var tries hold.Tries
		err := hold.GiveUp(ctx, func(ctx context.Context) (err error) {
			got, err = bounded(ctx, tries.Next(), func(ctx context.Context) (contracts.Lease, error) {
				return a.provider.Acquire(ctx, a.key, request)
			})
			return err
		})
		if err == nil && got.FencingToken > 0 && !a.isRate { // of a provider that does not know GiveUp
			err = c.releaseOrphan(ctx, a.provider, a.key, got)
		}
		c.abandoned(a.key, got.FencingToken, err)
	})
}

// abandoned says what became of an acquire that was given up.
func (c *Client) abandoned(key string, token int64, err error) {
	c.events.emit(Event{What: Abandoned, Key: key, Token: token, Err: err})
	if err != nil && c.ctx.Err() != nil {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.failed = append(c.failed, fmt.Errorf("lock %q: %w, which an acquire that was given up may have obtained: %w", key,
			ErrNotReleased, err))
	}
}

// releaseOrphan releases a lease that no one holds, until ctx ends.
func (c *Client) releaseOrphan(ctx context.Context, p Provider, key string, got contracts.Lease) error {
	r := contracts.ReleaseRequest{OwnerID: c.o.Owner, FencingToken: got.FencingToken, RequestID: rand.Text()}
	var tries hold.Tries
	err := hold.Insist{Pauses: waits, Final: settled}.Do(ctx, func(ctx context.Context) error {
		return c.release(ctx, tries.Next(), p, key, r)
	})
	if lease.Gone(err) {
		return nil
	}
	return err
}

// release is one try.
func (c *Client) release(ctx context.Context, each time.Duration, p Provider, key string,
	r contracts.ReleaseRequest) error {
	got, err := bounded(ctx, each, func(ctx context.Context) (contracts.EndedLease,
		error) {
		return p.Release(ctx, key, r)
	})
	if err != nil {
		return err
	}
	if err := (lease.Asked{Key: key, Owner: r.OwnerID, Token: r.FencingToken}).Ended(got); err != nil {
		return lease.Invalid("", err)
	}
	return nil
}
