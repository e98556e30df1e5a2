package once

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/leasehold-dev/leasehold/internal/hold"
	"github.com/leasehold-dev/leasehold/internal/term"
)

// ErrNotStored is the error of [NotStored]: the work is done, and the gate has not stored that. See [Storing].
var ErrNotStored = errors.New("the work is done, and its end is not stored")

// Storing is the end of a run that [Run] could not store before it returned. It is sent again in the background until
// the gate has it or says that another worker took over. Until then that other worker may be given the run.
type Storing struct {
	done   chan struct{}
	cancel context.CancelFunc
	left   atomic.Bool // no one waits for it
	out    Outcome
}

// Done is closed when the end is stored, or never will be.
func (s *Storing) Done() <-chan struct{} { return s.done }

// Stop gives up, unless the end is stored: for a process that ends. It returns when nothing is sent any more.
func (s *Storing) Stop() {
	s.cancel()
	<-s.done
}

// Outcome is, once Done is closed, what [Run] would have returned.
func (s *Storing) Outcome() Outcome {
	<-s.done
	return s.out
}

// finish writes the end of the run, and insists on it for as long as the gate may accept it: the gate accepts a late
// end if no other worker took over. It waits for that while the lock lasts, for ten seconds at least; then it goes on
// in the background. With Options.SettleTime it waits until that time after the caller's context.
func (r *run) finish(ctx context.Context, t *term.Term, result Result, done Outcome) Outcome {
	patience := max(t.Left(), endingTime)
	storing, cancel := context.WithCancel(context.WithoutCancel(ctx))
	s := &Storing{done: make(chan struct{}), cancel: cancel}
	go func() {
		defer close(s.done)
		defer cancel()
		var telling sync.WaitGroup
		defer telling.Wait()
		defer cancel()
		telling.Go(func() { r.tell(storing) })
		s.out = r.store(storing, patience, result, done)
		if s.left.Load() && s.out.Status != done.Status {
			r.Warn(fmt.Errorf("in the background: %w", s.out.Err))
		}
	}()
	if r.SettleTime > 0 {
		defer context.AfterFunc(ctx, func() { time.AfterFunc(r.SettleTime, cancel) })()
		return s.Outcome()
	}
	over := make(chan struct{})
	defer context.AfterFunc(ctx, func() { time.AfterFunc(hold.GraceTime, func() { close(over) }) })()
	timer := time.NewTimer(patience + hold.GraceTime)
	defer timer.Stop()
	select {
	case <-s.done:
		return s.out
	case <-over:
	case <-timer.C:
	}
	s.left.Store(true)
	select {
	case <-s.done:
		return s.out
	default:
	}
	out := r.unstored(done, errBackground)
	out.Storing = s
	return out
}

// unstored is what came of a work whose end the gate has not stored.
func (r *run) unstored(done Outcome, why error) Outcome {
	return Outcome{Status: NotStored, Token: r.lock.Token, Result: done.Result,
		Err: because(fmt.Errorf("store the end of run %q: %w; %w", r.id, why, ErrNotStored), done.Err)}
}

// tell calls Options.OnStoring while that takes longer than it should.
func (r *run) tell(ctx context.Context) {
	if r.OnStoring == nil {
		return
	}
	for pause := min(time.Second, r.Heartbeat/2); r.clock.Sleep(ctx, r.clock().Add(pause)) == nil; pause = r.Heartbeat {
		r.OnStoring(ctx)
	}
}

// store sends the end until the gate has it, says that it will not, or ctx ends. A gate that asks for a pause is given
// it as far as the time that the end is waited for allows, and later no longer one than between any tries: another
// worker may begin as soon as the gate is back.
func (r *run) store(ctx context.Context, patience time.Duration, result Result, done Outcome) Outcome {
	warned, until := false, r.clock().Add(patience)
	left := func() time.Duration { return max(r.clock().Until(until), 3*waits.Max) }
	each := min(tryTime, max(patience, endingTime)/2)
	err := hold.Insist{Each: each, Pauses: waits, Final: ended, Left: left, Failed: func(err error) {
		if !warned {
			r.Warn(fmt.Errorf("store the end of run %q, to be tried again: %w", r.id, err))
		}
		warned = true
	}}.Do(ctx, func(ctx context.Context) error { return r.gate.Finish(ctx, r.lock, result) })
	switch {
	case err == nil:
		return done
	case IsLost(err):
		return Outcome{Status: Lost, Token: r.lock.Token, Err: because(lostBy(err), done.Err)}
	case !rejected(err):
		return r.unstored(done, err)
	}
	rejection := fmt.Errorf("store the end of run %q: %w", r.id, err)
	if !result.Failed { // the work is done, and is not done again because its result is not accepted
		out := r.store(ctx, patience, Result{Failed: true, Reason: reason(rejection)},
			Outcome{Status: Failed, Token: r.lock.Token, Err: rejection})
		if out.Status == NotStored {
			out.Result = done.Result
		}
		return out
	}
	r.release(ctx, reason(rejection)) // the gate responds, and would reject it later too
	return r.unstored(done, err)
}
