// Package election elects one leader among processes that campaign for the same key, on the locks of package locks.
//
//	e := election.New(c, "scheduler", nil) // c is a locks.Client
//	err := e.Lead(ctx, func(ctx context.Context, l *election.Leader) error {
//		return schedule(ctx, l.Token()) // ctx ends before another can be elected
//	})
//
// The leader is who holds the lock. It steps down before its lease ends: its context ends by then, and what it writes
// must carry [Leader.Token] all the same, because a process that was stopped may write once more. Who loses the
// leadership campaigns again, in [Election.Lead]; the others wait. A leader that crashed is followed when its lease has
// ended, one that resigned within the time of LockOptions.Poll.
package election

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/leasehold-dev/leasehold/contracts"
	"github.com/leasehold-dev/leasehold/internal/backoff"
	"github.com/leasehold-dev/leasehold/internal/hold"
	"github.com/leasehold-dev/leasehold/internal/lease"
	"github.com/leasehold-dev/leasehold/locks"
)

// Election is one leadership. Its methods may be called from several goroutines at once.
type Election struct {
	locks *locks.Client
	key   string
	o     locks.LockOptions
}

// New returns the election of a key. LockOptions may be nil; with MaxHold a leader steps down after so long, and
// another may be elected.
func New(c *locks.Client, key string, o *locks.LockOptions) *Election {
	e := &Election{locks: c, key: key}
	if o != nil {
		e.o = *o
	}
	return e
}

// Leader is the leadership of this process, until it resigns or its context ends.
type Leader struct{ lock *locks.Lock }

// Context is the context of what the leader does. It ends before another can be elected, with a [locks.ErrLost]; see
// [locks.Lock.Context].
func (l *Leader) Context() context.Context { return l.lock.Context() }

// Token is the fencing token of this leadership: higher than that of every earlier one. Pass it on to whatever the
// leader writes to.
func (l *Leader) Token() int64 { return l.lock.Token() }

// Resign ends the leadership, so that another can be elected at once. It may be called again. Errors are those of
// [locks.Lock.Unlock].
func (l *Leader) Resign(ctx context.Context) error { return l.lock.Unlock(ctx) }

// Campaign waits until this process is elected. Errors are those of [locks.Client.Lock], and ctx is that of the
// leadership as there.
func (e *Election) Campaign(ctx context.Context) (*Leader, error) {
	l, err := e.locks.Lock(ctx, e.key, &e.o)
	if err != nil {
		return nil, err
	}
	return &Leader{l}, nil
}

// waits are those before a campaign that failed is begun again.
var waits = backoff.Policy{First: time.Second, Max: 10 * time.Second, Min: 100 * time.Millisecond}

// Lead campaigns, and calls lead each time that this process is elected. It resigns when lead returns. If the
// leadership was lost by then, it campaigns again, whatever lead returned; otherwise it returns what lead did. lead
// must return when its context ends.
//
// While the provider does not respond, Lead goes on until ctx ends. Its error is then the cause of that; or LOCK_HELD,
// with a LockOptions.Wait; or that of a request that would be rejected again.
func (e *Election) Lead(ctx context.Context, lead func(ctx context.Context, l *Leader) error) error {
	for {
		var led *locks.Lock
		var own error // of lead: it may tell of the loss of another lock
		pausing := false
		over := func(err error) bool {
			return led != nil || ctx.Err() != nil || errors.Is(err, locks.ErrClosed) || lease.Final(err, contracts.CodeLockHeld)
		}
		err := hold.Insist{Pauses: waits, Final: over, Failed: func(error) { pausing = true }}.Do(
			ctx, func(ctx context.Context) error {
				pausing = false
				return e.locks.Do(ctx, e.key, &e.o, func(ctx context.Context, l *locks.Lock) error {
					led = l
					own = lead(ctx, &Leader{l})
					return own
				})
			})
		switch {
		case pausing:
			return fmt.Errorf("campaign for %q: %w", e.key, context.Cause(ctx))
		case ctx.Err() != nil, led == nil, errors.Is(err, locks.ErrClosed):
			return err
		case errors.Is(context.Cause(led.Context()), locks.ErrLost), errors.Is(err, locks.ErrLost) &&
			!errors.Is(own, locks.ErrLost):
			// It campaigns again at once: the others have waited, too.
		default:
			return err
		}
	}
}

// Leadership is who leads, as the provider knows it. The zero value means that no one does.
type Leadership struct {
	// of the client, as Options.Owner of package locks; with authentication after the subject of its token
	Owner    string
	LeaseID  string            // names this one leadership
	Since    time.Time         // by the provider's clock
	Metadata map[string]string // of the leader's LockOptions

	ttl time.Duration
}

// Leader says who leads now.
func (e *Election) Leader(ctx context.Context) (Leadership, error) {
	l, err := e.locks.Get(ctx, e.key)
	if errors.Is(err, contracts.CodeNotFound) || err == nil && l.State != contracts.StateActive {
		return Leadership{}, nil
	}
	if err != nil {
		return Leadership{}, fmt.Errorf("who leads %q: %w", e.key, err)
	}
	since, err := time.Parse(time.RFC3339, l.AcquiredAt)
	if err != nil {
		return Leadership{}, fmt.Errorf("who leads %q: acquired_at %q is no time", e.key, l.AcquiredAt)
	}
	return Leadership{Owner: l.OwnerID, LeaseID: l.LeaseID, Since: since, Metadata: l.Metadata,
		ttl: time.Duration(l.TTLSeconds) * time.Second}, nil
}

// Bounds of the time between two looks of [Election.Observe].
const (
	minLook = time.Second
	maxLook = 10 * time.Second
)

// Observe says who leads, at first and after each change, until ctx ends or the loop is left. It asks every third of
// the leader's ttl, but not more often than each second and not more seldom than each ten; a leadership that is shorter
// can be missed. An error is yielded once, until there is a response again: who leads is not known meanwhile.
func (e *Election) Observe(ctx context.Context) iter.Seq2[Leadership, error] {
	return func(yield func(Leadership, error) bool) {
		ctx, leave := context.WithCancel(ctx)
		defer leave()
		var now, seen Leadership
		known, out := false, false
		look := hold.Insist{Pauses: waits, Final: func(error) bool { return false }, Failed: func(err error) {
			known = false
			if !out && !yield(Leadership{}, err) {
				leave()
			}
			out = true
		}}
		for look.Do(ctx, func(ctx context.Context) (err error) {
			now, err = e.Leader(ctx)
			return err
		}) == nil && ctx.Err() == nil {
			if (!known || now.LeaseID != seen.LeaseID) && !yield(now, nil) {
				return
			}
			known, seen, out = true, now, false
			if backoff.Sleep(ctx, min(max(now.ttl/3, minLook), maxLook)) != nil {
				return
			}
		}
	}
}
