package lock

import (
	"context"
	"crypto/rand"
	"fmt"
	"time"

	"github.com/leasehold-dev/leasehold/repo/census"
	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/rule"
)

// Locks runs the lock commands on a store. What it keeps between calls decides no grant; only the
// count of a tenant's locks bounds new ones. So any number of them, in any number of processes, may use the same store.
//
// An error from a command is a field.Error for a malformed command; nothing was sent. Any other error means that the
// outcome is unknown or that nothing was changed (see [rule.Run]): send the command again with the same request_id.
type Locks struct {
	store      docstore.Store
	now        func() time.Time
	newLeaseID func() string
	retention  time.Duration
	census     *census.Census
	working    func(ctx context.Context, tenant string, do func(context.Context) error) error
	seat       func(ctx context.Context, tenant string) (leave func(), ok bool)
	waits      *waits
	deliveries deliveries
	queue      queue
	refusals   refusals
	process    int64                                // see listener
	handedOver func(ctx context.Context, o Outcome) // see Options.HandedOver
	observed   bool                                 // see [Outcome].TookOver
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

	// Retention is how long the document of a lock is kept after its lease has ended; then the store may remove it, and
	// the lock reads as if it was never held. 0 means DefaultRetention; it is brought into the range from MinRetention to
	// KeepForever. What the document remembers (requests, the reason of a force-release) is forgotten with it; tokens go
	// on.
	Retention time.Duration

	// NewLeaseID returns an ID that was never used before. nil means 128 random bits.
	NewLeaseID func() string

	// MaxPerTenant is how many locks a tenant may have a record of, also when they are free: see Retention. Another lock
	// of a tenant that has as many is not granted ([Limit]); those that have a record are. All processes share a tally,
	// which sweeps correct: see package census. 0: no bound.
	MaxPerTenant int

	// Stop ends the waits of all requests when it is closed, because the process stops: their refusals are returned. nil:
	// never.
	Stop <-chan struct{}

	// Working carries out one step of an acquire of a tenant: sending it to the store once. It may let the step wait,
	// bound its time, or return an error instead, which is then that of the acquire. A request that waits for its lock
	// takes many steps, with long pauses between them. nil: do is called.
	Working func(ctx context.Context, tenant string, do func(context.Context) error) error

	// Seat is asked for room by an acquire of a tenant that was refused and is to wait, and leave is called after its
	// wait. If there is none (ok is false), its refusal is the outcome at once, as if its time had passed: it keeps a
	// place in line that it has. nil: there is room for all.
	Seat func(ctx context.Context, tenant string) (leave func(), ok bool)

	// RecordRefusals makes the document of a lock say who was refused last (Status.Refused). It costs one write more when
	// an acquire is refused, for each lock and process once in this time at the most. 0: nothing is recorded.
	RecordRefusals time.Duration

	// HandedOver is told of each lease that the write of a command granted to another request, which waited in line: with
	// the context of that command, once the write was applied. o.Lease is that lease, o.At the store's time. Where the
	// response of the store was lost it is not told. nil: no one is.
	HandedOver func(ctx context.Context, o Outcome)
}

// New returns the lock commands on a store. Options may be nil.
func New(store docstore.Store, o *Options) *Locks {
	l := &Locks{store: store, now: time.Now, newLeaseID: rand.Text, retention: DefaultRetention,
		process: newProcess()}
	if o != nil && o.Now != nil {
		l.now = o.Now
	}
	if o != nil && o.NewLeaseID != nil {
		l.newLeaseID = o.NewLeaseID
	}
	if o != nil && o.Retention != 0 {
		l.retention = min(max(o.Retention.Truncate(time.Millisecond), MinRetention), KeepForever)
	}
	_, l.observed = store.(rule.Observer)
	l.waits = &waits{store: store, of: map[ID]*watch{}, own: map[ID]*spells{},
		alone: map[ID]int64{}}
	_, l.waits.says = store.(docstore.Watcher)
	if o != nil {
		l.census = census.New(store, Kind, o.MaxPerTenant, l.now)
		l.waits.stop, l.working, l.seat = o.Stop, o.Working, o.Seat
		l.handedOver, l.observed = o.HandedOver, l.observed || o.HandedOver != nil
		l.refusals = refusals{every: max(o.RecordRefusals, 0), store: store, now: l.now, last: map[docstore.Key]time.Time{}}
	}
	return l
}

// Acquire takes the lock; see [Acquire.Write]. One request to the store, whatever the outcome, or two for a lock in
// shared form. With Options.MaxPerTenant it is one more for a lock without a record where this process has no room in
// hand for it, and one or two to take some. A request with WaitSeconds that is refused because the lock is held waits
// for it, see [Locks.AcquireWithin].
func (l *Locks) Acquire(ctx context.Context, c Acquire) (Outcome, error) {
	return l.AcquireWithin(ctx, c, MaxWaitSeconds*time.Second)
}

// acquire sends an acquire to the store, once. It is complete and valid.
func (l *Locks) acquire(ctx context.Context, c Acquire) (Outcome, error) {
	var o Outcome
	err := l.census.Within(ctx, c.Tenant, true, func(existing bool) (e census.Effect, err error) {
		if existing {
			o, err = rule.Run(ctx, l.store, l.now, l.noted(ctx, c.ID, acquireExisting{c}))
		} else {
			o, err = rule.Run(ctx, l.store, l.now, l.noted(ctx, c.ID, acquireNoting{c, &e}))
		}
		if err == nil && o.Code == Limit {
			e = census.Missing
		}
		return e, err
	})
	if err != nil {
		return Outcome{}, err
	}
	if o.Code == Limit {
		o = l.limited(c.Tenant, o)
	}
	return o, nil
}

// limited says when there may be room again for a lock without a record.
func (l *Locks) limited(tenant string, o Outcome) Outcome {
	o.RetryAfter = l.census.RetryAfter(tenant)
	o.Detail = fmt.Sprintf(
		"the tenant has %d locks, which is the bound of this server; locks that it has can be acquired, others "+
			"when some were removed: that is %v after their leases ended", l.census.Most(), l.retention)
	return o
}

// acquireExisting is an acquire of a lock that has a record.
type acquireExisting struct{ Acquire }

// Write does not apply where there is no record.
func (c acquireExisting) Write() docstore.Write {
	w := c.Acquire.Write()
	w.If = docstore.All{docstore.Any{docstore.Has{Field: fState}, docstore.Has{Field: givenUps[0]}}, w.If}
	return w
}

// Fallback does not apply there either.
func (c acquireExisting) Fallback(s State, w rule.When) (docstore.Write, bool) {
	if !s.recorded() {
		return docstore.Write{}, false
	}
	return c.Acquire.Fallback(s, w)
}

// Refusal says if there is none.
func (c acquireExisting) Refusal(s State, w rule.When) Outcome {
	if !s.recorded() {
		return c.ended(Outcome{Code: Limit, At: w.Latest(), Lease: c.named(0)}, w)
	}
	return c.Acquire.Refusal(s, w)
}

// Unwrap implements [rule.Wrapper].
func (c acquireExisting) Unwrap() any { return c.Acquire }

// first reports whether a state after an acquire is that of a record which the acquire made: nothing else is remembered
// in it.
func (s State) first() bool { return s.Acquires[1] == "" && s.GivenUp[0] == "" }

// acquireNoting is an acquire that notes whether it created the record.
type acquireNoting struct {
	Acquire

	effect *census.Effect
}

// Granted is that of the acquire.
func (c acquireNoting) Granted(s State, w rule.When) Outcome {
	if s.first() {
		*c.effect = census.Created
	}
	return c.Acquire.Granted(s, w)
}

// Unwrap implements [rule.Wrapper].
func (c acquireNoting) Unwrap() any { return c.Acquire }

// Renew moves the expiry of a lease; see [Renew.Write]. One request to the store, two for one of several leases.
func (l *Locks) Renew(ctx context.Context, c Renew) (Outcome, error) {
	c.retention = l.retention
	return l.run(ctx, c.ID, c)
}

// Release ends a lease; see [Release.Write]. One request to the store, two for one of several leases.
func (l *Locks) Release(ctx context.Context, c Release) (Outcome, error) {
	c.retention = l.retention
	return l.run(ctx, c.ID, c)
}

// ForceRelease ends the current lease; see [ForceRelease.Write]. The caller of this method must have authorized the
// administrator. One request to the store, two for a lock in shared form.
func (l *Locks) ForceRelease(ctx context.Context, c ForceRelease) (Outcome, error) {
	c.retention = l.retention
	return l.run(ctx, c.ID, c)
}

// command is what the lock commands have in common.
type command interface {
	rule.Command[State, Outcome]
	Validate() error
}

func (l *Locks) run(ctx context.Context, id ID, c command) (Outcome, error) {
	if err := c.Validate(); err != nil {
		return Outcome{}, err
	}
	return rule.Run(ctx, l.store, l.now, l.noted(ctx, id, c))
}

// Get returns the lock as it stands. found is false if there is no record of it: it was never held, or not since
// [Options].Retention. One strongly consistent read.
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
	status = id.status(s, r.At)
	status.History, status.Refused = s.ended(r.At), s.Refused
	return status, s.Phase != None, nil
}
