package locks

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"time"

	"github.com/leasehold-dev/leasehold/internal/fencing"
	"github.com/leasehold-dev/leasehold/internal/lease"
)

// Lock is a lock that is held, until [Lock.Unlock] or until its context ends. Its methods may be called from several
// goroutines at once. One that no one refers to any more, nor to its context, is not renewed any more: see [Forgotten].
type Lock struct{ keeper *keeper }

// handle is a lock whose keeper learns when no one has it any more: what keeps the lease refers to the keeper alone.
func handle(k *keeper) *Lock {
	l := &Lock{k}
	runtime.AddCleanup(l, func(k *keeper) { k.forgotten.Store(true) }, k)
	return l
}

// held is the context of a lock's work, which has the lock as long as someone has the context.
type held struct {
	context.Context //nolint:containedctx // it is one
	lock            *Lock
}

// Key is that of the lock.
func (l *Lock) Key() string { return l.keeper.key }

// Token is the fencing token: higher than that of every earlier holder. Pass it on to whatever the work writes to,
// which rejects a lower one. With several holders at a time the one that came last has the highest: see [Lock.Permit].
func (l *Lock) Token() int64 { return l.keeper.token }

// Lease is the token with the lock that it is one of, for the fences of a database, which refuse to compare tokens of
// two locks. Locks of two tenants are not told apart by it: name them differently if they protect one row.
func (l *Lock) Lease() fencing.Lease {
	return fencing.OfLock(l.keeper.key, l.keeper.permit, l.keeper.token)
}

// Permit is which permit of the lock is held, from 1 to LockOptions.Permits; 0 if the lock has none. No two hold the
// same at a time. The tokens of one permit only ever increase, but not those of all together: what the work writes to
// must be told apart by permit, such as "pool#2", to reject the lower tokens of that permit.
func (l *Lock) Permit() int { return l.keeper.permit }

// Context is the context of the work. It ends with an [ErrLost] so much before the lease as LockOptions.Margin says,
// with [ErrUnlocked], with [ErrClosed], or, in [Client.Do], when the context ends that was passed to it. Err, Done and
// [context.Cause] consult the clocks at each call, and so notice that the process was stopped for longer than the lease
// before its next step is taken; for contexts derived from it [Check] does.
func (l *Lock) Context() context.Context { return held{l.keeper.term.Context(), l} }

// Owned reports whether the lock is held by this one still, by the clocks of the process. It costs no request.
func (l *Lock) Owned() bool { return Check(l.keeper.term.Context()) == nil }

// Remaining is after how long Context ends unless the lease is renewed; 0 if it has ended.
func (l *Lock) Remaining() time.Duration {
	if !l.Owned() {
		return 0
	}
	return max(0, l.keeper.term.Left())
}

// Left is after how long the lease itself ends unless it is renewed, which is LockOptions.Margin later than Context:
// what is done under the lock must have ended by then. 0 if it has ended, or the provider says that it is over.
func (l *Lock) Left() time.Duration {
	if lost := l.keeper.term.Check(); lost != nil && lease.Over(lost) {
		return 0
	}
	return max(0, l.keeper.left())
}

// Unlock ends the lock's context and releases the lock. A release that fails is tried again until the lease ends, in
// the background when ctx ends before, or after 5 s if it has no deadline; if ctx has ended already, Unlock waits for 1
// s at most. An [Event] says how that ended. The error is an [ErrNotReleased] if the lock may still be held, and an
// [ErrLost] if it was lost before. Unlock may be called again, which waits again, or tries again what has failed.
func (l *Lock) Unlock(ctx context.Context) error {
	defer runtime.KeepAlive(l)
	lost := l.keeper.term.Settle()
	l.keeper.term.Cancel(ErrUnlocked)
	l.keeper.watching.stop()
	if lost != nil {
		l.keeper.announce(lost)
	}
	if lost != nil && (lease.Over(lost) || l.keeper.left() <= 0) { // there is nothing to release
		return fmt.Errorf("lock %q: %w", l.keeper.key, lost)
	}
	r := l.keeper.begin()
	wait, cancel := l.keeper.patience(ctx)
	defer cancel()
	var err error
	select {
	case <-r.done:
		err = r.err
	case <-wait.Done():
		err = fmt.Errorf("%w: %w, and the release goes on in the background", ErrNotReleased, r.because(context.Cause(wait)))
	}
	l.keeper.leave()
	if err = errors.Join(lost, err); err != nil {
		return fmt.Errorf("lock %q: %w", l.keeper.key, err)
	}
	return nil
}
