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

// PanicError is a panic of the work, or the end of its goroutine by runtime.Goexit; or one of its result's methods.
type PanicError struct {
	Value any    // what panic was called with
	Stack []byte // of the work's goroutine, for the log
	of    string // what panicked
}

// Error has the value, not the stack.
func (e *PanicError) Error() string {
	return fmt.Sprintf("%s panicked: %v", cmp.Or(e.of, "the work"), e.Value)
}

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

// unkept is an error of a work that is done: why it has no result that can be kept. Only [Do] returns it, as it is: one
// that is wrapped is that of another run, within the work.
type unkept struct{ error }

// returned is what a work returned.
type returned struct {
	text   string
	unkept error // why there is no text; the work is done all the same
}

// perform runs the work and waits for it, however it ends.
func perform(ctx context.Context, work Work, l Lock) (r returned, err error) {
	if p := apart("the work", func() { r.text, err = work(ctx, l) }); p != nil {
		return returned{}, p
	}
	if u, ok := err.(unkept); ok { //nolint:errorlint // see unkept
		return returned{unkept: u.error}, nil
	}
	return r, err
}

// apart calls a function in a goroutine of its own and waits until it has ended. The result is nil unless it panicked
// or ended its goroutine.
func apart(what string, f func()) (p *PanicError) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		over := false
		defer func() {
			if !over {
				v := recover()
				if v == nil {
					v = errGoexit
				}
				p = &PanicError{Value: v, Stack: debug.Stack(), of: what}
			}
		}()
		f()
		over = true
	}()
	<-done
	return p
}

// ready stores the result of a work that is done. One that cannot be stored ends the run for good: the work would be
// done again, and its result be no better.
func (r *run) ready(ctx context.Context, t *term.Term, result returned) Outcome {
	switch {
	case result.unkept != nil:
		return r.forGood(ctx, t, result.unkept)
	case len(result.text) > MaxResultBytes:
		return r.forGood(ctx, t, fmt.Errorf("the result has %d bytes, %d at most: keep it elsewhere and return where it is",
			len(result.text), MaxResultBytes))
	case !utf8.ValidString(result.text):
		return r.forGood(ctx, t, errors.New("the result is not valid UTF-8: keep it elsewhere and return where it is"))
	}
	return r.finish(ctx, t, Result{Result: result.text},
		Outcome{Status: Ready, Token: r.lock.Token, Result: result.text})
}

// failed counts an attempt that failed, or ends the run if that was the last one.
func (r *run) failed(ctx context.Context, t *term.Term, err error) Outcome {
	if errors.As(err, new(uncounted)) {
		r.release(ctx, "")
		return Outcome{Status: Retry, Token: r.lock.Token, Err: err}
	}
	if errors.As(err, new(permanent)) {
		return r.forGood(ctx, t, err)
	}
	if r.MaxFailures > 0 && r.failures+1 >= r.MaxFailures {
		out := r.forGood(ctx, t, err)
		out.GivenUp = out.Status == Failed
		return out
	}
	r.release(ctx, reason(err))
	return Outcome{Status: Retry, Token: r.lock.Token, Err: err}
}

// forGood makes the run FAILED.
func (r *run) forGood(ctx context.Context, t *term.Term, err error) Outcome {
	return r.finish(ctx, t, Result{Failed: true, Reason: reason(err)},
		Outcome{Status: Failed, Token: r.lock.Token, Err: err})
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
