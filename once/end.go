package once

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"strings"
	"unicode/utf8"

	"github.com/leasehold-dev/leasehold/internal/hold"
	"github.com/leasehold-dev/leasehold/internal/term"
)

// PanicError is a panic of the work, or the end of its goroutine by runtime.Goexit.
type PanicError struct {
	Value any    // what panic was called with
	Stack []byte // of the work's goroutine, for the log
}

// Error has the value, not the stack.
func (e *PanicError) Error() string { return fmt.Sprintf("the work panicked: %v", e.Value) }

// Unwrap is the value, if it is an error.
func (e *PanicError) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}

// permanent is an error of the work that another attempt would meet again.
type permanent struct{ error }

func (p permanent) Unwrap() error { return p.error }

// Permanent marks an error that a retry would meet again: a [Work] that returns it turns the run FAILED at once.
// Permanent(nil) is nil.
func Permanent(err error) error {
	if err == nil {
		return nil
	}
	return permanent{err}
}

// uncounted is an error that says nothing about the run.
type uncounted struct{ error }

func (u uncounted) Unwrap() error { return u.error }

// Uncounted marks an error that is not the run's own, such as a credential that is missing where the work runs: a
// [Work] that returns it is to be retried, and its attempt does not count as a failed one. Uncounted(nil) is nil.
func Uncounted(err error) error {
	if err == nil {
		return nil
	}
	return uncounted{err}
}

// errGoexit is the value of a PanicError without a panic.
var errGoexit = errors.New("its goroutine was ended by runtime.Goexit")

// perform runs the work in a goroutine of its own and waits for it, however it ends.
func perform(ctx context.Context, work Work, l Lock) (result string, err error) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		returned := false
		defer func() {
			if !returned {
				p := recover()
				if p == nil {
					p = errGoexit
				}
				result, err = "", &PanicError{Value: p, Stack: debug.Stack()}
			}
		}()
		result, err = work(ctx, l)
		returned = true
	}()
	<-done
	return result, err
}

// ready stores the result of a work that succeeded.
func (r *run) ready(ctx context.Context, t *term.Term, result string) Outcome {
	switch {
	case len(result) > MaxResultBytes:
		return r.failed(ctx, t,
			Permanent(fmt.Errorf("the result has %d bytes, %d at most: keep it elsewhere and return where it is",
				len(result), MaxResultBytes)))
	case !utf8.ValidString(result):
		return r.failed(ctx, t,
			Permanent(errors.New("the result is not valid UTF-8: keep it elsewhere and return where it is")))
	}
	return r.finish(ctx, t, Result{Result: result}, Outcome{Status: Ready, Token: r.lock.Token, Result: result})
}

// failed counts an attempt that failed, or ends the run if that was the last one.
func (r *run) failed(ctx context.Context, t *term.Term, err error) Outcome {
	if errors.As(err, new(uncounted)) {
		r.release(ctx, "")
		return Outcome{Status: Retry, Token: r.lock.Token, Err: err}
	}
	forGood := errors.As(err, new(permanent))
	if forGood || r.MaxFailures > 0 && r.failures+1 >= r.MaxFailures {
		return r.finish(ctx, t, Result{Failed: true, Reason: reason(err)},
			Outcome{Status: Failed, Token: r.lock.Token, Err: err})
	}
	r.release(ctx, reason(err))
	return Outcome{Status: Retry, Token: r.lock.Token, Err: err}
}

// timeOver ends an attempt that took longer than the caller's context lasts. It counts as one that failed: work that
// never fits would be retried for ever.
func (r *run) timeOver(ctx context.Context, t *term.Term, err error) Outcome {
	out := r.failed(ctx, t, fmt.Errorf("the run exceeded its time: %w", because(context.Cause(ctx), err)))
	if out.Status == Retry {
		out.Status = Stopped
	}
	return out
}

// stopped releases the lock because the caller's context was cancelled. err is the work's own error.
func (r *run) stopped(ctx context.Context, err error) Outcome {
	r.release(ctx, "")
	return Outcome{Status: Stopped, Token: r.lock.Token, Err: because(context.Cause(ctx), err)}
}

// finish writes the end of the run. It is retried until the lock expires, and for a while at least: the gate
// accepts a late end as long as no other worker took over.
func (r *run) finish(ctx context.Context, t *term.Term, result Result, done Outcome) Outcome {
	limit := max(t.Left(), endingTime)
	err := r.settle(ctx, limit, limit+hold.GraceTime, func(err error) {
		if err != nil {
			r.Warn(fmt.Errorf("store the end of run %q, in the background: %w", r.id, err))
		}
	}, func(ctx context.Context) error {
		return insist(ctx, min(tryTime, limit/2), ended, func(ctx context.Context) error {
			return r.gate.Finish(ctx, r.lock, result)
		})
	})
	switch {
	case err == nil:
		return done
	case IsLost(err):
		return Outcome{Status: Lost, Token: r.lock.Token, Err: because(lostBy(err), done.Err)}
	}
	err = fmt.Errorf("store the end of run %q: %w", r.id, err)
	if rejected(err) {
		r.release(ctx, reason(err)) // the gate responds, and would reject it later too
	}
	return Outcome{Status: Retry, Token: r.lock.Token, Err: because(err, done.Err)}
}

// release releases the lock. If that fails, the lock expires: worth a warning, nothing more.
func (r *run) release(ctx context.Context, failed string) {
	warn := func(err error) {
		if err != nil && !errors.Is(err, errBackground) {
			r.Warn(fmt.Errorf("release the lock of run %q, which now expires: %w", r.id, err))
		}
	}
	warn(r.settle(ctx, cmp.Or(r.SettleTime, giveUpTime), hold.CallTime, warn, func(ctx context.Context) error {
		return insist(ctx, tryTime, ended, func(ctx context.Context) error {
			return r.gate.Release(ctx, r.lock, failed)
		})
	}))
}

// lostBy is the gate's word as an [ErrLost].
func lostBy(err error) error {
	if errors.Is(err, ErrLost) {
		return err
	}
	return fmt.Errorf("%w: %w", ErrLost, err)
}

// reason is an error as a sentence for the document: never empty, UTF-8, cut to what fits.
func reason(err error) string {
	s := strings.ToValidUTF8(err.Error(), "�")
	if s == "" {
		return fmt.Sprintf("the work failed with an empty %T", err)
	}
	if len(s) <= maxReasonBytes {
		return s
	}
	const more = "…"
	return strings.ToValidUTF8(s[:maxReasonBytes-len(more)], "") + more
}
