package analysis

import (
	"cmp"
	"context"
	"time"

	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/rule"
)

// Analyses runs the commands of the gate on a store. It keeps no state between calls: any number of them, in any number
// of processes, may use the same store.
//
// An error from a command is a field.Error for a malformed command; nothing was sent. Any other error means that the
// outcome is unknown or that nothing was changed (see [rule.Run]): send the command again as it is.
type Analyses struct {
	store        docstore.Store
	now          func() time.Time
	maxTakeovers int64
}

// Options are the settings of [New]. The zero value works.
type Options struct {
	// Now measures how long a store takes to respond: it must be monotonic, and need not show the right time. nil means
	// time.Now.
	Now func() time.Time

	// MaxTakeovers is for acquires that name none: see [Acquire]. 0 means DefaultMaxTakeovers.
	MaxTakeovers int64
}

// New returns the gate's commands on a store. Options may be nil.
func New(store docstore.Store, o *Options) *Analyses {
	a := &Analyses{store: store, now: time.Now}
	if o != nil {
		a.maxTakeovers = o.MaxTakeovers
		if o.Now != nil {
			a.now = o.Now
		}
	}
	return a
}

// Acquire takes the lock, to run the analysis; see [Acquire.Write]. One request to the store, two for taking over a
// lock that expired: what a time means is judged here, because other writers may have their own spelling.
func (a *Analyses) Acquire(ctx context.Context, c Acquire) (Outcome, error) {
	c.MaxTakeovers = cmp.Or(c.MaxTakeovers, a.maxTakeovers)
	return a.run(ctx, c)
}

// Refresh moves the expiry of a lock; see [Refresh.Write]. One request to the store, whatever the outcome.
func (a *Analyses) Refresh(ctx context.Context, c Refresh) (Outcome, error) { return a.run(ctx, c) }

// Release ends a lock; see [Release.Write]. One request to the store, whatever the outcome.
func (a *Analyses) Release(ctx context.Context, c Release) (Outcome, error) { return a.run(ctx, c) }

// Finish ends the analysis; see [Finish.Write]. One request to the store, whatever the outcome.
func (a *Analyses) Finish(ctx context.Context, c Finish) (Outcome, error) { return a.run(ctx, c) }

// Create creates an analysis; Outcome.Replayed says that it existed. One request to the store.
func (a *Analyses) Create(ctx context.Context, c Create) (Outcome, error) { return a.run(ctx, c) }

// Retry makes a FAILED analysis PENDING; see [Retry.Write]. The caller of this method must have authorized the
// administrator. One request to the store, whatever the outcome.
func (a *Analyses) Retry(ctx context.Context, c Retry) (Outcome, error) { return a.run(ctx, c) }

// command is what the commands have in common.
type command interface {
	rule.Command[State, Outcome]
	Validate() error
}

func (a *Analyses) run(ctx context.Context, c command) (Outcome, error) {
	if err := c.Validate(); err != nil {
		return Outcome{}, err
	}
	return rule.Run(ctx, a.store, a.now, c)
}

// Get returns the analysis as it stands and the store's time; State.Exists is false if there is none. One strongly
// consistent read.
func (a *Analyses) Get(ctx context.Context, id ID) (State, time.Time, error) {
	return id.document().Get(ctx, a.store)
}
