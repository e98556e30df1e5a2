package projectlock

import (
	"context"
	"errors"
	"fmt"

	"github.com/leasehold-dev/leasehold/internal/term"
)

// With acquires the lock, calls work, and releases the lock, also if work panics. It renews the lease every
// [RenewAfter] while work runs. The last event of the lease is Released, or CleanupWarning if the lock could not be
// released, which is not an error of With.
//
// The context of the work is that of the caller, and ends with an [ErrLost] as its cause when the lease is lost or
// cannot be renewed, before another process can acquire the lock. It consults the clocks at each call of Err and Done,
// so that it is right after the process was stopped; contexts derived from it follow within a second, and [Check] works
// with them. It carries the fencing token for package fence, 0 with the file.
//
// The error is that of work, or that of [Project.Acquire]; if the lease was lost before work returned it is
// [CodeLockRenewalFailed], and has both as causes.
func (p *Project) With(ctx context.Context, o *AcquireOptions, work func(ctx context.Context, l Lease) error) (
	err error) {
	h, err := p.acquire(ctx, ctx, o)
	if err != nil {
		return err
	}
	working, stop := context.WithCancel(h.ctx) // ends with the release, also if the work releases
	renewing := make(chan struct{})
	go h.term.Watch(working)
	go func() {
		defer close(renewing)
		p.keep(working, h)
	}()
	defer func() {
		stop()
		<-renewing
		lost := h.term.Settle()
		_ = p.release(ctx, h) // the event says what is wrong
		if lost != nil {
			err = &LockError{Code: CodeLockRenewalFailed, Retryable: retryable(lost), Cause: errors.Join(lost, err)}
		}
	}()
	return work(h.term.Context(), h.lease())
}

// keep renews the lease until ctx ends or that fails.
func (p *Project) keep(ctx context.Context, h *held) {
	for {
		due := h.due()
		if p.clock.Sleep(ctx, due) != nil || h.isReleased() {
			return
		}
		if h.due() != due { // the work has renewed it
			continue
		}
		if _, err := p.renew(ctx, h); err != nil {
			if ctx.Err() == nil && !h.isReleased() {
				h.term.Lose(fmt.Errorf("%w: %w", ErrLost, err))
			}
			return
		}
	}
}

// Check reports whether the work of [Project.With] may take its next step: nil while its context lives and the lease
// lasts, otherwise the cause of the end. ctx is the context of the work or one that was made of it. It consults the
// clocks and costs no access to the file or the service.
func Check(ctx context.Context) error { return term.Check(ctx) }

// retryable is what a loss says: acquire again, unless the lock cannot be renewed for good.
func retryable(lost error) bool {
	if e, ok := errors.AsType[*LockError](lost); ok {
		return e.Retryable
	}
	return true
}
