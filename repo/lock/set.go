package lock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/leasehold-dev/leasehold/internal/backoff"
	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/field"
	"github.com/leasehold-dev/leasehold/repo/rule"
)

// MaxSetKeys is how many locks one command can take, renew or release.
const MaxSetKeys = 20

// AcquireSet takes several locks of a tenant in one step, all or none. Each becomes an ordinary exclusive lease with the next token of its
// key. No caller ever waits with some of its locks held, so that callers whose keys overlap cannot block each other for good.
type AcquireSet struct {
	Tenant     string
	Keys       []string // 1 to MaxSetKeys, each once; their order has no meaning
	Owner      string   // owner_id
	RequestID  string   // the same for every delivery of the same intention
	TTLSeconds int64    // 1 to MaxTTLSeconds
	Metadata   map[string]string
}

// RenewSet moves the expiry of several leases in one step, all or none.
type RenewSet struct {
	Tenant     string
	Leases     []SetLease // 1 to MaxSetKeys, each key once
	Owner      string     // owner_id
	RequestID  string     // the same for every delivery of the same renewal
	TTLSeconds int64      // from now, 1 to MaxTTLSeconds

	// ExpiresAt is when the leases expire as far as the caller knows, see [Renew].ExpiresAt. Leases that are renewed together expire
	// together.
	ExpiresAt time.Time
}

// ReleaseSet ends several leases: in one step those that are still held, also if others are not any more.
type ReleaseSet struct {
	Tenant    string
	Leases    []SetLease // 1 to MaxSetKeys, each key once
	Owner     string     // owner_id
	RequestID string     // the same for every delivery of the same release
}

// SetLease names one lease of several.
type SetLease struct {
	Key   string
	Token int64 // its fencing token
}

// SetOutcome is the result of a command on several locks.
type SetOutcome struct {
	Code     Code
	Replayed bool // the request_id was known: this is the earlier result, nothing was changed now

	// Leases are the caller's, by key, if Code is OK. Those of an acquire have all that a lease has. Those of a renewal, and of a
	// release, have their names, their phase, and when they expire; if a renewal is repeated, as they are now. After a release that is
	// not OK they are those that are released all the same, by this delivery or an earlier one.
	Leases []Lease

	// Refusal is the outcome of one key because of which Code is not OK: Refusal.Lease.Key. If several are held by others it is the
	// one that is held for longest.
	Refusal Outcome

	At time.Time // the store's time of the decision
}

// ExpiresAt is when the first of the leases expires; zero if there are none.
func (o SetOutcome) ExpiresAt() (first time.Time) {
	for i, l := range o.Leases {
		if i == 0 || l.ExpiresAt.Before(first) {
			first = l.ExpiresAt
		}
	}
	return first
}

// Validate reports whether the command is well formed. The error is a [field.Error].
func (c AcquireSet) Validate() error {
	if err := checkSet("lock_keys", c.Keys); err != nil {
		return err
	}
	return validEach("lock_keys", c.commands(nil, 0))
}

// Validate reports whether the command is well formed. The error is a [field.Error].
func (c RenewSet) Validate() error {
	if err := checkSet("leases", keysOf(c.Leases)); err != nil {
		return err
	}
	return validEach("leases", c.commands(0))
}

// Validate reports whether the command is well formed. The error is a [field.Error].
func (c ReleaseSet) Validate() error {
	if err := checkSet("leases", keysOf(c.Leases)); err != nil {
		return err
	}
	return validEach("leases", c.commands(0))
}

// checkSet checks the keys of a command on several locks, as far as they concern each other.
func checkSet(fieldName string, keys []string) error {
	if len(keys) < 1 || len(keys) > MaxSetKeys {
		return field.Errorf(fieldName, "must be a list of 1 to %d locks, not %d", MaxSetKeys, len(keys))
	}
	seen := make(map[string]bool, len(keys))
	for _, k := range keys {
		if seen[k] {
			return field.Errorf(fieldName, "names the lock %q twice", k)
		}
		seen[k] = true
	}
	return nil
}

// validEach validates the commands of a set. What is wrong with one of its locks is wrong with the list that it is in.
func validEach[C command](list string, cs []C) error {
	for _, c := range cs {
		err := c.Validate()
		if e, ok := errors.AsType[*field.Error](err); ok && (e.Name == "lock_key" || e.Name == "fencing_token") {
			return field.Errorf(list, "has an entry whose %v", e)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func keysOf(leases []SetLease) []string {
	keys := make([]string, len(leases))
	for i, l := range leases {
		keys[i] = l.Key
	}
	return keys
}

// together is what tells a command that is one of a set from another with the same request_id: the keys of the set. No key has a line
// break.
func together(sorted []string) string { return strings.Join(sorted, "\n") }

// commands are those of the locks, by key.
func (c AcquireSet) commands(newLeaseID func() string, retention time.Duration) []Acquire {
	keys := slices.Sorted(slices.Values(c.Keys))
	cs := make([]Acquire, len(keys))
	for i, k := range keys {
		cs[i] = Acquire{
			ID: ID{c.Tenant, k}, Owner: c.Owner, RequestID: c.RequestID, TTLSeconds: c.TTLSeconds, Metadata: c.Metadata,
			retention: retention, set: together(keys),
		}
		if newLeaseID != nil {
			cs[i].LeaseID = newLeaseID()
		}
	}
	return cs
}

func (c RenewSet) commands(retention time.Duration) []Renew {
	leases := sortedLeases(c.Leases)
	set := together(keysOf(leases))
	cs := make([]Renew, len(leases))
	for i, l := range leases {
		cs[i] = Renew{
			ID: ID{c.Tenant, l.Key}, Owner: c.Owner, Token: l.Token, RequestID: c.RequestID, TTLSeconds: c.TTLSeconds, ExpiresAt: c.ExpiresAt,
			retention: retention, set: set,
		}
	}
	return cs
}

func (c ReleaseSet) commands(retention time.Duration) []Release {
	leases := sortedLeases(c.Leases)
	cs := make([]Release, len(leases))
	for i, l := range leases {
		cs[i] = Release{ID: ID{c.Tenant, l.Key}, Owner: c.Owner, Token: l.Token, RequestID: c.RequestID, retention: retention}
	}
	return cs
}

func sortedLeases(leases []SetLease) []SetLease {
	return slices.SortedFunc(slices.Values(leases), func(a, b SetLease) int { return strings.Compare(a.Key, b.Key) })
}

// step is what became of the writes of several commands.
type step struct {
	applied bool
	when    rule.When
	docs    []docstore.Doc // as they are after the step, if it was applied and the store returns them

	// refused are the locks for which there is nothing to grant, by the position of their commands. A store need not name all.
	refused map[int]State
}

// Between tries of a step on locks that change in between.
const maxSteps = 8

var betweenSteps = backoff.Policy{First: 10 * time.Millisecond, Max: 200 * time.Millisecond, Min: time.Millisecond}

// steps carries out commands on different locks, all or none, in one request. A lock that is in a form which takes a second write is asked
// for with that one in another request, together with all others.
func steps[C command](ctx context.Context, l *Locks, cs []C, writes []docstore.Write) (step, error) {
	begin := l.now()
	for try := 0; ; try++ {
		r, err := l.store.Write(ctx, writes...)
		if err != nil {
			return step{}, fmt.Errorf("%s and others, %d locks in one step: %w", writes[0].Key, len(writes), err)
		}
		done := step{applied: r.Applied, when: rule.When{At: r.At, Margin: r.Margin, Took: l.now().Sub(begin)}}
		if r.Applied {
			if !slices.ContainsFunc(r.Docs, func(d docstore.Doc) bool { return d == nil }) {
				done.docs = r.Docs
			}
			return done, nil
		}
		done.refused = map[int]State{}
		next := slices.Clone(writes)
		for _, i := range r.Refused {
			s, err := cs[i].State(r.Docs[i])
			if err != nil {
				return step{}, err
			}
			if writes[i].Holds(r.Docs[i], r.At) {
				return step{}, fmt.Errorf("%w: %s: the store refused what the rule grants", docstore.ErrDamaged, writes[i].Key)
			}
			if w, ok := secondOf(cs[i], s, done.when, r.Docs[i]); ok {
				next[i] = w
			} else {
				done.refused[i] = s
			}
		}
		if len(done.refused) > 0 {
			return done, nil
		}
		if writes = next; try+1 == maxSteps || try > 0 && betweenSteps.Sleep(ctx, try) != nil {
			return step{}, fmt.Errorf("%w: %s and others changed between writes; try again", docstore.ErrUnavailable, writes[0].Key)
		}
	}
}

// secondOf is the write that grants a command whose first write was refused, if there is one: see [rule.Second]. One that only keeps
// a lock's line in order grants nothing.
func secondOf[C command](c C, s State, when rule.When, found docstore.Doc) (docstore.Write, bool) {
	second, ok := any(c).(rule.Second[State])
	if !ok {
		return docstore.Write{}, false
	}
	w, ok := second.Second(s, when)
	if !ok || !w.Holds(found, when.At) {
		return docstore.Write{}, false
	}
	after, err := w.Apply(found, when.At)
	if err != nil {
		return docstore.Write{}, false
	}
	made, err := c.State(after)
	if err != nil {
		return docstore.Write{}, false
	}
	o := c.Granted(made, rule.When{At: when.At, Margin: when.Margin})
	return w, o.Code == OK && !o.Replayed
}

// AcquireSet takes several locks, all or none. One request to the store; one more to read the tokens where the store does not return
// documents after a step (DynamoDB), and where a lock needs a second write or is to be counted: see [Locks.Acquire].
func (l *Locks) AcquireSet(ctx context.Context, c AcquireSet) (SetOutcome, error) {
	if err := c.Validate(); err != nil {
		return SetOutcome{}, err
	}
	cs := c.commands(l.newLeaseID, l.retention)
	var o SetOutcome
	err := l.census.Several(ctx, c.Tenant, len(cs), func(existing bool) (created, missing int, err error) {
		o, created, missing, err = l.acquireSet(ctx, cs, existing)
		return created, missing, err
	})
	if err != nil {
		return SetOutcome{}, err
	}
	if o.Code == Limit {
		o.Refusal = l.limited(c.Tenant, o.Refusal)
	}
	return o, nil
}

// acquireSet carries out the commands; with existing it creates no record. It says how many records it created, or that so many are
// missing.
func (l *Locks) acquireSet(ctx context.Context, cs []Acquire, existing bool) (o SetOutcome, created, missing int, err error) {
	writes := make([]docstore.Write, len(cs))
	for i, c := range cs {
		writes[i] = c.Write()
		if existing {
			writes[i].If = docstore.All{docstore.Has{Field: fState}, writes[i].If}
		}
	}
	begin := l.now()
	done, err := steps(ctx, l, cs, writes)
	if err != nil {
		return o, 0, 0, err
	}
	if done.applied {
		o, created, err = l.granted(ctx, cs, done, begin)
		return o, created, 0, err
	}
	refusals := map[int]Outcome{}
	known := false // the request has been granted before
	for i, s := range done.refused {
		if s.Phase == None {
			missing++
			refusals[i] = Outcome{Code: Limit, At: done.when.Latest(), Lease: cs[i].named(0)}
			continue
		}
		refusals[i] = cs[i].Refusal(s, done.when)
		known = known || refusals[i].Code == OK || refusals[i].Code == LeaseExpired
	}
	if known {
		o, _, err = l.repeated(ctx, cs, done, begin)
		return o, 0, 0, err
	}
	if o = refusedSet(refusals, acquireOrder); o.Code != Limit {
		missing = 0
	}
	queues := func(s State) bool { return s.queues(string(cs[0].request().Entry())) }
	if o.Refusal.waits() && slices.ContainsFunc(slices.Collect(maps.Values(done.refused)), queues) {
		o = l.reserve(ctx, cs, o)
	}
	return o, 0, missing, nil
}

// granted is the outcome of an acquire that was applied.
func (l *Locks) granted(ctx context.Context, cs []Acquire, done step, begin time.Time) (o SetOutcome, created int, err error) {
	if done.docs == nil {
		o, created, err = l.repeated(ctx, cs, done, begin)
		o.Replayed = false
		return o, created, err
	}
	outcomes := map[int]Outcome{}
	for i, d := range done.docs {
		s, err := cs[i].State(d)
		if err != nil {
			return o, 0, err
		}
		if s.Acquires[1] == "" {
			created++
		}
		outcomes[i] = cs[i].Granted(s, done.when)
	}
	return allOf(outcomes, done.when), created, nil
}

// repeated is the outcome of an acquire whose request is known, for it was applied: all of its leases, or that one of them has ended. It
// reads the locks if the store has not returned them all. created is how many of them no other acquire is remembered in.
func (l *Locks) repeated(
	ctx context.Context, cs []Acquire, done step, begin time.Time,
) (o SetOutcome, created int, err error) {
	states := done.refused
	if len(states) < len(cs) {
		keys := make([]docstore.Key, len(cs))
		for i, c := range cs {
			keys[i] = c.key()
		}
		snap, err := l.store.Get(ctx, keys...)
		if err != nil {
			return o, 0, fmt.Errorf("%s and others: %w", keys[0], err)
		}
		// The time is still that of the step, and what has passed since is in Took.
		done.when.Took = l.now().Sub(begin)
		states = map[int]State{}
		for i, d := range snap.Docs {
			if states[i], err = cs[i].State(d); err != nil {
				return o, 0, err
			}
		}
	}
	outcomes := map[int]Outcome{}
	for i, s := range states {
		o := cs[i].Refusal(s, done.when)
		if o.Code != OK && o.Code != LeaseExpired {
			o = cs[i].reused(done.when, 0, "a lease that this request_id obtained has ended; use a new request_id")
		}
		outcomes[i] = o
		if s.Acquires[1] == "" {
			created++
		}
	}
	return allOf(outcomes, done.when), created, nil
}

// acquireOrder tells which refusal of several is shown: the first of these codes, then the others, and those that wait for the end of a
// lease last.
var acquireOrder = []Code{RequestIDReused, ModeDiffers}

// endOrder is that of renewals: what is over counts more than what may be tried again.
var endOrder = []Code{LeaseLost, LeaseReleased, LeaseExpired, NotOwner, ModeDiffers, RequestIDReused}

// allOf is the outcome of commands that each have one: OK if all are.
func allOf(outcomes map[int]Outcome, w rule.When) SetOutcome {
	o := SetOutcome{Code: OK, Replayed: true, At: w.Latest()}
	refusals := map[int]Outcome{}
	for _, i := range slices.Sorted(maps.Keys(outcomes)) {
		one := outcomes[i]
		if one.Code != OK {
			refusals[i] = one
			continue
		}
		o.Replayed = o.Replayed && one.Replayed
		o.Leases = append(o.Leases, one.Lease)
	}
	if len(refusals) > 0 {
		return refusedSet(refusals, acquireOrder)
	}
	return o
}

// refusedSet is the outcome of a command that was refused for at least one lock.
func refusedSet(refusals map[int]Outcome, order []Code) SetOutcome {
	rank := func(o Outcome) int {
		switch i := slices.Index(order, o.Code); {
		case i >= 0:
			return i
		case o.Code == Limit:
			return len(order) + 2 // nothing is created while another lock is held
		case o.Code == Held, o.Code == Delayed:
			return len(order) + 1
		default:
			return len(order)
		}
	}
	at := slices.Sorted(maps.Keys(refusals))
	shown := refusals[slices.MinFunc(at, func(i, j int) int {
		a, b := refusals[i], refusals[j]
		return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(b.RetryAfter, a.RetryAfter), cmp.Compare(i, j))
	})]
	return SetOutcome{Code: shown.Code, Refusal: shown, At: shown.At}
}

// RenewSet moves the expiry of several leases, all or none. One request to the store, as long as no lock needs a second write.
func (l *Locks) RenewSet(ctx context.Context, c RenewSet) (SetOutcome, error) {
	if err := c.Validate(); err != nil {
		return SetOutcome{}, err
	}
	cs := c.commands(l.retention)
	done, err := steps(ctx, l, cs, writesOf(cs))
	if err != nil {
		return SetOutcome{}, err
	}
	outcomes := map[int]Outcome{}
	if done.applied {
		end := done.when.At.Add(time.Duration(c.TTLSeconds) * time.Second)
		for i, c := range cs {
			lease := c.named(c.Token)
			lease.Owner, lease.Phase, lease.ExpiresAt, lease.TTLSeconds = c.Owner, Active, end, c.TTLSeconds
			outcomes[i] = Outcome{Code: OK, At: done.when.Latest(), Lease: lease}.rejectLate(done.when)
		}
		return allOf(outcomes, done.when), nil
	}
	refusals := map[int]Outcome{}
	for i, s := range done.refused {
		o := cs[i].Refusal(s, done.when)
		if o.Code != OK {
			refusals[i] = o
			continue
		}
		now := o.Lease
		o.Lease = cs[i].named(now.Token)
		o.Lease.Owner, o.Lease.Phase, o.Lease.ExpiresAt, o.Lease.TTLSeconds = now.Owner, now.Phase, now.ExpiresAt, now.TTLSeconds
		outcomes[i] = o
	}
	if len(refusals) > 0 {
		return refusedSet(refusals, endOrder), nil
	}
	// The request was carried out: in all locks that remember as much.
	if len(outcomes) < len(cs) {
		first := outcomes[slices.Min(slices.Collect(maps.Keys(outcomes)))]
		o := Outcome{Code: LeaseChanged, At: done.when.Latest(), Lease: first.Lease,
			Detail: "this request_id renewed the leases before, and one of them was renewed by itself since; use a new request_id"}
		return SetOutcome{Code: o.Code, Refusal: o, At: o.At}, nil
	}
	return allOf(outcomes, done.when), nil
}

// ReleaseSet ends several leases, in one step those that are held. One request to the store, as long as all of them are and no lock needs
// a second write; otherwise one more, or a few.
func (l *Locks) ReleaseSet(ctx context.Context, c ReleaseSet) (SetOutcome, error) {
	if err := c.Validate(); err != nil {
		return SetOutcome{}, err
	}
	left := c.commands(l.retention)
	for _, one := range left {
		defer l.waits.changed(one.ID)
	}
	outcomes := map[string]Outcome{}
	var when rule.When
	for len(left) > 0 {
		done, err := steps(ctx, l, left, writesOf(left))
		if err != nil {
			return SetOutcome{}, err
		}
		when = done.when
		var next []Release
		for i, c := range left {
			s, refused := done.refused[i]
			switch {
			case refused:
				outcomes[c.Key] = c.Refusal(s, when)
			case done.applied:
				outcomes[c.Key] = Outcome{Code: OK, At: when.Latest()}
			default:
				next = append(next, c)
			}
		}
		left = next
	}
	o := SetOutcome{Code: OK, Replayed: true, At: when.Latest()}
	refusals := map[int]Outcome{}
	for i, c := range c.commands(l.retention) {
		one := outcomes[c.Key]
		if one.Code != OK {
			refusals[i] = one
			continue
		}
		o.Replayed = o.Replayed && one.Replayed
		lease := c.named(c.Token)
		lease.Owner, lease.Phase = c.Owner, Released
		o.Leases = append(o.Leases, lease)
	}
	if len(refusals) > 0 {
		refused := refusedSet(refusals, endOrder)
		refused.Leases = o.Leases
		return refused, nil
	}
	return o, nil
}

func writesOf[C command](cs []C) []docstore.Write {
	writes := make([]docstore.Write, len(cs))
	for i, c := range cs {
		writes[i] = c.Write()
	}
	return writes
}
