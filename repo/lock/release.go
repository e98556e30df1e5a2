package lock

import (
	"strconv"
	"time"

	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/field"
)

// Release gives the lock back.
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

// Decide ends the lease if it is still held by this owner under this token (LS-REL-001), which frees the lock
// (LS-REL-002). A release that comes again is recognised among the last 8 of the lock (LS-REL-003); because the token
// must match, it never touches a later lease, not even of the same owner.
func (c Release) Decide(s State, now time.Time) (State, Outcome) {
	code := s.standing(c.Owner, c.Token, now)
	if code == OK {
		s.Phase = Released
		s.ReleasedAt = docstore.TruncateMilli(now)
		s.Releases[c.Token%remembered] = c.ended()
		return s, c.ok(s, now)
	}
	if s.Releases[c.Token%remembered] == c.ended() { // LS-REL-003
		if c.Token == s.Token {
			return s, c.replayed(s, now)
		}
		l := c.named(c.Token)
		l.Owner, l.Phase = c.Owner, Released
		return s, Outcome{Code: OK, Replayed: true, At: now, Lease: l}
	}
	return s, c.refused(code, c.Token, s, now)
}

// Write is the granting branch of Decide.
func (c Release) Write() docstore.Write {
	e := c.ended()
	return docstore.Write{
		Key: c.key(),
		If:  holds(c.Owner, c.Token),
		Set: map[string]docstore.Value{
			fState:      docstore.String(Released),
			fReleasedAt: docstore.Now,
			fRelease(c.Token): docstore.Map{
				"token": strconv.FormatInt(e.Token, 10), "owner_id": e.Owner, "request_id": e.RequestID,
			},
		},
	}
}

func (c Release) ended() Ended {
	return Ended{Token: c.Token, Owner: c.Owner, RequestID: c.RequestID}
}

// ForceRelease ends whatever lease there is: an administrator's tool for a holder that hangs. It does not stop the
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
	return first(c.ID.Validate(), checkRequestID(c.RequestID), checkOwner(c.By),
		field.Text("reason", c.Reason, MaxReasonBytes), field.OptionalText("lease_id", c.LeaseID, MaxRequestIDBytes))
}

// Decide ends the lease that is held now. A force-release that comes again ends nothing more, as long as it is the
// latest of the lock.
func (c ForceRelease) Decide(s State, now time.Time) (State, Outcome) {
	if c.RequestID == s.Forced.RequestID {
		if c.By == s.Forced.By && c.Reason == s.Forced.Reason {
			return s, c.replayed(s, now)
		}
		return s, Outcome{
			Code: RequestIDReused, At: now, Lease: c.named(0),
			Detail: "this request_id ended a lease with another reason or for another administrator; use a new request_id",
		}
	}
	if s.PhaseAt(now) != Active {
		return s, Outcome{Code: NotHeld, At: now, Lease: c.lease(s, now), Detail: "nobody holds the lock"}
	}
	if c.LeaseID != "" && c.LeaseID != s.LeaseID {
		return s, Outcome{Code: LeaseLost, At: now, Lease: c.named(0),
			Detail: "the lock is held under another lease_id; look at the lock again before ending it"}
	}
	s.Phase = Released
	s.ReleasedAt = docstore.TruncateMilli(now)
	s.Forced = Forced{By: c.By, Reason: c.Reason, RequestID: c.RequestID, At: docstore.TruncateMilli(now)}
	return s, c.ok(s, now)
}

// Write is the granting branch of Decide.
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
