package placement

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/leasehold-dev/leasehold/internal/backoff"
	"github.com/leasehold-dev/leasehold/repo/census"
	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/field"
	"github.com/leasehold-dev/leasehold/repo/rule"
)

// Service carries out the commands of placement on a store. Between calls it remembers the latest epoch of each
// cluster, which it checks before it decides by it, by how much the store's clock is ahead, and how many identities
// there are: any number of them, in any number of processes, may use the same store.
//
// An error from a command is a field.Error for a malformed command; nothing was sent. Any other error means that the
// outcome is unknown or that nothing was changed (see [rule.Run]): send the command again with the same request_id.
type Service struct {
	store     docstore.Store
	now       func() time.Time
	sleep     func(ctx context.Context, d time.Duration) error
	retention time.Duration
	keepState time.Duration // of what is free and has a state
	joinDelay time.Duration

	identities, clusters *census.Census
	evicted              func(ctx context.Context, expired []time.Duration, moved int)

	ahead atomic.Int64 // by how much the store's clock is ahead of ours, about; see learn

	mu        sync.RWMutex
	latest    map[Cluster]*Topology
	alarmedBy map[Cluster]int64 // the highest incarnation for which the store says that the cluster has alarms

	joining map[gathered][]*waiting // under mu; see gather

	feeds    feeds
	refusals refusals
}

// Options are the settings of [New]. The zero value works.
type Options struct {
	// Now measures how long a store takes to respond: it must be monotonic, and need not show the right time. nil means
	// time.Now.
	Now func() time.Time

	// Sleep waits before another try, for a time that Now measured, or until the context ends, which is its error. A
	// clock that does not run by itself needs its own. nil means the machine's time.
	Sleep func(ctx context.Context, d time.Duration) error

	// Retention is how long documents are kept of members that left or died, and of activations that are free and have
	// neither an alarm nor a state, or an empty one: a sweep removes those. An alarm is so far away at most. 0 means
	// DefaultRetention; it is brought into the range from MinRetention to a century.
	Retention time.Duration

	// StateRetention is how long an activation that is free is kept with its state; then the store may remove it. 0 is for
	// ever. Otherwise it is Retention at least, and a century at most.
	StateRetention time.Duration

	// MaxIdentities is how many identities a cluster has a record of at most, free ones included; the claim of another
	// one is Limit, and what exists can be claimed as before. All processes share a tally, which sweeps correct: see
	// package census. 0 is no bound.
	MaxIdentities int

	// MaxClusters is how many clusters a tenant can set up; the join that would set up another one is Limit. They are
	// counted as identities are. Of several that join the same cluster at the same time, a cluster too many, all but the
	// first may set it up. 0 is no bound.
	MaxClusters int

	// JoinDelay is how long a join waits for others of its cluster that come to this Service, so that one epoch has up to
	// 24 of them. One that replaces a member does not wait, nor one whose lease lasts for less than four times as long, or
	// whose caller has less than twice as long. 0 is not at all.
	JoinDelay time.Duration

	// Evicted is told of the members that the Service evicts together: for how long the lease of each had expired, and
	// how many partitions changed hands. It is called after the eviction was written, in the call that evicted, which
	// may be a lookup or a claim. nil means that no one is told.
	Evicted func(ctx context.Context, expired []time.Duration, moved int)
}

// New returns the commands of placement on a store. Options may be nil.
func New(store docstore.Store, o *Options) *Service {
	s := &Service{store: store, now: time.Now, sleep: backoff.Sleep, retention: DefaultRetention, keepState: keepForever,
		latest: map[Cluster]*Topology{}, alarmedBy: map[Cluster]int64{}, joining: map[gathered][]*waiting{}}
	if o != nil && o.Now != nil {
		s.now = o.Now
	}
	if o != nil && o.Sleep != nil {
		s.sleep = o.Sleep
	}
	if o != nil && o.Retention != 0 {
		s.retention = min(max(o.Retention.Truncate(time.Millisecond), MinRetention), keepForever)
	}
	if o != nil && o.StateRetention != 0 {
		s.keepState = min(max(o.StateRetention.Truncate(time.Millisecond), s.retention), keepForever)
	}
	if o != nil {
		s.joinDelay = max(0, o.JoinDelay)
		s.identities = census.New(store, ActivationKind, o.MaxIdentities, s.now)
		s.clusters = census.NewNamed(store, registryKind, o.MaxClusters, s.now)
		s.evicted = o.Evicted
	}
	return s
}

// learn remembers the store's time. Only the IDs of events are made of it.
func (s *Service) learn(at time.Time) { s.ahead.Store(int64(at.Sub(s.now()))) }

func (s *Service) storeTime() time.Time { return s.now().Add(time.Duration(s.ahead.Load())) }

// Cached is the latest epoch of a cluster that this Service has seen, nil if it has seen none. No request to the store.
// It may be out of date: what is placed by it is checked by a claim.
func (s *Service) Cached(c Cluster) *Topology {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.latest[c]
}

// keep remembers an epoch, unless a later one is known. before is what was known when the request was sent that said it
// is the current one: a store that lost its latest writes has no such epoch any more, also where its number is higher.
func (s *Service) keep(c Cluster, t, before *Topology) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if known := s.latest[c]; known == before || known == nil || known.Epoch < t.Epoch {
		if known != nil {
			t.follows(known)
		}
		s.latest[c] = t
	}
}

// current is the epoch that a document of the head names: the one that is known here, or else read. Both are zero for a
// cluster that never had a member; one that was removed has a head and no epoch. before is what was known here when the
// head was asked for.
func (s *Service) current(ctx context.Context, c Cluster, d docstore.Doc, before *Topology) (head, *Topology, error) {
	if d == nil {
		return head{}, nil, nil
	}
	h, err := c.headOf(d)
	if err != nil {
		return head{}, nil, err
	}
	if h.removed > 0 {
		s.forget(c)
		return h, nil, nil
	}
	known := s.Cached(c)
	if h.names(known) {
		return h, known, nil
	}
	t, err := s.readEpoch(ctx, c, h.epoch, known)
	if err != nil {
		return h, nil, err
	}
	if t == nil {
		return h, nil, fmt.Errorf("%w: epoch %d of %q is missing", docstore.ErrDamaged, h.epoch, c.Name)
	}
	s.keep(c, t, before)
	return h, t, nil
}

// Topology is the current epoch of a cluster, nil if it never had a member, or was removed. One request to the store,
// two if there is a new epoch, three if this Service knows none of the 64 before it.
func (s *Service) Topology(ctx context.Context, c Cluster) (*Topology, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	before := s.Cached(c)
	snap, err := s.store.Get(ctx, c.head())
	if err != nil {
		return nil, fmt.Errorf("cluster %q: %w", c.Name, err)
	}
	_, t, err := s.current(ctx, c, snap.Docs[0], before)
	return t, err
}

// Epoch is one epoch of a cluster, the current or an earlier one, by its number, 1 or more. It is nil if there was
// none, or if it is kept no longer: the epochs before the current one are, for a day. Two requests to the store
// at most.
func (s *Service) Epoch(ctx context.Context, c Cluster, number int64) (*Topology, error) {
	if err := first(c.Validate(), field.Range("epoch", number, 1, docstore.MaxInt)); err != nil {
		return nil, err
	}
	if t := s.Cached(c); t != nil && t.Epoch == number {
		// it may have been lost: the head tells
		if t, err := s.Topology(ctx, c); err != nil || t != nil && t.Epoch == number {
			return t, err
		}
	}
	t, err := s.readEpoch(ctx, c, number, nil)
	if errors.Is(err, errMissing) {
		err = nil // one of those before it is kept no longer
	}
	return t, err
}

// Lookup asks where an identity is, or would be.
type Lookup struct {
	Cluster
	Identity
	Need

	// Epoch is by which the caller placed the identity; if it is not 0 and over, the lookup is refused.
	Epoch int64
}

// Validate reports whether the lookup is well formed. The error is a [field.Error].
func (c Lookup) Validate() error {
	return first(c.subject().validate(), c.Need.Validate(), checkEpoch(c.Epoch))
}

func (c Lookup) subject() subject { return subject{c.Cluster, c.Identity} }

// Placement is the result of [Service.Lookup].
type Placement struct {
	Outcome

	Partition int
	Placed    *Member // on which the epoch places the identity; nil if no member is eligible

	// Owner is the member that has the activation, nil if it is free, or if its owner is not a member any more: then a
	// claim gets it. A caller that wants to reach the identity goes to Owner.
	Owner *Member
}

// Lookup says where an identity is. It reads the activation, the epoch and the lease of the member from the store: one
// request, two more if there is a new epoch, and one more if the owner is not the member on which the identity is
// placed. A member whose lease has ended is evicted on the way. Without requests, [Service.Cached] and [Topology.Place]
// say where a new activation would be.
//
// The codes of rejections are Undetermined, NoEligibleMember and StaleEpoch; an activation is shown even then.
func (s *Service) Lookup(ctx context.Context, c Lookup) (Placement, error) {
	if err := c.Validate(); err != nil {
		return Placement{}, err
	}
	v, err := s.see(ctx, c.subject(), c.Need)
	if err != nil {
		return Placement{}, err
	}
	p := Placement{Outcome: v.outcome(OK), Placed: v.placed, Owner: v.owner}
	if v.top != nil {
		p.Partition = v.top.Partition(c.Identity)
	}
	switch code := v.undetermined(c.Epoch); {
	case code != OK:
		p.Code = code
	case v.placed == nil && v.owner == nil:
		p.Code, p.Detail = NoEligibleMember, "no member may host the identity: see kinds, labels and capacity of the members"
	}
	return p, nil
}

// view is what a lookup, a claim or a transfer is decided on.
type view struct {
	at     time.Time
	top    *Topology // nil for a cluster that never had a member
	doc    docstore.Doc
	act    Activation
	placed *Member
	owner  *Member // of the activation, nil if it is free or its owner is dead
}

func (v *view) outcome(code Code) Outcome {
	o := Outcome{Code: code, Activation: v.act, At: v.at}
	if v.top != nil {
		o.Epoch = v.top.Epoch
	}
	return o
}

// ended is the outcome of a claim or transfer that came after its end; its code is OK if it did not.
func (v *view) ended(e rule.End) Outcome {
	code, said := ended(e, rule.When{At: v.at})
	o := v.outcome(code)
	o.Detail = said
	return o
}

// replay is the outcome of a claim or transfer that is remembered. One whose owner is dead has ended.
func (v *view) replay(r rule.Request) (Outcome, bool) {
	o, known := v.act.replay(r, v.at)
	if known && o.Code == OK && v.owner == nil {
		o = v.act.expired(v.at)
	}
	return o, known
}

// undetermined is why nothing can be placed, OK if it can.
func (v *view) undetermined(epoch int64) Code {
	switch {
	case !v.top.Ready():
		return Undetermined
	case epoch != 0 && epoch != v.top.Epoch:
		return StaleEpoch
	default:
		return OK
	}
}

// see reads an activation and the epoch, and evicts the members whose leases have ended on which the outcome depends.
func (s *Service) see(ctx context.Context, c subject, need Need) (*view, error) {
	for range maxTries {
		// The member on which the identity is placed is most likely the one that matters: its lease is read in the same
		// request.
		keys, guess := []docstore.Key{c.key(), c.head()}, ""
		before := s.Cached(c.Cluster)
		if before.Ready() {
			if m := before.Place(c.Identity, need); m != nil {
				guess = m.Member
				keys = append(keys, c.lease(guess))
			}
		}
		snap, err := s.store.Get(ctx, keys...)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", c.key(), err)
		}
		s.learn(snap.At)
		v := &view{at: snap.At, doc: snap.Docs[0]}
		if v.act, err = c.stored(v.doc); err != nil {
			return nil, err
		}
		if w, is := c.countAnew(v.act, rule.When{At: snap.At, Margin: snap.Margin}); is {
			if _, err := s.store.Write(ctx, w); err != nil {
				return nil, fmt.Errorf("%s: %w", c.key(), err)
			}
			continue // to what it was made, by this write or another one
		}
		if _, v.top, err = s.current(ctx, c.Cluster, snap.Docs[1], before); err != nil {
			return nil, err
		}
		if v.top == nil {
			return v, nil
		}
		if v.act.Epoch > v.top.Epoch {
			continue // the activation is of an epoch that began between two reads
		}
		v.placed = v.top.Place(c.Identity, need)
		matters := v.placed
		if v.act.Phase != Free && v.top.Live(v.act.Owner) {
			v.owner = v.top.Find(v.act.Owner.Member)
			matters = v.owner
		}
		if matters == nil {
			return v, nil
		}
		var lease docstore.Doc
		at := rule.When{At: snap.At, Margin: snap.Margin}
		if matters.Member == guess {
			lease = snap.Docs[2]
		} else {
			again, err := s.store.Get(ctx, c.lease(matters.Member))
			if err != nil {
				return nil, fmt.Errorf("%s: %w", c.key(), err)
			}
			lease, at = again.Docs[0], rule.When{At: again.At, Margin: again.Margin}
		}
		l, err := c.leaseOf(matters.Member, lease)
		if err != nil {
			return nil, err
		}
		if l.Number != matters.Number || l.ExpiresAt.IsZero() {
			continue // a new epoch has begun
		}
		if l.held(at.At) {
			_, err = s.lasting(ctx, c.Cluster, matters.Member, l, at)
			return v, err
		}
		_, err = s.Evict(ctx, c.Cluster)
		if _, failed := docstore.Failure(err); failed != nil { // of those that cannot be read none matters: this one was
			return nil, failed
		}
		if t := s.Cached(c.Cluster); t != nil && t.Live(matters.Incarnation) {
			return v, nil // a store that is not sure of the time: the lease has ended, and not for long enough
		}
	}
	return nil, s.busy(c)
}

func (s *Service) busy(c subject) error {
	return fmt.Errorf("%w: %s: %d other changes came first; try again", docstore.ErrUnavailable, c.key(), maxTries)
}

// Claim asks for the activation of an identity, on the member on which it is placed.
type Claim struct {
	Cluster
	Identity
	Need
	rule.End

	RequestID string        // the same for every delivery of the same intention
	LockTTL   time.Duration // how long the owner has to activate it; 0 means DefaultLockTTL, but for By

	// By is the member that claims for itself. It gets the activation only if the identity is placed on it. Without a
	// LockTTL it does so at once: claim and activation are one step. Without By, the member on which the identity is
	// placed becomes the owner and is to activate it.
	By Incarnation

	// Epoch is by which the caller placed the identity; if it is not 0 and over, the claim is refused.
	Epoch int64
}

// Validate reports whether the command is well formed. The error is a [field.Error].
func (c Claim) Validate() error {
	err := first(c.subject().validate(), c.Need.Validate(), checkRequestID(c.RequestID), checkTTL("lock_ttl", c.LockTTL),
		checkEpoch(c.Epoch))
	if err == nil && c.By != (Incarnation{}) {
		err = c.By.Validate()
	}
	return err
}

func (c Claim) subject() subject { return subject{c.Cluster, c.Identity} }

// request leaves out by which epoch the caller placed: it is no parameter of the effect.
func (c Claim) request() rule.Request {
	return rule.Identify("claim", c.RequestID).
		With(append(append(table(c.Labels), table(c.Prefer)...), c.LockTTL.String(), c.By.Member,
			strconv.FormatInt(c.By.Number, 10))...)
}

// table is a map as a list of text, in the order of its keys, after its length.
func table(m map[string]string) []string {
	parts := []string{strconv.Itoa(len(m))}
	for _, k := range slices.Sorted(maps.Keys(m)) {
		parts = append(parts, k, m[k])
	}
	return parts
}

// Claim asks for an activation; see [Claim]. It reads once and writes once, and only reads where the activation exists;
// what [Service.Lookup] may read more, it may, too. The member is part of the step that writes: one that drains, or is
// evicted, in between gets nothing.
//
// Exists has the activation that there is, ActivationFailed the reason of the one that this claim began; Locking says
// when to come back. The codes of other rejections are Undetermined, NoEligibleMember, MemberIneligible, StaleEpoch,
// RequestIDReused, LateAnswer, Limit, TooLate and TooFar. Of rejections that leave an identity without a member there
// are events, [Refused]: a write for the first, then fewer and fewer. With Options.MaxIdentities a claim of an identity
// without a record reads twice where this process has no room in hand for it, and takes some, by one write or two.
func (s *Service) Claim(ctx context.Context, c Claim) (Outcome, error) {
	if err := c.Validate(); err != nil {
		return Outcome{}, err
	}
	var o Outcome
	err := s.identities.Within(ctx, c.space(), true, func(existing bool) (effect census.Effect, err error) {
		o, err = s.obtain(ctx, c.subject(), c.Need, func(v *view) (*grant, *Member, Outcome) {
			g, to, o := c.decide(v)
			switch {
			case g == nil || v.act.rev != 0:
				effect = census.Other
			case existing:
				effect = census.Missing
				return nil, nil, v.outcome(Limit)
			default:
				effect = census.Created
			}
			return g, to, o
		})
		if o.Code == TooLate || o.Code == TooFar { // by the write
			effect = census.Other
		}
		return effect, err
	})
	if err == nil && o.Code == Limit {
		o.RetryAfter = s.identities.RetryAfter(c.space())
		o.Detail = fmt.Sprintf(
			"the cluster has %d identities, which is the bound of this server; those that it has can be claimed, others "+
				"when some were removed: that is %v after they were free", s.identities.Most(), s.retention)
	}
	if err == nil {
		s.tellRefused(ctx, c, o)
	}
	return o, err
}

// obtain decides on a grant and carries it out, and decides again if anything on which it rests has changed.
func (s *Service) obtain(ctx context.Context, c subject, need Need,
	decide func(*view) (*grant, *Member, Outcome)) (Outcome, error) {
	for range maxTries {
		v, err := s.see(ctx, c, need)
		if err != nil {
			return Outcome{}, err
		}
		g, to, o := decide(v)
		if g == nil {
			return o, nil
		}
		started := Event{Member: g.owner, Identity: c.Identity, From: string(v.act.Phase), To: string(Locked),
			Epoch: g.epoch, Token: g.token}
		if g.lock == 0 {
			started.To = string(Active)
		}
		if v.act.Phase != Free && v.act.Owner != g.owner {
			started.Reason = takenFrom(v.act.Owner.Member)
		}
		o, free, err := rule.RunJoint(ctx, s.store, s.now, *g, c.unchanged(to), started.write(c.Cluster, v.at))
		if err != nil {
			return Outcome{}, err
		}
		if free && o.Code != "" {
			if started.Reason != "" && o.Code == OK && !o.Replayed {
				o.TakenFrom = v.act.Owner
			}
			return o, nil
		}
	}
	return Outcome{}, s.busy(c)
}

func (c Claim) decide(v *view) (*grant, *Member, Outcome) {
	if o, known := v.replay(c.request()); known {
		return nil, nil, o
	}
	if o := v.ended(c.End); o.Code != OK {
		return nil, nil, o
	}
	o := v.outcome(v.undetermined(c.Epoch))
	lapsed := v.act.Phase == Locked && !v.at.Before(v.act.LockUntil)
	switch {
	case o.Code != OK:
	case v.owner != nil && v.act.Phase == Locked && !lapsed:
		o.Code, o.RetryAfter = Locking, min(v.act.LockUntil.Sub(v.at), DefaultTTL)
	case v.owner != nil && v.act.Phase != Locked:
		o.Code = Exists
	case c.By != (Incarnation{}) && !c.placedOnCaller(v, &o):
	case v.placed == nil:
		o.Code, o.Detail = NoEligibleMember, "no member may host the identity: see kinds, labels and capacity of the members"
	default:
		g := v.grant(c.subject(), c.End, c.request(), v.placed, c.Need)
		g.lapsed = v.owner != nil
		if g.lock = c.LockTTL; c.By == (Incarnation{}) {
			g.lock = cmp.Or(c.LockTTL, DefaultLockTTL)
		}
		return g, v.placed, Outcome{}
	}
	return nil, nil, o
}

// placedOnCaller reports whether the identity is placed on the member that claims; the outcome says why it is not.
func (c Claim) placedOnCaller(v *view, o *Outcome) bool {
	m := v.top.Find(c.By.Member)
	o.Ineligible = NotAMember
	if m != nil && m.Number == c.By.Number {
		o.Ineligible = m.Eligible(c.Kind, c.Need)
	}
	if o.Ineligible == Eligible && v.placed != m {
		o.Ineligible, o.Detail = PlacedOnOther, "the identity is placed on "+v.placed.Member
	}
	if o.Ineligible != Eligible {
		o.Code = MemberIneligible
	}
	return o.Ineligible == Eligible
}

// grant gives the activation that was seen to a member.
func (v *view) grant(c subject, e rule.End, r rule.Request, to *Member, need Need) *grant {
	g := &grant{
		subject: c, End: e, found: v.doc, rev: v.act.rev, owner: to.Incarnation, epoch: v.top.Epoch,
		token: max(v.act.Token+1, firstToken(v.top.Epoch, v.at)), request: r, need: need,
	}
	return g
}

// Transfer gives an activation to another member: its owner hands it over, and the other is to activate it.
type Transfer struct {
	Hold
	Need // none: that of the claim
	rule.End

	RequestID string        // the same for every delivery of the same intention
	LockTTL   time.Duration // how long the new owner has to activate it; 0 means DefaultLockTTL

	// To is the member to transfer it to; empty for the one on which it is placed.
	To string
}

// Validate reports whether the command is well formed. The error is a [field.Error].
func (c Transfer) Validate() error {
	err := first(c.validate(), c.Need.Validate(), checkRequestID(c.RequestID), checkTTL("lock_ttl", c.LockTTL))
	if err == nil && c.To != "" {
		err = checkMember("to", c.To)
	}
	return err
}

func (c Transfer) request() rule.Request {
	return rule.Identify("transfer", strconv.FormatInt(c.Token, 10), c.RequestID).
		With(append(append(table(c.Labels), table(c.Prefer)...), c.LockTTL.String(), c.To)...)
}

// Transfer gives an activation to another member; see [Transfer]. It costs what a claim costs. The codes of rejections
// are StaleToken, NotOwner, WrongPhase, Undetermined, NoEligibleMember, MemberIneligible, RequestIDReused, LateAnswer,
// TooLate and TooFar.
func (s *Service) Transfer(ctx context.Context, c Transfer) (Outcome, error) {
	if err := c.Validate(); err != nil {
		return Outcome{}, err
	}
	return s.obtain(ctx, c.subject(), c.Need, c.decide)
}

func (c Transfer) decide(v *view) (*grant, *Member, Outcome) {
	if o, known := v.replay(c.request()); known {
		return nil, nil, o
	}
	if o := v.ended(c.End); o.Code != OK {
		return nil, nil, o
	}
	need, to := c.Need, v.placed
	if need.none() {
		need = v.act.Need
	}
	switch {
	case v.top == nil:
	case c.To != "":
		to = v.top.Find(c.To)
	default:
		to = v.top.Place(c.Identity, need)
	}
	o := v.outcome(v.undetermined(0))
	held := c.refused(v.act, rule.When{At: v.at}, v.act.Phase == Active)
	switch {
	case held.Code != OK:
		held.Epoch, held.Replayed = o.Epoch, false
		return nil, nil, held
	case o.Code != OK:
	case to == nil && c.To == "":
		o.Code, o.Detail = NoEligibleMember, "no member may host the identity: see kinds, labels and capacity of the members"
	case to == nil:
		o.Code, o.Ineligible = MemberIneligible, NotAMember
	case to.Incarnation == c.Owner:
		o.Code, o.Ineligible, o.Detail = MemberIneligible, PlacedOnOther,
			"the identity is placed on its owner: name another member, or drain this one first"
	case to.Eligible(c.Kind, need) != Eligible:
		o.Code, o.Ineligible = MemberIneligible, to.Eligible(c.Kind, need)
	default:
		g := v.grant(c.subject(), c.End, c.request(), to, need)
		g.lock = cmp.Or(c.LockTTL, DefaultLockTTL)
		return g, to, Outcome{}
	}
	return nil, nil, o
}

// Activated ends the lock phase; see [Activated]. One request to the store. The codes of rejections are StaleToken,
// NotOwner, WrongPhase, and MemberIneligible for an owner that was evicted.
func (s *Service) Activated(ctx context.Context, c Activated) (Outcome, error) {
	alive := docstore.Write{Key: c.member(c.Owner.Member), If: docstore.All{
		docstore.Eq{Field: fIncarnation, Value: docstore.Int(c.Owner.Number)},
		docstore.Any{
			docstore.Eq{Field: fStatus, Value: docstore.String(MemberActive)},
			docstore.Eq{Field: fStatus, Value: docstore.String(MemberDraining)},
		},
	}}
	return own(ctx, s, c, c.Hold, Event{From: string(Locked), To: string(Active)}, alive)
}

// Fail ends the lock phase without an activation; see [Fail]. One request to the store. The codes of rejections are
// StaleToken, NotOwner and WrongPhase.
func (s *Service) Fail(ctx context.Context, c Fail) (Outcome, error) {
	c.keep = s.keepState
	return own(ctx, s, c, c.Hold, Event{From: string(Locked), To: string(Free), Reason: c.Reason})
}

// Deactivate ends an activation; see [Deactivate]. One request to the store, rejections as for [Service.Fail].
func (s *Service) Deactivate(ctx context.Context, c Deactivate) (Outcome, error) {
	c.keep = s.keepState
	return own(ctx, s, c, c.Hold, Event{To: string(Free), Reason: c.Reason})
}

// WriteState replaces the state of an activation; see [WriteState]. One request to the store; with an alarm, as many as
// [Service.SetAlarm] takes, and its errors. The codes of rejections are StaleToken, NotOwner, WrongPhase, StateChanged
// and RequestIDReused.
func (s *Service) WriteState(ctx context.Context, c WriteState) (Outcome, error) {
	if err := c.Validate(); err != nil {
		return Outcome{}, err
	}
	send := func(p alarmStep, beside ...docstore.Write) (o Outcome, err error) {
		if c.step = p; p.joint {
			o, _, err = rule.RunJoint(ctx, s.store, s.now, c, beside...)
			return o, err
		}
		return rule.Run(ctx, s.store, s.now, c)
	}
	if c.Alarm == nil {
		return send(alarmStep{})
	}
	return s.changeAlarm(ctx, c.Hold, *c.Alarm, send)
}

// owned is a command of an owner that changes the phase of its activation.
type owned interface {
	rule.Joint[Activation, Outcome]
	Validate() error
}

// own carries out a command of an owner together with its event, while what stands beside it holds. An event that was
// refused for its time is drawn anew, by the time of the store that the refusal says.
func own(ctx context.Context, s *Service, c owned, h Hold, e Event, beside ...docstore.Write) (Outcome, error) {
	if err := c.Validate(); err != nil {
		return Outcome{}, err
	}
	e.Member, e.Identity, e.Token = h.Owner, h.Identity, h.Token
	for range maxTries {
		event := e.write(h.Cluster, s.storeTime())
		o, free, err := rule.RunJoint(ctx, s.store, s.now, c, append(slices.Clip(beside), event)...)
		switch {
		case err != nil:
			return Outcome{}, err
		case free:
			return o, nil
		case event.InTime(o.At):
			return Outcome{
				Code: MemberIneligible, Ineligible: NotAMember, Activation: o.Activation, At: o.At,
				Detail: "the incarnation is not a member any more: it lost the activation, or is about to",
			}, nil
		}
		s.learn(o.At)
	}
	return Outcome{}, s.busy(h.subject())
}

// Query selects activations for [Service.Snapshot].
type Query struct {
	Kind  string // of identities; empty for all
	After string // Snapshot.Next of the page before; empty for the first
	Limit int    // activations in the page, 1 to docstore.MaxLimit; 0 means docstore.DefaultLimit
}

// Validate reports whether the query is well formed. The error is a [field.Error].
func (q Query) Validate() error {
	err := checkLimit(q.Limit)
	// that of a document of another program may be none of ours
	if err == nil && (docstore.Query{Kind: ActivationKind, After: q.After}).Validate() != nil {
		err = field.Errorf("after", "is not one that a page gave: leave it out to begin again")
	}
	if err == nil && q.Kind != "" {
		err = word("kind", q.Kind, MaxKindBytes)
	}
	return err
}

// Snapshot is a cluster as it stands: who its members are, which partition is whose, and which identities are where. It
// can be read in every state, also while nothing can be placed.
type Snapshot struct {
	At       time.Time // the store's time of the read
	Ready    bool      // identities can be placed
	Topology *Topology // the current epoch; of epoch 0 and without members before the first

	Activations []Activation       // in the order of kind and ID, a page at a time
	Damaged     []docstore.Damaged // those of the page that cannot be read
	Next        string             // Query.After of the next page; empty when this was the last
}

// Snapshot reads a cluster: two requests to the store, three if there is a new epoch. The activations are those at the
// time of the second, which can be of a later epoch.
func (s *Service) Snapshot(ctx context.Context, c Cluster, q Query) (Snapshot, error) {
	if err := first(c.Validate(), q.Validate()); err != nil {
		return Snapshot{}, err
	}
	t, err := s.Topology(ctx, c)
	if err != nil {
		return Snapshot{}, err
	}
	list := docstore.Query{Kind: ActivationKind, Tenant: c.space(), After: q.After, Limit: q.Limit}
	if q.Kind != "" {
		list.Prefix = q.Kind + "/"
	}
	p, err := s.store.List(ctx, list)
	if err != nil {
		return Snapshot{}, fmt.Errorf("activations of %q: %w", c.Name, err)
	}
	snap := Snapshot{At: p.At, Ready: t.Ready(), Topology: t, Damaged: p.Damaged, Next: p.Next}
	if t == nil {
		snap.Topology = NewTopology(DefaultPartitions)
	}
	for _, e := range p.Entries {
		kind, id, _ := strings.Cut(e.Key.ID, "/")
		a, err := (subject{c, Identity{kind, id}}).stored(e.Doc)
		if err != nil {
			snap.Damaged = append(snap.Damaged, docstore.Damaged{Key: e.Key, Err: err})
			continue
		}
		snap.Activations = append(snap.Activations, a)
	}
	return snap, nil
}
