package placement

import (
	"encoding/json"
	"slices"
	"strconv"
	"time"

	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/field"
	"github.com/leasehold-dev/leasehold/repo/rule"
)

// ActivationKind is the kind of document that holds an activation: one for each identity that was ever claimed. One
// that is free is removed by a sweep after the retention, unless it has a state: a state stays until
// Options.StateRetention says otherwise. The store itself is told to keep all, because who frees an activation need
// not know whether it has a state.
const ActivationKind = "activations"

// Phase is where an activation is in its life.
type Phase string

// The phases of an activation.
//
//	        claim                activated
//	Free ───────────▶ Locked ───────────────▶ Active
//	 ▲                  │ failed                │
//	 └──────────────────┴───────────────────────┘ deactivate
//
// A claim of a Locked activation is granted when the lock has ended, and of any whose owner is dead. A transfer leads
// from Active to Locked, for another member. Each of them gets a higher token.
const (
	Free   Phase = "FREE"   // no one's
	Locked Phase = "LOCKED" // claimed: its owner alone may activate it
	Active Phase = "ACTIVE" // its owner serves it
)

// Activation is what is known of the one activation that an identity can have. The zero Activation, but for its
// Identity and its Phase Free, is an identity that was never claimed.
type Activation struct {
	Identity

	Phase Phase
	Token int64       // the fencing token of the latest claim or transfer; only ever increases for one identity
	Owner Incarnation // of the latest claim or transfer, also when it is Free again
	Epoch int64       // by which it was placed

	LockUntil   time.Time // while Locked: when another claim may have it
	ClaimedAt   time.Time
	ActivatedAt time.Time // zero unless Active
	ChangedAt   time.Time // of the latest change of phase, owner or token

	Failed bool   // Free because its activation failed
	Reason string // why it failed or was ended

	Need Need // of the claim: what a transfer looks for

	State        []byte // what owners stored; survives failures, takeovers and transfers
	StateVersion int64  // how often it was stored

	AlarmAt      time.Time // for when an alarm is set; zero for none
	AlarmTries   int64     // how often that was fired: if it was, it is due
	AlarmVersion int64     // how often an alarm was set or cleared

	AlarmNext time.Time // when that is fired next, if it is not carried out; zero for none

	alarmEntry time.Time // of which time the entry is that finds it; zero for none

	rev    int64         // counts all writes
	claims rule.Requests // claims and transfers that led to the latest tokens
	writes rule.Requests // of the state
}

// Fields of the document of an activation.
const (
	fToken       = "token"
	fRev         = "rev"
	fPhase       = "phase"
	fMember      = "member"
	fIncarnation = "incarnation"
	fEpoch       = "epoch"
	fLockUntil   = "lock_until"
	fClaimedAt   = "claimed_at"
	fActivatedAt = "activated_at"
	fChangedAt   = "changed_at"
	fFailed      = "failed"
	fReason      = "reason"
	fNeed        = "need" // JSON: a Need; missing for none
	fState       = "state"
	fVersion     = "state_version"
)

var (
	claims = rule.Register{"c1", "c2", "c3", "c4"}
	writes = rule.Register{"w1", "w2", "w3", "w4"}
)

// stateless holds for activations that no state keeps: it was never stored, or is empty.
var stateless = docstore.Any{
	docstore.Not{Cond: docstore.Has{Field: fState}}, docstore.Eq{Field: fState, Value: docstore.Bytes("")},
}

// subject is the identity of a cluster that a command is about.
type subject struct {
	Cluster
	Identity
}

func (s subject) key() docstore.Key {
	return docstore.Key{Kind: ActivationKind, Tenant: s.space(), ID: s.Kind + "/" + s.ID}
}

func (s subject) validate() error { return first(s.Cluster.Validate(), s.Identity.Validate()) }

// State reads the document of an activation; nil is one that was never claimed. The error is [docstore.ErrDamaged] and
// names the field.
func (s subject) State(d docstore.Doc) (Activation, error) {
	if d == nil {
		return Activation{Identity: s.Identity, Phase: Free}, nil
	}
	r := rule.Read(s.key(), d)
	a := Activation{
		Identity: s.Identity, Phase: Phase(r.Text(fPhase)), Token: r.Number(fToken), Epoch: r.Number(fEpoch),
		Owner:     Incarnation{Member: r.Text(fMember), Number: r.Number(fIncarnation)},
		LockUntil: r.Time(fLockUntil), ClaimedAt: r.Time(fClaimedAt), ActivatedAt: r.Time(fActivatedAt),
		ChangedAt: r.Time(fChangedAt),
		Failed:    r.Flag(fFailed), Reason: r.Text(fReason), State: r.Bytes(fState), StateVersion: r.Number(fVersion),
		AlarmAt: r.Time(fAlarmAt), AlarmTries: r.Number(fAlarmTries), AlarmVersion: r.Number(fAlarmVersion),
		AlarmNext: r.Time(fAlarmNext), alarmEntry: r.Time(fAlarmEntry),
		rev: r.Number(fRev), claims: r.Requests(claims), writes: r.Requests(writes),
	}
	if !slices.Contains([]Phase{Free, Locked, Active}, a.Phase) {
		r.Fail(fPhase, "FREE, LOCKED or ACTIVE")
	}
	if a.Phase == Locked && a.LockUntil.IsZero() {
		r.Fail(fLockUntil, "a time")
	}
	if a.AlarmAt.IsZero() != a.AlarmNext.IsZero() {
		r.Fail(fAlarmNext, "a time where "+fAlarmAt+" is one")
	}
	if !a.AlarmNext.IsZero() && (a.alarmEntry.IsZero() || a.alarmEntry.After(a.AlarmNext)) {
		r.Fail(fAlarmEntry, "a time that is not after "+fAlarmNext)
	}
	if need := r.Text(fNeed); need != "" && json.Unmarshal([]byte(need), &a.Need) != nil {
		r.Fail(fNeed, "an object of labels")
	}
	return a, r.Err()
}

// stored is State of a document that was read: it has all fields that a claim writes. After a step of an owner no more
// is known of one than the step says.
func (s subject) stored(d docstore.Doc) (Activation, error) {
	a, err := s.State(d)
	if err != nil {
		return a, err
	}
	r := rule.Read(s.key(), d)
	if r.Required(fToken, fRev, fMember, fIncarnation, fEpoch, fClaimedAt, fChangedAt); a.Phase == Active {
		r.Required(fActivatedAt)
	}
	return a, r.Err()
}

// grant gives an activation to an owner, with a token that is higher than all before, and above the time: a store that
// has come back older may have forgotten some. It is decided on the document that was read, and applies only to that.
type grant struct {
	subject
	rule.End

	found   docstore.Doc // as it was read
	rev     int64        // of it
	owner   Incarnation
	epoch   int64
	token   int64
	lock    time.Duration // of the lock phase; 0 skips it: the owner itself asks, and activates at once
	lapsed  bool          // it is granted because the lock of another claim has ended
	need    Need
	request rule.Request
}

// firstToken is where the tokens of an identity, and the incarnations of a member, start: the larger of both starts,
// the epoch's and the store's time in microseconds. As long as a cluster has fewer epochs than there were seconds since
// 1970, that is the time; so a document that was removed, a retention ago, starts above all that it gave.
func firstToken(epoch int64, at time.Time) int64 { return max(epoch<<20, at.UnixMicro()) + 1 }

// Write applies to the document that was read, while nothing has changed it.
func (c grant) Write() docstore.Write {
	cond := docstore.All{docstore.Absent{}}
	if c.found != nil {
		cond = docstore.All{ // a repair of the store raises tokens and counts nothing
			docstore.Eq{Field: fRev, Value: docstore.Int(c.rev)}, docstore.Eq{Field: fToken, Value: c.found[fToken]},
		}
	}
	if c.lapsed {
		cond = append(cond, docstore.LE{Field: fLockUntil, Value: docstore.Now})
	}
	w := docstore.Write{
		Key: c.key(),
		If:  cond,
		Set: map[string]docstore.Value{
			fToken:       docstore.Int(c.token),
			fPhase:       docstore.String(Locked),
			fMember:      docstore.String(c.owner.Member),
			fIncarnation: docstore.Int(c.owner.Number),
			fEpoch:       docstore.Int(c.epoch),
			fClaimedAt:   docstore.Now,
			fChangedAt:   docstore.Now,
			fLockUntil:   docstore.Now.Add(c.lock),
		},
		Add:   map[string]int64{fRev: 1},
		Unset: []string{fFailed, fReason, fActivatedAt, fKeptUntil},
		Keep:  keepForever,
	}
	if c.lock == 0 {
		delete(w.Set, fLockUntil)
		w.Set[fPhase], w.Set[fActivatedAt] = docstore.String(Active), docstore.Now
		w.Unset = []string{fFailed, fReason, fLockUntil, fKeptUntil}
	}
	if need := c.need.text(); need != "" {
		w.Set[fNeed] = docstore.String(need)
	} else {
		w.Unset = append(w.Unset, fNeed)
	}
	claims.Remember(w.Set, c.request)
	return w
}

// Known is the document that was read.
func (c grant) Known() docstore.Doc { return c.found }

// Granted is the new activation, unless its lock was over before the response arrived.
func (c grant) Granted(a Activation, w rule.When) Outcome {
	o := Outcome{Code: OK, Activation: a, Epoch: c.epoch, At: w.Latest()}
	if a.Phase == Locked && w.Late(a.LockUntil) {
		o.Code, o.Detail = LateAnswer, "the store took "+w.Took.Round(time.Millisecond).String()+
			" to respond, longer than the lock lasts; claim again"
	}
	return o
}

// Refusal recognises an earlier delivery. Anything else that stands in the document was not known when the grant was
// decided: its code is empty, and it is to be decided again.
func (c grant) Refusal(a Activation, w rule.When) Outcome {
	o, known := a.replay(c.request, w.Latest())
	if code, said := ended(c.End, w); code != OK && !known {
		return Outcome{Code: code, Activation: a, Epoch: c.epoch, At: w.Latest(), Detail: said}
	}
	// not for long enough, on a store that is not sure of the time
	if o.Code == "" && c.lapsed && a.rev == c.rev && w.At.Before(a.LockUntil) {
		o = Outcome{Code: Locking, Activation: a, Epoch: c.epoch, At: w.At, RetryAfter: a.LockUntil.Sub(w.At)}
	}
	return o
}

// replay is the outcome of a claim or transfer that is remembered.
func (a Activation) replay(r rule.Request, at time.Time) (Outcome, bool) {
	switch i, same := a.claims.Find(r); {
	case i < 0:
		return Outcome{}, false
	case !same:
		return Outcome{Code: RequestIDReused, Activation: a, At: at,
			Detail: "this request_id was used with other parameters; use a new one"}, true
	case i == 0 && a.Phase == Free && a.Failed:
		return Outcome{Code: ActivationFailed, Replayed: true, Activation: a, At: at}, true
	case i > 0 || a.Phase == Free:
		return a.ended(at), true
	case a.Phase == Locked && !at.Before(a.LockUntil):
		return a.expired(at), true
	default:
		return Outcome{Code: OK, Replayed: true, Activation: a, Epoch: a.Epoch, At: at}, true
	}
}

// ended is the outcome of a claim or transfer that is remembered, and whose activation has ended.
func (a Activation) ended(at time.Time) Outcome {
	return Outcome{
		Code: RequestIDReused, Activation: a, At: at,
		Detail: "the activation that this request_id obtained has ended; use a new request_id",
	}
}

// expired is the outcome of a claim or transfer that is remembered, and whose lock, or owner's lease, has ended: no one
// has ended the activation so far.
func (a Activation) expired(at time.Time) Outcome {
	return Outcome{
		Code: LateAnswer, Activation: a, At: at,
		Detail: "the lease that this request_id obtained has ended; use a new request_id",
	}
}

// Hold is what the owner of an activation names it by.
type Hold struct {
	Cluster
	Identity

	Owner Incarnation
	Token int64 // of the claim or transfer that made it the owner
}

func (h Hold) subject() subject { return subject{h.Cluster, h.Identity} }

func (h Hold) key() docstore.Key { return h.subject().key() }

// State reads the document of the activation.
func (h Hold) State(d docstore.Doc) (Activation, error) { return h.subject().State(d) }

func (h Hold) validate() error {
	return first(h.subject().validate(), h.Owner.Validate(), checkToken(h.Token))
}

// held holds while the activation is the owner's and in one of the phases.
func (h Hold) held(phases ...Phase) docstore.All {
	var in docstore.Any
	for _, p := range phases {
		in = append(in, docstore.Eq{Field: fPhase, Value: docstore.String(p)})
	}
	return docstore.All{
		docstore.Eq{Field: fToken, Value: docstore.Int(h.Token)},
		docstore.Eq{Field: fMember, Value: docstore.String(h.Owner.Member)},
		docstore.Eq{Field: fIncarnation, Value: docstore.Int(h.Owner.Number)},
		in,
	}
}

// known is what the condition says of the document.
func (h Hold) known(p Phase) docstore.Doc {
	return docstore.Doc{
		fToken: docstore.Int(h.Token), fMember: docstore.String(h.Owner.Member), fIncarnation: docstore.Int(h.Owner.Number),
		fPhase: docstore.String(p),
	}
}

// to is a change of the phase.
func (h Hold) to(p Phase, from ...Phase) docstore.Write {
	return docstore.Write{
		Key: h.key(),
		If:  h.held(from...),
		Set: map[string]docstore.Value{fPhase: docstore.String(p), fChangedAt: docstore.Now},
		Add: map[string]int64{fRev: 1},
	}
}

func (h Hold) ok(a Activation, w rule.When) Outcome {
	return Outcome{Code: OK, Activation: a, At: w.Latest()}
}

// refused says why the activation is not the owner's to change, or that the change had been made before.
func (h Hold) refused(a Activation, w rule.When, done bool) Outcome {
	o := Outcome{Activation: a, At: w.Latest()}
	switch {
	case a.Token != h.Token:
		o.Code, o.Detail = StaleToken, "the activation has another token: stop what this one protects"
	case a.Owner != h.Owner:
		o.Code, o.Detail = NotOwner, "the activation belongs to another member or incarnation"
	case done:
		o.Code, o.Replayed = OK, true
	default:
		o.Code, o.Detail = WrongPhase, "the activation is "+string(a.Phase)
	}
	return o
}

// The commands of an owner are rules in the form of package rule.
var (
	_ rule.Joint[Activation, Outcome] = grant{}
	_ rule.Joint[Activation, Outcome] = Activated{}
	_ rule.Joint[Activation, Outcome] = Fail{}
	_ rule.Joint[Activation, Outcome] = Deactivate{}
	_ rule.Joint[Activation, Outcome] = SetAlarm{}
	_ rule.Joint[Activation, Outcome] = WriteState{}
	_ rule.Joint[Activation, Outcome] = ReportAlarm{}
)

// Activated says that the owner serves the identity from now on: the lock phase has ended.
type Activated struct{ Hold }

// Validate reports whether the command is well formed. The error is a [field.Error].
func (c Activated) Validate() error { return c.validate() }

// Write applies to a Locked activation, also when its lock has ended and no one else has claimed it.
func (c Activated) Write() docstore.Write {
	w := c.to(Active, Locked)
	w.Set[fActivatedAt], w.Unset = docstore.Now, []string{fLockUntil}
	return w
}

// Known is what is known of the document beforehand.
func (c Activated) Known() docstore.Doc { return c.known(Locked) }

// Granted is the activation.
func (c Activated) Granted(a Activation, w rule.When) Outcome { return c.ok(a, w) }

// Refusal recognises an earlier delivery by the token.
func (c Activated) Refusal(a Activation, w rule.When) Outcome {
	return c.refused(a, w, a.Phase == Active)
}

// Fail says that the owner could not activate the identity: it is free again, and the reason stays in its document for
// those who ask.
type Fail struct {
	Hold

	Reason string // required
	keep   time.Duration
}

// Validate reports whether the command is well formed. The error is a [field.Error].
func (c Fail) Validate() error {
	return first(c.validate(), field.Text("reason", c.Reason, MaxReasonBytes))
}

// Write applies to a Locked activation.
func (c Fail) Write() docstore.Write {
	w := c.to(Free, Locked)
	w.Set[fFailed], w.Set[fReason], w.Unset = docstore.Bool(true), docstore.String(c.Reason), []string{fLockUntil}
	return ending(w, c.keep)
}

// Known is what is known of the document beforehand.
func (c Fail) Known() docstore.Doc { return c.known(Locked) }

// Granted is the activation that failed.
func (c Fail) Granted(a Activation, w rule.When) Outcome { return c.ok(a, w) }

// Refusal recognises an earlier delivery by the token.
func (c Fail) Refusal(a Activation, w rule.When) Outcome {
	return c.refused(a, w, a.Phase == Free && a.Failed)
}

// Deactivate ends an activation: the identity is free, and keeps its token and state.
type Deactivate struct {
	Hold

	Reason string // may be empty
	keep   time.Duration
}

// Validate reports whether the command is well formed. The error is a [field.Error].
func (c Deactivate) Validate() error { return first(c.validate(), checkReason(c.Reason)) }

// Write applies to an activation in any phase but Free.
func (c Deactivate) Write() docstore.Write {
	w := c.to(Free, Locked, Active)
	w.Unset = []string{fLockUntil, fActivatedAt}
	if c.Reason != "" {
		w.Set[fReason] = docstore.String(c.Reason)
	}
	return ending(w, c.keep)
}

// Known is what is known of the document beforehand.
func (c Deactivate) Known() docstore.Doc { return c.known(Active) }

// Granted is the activation that ended.
func (c Deactivate) Granted(a Activation, w rule.When) Outcome { return c.ok(a, w) }

// Refusal recognises an earlier delivery by the token.
func (c Deactivate) Refusal(a Activation, w rule.When) Outcome {
	return c.refused(a, w, a.Phase == Free && !a.Failed)
}

// WriteState replaces the state of an activation, in the same step that makes sure of the owner: a process that lost
// the identity cannot write any more.
type WriteState struct {
	Hold

	RequestID string       // the same for every delivery of the same intention
	Version   int64        // StateVersion of what the new state replaces; 0 if there is none yet
	Data      []byte       // the new state, MaxStateBytes at most; empty is a state, too
	Alarm     *AlarmChange // made with it, both or neither; nil leaves the alarm as it is

	step alarmStep
}

// Validate reports whether the command is well formed. The error is a [field.Error].
func (c WriteState) Validate() error {
	if len(c.Data) > MaxStateBytes {
		return field.Errorf("state", "has %d bytes, %d at most: store it elsewhere, and its name here",
			len(c.Data), MaxStateBytes)
	}
	err := first(c.validate(), checkRequestID(c.RequestID), field.Range("state_version", c.Version, 0, docstore.MaxInt-1))
	if err == nil && c.Alarm != nil {
		err = c.Alarm.validate()
	}
	return err
}

func (c WriteState) request() rule.Request {
	r := rule.Identify("store", strconv.FormatInt(c.Token, 10), c.RequestID)
	with := []string{strconv.FormatInt(c.Version, 10), string(c.Data)}
	if c.Alarm != nil {
		with = append(with, strconv.FormatInt(c.Alarm.Version, 10), string(docstore.FormatTime(c.Alarm.At)))
	}
	return r.With(with...)
}

// Write applies while the state is of the version that was named. The lock phase is long enough for a first state.
func (c WriteState) Write() docstore.Write {
	w := docstore.Write{
		Key: c.key(),
		If:  append(c.held(c.step.phases()...), counted(fVersion, c.Version)),
		Set: map[string]docstore.Value{fState: docstore.Bytes(c.Data), fVersion: docstore.Int(c.Version + 1)},
		Add: map[string]int64{fRev: 1},
	}
	writes.Remember(w.Set, c.request())
	if c.Alarm != nil {
		w = c.step.change(w, *c.Alarm)
	}
	return w
}

// Known is what is known of the document beforehand, where the alarm gets an entry.
func (c WriteState) Known() docstore.Doc { return c.step.known(c.Hold, *c.Alarm) }

// Granted is the activation with its new state.
func (c WriteState) Granted(a Activation, w rule.When) Outcome { return c.ok(a, w) }

// Refusal recognises an earlier delivery that the activation remembers.
func (c WriteState) Refusal(a Activation, w rule.When) Outcome {
	o := c.refused(a, w, false)
	if o.Code != WrongPhase {
		return o
	}
	switch i, same := a.writes.Find(c.request()); {
	case i >= 0 && same:
		return Outcome{Code: OK, Replayed: true, Activation: a, At: w.Latest()}
	case i >= 0:
		o.Code, o.Detail = RequestIDReused, "this request_id stored another state; use a new one"
	case a.Phase == Free:
	case a.StateVersion != c.Version:
		o.Code, o.Detail = StateChanged, "the state has version "+strconv.FormatInt(a.StateVersion, 10)
	case c.Alarm != nil:
		o = c.step.refused(o, a, *c.Alarm)
	}
	return o
}
