package lock

import (
	"time"

	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/rule"
)

// Kind is the kind of document that holds a lock: one for each (tenant, key).
const Kind = "locks"

// Phase is the state of a lock.
type Phase string

// The phases of a lock. A document stores only Active and Released; Expired is Active seen at or after its expires_at.
const (
	None     Phase = "" // never held
	Active   Phase = "ACTIVE"
	Released Phase = "RELEASED"
	Expired  Phase = "EXPIRED"
)

// Names of the fields of a lock's document.
const (
	fToken        = "token"
	fState        = "state"
	fOwner        = "owner_id"
	fLease        = "lease_id"
	fAcquiredAt   = "acquired_at"
	fExpiresAt    = "expires_at"
	fReleasedAt   = "released_at"
	fTTL          = "ttl_seconds"
	fMetadata     = "metadata"
	fForcedBy     = "forced_by"
	fForcedReason = "forced_reason"
	fForcedAt     = "forced_at"

	// Only if the acquire asked for it.
	fReplaceable = "replaceable"        // true
	fDelay       = "lock_delay_seconds" // a release removes it
)

// State is what the document of a lock says. The zero State is a lock that was never held.
type State struct {
	Token      int64 // of the latest grant; 0 before the first
	Phase      Phase // as stored: None, Active or Released
	Owner      string
	LeaseID    string
	AcquiredAt time.Time
	ExpiresAt  time.Time
	ReleasedAt time.Time // zero unless Released
	TTLSeconds int64     // of the latest acquire or renew
	Metadata   map[string]string

	Acquires rule.Requests // of the lock
	Renewals rule.Requests // of the current lease
	Forces   rule.Requests // force-releases of the lock
	GivenUp  rule.Requests // acquires of the lock that were given up, see [GiveUp]

	AcquireEnds, GivenUpEnds ends      // of the requests in Acquires and GivenUp, see forgotten.go
	Forgotten                time.Time // the latest end of those that are in neither any more

	Releases [RememberedReleases]string // by token modulo its length: entries as in rule.Requests
	Forced   Forced                     // how the latest lease was ended, if an administrator did

	Replaceable      bool  // the latest lease was acquired with Acquire.Replace
	LockDelaySeconds int64 // of the latest lease, 0 if it was released by its owner

	EndedBy string                        // in plain form: the administrator who ended the latest lease, cut
	Former  [rememberedLeases]formerLease // in plain form: the leases before the latest, as far as they are remembered
	Refused Refused

	revision  int64       // of the shared form, which the plain form keeps until the next grant; otherwise 0
	shared    *sharedForm // nil in plain form
	past      []Past      // what the shared form remembers of leases that have ended, the latest first
	newcomers []newcomer
	found     docstore.Doc // the document

	// Of one of several leases, see State.leaseOf.
	mode                  Mode
	limit, window, permit int64
}

// Forced is how an administrator ended a lease.
type Forced struct {
	By     string
	Reason string
	At     time.Time
}

// PhaseAt is the phase at the time now: an Active lease is Expired from expires_at on. Nothing is written for that.
func (s State) PhaseAt(now time.Time) Phase {
	if s.Phase == Active && !now.Before(s.ExpiresAt) {
		return Expired
	}
	return s.Phase
}

// wasForced reports whether an administrator ended the latest lease: an acquire removes what is known of an earlier
// one's end.
func (s State) wasForced() bool { return s.Phase == Released && !s.Forced.At.IsZero() }

// State reads the document of a lock; nil is the zero State. The error is [docstore.ErrDamaged] and names the field: a
// document that says less than the rules wrote must not be taken for a free lock. Fields that are not named here have
// no meaning.
func (id ID) State(d docstore.Doc) (State, error) {
	if d == nil {
		return State{}, nil
	}
	r := rule.Read(id.key(), d)
	s := State{
		Token:      r.Number(fToken),
		Phase:      Phase(r.Text(fState)),
		Owner:      r.Text(fOwner),
		LeaseID:    r.Text(fLease),
		AcquiredAt: r.Time(fAcquiredAt),
		ExpiresAt:  r.Time(fExpiresAt),
		ReleasedAt: r.Time(fReleasedAt),
		TTLSeconds: r.Number(fTTL),
		Metadata:   r.Table(fMetadata),
		Acquires:   r.Requests(acquires),
		Renewals:   r.Requests(renewals),
		Forces:     r.Requests(forces),
		GivenUp:    r.Requests(givenUps),

		AcquireEnds: readEnds(&r, acquireEnds), GivenUpEnds: readEnds(&r, givenUpEnds), Forgotten: r.Time(fForgotten),

		Forced: Forced{By: r.Text(fForcedBy), Reason: r.Text(fForcedReason), At: r.Time(fForcedAt)},

		Replaceable: r.Flag(fReplaceable), LockDelaySeconds: r.Number(fDelay),
		EndedBy: r.Text(fByCut), Former: readFormer(&r), Refused: readRefused(&r),
	}
	for token := range s.Releases {
		s.Releases[token] = r.Text(released(int64(token)))
	}
	s.found, s.revision = d, r.Number(fRevision)
	part(&r, fPast, "a list of leases", &s.past, decodePast)
	part(&r, fNewcomers, "a list of requests", &s.newcomers, decodeNewcomers)
	if s.Phase == shared {
		s.shared = readShared(&r, d, s.Token)
		s.shared.newcomers = s.newcomers
		return s, r.Err()
	}
	inLine := s.Phase == begun
	switch {
	case inLine && s.ReleasedAt.IsZero():
		s.Phase = Active
	case inLine:
		s.Phase = Released
	}
	if s.Phase == Active && s.ExpiresAt.IsZero() {
		r.Fail(fExpiresAt, "a time")
	}
	if s.Phase != None && s.Phase != Active && s.Phase != Released {
		r.Fail(fState, "ACTIVE or RELEASED")
	}
	if s.LockDelaySeconds < 0 || s.LockDelaySeconds > MaxLockDelaySeconds {
		r.Fail(fDelay, "a number of seconds up to an hour")
	}
	if inLine {
		s = s.withLine(&r)
	}
	return s, r.Err()
}

// leaseIsPlain reports whether the document has its lease as the plain form does.
func (s State) leaseIsPlain() bool {
	return s.shared == nil || s.found[fState] == docstore.Value(docstore.String(begun))
}

// withLine is the shared form of a lock in plain form in whose line are those who joined.
func (s State) withLine(r *rule.Reader) State {
	v := s.toShared()
	v.past = nil
	readJoined(r, v)
	return State{
		Token: s.Token, Phase: shared, Acquires: s.Acquires, Forces: s.Forces, GivenUp: s.GivenUp,
		AcquireEnds: s.AcquireEnds, GivenUpEnds: s.GivenUpEnds, Forgotten: s.Forgotten, Releases: s.Releases,
		Refused:  s.Refused,
		revision: s.revision, shared: v, past: s.history(), newcomers: s.newcomers, found: s.found,
	}
}
