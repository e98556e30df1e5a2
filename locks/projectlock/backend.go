package projectlock

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/leasehold-dev/leasehold/contracts"
	"github.com/leasehold-dev/leasehold/internal/term"
)

// backend keeps the lock. Each method is one attempt, which the project bounds and repeats.
type backend interface {
	name() Backend

	// acquire takes the lock if it is free, and asks t before it returns it.
	acquire(ctx context.Context, t *try, a *attempt) (grant, error)

	// renew extends a lease. The error is an ErrLost if it is not the caller's any more.
	renew(ctx context.Context, h *held, r renewal) (grant, error)

	// release removes the lock of a lease that is over. The error is an ErrLost if there is nothing to remove: it is gone,
	// or another's.
	release(ctx context.Context, l *leftover) error

	// abandon gives up in the background what an acquire may have obtained, or may still obtain.
	abandon(a *attempt)

	// judge says why an attempt is to be repeated, or that another one would fail in the same way.
	judge(err error) (r Reason, permanent bool)
}

// attempt is one call of Acquire, with all its tries.
type attempt struct {
	id      string // of the lease, if there will be one
	scope   Scope
	warn    func(message string)
	remains func(error) // notes that the lock of a try that was given up could not be removed
	request *request    // of the service
}

func newAttempt(scope Scope) *attempt {
	id := newID()
	return &attempt{id: id, scope: scope, request: &request{id: id}}
}

// renewal is one call of Renew, with all its tries.
type renewal struct {
	request string          // its ID with the service
	unsure  bool            // an earlier one had no response: it may have moved the expiry
	known   contracts.Lease // with the service: the lease as the holder knows it
}

// grant is a lease that was granted or extended.
type grant struct {
	begin     term.Moment // before the request
	lasts     time.Duration
	expiresAt time.Time // by the wall clock, in whole milliseconds
	service   contracts.Lease
}

func newGrant(begin term.Moment, lasts time.Duration) grant {
	ends := begin.Wall().UnixMilli() + lasts.Milliseconds()
	return grant{begin: begin, lasts: lasts, expiresAt: time.UnixMilli(ends).UTC()}
}

// acquiredAt is the time of the request, in whole milliseconds.
func (g grant) acquiredAt() time.Time { return g.begin.Wall().Truncate(time.Millisecond).UTC() }

// errAbandoned is the error of what was carried out after no one waited for it any more.
var errAbandoned = errors.New("the attempt was given up")

// try is one call of a backend that its caller may give up while it goes on, because neither a write to a filesystem
// that hangs nor every provider ends with its context. Either side says so first, and the other one then knows.
type try struct{ state atomic.Int32 }

// commit reports whether the caller still waits. If not, what was done is to be undone.
func (t *try) commit() bool { return t.state.CompareAndSwap(0, 1) }

func (t *try) giveUp() bool { return t.state.CompareAndSwap(0, 2) }

// run makes one try. It returns when the limit is reached, even if the try does not; the error is then a
// [CodeLockTimeout].
func run[T any](ctx context.Context, limit time.Duration, do func(context.Context, *try) (T, error)) (T, error) {
	type result struct {
		got T
		err error
	}
	bounded, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	t := &try{}
	done := make(chan result, 1)
	go func() {
		got, err := do(bounded, t)
		done <- result{got, err}
	}()
	var r result
	select {
	case r = <-done:
	case <-bounded.Done():
		if t.giveUp() {
			r.err = context.Cause(bounded)
		} else {
			r = <-done // it was carried out in the same moment
		}
	}
	if r.err != nil && bounded.Err() != nil && ctx.Err() == nil {
		r.err = &LockError{Code: CodeLockTimeout, Retryable: true, Cause: r.err}
	}
	return r.got, r.err
}
