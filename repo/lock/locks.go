package lock

import (
	"context"
	"crypto/rand"
	"fmt"
	"time"

	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/rule"
)

// Locks runs the lock commands on a store. It keeps no state between calls: any number of them, in any number of processes,
// may use the same store.
//
// An error from a command is a field.Error for a malformed command; nothing was sent. Any other error means that the outcome
// is unknown or that nothing was changed (see [rule.Run]): send the command again with the same request_id.
type Locks struct {
	store      docstore.Store
	now        func() time.Time
	newLeaseID func() string
}

// Options are the settings of [New]. The zero value works.
type Options struct {
	// Now measures how long a store takes to respond: it must be monotonic, and need not show the right time. nil means
	// time.Now.
	Now func() time.Time

	// NewLeaseID returns an ID that was never used before. nil means 128 random bits.
	NewLeaseID func() string
}

// New returns the lock commands on a store. Options may be nil.
func New(store docstore.Store, o *Options) *Locks {
	l := &Locks{store: store, now: time.Now, newLeaseID: rand.Text}
	if o != nil && o.Now != nil {
		l.now = o.Now
	}
	if o != nil && o.NewLeaseID != nil {
		l.newLeaseID = o.NewLeaseID
	}
	return l
}

// Acquire takes the lock; see [Acquire.Write]. One request to the store, whatever the outcome.
func (l *Locks) Acquire(ctx context.Context, c Acquire) (Outcome, error) {
	if c.LeaseID == "" {
		c.LeaseID = l.newLeaseID()
	}
	return l.run(ctx, c)
}

// Renew moves the expiry of a lease; see [Renew.Write]. One request to the store, whatever the outcome.
func (l *Locks) Renew(ctx context.Context, c Renew) (Outcome, error) { return l.run(ctx, c) }

// Release ends a lease; see [Release.Write]. One request to the store, whatever the outcome.
func (l *Locks) Release(ctx context.Context, c Release) (Outcome, error) { return l.run(ctx, c) }

// ForceRelease ends the current lease; see [ForceRelease.Write]. The caller of this method must have authorized the
// administrator. One request to the store, whatever the outcome.
func (l *Locks) ForceRelease(ctx context.Context, c ForceRelease) (Outcome, error) {
	return l.run(ctx, c)
}

// command is what the lock commands have in common.
type command interface {
	rule.Command[State, Outcome]
	Validate() error
}

func (l *Locks) run(ctx context.Context, c command) (Outcome, error) {
	if err := c.Validate(); err != nil {
		return Outcome{}, err
	}
	return rule.Run(ctx, l.store, l.now, c)
}

// Get returns the lock as it stands. found is false if it was never held. One strongly consistent read.
func (l *Locks) Get(ctx context.Context, id ID) (status Status, found bool, err error) {
	if err := id.Validate(); err != nil {
		return Status{}, false, err
	}
	r, err := l.store.Get(ctx, id.key())
	if err != nil {
		return Status{}, false, fmt.Errorf("%s: %w", id.key(), err)
	}
	s, err := id.State(r.Docs[0])
	if err != nil {
		return Status{}, false, err
	}
	return id.lease(s, r.At).Status, s.Phase != None, nil
}
