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

	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/field"
	"github.com/leasehold-dev/leasehold/repo/rule"
)

// MaxSetKeys is how many locks one command can take, renew or release.
const MaxSetKeys = 20

// AcquireSet takes several locks of a tenant in one step, all or none. Each becomes an ordinary exclusive lease with
// the next token of its key. No caller ever waits with some of its locks held, so that callers whose keys overlap
// cannot block each other for good.
type AcquireSet struct {
	rule.End
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

	// ExpiresAt is when the leases expire as far as the caller knows, see [Renew].ExpiresAt. Leases that are renewed
	// together expire together.
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

	// Leases are the caller's, by key, if Code is OK. Those of an acquire have all that a lease has. Those of a renewal,
	// and of a release, have their names, their phase, and when they expire; if a renewal is repeated, as they are now.
	// After a release that is not OK they are those that are released all the same, by this delivery or an earlier one.
	Leases []Lease

	// Refusal is the outcome of one key because of which Code is not OK: Refusal.Lease.Key. If several are held by others
	// it is the one that is held for longest.
	Refusal Outcome

	// TookOver are the keys of the leases of an acquire that took over, see [Outcome].TookOver.
	TookOver []string

	// CountedAnew is at how many of the locks an acquire that is refused counted ends anew, see [Outcome].CountedAnew.
	CountedAnew int

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

// allKeys is what tells a command that is one of a set from another with the same request_id: the keys of the set. No
// key has a line break. One key takes the place of the policies of an acquire among the parameters, which end with a
// space and have no line break: so one that ends with a space has a line break behind it.
func allKeys(sorted []string) string {
	all := strings.Join(sorted, "\n")
	if strings.HasSuffix(all, " ") {
		all += "\n"
	}
	return all
}

// commands are those of the locks, by key.
func (c AcquireSet) commands(newLeaseID func() string, retention time.Duration) []Acquire {
	keys := slices.Sorted(slices.Values(c.Keys))
	cs := make([]Acquire, len(keys))
	for i, k := range keys {
		cs[i] = Acquire{
			ID: ID{c.Tenant, k}, End: c.End, Owner: c.Owner, RequestID: c.RequestID, TTLSeconds: c.TTLSeconds,
			Metadata: c.Metadata, retention: retention, set: allKeys(keys),
		}
		if newLeaseID != nil {
			cs[i].LeaseID = newLeaseID()
		}
	}
	return cs
}

func (c RenewSet) commands(retention time.Duration) []Renew {
	leases := sortedLeases(c.Leases)
	set := allKeys(keysOf(leases))
	cs := make([]Renew, len(leases))
	for i, l := range leases {
		cs[i] = Renew{
			ID: ID{c.Tenant, l.Key}, Owner: c.Owner, Token: l.Token, RequestID: c.RequestID, TTLSeconds: c.TTLSeconds,
			ExpiresAt: c.ExpiresAt,
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

// runSet carries out a set, whose commands do sends together: see [rule.RunSet]. A second write that only keeps a
// lock's line in order grants nothing.
func (l *Locks) runSet(ctx context.Context, set any, do func(context.Context, rule.Send[State, Outcome]) (SetOutcome,
	error)) (SetOutcome, error) {
	grants := func(o Outcome) bool { return o.Code == OK && !o.Replayed }
	return rule.RunSet(ctx, l.store, l.now, set, grants, func(ctx context.Context, send rule.Send[State, Outcome]) (
		SetOutcome, error) {
		return do(ctx, l.telling(send))
	})
}

// together are the commands of a set, as the runner has them.
func together[C command](cs []C) []rule.Command[State, Outcome] {
	all := make([]rule.Command[State, Outcome], len(cs))
	for i, c := range cs {
		all[i] = c
	}
	return all
}

// AcquireSet takes several locks, all or none. One request to the store; one more to read the tokens where the store
// does not return documents after a step (DynamoDB), and where a lock needs a second write or is to be counted: see
// [Locks.Acquire].
func (l *Locks) AcquireSet(ctx context.Context, c AcquireSet) (SetOutcome, error) {
	if err := c.Validate(); err != nil {
		return SetOutcome{}, err
	}
	cs := c.commands(l.newLeaseID, l.retention)
	for i := range cs {
		cs[i].observed = l.observed
	}
	var o SetOutcome
	err := l.census.Several(ctx, c.Tenant, len(cs), func(existing bool) (created, missing int, err error) {
		o, err = l.runSet(ctx, c, func(ctx context.Context, send rule.Send[State, Outcome]) (o SetOutcome, err error) {
			o, created, missing, err = l.acquireSet(ctx, cs, existing, send)
			return o, err
		})
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

// acquireSet carries out the commands; with existing it creates no record. It says how many records it created, or that
// so many are missing.
func (l *Locks) acquireSet(
	ctx context.Context, cs []Acquire, existing bool, send rule.Send[State, Outcome],
) (o SetOutcome, created, missing int, err error) {
	all := together(cs)
	if existing {
		for i, c := range cs {
			all[i] = acquireExisting{c}
		}
	}
	begin := l.now()
	done, err := send(ctx, all)
	if err != nil {
		return o, 0, 0, err
	}
	if done.Applied {
		o, created, err = l.granted(ctx, cs, done, begin)
		return o, created, 0, err
	}
	refusals := map[int]Outcome{}
	known := false // the request has been granted before
	for _, r := range done.Refused {
		i := r.Index
		refusals[i] = all[i].Refusal(r.State, done.When)
		if refusals[i].Code == Limit {
			missing++
		}
		known = known || refusals[i].Code == OK || refusals[i].Code == LeaseExpired
	}
	if known {
		o, _, err = l.repeated(ctx, cs, done, begin)
		return o, 0, 0, err
	}
	anew, err := l.lookAgain(ctx, cs, done.Refused, done.When, refusals)
	if err != nil {
		return o, 0, 0, err
	}
	if o = refusedSet(refusals, acquireOrder); o.Code != Limit {
		missing = 0
	}
	o.CountedAnew = anew
	queues := func(r rule.Refused[State]) bool { return r.State.queues(string(cs[0].request().Entry())) }
	if o.Refusal.waits() && slices.ContainsFunc(done.Refused, queues) {
		o = l.reserve(ctx, cs, o)
	}
	return o, 0, missing, nil
}

// granted is the outcome of an acquire that was applied.
func (l *Locks) granted(
	ctx context.Context, cs []Acquire, done rule.Sent[State, Outcome], begin time.Time,
) (o SetOutcome, created int, err error) {
	if slices.ContainsFunc(done.Docs, func(d docstore.Doc) bool { return d == nil }) { // the store does not return them
		o, created, err = l.repeated(ctx, cs, done, begin)
		o.Replayed = false
		return o, created, err
	}
	outcomes := map[int]Outcome{}
	for i, d := range done.Docs {
		s, err := cs[i].State(d)
		if err != nil {
			return o, 0, err
		}
		if s.first() {
			created++
		}
		outcomes[i] = done.Granted(i, s)
	}
	return allOf(outcomes, done.When), created, nil
}

// repeated is the outcome of an acquire whose request is known, for it was applied: all of its leases, or that one of
// them has ended. It reads the locks if the store has not returned them all. created is how many records it made.
func (l *Locks) repeated(
	ctx context.Context, cs []Acquire, done rule.Sent[State, Outcome], begin time.Time,
) (o SetOutcome, created int, err error) {
	states := map[int]State{}
	for _, r := range done.Refused {
		states[r.Index] = r.State
	}
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
		done.When.Took = l.now().Sub(begin)
		for i, d := range snap.Docs {
			if states[i], err = cs[i].State(d); err != nil {
				return o, 0, err
			}
		}
	}
	outcomes := map[int]Outcome{}
	for i, s := range states {
		o := cs[i].Refusal(s, done.When)
		switch {
		case o.Code == OK && done.Applied:
			o.TookOver = done.Granted(i, s).TookOver
		case o.Code != OK && o.Code != LeaseExpired:
			o = cs[i].reused(done.When, 0, "a lease that this request_id obtained has ended; use a new request_id")
		}
		outcomes[i] = o
		if s.first() {
			created++
		}
	}
	return allOf(outcomes, done.When), created, nil
}

// acquireOrder tells which refusal of several is shown: the first of these codes, then the others, and those that wait
// for the end of a lease last.
var acquireOrder = []Code{RequestIDReused, TooLate, TooFar, ModeDiffers}

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
		o.Replayed, o.At = o.Replayed && one.Replayed, later(o.At, one.At)
		o.Leases = append(o.Leases, one.Lease)
		if one.TookOver {
			o.TookOver = append(o.TookOver, one.Lease.Key)
		}
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

// RenewSet moves the expiry of several leases, all or none. One request to the store, as long as no lock needs a second
// write.
func (l *Locks) RenewSet(ctx context.Context, c RenewSet) (SetOutcome, error) {
	if err := c.Validate(); err != nil {
		return SetOutcome{}, err
	}
	cs := c.commands(l.retention)
	return l.runSet(ctx, c, func(ctx context.Context, send rule.Send[State, Outcome]) (SetOutcome, error) {
		done, err := send(ctx, together(cs))
		if err != nil {
			return SetOutcome{}, err
		}
		return c.renewed(cs, done), nil
	})
}

// renewed is the outcome of the renewals.
func (c RenewSet) renewed(cs []Renew, done rule.Sent[State, Outcome]) SetOutcome {
	outcomes := map[int]Outcome{}
	if done.Applied {
		end := done.When.At.Add(time.Duration(c.TTLSeconds) * time.Second)
		for i, c := range cs {
			lease := c.named(c.Token)
			lease.Owner, lease.Phase, lease.ExpiresAt, lease.TTLSeconds = c.Owner, Active, end, c.TTLSeconds
			outcomes[i] = Outcome{Code: OK, At: done.When.Latest(), Lease: lease}.rejectLate(done.When)
		}
		return allOf(outcomes, done.When)
	}
	refusals := map[int]Outcome{}
	for _, r := range done.Refused {
		i := r.Index
		o := cs[i].Refusal(r.State, done.When)
		if o.Code != OK {
			refusals[i] = o
			continue
		}
		now := o.Lease
		o.Lease = cs[i].named(now.Token)
		o.Lease.Owner, o.Lease.Phase, o.Lease.ExpiresAt, o.Lease.TTLSeconds = now.Owner, now.Phase, now.ExpiresAt,
			now.TTLSeconds
		outcomes[i] = o
	}
	if len(refusals) > 0 {
		return refusedSet(refusals, endOrder)
	}
	// The request was carried out: in all locks that remember as much.
	if len(outcomes) < len(cs) {
		first := outcomes[slices.Min(slices.Collect(maps.Keys(outcomes)))]
		o := Outcome{Code: LeaseChanged, At: done.When.Latest(), Lease: first.Lease,
			Detail: "this request_id renewed the leases before, and one of them was renewed by itself since; use a new request_id"}
		return SetOutcome{Code: o.Code, Refusal: o, At: o.At}
	}
	return allOf(outcomes, done.When)
}

// ReleaseSet ends several leases, in one step those that are held. One request to the store, as long as all of them are
// and no lock needs a second write; otherwise one more, or a few.
func (l *Locks) ReleaseSet(ctx context.Context, c ReleaseSet) (SetOutcome, error) {
	if err := c.Validate(); err != nil {
		return SetOutcome{}, err
	}
	for _, one := range c.commands(l.retention) {
		defer l.waits.changed(one.ID)
	}
	return l.runSet(ctx, c, func(ctx context.Context, send rule.Send[State, Outcome]) (SetOutcome, error) {
		return l.releaseSet(ctx, c, send)
	})
}

// releaseSet carries out the releases.
func (l *Locks) releaseSet(ctx context.Context, c ReleaseSet, send rule.Send[State, Outcome]) (SetOutcome, error) {
	cs := c.commands(l.retention)
	outcomes, when, err := decideEach(ctx, cs, send, func(Outcome) bool { return true })
	if err != nil {
		return SetOutcome{}, err
	}
	o := SetOutcome{Code: OK, Replayed: true, At: when.Latest()}
	refusals := map[int]Outcome{}
	for i, c := range cs {
		one := outcomes[i]
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

// decideEach sends commands in one step, and again without those that were refused, until none is left that has not
// been decided; or until one is refused with an outcome with which it must not go on: then it has changed nothing. It
// returns the outcomes by position.
func decideEach[C command](ctx context.Context, cs []C, send rule.Send[State, Outcome], goOn func(Outcome) bool) (
	outcomes map[int]Outcome, when rule.When, err error) {
	outcomes = map[int]Outcome{}
	for stop := false; len(outcomes) < len(cs) && !stop; {
		var at []int // of those that are left
		var left []C
		for i, c := range cs {
			if _, decided := outcomes[i]; !decided {
				at, left = append(at, i), append(left, c)
			}
		}
		done, err := send(ctx, together(left))
		if err != nil {
			return nil, when, err
		}
		when = done.When
		for _, r := range done.Refused {
			o := left[r.Index].Refusal(r.State, when)
			outcomes[at[r.Index]] = o
			stop = stop || !goOn(o)
		}
		for i := range left {
			if done.Applied {
				outcomes[at[i]] = done.Granted(i, State{})
			}
		}
	}
	return outcomes, when, nil
}
