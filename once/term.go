package once

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// moment is a point in time on both clocks of the process.
type moment struct {
	monotonic time.Time // with its monotonic reading: never set, may stand still while the machine sleeps
	wall      time.Time // without it: moves on while the machine sleeps, may be set
}

// now reads both clocks.
func now() moment {
	t := time.Now()
	return moment{monotonic: t, wall: t.Round(0)}
}

func (m moment) add(d time.Duration) moment {
	return moment{monotonic: m.monotonic.Add(d), wall: m.wall.Add(d)}
}

// grain is how far a store's time lies behind the true one at most: stores cut theirs to whole milliseconds.
const grain = time.Millisecond

// end is when a lock of length d ends that was asked for at m.
func (m moment) end(d time.Duration) moment { return m.add(d - grain) }

// until is the time from m to end by the clock that says less.
func (m moment) until(end moment) time.Duration {
	return min(end.monotonic.Sub(m.monotonic), end.wall.Sub(m.wall))
}

// clock reads both clocks.
type clock func() moment

// lookAgain bounds how long a timer is trusted: one that was set before the machine slept comes late by as much.
const lookAgain = time.Second

// sleep waits until a moment has come by either clock. The error is that of a context that ended before.
func (c clock) sleep(ctx context.Context, until moment) error {
	for {
		left := c().until(until)
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

// term is the time of a lock, as its holder knows it. Once lost it stays lost.
type term struct {
	clock  clock
	cancel context.CancelCauseFunc // of the work's context

	mu      sync.Mutex
	end     moment
	trouble error // why the latest refresh did not succeed
	lost    error
	settled bool // the work has returned
}

// check consults the clocks. The error is the reason of the loss, an [ErrLost].
func (t *term) check() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.lost == nil && !t.settled && t.clock().until(t.end) <= 0 {
		err := fmt.Errorf("%w: it expired", ErrLost)
		if t.trouble != nil {
			err = fmt.Errorf("%w: it expired, after refreshes that failed: %w", ErrLost, t.trouble)
		}
		t.loseLocked(err)
	}
	return t.lost
}

// lose ends the term early: the gate says that the lock is gone.
func (t *term) lose(err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.lost == nil && !t.settled {
		t.loseLocked(err)
	}
}

func (t *term) loseLocked(err error) {
	t.lost = err
	t.cancel(err)
}

// extend moves the end. ok is false if that comes too late.
func (t *term) extend(end moment) (ok bool) {
	if t.check() != nil {
		return false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.end, t.trouble = end, nil
	return t.lost == nil
}

// failed notes a refresh that did not succeed.
func (t *term) failed(err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.trouble = err
}

// left is how long the lock lasts.
func (t *term) left() time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.clock().until(t.end)
}

// settle is the last check, when the work has returned: what has not been lost by now is not lost any more.
func (t *term) settle() error {
	err := t.check()
	t.mu.Lock()
	defer t.mu.Unlock()
	t.settled = true
	return err
}

// watch ends the term when it expires, until ctx ends.
func (t *term) watch(ctx context.Context) {
	for t.check() == nil {
		t.mu.Lock()
		end := t.end
		t.mu.Unlock()
		if t.clock.sleep(ctx, end) != nil {
			return
		}
	}
}

// guarded is the context of the work. Done and Err (and so [context.Cause]) consult the clocks at each call, because after a thaw the work may be quicker
// than the goroutine that watches the time.
type guarded struct {
	context.Context //nolint:containedctx // it is one
	term            *term
}

func (c guarded) Done() <-chan struct{} {
	_ = c.term.check() // it cancels
	return c.Context.Done()
}

func (c guarded) Err() error {
	_ = c.term.check()
	return c.Context.Err()
}

func (c guarded) Value(key any) any {
	if key == (termKey{}) {
		return c.term
	}
	return c.Context.Value(key)
}

type termKey struct{}

// Check reports whether a run may take its next step: nil while its context lives and its lock lasts. Otherwise the error is
// the cause with which the context was, or is to be, cancelled; [ErrLost] if the lock is lost. ctx is the context of the work or
// one that was made of it. It consults the clocks at the time of the call and costs no request.
func Check(ctx context.Context) error {
	if t, ok := ctx.Value(termKey{}).(*term); ok {
		if err := t.check(); err != nil {
			return err
		}
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return nil
}
