package lock

import (
	"cmp"
	"slices"
	"time"

	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/rule"
)

// The commands are rules in the form of package rule.
var (
	_ rule.Command[State, Outcome] = Acquire{}
	_ rule.Command[State, Outcome] = Renew{}
	_ rule.Command[State, Outcome] = Release{}
	_ rule.Command[State, Outcome] = ForceRelease{}
)

// Conditions that are the same in every command.
var (
	active   docstore.Cond = docstore.Eq{Field: fState, Value: docstore.String(Active)}
	passed   docstore.Cond = docstore.LE{Field: fExpiresAt, Value: docstore.Now}
	coming   docstore.Cond = notPassed(fExpiresAt)
	noRecord docstore.Cond = docstore.Not{Cond: docstore.Has{Field: fState}}
	noDelay  docstore.Cond = docstore.Not{Cond: docstore.Has{Field: fDelay}}

	now docstore.Value = docstore.Now // made once

	// freeNow holds while no lease is held. A missing document has no state; an unknown state is not free.
	freeNow = docstore.Any{noRecord, docstore.Eq{Field: fState, Value: docstore.String(Released)},
		docstore.All{active, passed}}
)

// notPassed holds until the time in a field has certainly passed, which is when another acquire may take the lock: so
// that a lease can be renewed and released for as long as no one else can have it.
func notPassed(field string) docstore.Cond {
	return docstore.Not{Cond: docstore.LE{Field: field, Value: docstore.Earliest}}
}

// unexpired holds while any lease is held: now < expires_at.
func unexpired() docstore.All { return docstore.All{active, coming} }

// heldBy holds while the lease of owner and token is held: the condition to renew and to release it.
func heldBy(owner string, token int64) docstore.All {
	return append(make(docstore.All, 0, 7), // with what the commands add
		active, coming,
		docstore.Eq{Field: fOwner, Value: docstore.String(owner)},
		docstore.Eq{Field: fToken, Value: docstore.Int(token)},
	)
}

// checkHolder says why [heldBy] does not hold at the earliest that the time can be, or OK. The token is compared first:
// it alone tells one lease of an owner from the next. A lease that has ended is no one's, not even its owner's.
func (s State) checkHolder(owner string, token int64, now time.Time) Code {
	switch {
	case token != s.Token || s.Phase == None:
		return LeaseLost
	case s.Phase == Released:
		return LeaseReleased
	case s.PhaseAt(now) != Active:
		return LeaseExpired
	case owner != s.Owner:
		return NotOwner
	default:
		return OK
	}
}

// after is the symbolic time that lies ttl seconds after the store's now.
func after(ttlSeconds int64) docstore.Instant {
	return docstore.Now.Add(time.Duration(ttlSeconds) * time.Second)
}

// latestEnd is what [after] writes, for a comparison.
func latestEnd(ttlSeconds int64) docstore.Instant {
	return docstore.Latest.Add(time.Duration(ttlSeconds) * time.Second)
}

// keep is how long the store keeps the document of a lock that is held for ttlSeconds from now on, 0 if it is free: at
// least as long as the lease lasts, so that no lock is removed while it is held.
func keep(ttlSeconds int64, retention time.Duration) time.Duration {
	return time.Duration(ttlSeconds)*time.Second + cmp.Or(retention, DefaultRetention)
}

// fieldsRead are the fields of the plain form that are read after a write: of the lease, for its holder, and what those
// who wait for the lock go by.
var fieldsRead = slices.Concat(
	[]string{fToken, fState, fOwner, fLease, fAcquiredAt, fExpiresAt, fReleasedAt, fTTL, fMetadata, fReplaceable, fDelay,
		fRevision, givenUps[0], fForgotten}, acquires[:],
)

// fieldsTaken are those of an acquire that says whether it took over: also how the lease before ended.
var fieldsTaken = append(slices.Clone(fieldsRead), pastOwners[1], pastExpires[1], pastReleased[1])

// fieldsOfLease is room for the fields that an acquire sets, and for those that it removes.
const fieldsOfLease = 34

// Acquire takes the lock.
type Acquire struct {
	ID
	rule.End
	Owner      string            // owner_id
	RequestID  string            // the same for every delivery of the same intention
	TTLSeconds int64             // 1 to MaxTTLSeconds; 0 with Rate
	Metadata   map[string]string // labels for people, shown to those who look at the lock

	Mode          Mode  // empty is Exclusive
	Limit         int64 // with Permits 1 to MaxPermits, with Rate 1 to MaxRate; otherwise 0
	WindowSeconds int64 // with Rate 1 to MaxWindowSeconds; otherwise 0

	WaitSeconds int64 // 0 to MaxWaitSeconds: how long the request waits for a lock that is held
	Fair        bool  // waits in line; all modes but Exclusive do
	MaxWaiting  int64 // how many may wait in line, with this request: 1 to MaxWaiting; 0 is MaxWaiting

	Replace bool // takes the lock from a holder that was acquired with Replace, too; only with Exclusive
	// how long the lock stays closed if the lease expires or is ended by force, 0 to MaxLockDelaySeconds
	LockDelaySeconds int64

	// LeaseID becomes the new lease's ID. [Locks] fills it in when it is empty.
	LeaseID string

	retention       time.Duration
	unheld          bool   // its response is not held while it waits
	held            hold   // how its response is held otherwise
	set             string // of an [AcquireSet]: all of its keys; otherwise empty
	recordsRefusals bool
	observed        bool         // see Outcome.TookOver
	known           rule.Request // its request, where that was made before, see [Acquire.request]
}

// Validate reports whether the command is well formed. The error is a [field.Error].
func (c Acquire) Validate() error {
	return first(c.ID.Validate(), checkRequestID(c.RequestID), checkOwner(c.Owner), c.checkMode(),
		checkMetadata(c.Metadata))
}

func (c Acquire) request() rule.Request {
	if c.known != (rule.Request{}) {
		return c.known
	}
	params := append(table(c.Metadata), number(c.TTLSeconds))
	return rule.Identify("acquire", c.Owner, c.RequestID).With(beside(c.set, append(params, c.policies()...)...)...)
}

// Write applies when no lease is held, and not twice for one request: a request whose lease has ended obtains no other.
// The new lease gets the next token and inherits nothing from the one before it. A missing document has no state, so
// the first acquire needs no case of its own; an unknown state is not free. With Replace it also applies while a lease
// is held that was acquired with Replace. Where a lock delay may last, and where requests are forgotten whose end is
// still ahead, [Acquire.Fallback] decides.
//
// Where there is no token it starts at the store's time, so that a lock whose document was removed gives no token
// twice.
func (c Acquire) Write() docstore.Write {
	if c.Mode != Exclusive {
		return c.firstWrite()
	}
	free := freeNow
	if c.Replace {
		free = append(slices.Clip(free), replaceable())
	}
	return c.grantWrite(docstore.All{free, noDelay, noneForgotten}, oldestEnd)
}

// grantWrite is the write of a new lease, if the condition holds. forgotten is what [State].Forgotten becomes.
func (c Acquire) grantWrite(free docstore.Cond, forgotten docstore.Value) docstore.Write {
	request := c.request()
	w := docstore.Write{
		Key:        c.key(),
		If:         docstore.All{free, request.Unknown(acquires, givenUps)},
		Set:        make(map[string]docstore.Value, fieldsOfLease),
		Add:        map[string]int64{fToken: 1},
		StartAtNow: []string{fToken},
		Unset:      append(make([]string, 0, fieldsOfLease), fReleasedAt, fForcedBy, fForcedReason, fForcedAt, fRevision),
		Keep:       keep(c.TTLSeconds+c.LockDelaySeconds, c.retention),
		Return:     fieldsRead,
	}
	if c.observed {
		w.Return = fieldsTaken
	}
	w.Set[fState] = docstore.String(Active)
	w.Set[fOwner] = docstore.String(c.Owner)
	w.Set[fLease] = docstore.String(c.LeaseID)
	w.Set[fAcquiredAt] = now
	w.Set[fExpiresAt] = after(c.TTLSeconds)
	w.Set[fTTL] = docstore.Int(c.TTLSeconds)
	w.Set[fMetadata] = docstore.Map(c.Metadata)
	w.Unset = append(w.Unset, renewals[:]...)
	acquires.Remember(w.Set, request)
	c.rememberEnd(w.Set, forgotten)
	c.setPolicies(&w)
	c.rememberLeases(&w)
	return w
}

// Granted is the new lease, unless it was over before the response arrived.
func (c Acquire) Granted(s State, w rule.When) Outcome {
	if s.shared != nil {
		return c.outcomeOf(s, w)
	}
	o := c.ok(s, w).rejectLate(w)
	before := s.Former[0]
	o.TookOver = o.Code == OK && c.observed && before.expired(s.AcquiredAt)
	o.Replaced = o.Code == OK && c.Replace && before.replacedAt(s.AcquiredAt)
	return o
}

// Refusal recognises the request that obtained a lease, and says why another one obtains none. A lease that has ended
// within the margin is not handed out again, although another acquire cannot take it over yet.
func (c Acquire) Refusal(s State, w rule.When) Outcome {
	return c.ended(c.turnedAway(c.decide(s, w), s, w), w)
}

// ended is a refusal of a command that came after its end: it says that, unless the request had its effect before, or
// never will.
func (c Acquire) ended(o Outcome, w rule.When) Outcome {
	code, why := c.Refuses(w)
	if code == "" || o.Code == OK || o.Code == RequestIDReused || o.Code == LeaseExpired {
		return o
	}
	return Outcome{Code: Code(code), At: w.Latest(), Lease: c.named(0), Detail: why}
}

// Renew moves the expiry of a lease.
type Renew struct {
	ID
	Owner      string // owner_id
	Token      int64  // fencing_token of the lease
	RequestID  string // the same for every delivery of the same renewal
	TTLSeconds int64  // from now, 1 to MaxTTLSeconds

	// ExpiresAt is when the lease expires as far as the caller knows, in whole milliseconds. If it is not zero, the lease
	// is renewed only while it expires then, so that no delivery moves the expiry after another renewal did, however late
	// it is. If it is zero, the expiry is moved back only by a second write, which names the expiry found.
	ExpiresAt time.Time

	retention time.Duration
	set       string // of a [RenewSet]: all of its keys; otherwise empty
}

// Validate reports whether the command is well formed. The error is a [field.Error].
func (c Renew) Validate() error {
	return first(c.ID.Validate(), checkRequestID(c.RequestID), checkOwner(c.Owner), checkToken(c.Token),
		checkTTL(c.TTLSeconds),
		checkExpiresAt(c.ExpiresAt))
}

// request leaves ExpiresAt out: it is no parameter of the effect.
func (c Renew) request() rule.Request {
	return rule.Identify("renew", c.Owner, number(c.Token), c.RequestID).With(beside(c.set, number(c.TTLSeconds))...)
}

// Write applies while the lease is held by this owner under this token, and not twice for one request. It moves no
// expiry back unless the caller names that: the time of a write that comes late is an old one. For a smaller
// ttl_seconds there is [Renew.Fallback]. An expired lease is never renewed, even if no one has taken the lock since.
func (c Renew) Write() docstore.Write {
	request := c.request()
	cond := append(heldBy(c.Owner, c.Token), renewals.Lacks(request))
	if c.ExpiresAt.IsZero() {
		cond = append(cond, docstore.LE{Field: fExpiresAt, Value: latestEnd(c.TTLSeconds)})
	} else {
		cond = append(cond, docstore.Eq{Field: fExpiresAt, Value: docstore.FormatTime(c.ExpiresAt)})
	}
	w := docstore.Write{
		Key: c.key(),
		If:  cond,
		Set: map[string]docstore.Value{
			fExpiresAt: after(c.TTLSeconds),
			fTTL:       docstore.Int(c.TTLSeconds),
		},
		Keep:   keep(c.TTLSeconds, c.retention),
		Return: fieldsRead,
	}
	renewals.Remember(w.Set, request)
	return w
}

// Granted is the renewed lease, unless it was over before the response arrived.
func (c Renew) Granted(s State, w rule.When) Outcome {
	return c.ok(s.leaseOf(c.Token), w).rejectLate(w)
}

// Refusal recognises the latest renewals of the lease. An earlier one is returned with the lease as it is now.
func (c Renew) Refusal(s State, w rule.When) Outcome {
	if o, ok := c.notHeld(c.Token, s, w); ok {
		return o
	}
	replacedBy := s.replacedBy(c.Token)
	s = s.leaseOf(c.Token)
	if code := s.checkHolder(c.Owner, c.Token, w.At); code != OK {
		return c.refused(code, c.Token, s, w).replacedBy(replacedBy)
	}
	switch i, same := s.Renewals.Find(c.request()); {
	case i < 0:
		return c.refused(LeaseChanged, c.Token, s, w)
	case !same:
		return c.reused(w, c.Token, "this request_id renewed the lease with another ttl_seconds; use a new request_id")
	default:
		return c.replayed(s, w).rejectLate(w)
	}
}

// Release ends a lease.
type Release struct {
	ID
	Owner     string // owner_id
	Token     int64  // fencing_token of the lease
	RequestID string // the same for every delivery of the same release

	retention time.Duration
}

// Validate reports whether the command is well formed. The error is a [field.Error].
func (c Release) Validate() error {
	return first(c.ID.Validate(), checkRequestID(c.RequestID), checkOwner(c.Owner), checkToken(c.Token))
}

func (c Release) request() rule.Request {
	return rule.Identify("release", c.Owner, number(c.Token), c.RequestID)
}

// Write applies while the lease is held by this owner under this token, so that it never ends a later lease, not even
// one of the same owner. It records itself among the last releases of the lock.
func (c Release) Write() docstore.Write {
	return docstore.Write{
		Key: c.key(),
		If:  append(heldBy(c.Owner, c.Token), comparesExpiry),
		Set: map[string]docstore.Value{
			fState:            docstore.String(Released),
			fReleasedAt:       now,
			released(c.Token): c.request().Entry(),
		},
		Unset:  []string{fDelay}, // what was released is free at once
		Keep:   keep(0, c.retention),
		Return: fieldsRead,
	}
}

// Granted is the released lease.
func (c Release) Granted(s State, w rule.When) Outcome { return c.ok(s, w) }

// Refusal recognises a release that the lock remembers.
func (c Release) Refusal(s State, w rule.When) Outcome {
	remembered := s.Releases[c.Token%RememberedReleases] == string(c.request().Entry())
	if o, ok := c.notHeld(c.Token, s, w); ok && !remembered {
		return o
	}
	replacedBy, several, ended := s.replacedBy(c.Token), s.shared != nil, s.howEnded(c.Token)
	s = s.leaseOf(c.Token)
	switch {
	case !remembered:
		o := c.refused(s.checkHolder(c.Owner, c.Token, w.At), c.Token, s, w)
		if o.Code == LeaseLost && c.Token < s.Token {
			o.Detail = ended
		}
		return o.replacedBy(replacedBy)
	case c.Token == s.Token:
		o := c.replayed(s, w)
		if several { // its history cuts names
			o.Lease.Owner = c.Owner
		}
		return o
	default:
		o := c.endedBefore(c.Token, w)
		o.Lease.Owner = c.Owner
		return o
	}
}

// ForceRelease ends the current lease of any owner: an administrator's tool for a holder that hangs. It does not stop
// the holder's work; the next grant's token does, where tokens are checked. Of a lock that no one holds it ends what
// closes the lock, unless it names a lease: the lock delay, or the grants of a rate, which are forgotten.
type ForceRelease struct {
	ID
	By        string // the administrator
	Reason    string // for the holder: it stays in the lock's document until the lock is acquired again
	RequestID string // the same for every delivery of the same intention
	LeaseID   string // lease_id: if given, only this lease is ended, never a later one

	retention time.Duration
}

// Validate reports whether the command is well formed. The error is a [field.Error].
func (c ForceRelease) Validate() error {
	return first(c.ID.Validate(), checkRequestID(c.RequestID), checkOwner(c.By), checkReason(c.Reason),
		checkLeaseID(c.LeaseID))
}

func (c ForceRelease) request() rule.Request {
	return rule.Identify("force-release", c.By, c.RequestID).With(c.Reason, c.LeaseID)
}

// Write applies while a lease is held, and not twice for one request.
func (c ForceRelease) Write() docstore.Write {
	cond := append(unexpired(), forces.Lacks(c.request()), comparesExpiry)
	if c.LeaseID != "" {
		cond = append(cond, docstore.Eq{Field: fLease, Value: docstore.String(c.LeaseID)})
	}
	w := docstore.Write{
		Key: c.key(),
		If:  cond,
		Set: map[string]docstore.Value{
			fState:        docstore.String(Released),
			fReleasedAt:   docstore.Now,
			fForcedBy:     docstore.String(c.By),
			fForcedReason: docstore.String(c.Reason),
			fForcedAt:     docstore.Now,
			fByCut:        docstore.String(cut(c.By)),
		},
		Keep: keep(0, c.retention),
	}
	forces.Remember(w.Set, c.request())
	return w
}

// Granted is the lease that was ended.
func (c ForceRelease) Granted(s State, w rule.When) Outcome { return c.ok(s, w) }

// notHeldDetail says why there is nothing to end.
func (c ForceRelease) notHeldDetail(s State, w rule.When) string {
	if c.LeaseID != "" && len((ForceRelease{ID: c.ID}).opens(s, w)) > 0 {
		return "no one holds the lock, and it is closed all the same; a force-release without lease_id opens it"
	}
	return "no one holds the lock"
}

// Refusal recognises the latest force-releases of the lock. In plain form nothing is known any more of a lease that has
// been followed by another; in shared form the leases that ended together are not told apart.
func (c ForceRelease) Refusal(s State, w rule.When) Outcome {
	switch i, same := s.Forces.Find(c.request()); {
	case i >= 0 && !same:
		return c.reused(w, 0, "this request_id ended a lease with another reason or lease_id; use a new request_id")
	case i == 0 && s.shared == nil && s.wasForced() && s.Forced.By == c.By && s.Forced.Reason == c.Reason:
		// not if it opened what another closed
		return c.replayed(s, w)
	case i >= 0:
		o := c.endedBefore(0, w)
		if i == 0 && s.shared != nil {
			o.Lease.Forced, o.Lease.ReleasedAt = s.Forced, s.Forced.At
		}
		return o
	case len(ForceRelease{}.targets(s.view().holders, w)) == 0:
		return Outcome{Code: NotHeld, At: w.Latest(), Lease: c.latestLease(s, w.Latest()), Detail: c.notHeldDetail(s, w)}
	default:
		return Outcome{Code: LeaseLost, At: w.Latest(), Lease: c.named(0),
			Detail: "the lock is held under another lease_id; look at the lock again before ending it"}
	}
}
