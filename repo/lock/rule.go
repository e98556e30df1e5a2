package lock

import (
	"maps"
	"strconv"
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

// unexpired holds while any lease is held: now < expires_at.
func unexpired() docstore.All {
	return docstore.All{
		docstore.Eq{Field: fState, Value: docstore.String(Active)},
		docstore.Not{Cond: docstore.LE{Field: fExpiresAt, Value: docstore.Now}},
	}
}

// heldBy holds while the lease of owner and token is held: the condition to renew and to release it.
func heldBy(owner string, token int64) docstore.All {
	return append(unexpired(),
		docstore.Eq{Field: fOwner, Value: docstore.String(owner)},
		docstore.Eq{Field: fToken, Value: docstore.Int(token)},
	)
}

// checkHolder says why [heldBy] does not hold, or OK. The token is compared first: it alone tells one lease of an owner from
// the next.
func (s State) checkHolder(owner string, token int64, now time.Time) Code {
	switch {
	case token != s.Token:
		return LeaseLost
	case owner != s.Owner:
		return NotOwner
	case s.Phase == Released:
		return LeaseReleased
	case s.PhaseAt(now) != Active:
		return LeaseExpired
	default:
		return OK
	}
}

// after is the symbolic time that lies ttl seconds after the store's now.
func after(ttlSeconds int64) docstore.Instant {
	return docstore.Now.Add(time.Duration(ttlSeconds) * time.Second)
}

// Acquire takes the lock.
type Acquire struct {
	ID
	Owner      string            // owner_id
	RequestID  string            // the same for every delivery of the same intention
	TTLSeconds int64             // 1 to MaxTTLSeconds
	Metadata   map[string]string // labels for people, shown to those who look at the lock

	// LeaseID becomes the new lease's ID. [Locks] fills it in when it is empty.
	LeaseID string
}

// Validate reports whether the command is well formed. The error is a [field.Error].
func (c Acquire) Validate() error {
	return first(c.ID.Validate(), checkRequestID(c.RequestID), checkOwner(c.Owner), checkTTL(c.TTLSeconds), checkMetadata(c.Metadata))
}

// Write applies when no lease is held. The new lease gets the next token and inherits nothing from the one before it. A
// missing document has no state, so the first acquire needs no case of its own; an unknown state is not free.
func (c Acquire) Write() docstore.Write {
	return docstore.Write{
		Key: c.key(),
		If: docstore.Any{
			docstore.Not{Cond: docstore.Has{Field: fState}},
			docstore.Eq{Field: fState, Value: docstore.String(Released)},
			docstore.All{
				docstore.Eq{Field: fState, Value: docstore.String(Active)},
				docstore.LE{Field: fExpiresAt, Value: docstore.Now},
			},
		},
		Set: map[string]docstore.Value{
			fState:          docstore.String(Active),
			fOwner:          docstore.String(c.Owner),
			fLease:          docstore.String(c.LeaseID),
			fAcquiredAt:     docstore.Now,
			fExpiresAt:      after(c.TTLSeconds),
			fTTL:            docstore.Int(c.TTLSeconds),
			fAcquireTTL:     docstore.Int(c.TTLSeconds),
			fAcquireRequest: docstore.String(c.RequestID),
			fMetadata:       docstore.Map(c.Metadata),
		},
		Add:   map[string]int64{fToken: 1},
		Unset: []string{fRenewRequest, fReleasedAt},
	}
}

// Granted is the new lease, unless it was over before the response arrived.
func (c Acquire) Granted(s State, w rule.When) Outcome { return c.ok(s, w).rejectLate(w) }

// Refusal recognises the request that obtained the current lease. A lease that has ended within the margin is not handed
// out again, although another acquire cannot take it over yet.
func (c Acquire) Refusal(s State, w rule.When) Outcome {
	switch {
	case c.Owner != s.Owner || c.RequestID != s.AcquireRequest || w.Ended(s.ExpiresAt):
		return c.held(s, w)
	case c.TTLSeconds != s.AcquireTTL || !maps.Equal(c.Metadata, s.Metadata):
		return c.reused(w, 0, "this request_id obtained the lock with another ttl_seconds or metadata; use a new request_id")
	default:
		return c.replayed(s, w).rejectLate(w)
	}
}

// Renew moves the expiry of a lease.
type Renew struct {
	ID
	Owner      string // owner_id
	Token      int64  // fencing_token of the lease
	RequestID  string // the same for every delivery of the same renewal
	TTLSeconds int64  // from now, 1 to MaxTTLSeconds
}

// Validate reports whether the command is well formed. The error is a [field.Error].
func (c Renew) Validate() error {
	return first(c.ID.Validate(), checkRequestID(c.RequestID), checkOwner(c.Owner), checkToken(c.Token), checkTTL(c.TTLSeconds))
}

// Write applies while the lease is held by this owner under this token. A smaller ttl_seconds moves the expiry closer, as
// requested. An expired lease is never renewed, even if no one has taken the lock since.
func (c Renew) Write() docstore.Write {
	return docstore.Write{
		Key: c.key(),
		If: append(heldBy(c.Owner, c.Token),
			docstore.Not{Cond: docstore.Eq{Field: fRenewRequest, Value: docstore.String(c.RequestID)}}),
		Set: map[string]docstore.Value{
			fExpiresAt:    after(c.TTLSeconds),
			fTTL:          docstore.Int(c.TTLSeconds),
			fRenewRequest: docstore.String(c.RequestID),
		},
	}
}

// Granted is the renewed lease, unless it was over before the response arrived.
func (c Renew) Granted(s State, w rule.When) Outcome { return c.ok(s, w).rejectLate(w) }

// Refusal recognises the latest renewal of the lease.
func (c Renew) Refusal(s State, w rule.When) Outcome {
	switch code := s.checkHolder(c.Owner, c.Token, w.Latest()); {
	case code != OK:
		return c.refused(code, c.Token, s, w)
	case c.RequestID != s.RenewRequest || c.TTLSeconds != s.TTLSeconds:
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
}

// Validate reports whether the command is well formed. The error is a [field.Error].
func (c Release) Validate() error {
	return first(c.ID.Validate(), checkRequestID(c.RequestID), checkOwner(c.Owner), checkToken(c.Token))
}

// Write applies while the lease is held by this owner under this token, so that it never ends a later lease, not even one of
// the same owner. It records itself among the last 8 releases of the lock.
func (c Release) Write() docstore.Write {
	e := c.ended()
	return docstore.Write{
		Key: c.key(),
		If:  heldBy(c.Owner, c.Token),
		Set: map[string]docstore.Value{
			fState:      docstore.String(Released),
			fReleasedAt: docstore.Now,
			fRelease(c.Token): docstore.Map{
				"token": strconv.FormatInt(e.Token, 10), "owner_id": e.Owner, "request_id": e.RequestID,
			},
		},
	}
}

// Granted is the released lease.
func (c Release) Granted(s State, w rule.When) Outcome { return c.ok(s, w) }

// Refusal recognises a release that the lock remembers.
func (c Release) Refusal(s State, w rule.When) Outcome {
	switch {
	case s.Releases[c.Token%remembered] != c.ended():
		return c.refused(s.checkHolder(c.Owner, c.Token, w.Latest()), c.Token, s, w)
	case c.Token == s.Token:
		return c.replayed(s, w)
	default:
		l := c.named(c.Token)
		l.Owner, l.Phase = c.Owner, Released
		return Outcome{Code: OK, Replayed: true, At: w.Latest(), Lease: l}
	}
}

func (c Release) ended() Ended {
	return Ended{Token: c.Token, Owner: c.Owner, RequestID: c.RequestID}
}

// ForceRelease ends the current lease of any owner: an administrator's tool for a holder that hangs. It does not stop the
// holder's work; the next grant's token does, where tokens are checked.
type ForceRelease struct {
	ID
	By        string // the administrator
	Reason    string // for the holder and for later: it stays in the lock's document
	RequestID string // the same for every delivery of the same intention
	LeaseID   string // lease_id: if given, only this lease is ended, never a later one
}

// Validate reports whether the command is well formed. The error is a [field.Error].
func (c ForceRelease) Validate() error {
	return first(c.ID.Validate(), checkRequestID(c.RequestID), checkOwner(c.By), checkReason(c.Reason), checkLeaseID(c.LeaseID))
}

// Write applies while a lease is held, and not twice for one request, as long as that is the latest force-release of the lock.
func (c ForceRelease) Write() docstore.Write {
	cond := append(unexpired(),
		docstore.Not{Cond: docstore.Eq{Field: fForcedRequest, Value: docstore.String(c.RequestID)}})
	if c.LeaseID != "" {
		cond = append(cond, docstore.Eq{Field: fLease, Value: docstore.String(c.LeaseID)})
	}
	return docstore.Write{
		Key: c.key(),
		If:  cond,
		Set: map[string]docstore.Value{
			fState:         docstore.String(Released),
			fReleasedAt:    docstore.Now,
			fForcedBy:      docstore.String(c.By),
			fForcedReason:  docstore.String(c.Reason),
			fForcedAt:      docstore.Now,
			fForcedRequest: docstore.String(c.RequestID),
		},
	}
}

// Granted is the lease that was ended.
func (c ForceRelease) Granted(s State, w rule.When) Outcome { return c.ok(s, w) }

// Refusal recognises the latest force-release of the lock.
func (c ForceRelease) Refusal(s State, w rule.When) Outcome {
	switch same := c.RequestID == s.Forced.RequestID; {
	case same && c.By == s.Forced.By && c.Reason == s.Forced.Reason:
		return c.replayed(s, w)
	case same:
		return c.reused(w, 0, "this request_id ended a lease with another reason or for another administrator; use a new request_id")
	case s.PhaseAt(w.Latest()) != Active:
		return Outcome{Code: NotHeld, At: w.Latest(), Lease: c.lease(s, w.Latest()), Detail: "no one holds the lock"}
	default:
		return Outcome{Code: LeaseLost, At: w.Latest(), Lease: c.named(0),
			Detail: "the lock is held under another lease_id; look at the lock again before ending it"}
	}
}
