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
	retention  time.Duration
}

// Bounds of [Options].Retention.
const (
	DefaultRetention = 30 * 24 * time.Hour
	MinRetention     = time.Hour
	KeepForever      = 100 * 365 * 24 * time.Hour // as good as for ever: a century
)

// Options are the settings of [New]. The zero value works.
type Options struct {
	// Now measures how long a store takes to respond: it must be monotonic, and need not show the right time. nil means
	// time.Now.
	Now func() time.Time

	// Retention is how long the document of a lock is kept after its lease has ended; then the store may remove it, and the lock
	// reads as if it was never held. 0 means DefaultRetention; it is brought into the range from MinRetention to KeepForever.
	// What the document remembers (requests, the reason of a force-release) is forgotten with it; tokens go on.
	Retention time.Duration

	// NewLeaseID returns an ID that was never used before. nil means 128 random bits.
	NewLeaseID func() string
}

// New returns the lock commands on a store. Options may be nil.
func New(store docstore.Store, o *Options) *Locks {
	l := &Locks{store: store, now: time.Now, newLeaseID: rand.Text, retention: DefaultRetention}
	if o != nil && o.Now != nil {
		l.now = o.Now
	}
	if o != nil && o.NewLeaseID != nil {
		l.newLeaseID = o.NewLeaseID
	}
	if o != nil && o.Retention != 0 {
		l.retention = min(max(o.Retention.Truncate(time.Millisecond), MinRetention), KeepForever)
	}
	return l
}

// Acquire takes the lock; see [Acquire.Write]. One request to the store, whatever the outcome.
func (l *Locks) Acquire(ctx context.Context, c Acquire) (Outcome, error) {
	if c.LeaseID == "" {
		c.LeaseID = l.newLeaseID()
	}
	c.retention = l.retention
	return l.run(ctx, c)
}

// Renew moves the expiry of a lease; see [Renew.Write]. One request to the store, whatever the outcome.
func (l *Locks) Renew(ctx context.Context, c Renew) (Outcome, error) {
	c.retention = l.retention
	return l.run(ctx, c)
}

// Release ends a lease; see [Release.Write]. One request to the store, whatever the outcome.
func (l *Locks) Release(ctx context.Context, c Release) (Outcome, error) {
	c.retention = l.retention
	return l.run(ctx, c)
}

// ForceRelease ends the current lease; see [ForceRelease.Write]. The caller of this method must have authorized the
// administrator. One request to the store, whatever the outcome.
func (l *Locks) ForceRelease(ctx context.Context, c ForceRelease) (Outcome, error) {
	c.retention = l.retention
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

// Get returns the lock as it stands. found is false if there is no record of it: it was never held, or not since [Options].Retention. One strongly consistent read.
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
