// Package term is the time of a lease as its holder knows it. The store decides when a lease ends; its holder must know
// it no later than that, whatever happens to its own clocks.
//
// A holder counts from before the request that granted or extended the lease, so that its expiry is early and never
// late, and on two clocks of its process: the monotonic clock is right if the time is set, the wall clock is right if
// the machine slept and the monotonic clock stood still. The first of the two to reach the expiry counts.
//
// A process can be stopped (SIGSTOP, a debugger, a frozen function, a closed laptop) for longer than its lease. When it
// continues, the next statement may run before any timer does. So the context of what is done under the lease, made by
// [Term.Context], reads the clocks at each call of Done and Err, and [Term.Watch] looks again each second.
package term

import (
	"context"
	"sync"
	"time"
)

// Moment is a point in time on both clocks of the process.
type Moment struct {
	monotonic time.Time // with its monotonic reading: never set, may stand still while the machine sleeps
	wall      time.Time // without it: moves on while the machine sleeps, may be set
}

// Now reads both clocks.
func Now() Moment { return Of(time.Now()) }

// Of is the moment of a time that has a monotonic reading.
func Of(t time.Time) Moment { return Moment{monotonic: t, wall: t.Round(0)} }

// On is a moment of clocks that a test moves apart.
func On(monotonic, wall time.Time) Moment { return Moment{monotonic, wall} }

// Add is the moment after d.
func (m Moment) Add(d time.Duration) Moment {
	return Moment{monotonic: m.monotonic.Add(d), wall: m.wall.Add(d)}
}

// Time is the moment on the monotonic clock.
func (m Moment) Time() time.Time { return m.monotonic }

// Wall is the moment on the wall clock.
func (m Moment) Wall() time.Time { return m.wall }

// grain is how far a store's time lies behind the true one at most: stores cut theirs to whole milliseconds.
const grain = time.Millisecond

// End is when a lease of length d ends that was asked for at m.
func (m Moment) End(d time.Duration) Moment { return m.Add(d - grain) }

// Due is when a lease of length ttl is to be renewed that was asked for at m and lasted for so long then: when a part
// of it is over, every, which counts from the request, or from earlier where a request that was repeated finds the
// lease begun. That may have passed: a grant that was slow is renewed at once.
func (m Moment) Due(every, lasts, ttl time.Duration) Moment { return m.Add(every - max(0, ttl-lasts)) }

// Until is the time from m to end by the clock that says less.
func (m Moment) Until(end Moment) time.Duration {
	return min(end.monotonic.Sub(m.monotonic), end.wall.Sub(m.wall))
}

// Clock reads both clocks.
type Clock func() Moment

// lookAgain bounds how long a timer is trusted: one that was set before the machine slept comes late by as much.
const lookAgain = time.Second

// Sleep waits until a moment has come by either clock. The error is that of a context that ended before.
func (c Clock) Sleep(ctx context.Context, until Moment) error {
	for {
		left := c().Until(until)
		if left <= 0 {
			return ctx.Err()
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(min(left, lookAgain)):
		}
	}
}

// Term is a lease from its grant to its loss. Once lost it stays lost. Its methods may be called from several
// goroutines at once.
type Term struct {
	clock   Clock
	expired func(trouble error) error
	cancel  context.CancelCauseFunc
	ctx     context.Context //nolint:containedctx // it lasts as long as the lease
	outer   *Term           // in whose context it was begun

	mu      sync.Mutex
	end     Moment
	trouble error // why the latest attempt to extend it did not succeed
	lost    error
	settled bool // what was done under it is over
}

// New begins the term of a lease that ends at end. expired makes the error of its expiry; trouble is why the latest
// attempt to extend it did not succeed, nil if there was none or it did. The context of the term is derived from ctx,
// and cancelled with the cause of the loss.
func New(ctx context.Context, clock Clock, end Moment, expired func(trouble error) error) *Term {
	t := &Term{clock: clock, expired: expired, end: end}
	t.outer, _ = ctx.Value(key{}).(*Term)
	t.ctx, t.cancel = context.WithCancelCause(ctx)
	return t
}

// Context is the context of what is done under the lease. Its Done and Err (and so [context.Cause]) consult the clocks
// at each call, because after a thaw they may be quicker than the goroutine that watches the time. Contexts derived
// from it end at the latest when Watch has looked.
func (t *Term) Context() context.Context { return t.Guard(t.ctx) }

// Guard is a context that was made of the term's, and consults the clocks as that does.
func (t *Term) Guard(ctx context.Context) context.Context { return guarded{ctx, t} }

// Check consults the clocks. The error is the cause of the loss.
func (t *Term) Check() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.lost == nil && !t.settled && t.clock().Until(t.end) <= 0 {
		t.lose(t.expired(t.trouble))
	}
	return t.lost
}

// Lose ends the term early, unless it is over.
func (t *Term) Lose(cause error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.lost == nil && !t.settled {
		t.lose(cause)
	}
}

// lose is called with t.mu held.
func (t *Term) lose(cause error) {
	t.lost = cause
	t.cancel(cause)
}

// Extend moves the end, which may lie before the one that was known. ok is false if that comes too late.
func (t *Term) Extend(end Moment) (ok bool) {
	if t.Check() != nil {
		return false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.end, t.trouble = end, nil
	return t.lost == nil
}

// Failed notes why an attempt to extend the lease did not succeed.
func (t *Term) Failed(trouble error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.trouble = trouble
}

// Left is how long the lease lasts; 0 or less means that it has expired.
func (t *Term) Left() time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.clock().Until(t.end)
}

// Settle is the last check, when what was done under the lease is over: what has not been lost by now is not lost any
// more.
func (t *Term) Settle() error {
	err := t.Check()
	t.mu.Lock()
	defer t.mu.Unlock()
	t.settled = true
	return err
}

// Cancel ends the context of the term, which is not lost by that.
func (t *Term) Cancel(cause error) { t.cancel(cause) }

// Watch ends the term when it expires, until ctx ends or the term is settled.
func (t *Term) Watch(ctx context.Context) {
	for t.Check() == nil {
		t.mu.Lock()
		end, settled := t.end, t.settled
		t.mu.Unlock()
		if settled {
			return // or it would not sleep once the end has come
		}
		if t.clock.Sleep(ctx, end) != nil {
			return
		}
	}
}

// guarded is the context of what is done under a lease.
type guarded struct {
	context.Context //nolint:containedctx // it is one
	term            *Term
}

// look consults the clocks for a term and for those around it, which end what is in them.
func (t *Term) look() (err error) {
	for ; t != nil; t = t.outer {
		if e := t.Check(); e != nil && err == nil {
			err = e
		}
	}
	return err
}

func (c guarded) Done() <-chan struct{} {
	_ = c.term.look() // it cancels
	return c.Context.Done()
}

func (c guarded) Err() error {
	_ = c.term.look()
	return c.Context.Err()
}

func (c guarded) Value(k any) any {
	if k == (key{}) {
		return c.term
	}
	return c.Context.Value(k)
}

type key struct{}

// Check reports whether what is done under a lease may take its next step: nil while its context lives and the lease
// lasts, and every other lease in whose context that one was begun. Otherwise the error is the cause with which the
// context was, or is to be, cancelled. ctx is the context of a term, or one that was made of it; of any other it is the
// cause.
func Check(ctx context.Context) error {
	if t, ok := ctx.Value(key{}).(*Term); ok {
		if err := t.look(); err != nil {
			return err
		}
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return nil
}

// Left is how long the lease lasts under which something is done, and every other lease in whose context that one was
// begun; 0 if none of them does any more. ctx is as that of [Check]; of any other there is no lease.
func Left(ctx context.Context) (left time.Duration, leased bool) {
	t, leased := ctx.Value(key{}).(*Term)
	if !leased || t.look() != nil {
		return 0, leased
	}
	for left = t.Left(); t.outer != nil; left = min(left, t.Left()) {
		t = t.outer
	}
	return max(0, left), true
}
