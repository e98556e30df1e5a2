package lock

import (
	"maps"
	"time"

	"github.com/leasehold-dev/leasehold/repo/docstore"
)

// Acquire asks for the lock.
type Acquire struct {
	ID
	Owner      string            // owner_id
	RequestID  string            // the same for every delivery of the same intention
	TTLSeconds int64             // 1 to MaxTTLSeconds
	Metadata   map[string]string // labels for people, shown to who asks about the lock

	// LeaseID becomes the new lease's ID. [Locks] fills it in when it is empty.
	LeaseID string
}

// Validate reports whether the command is well formed. The error is a [field.Error].
func (c Acquire) Validate() error {
	return first(c.ID.Validate(), checkRequestID(c.RequestID), checkOwner(c.Owner), checkTTL(c.TTLSeconds), checkMetadata(c.Metadata))
}

// Decide grants the lock if nobody holds it at the time now (LS-INV-001, LS-ACQ-001, LS-ACQ-002). The new lease gets the next token
// (LS-ACQ-003, LS-INV-002) and inherits nothing from the one before it.
func (c Acquire) Decide(s State, now time.Time) (State, Outcome) {
	if s.PhaseAt(now) == Active {
		switch {
		case c.Owner != s.Owner || c.RequestID != s.AcquireRequest:
			return s, c.held(s, now) // LS-ACQ-001
		case c.TTLSeconds != s.AcquireTTL || !maps.Equal(c.Metadata, s.Metadata):
			return s, Outcome{
				Code: RequestIDReused, At: now, Lease: c.named(0),
				Detail: "this request_id obtained the lock with another ttl_seconds or metadata; use a new request_id for a new intention",
			}
		default:
			return s, c.replayed(s, now) // LS-ACQ-004
		}
	}
	next := State{
		Token: s.Token + 1, Phase: Active, Owner: c.Owner, LeaseID: c.LeaseID, // LS-ACQ-002, LS-ACQ-003
		AcquiredAt: docstore.TruncateMilli(now), ExpiresAt: deadline(now, c.TTLSeconds),
		TTLSeconds: c.TTLSeconds, AcquireTTL: c.TTLSeconds, AcquireRequest: c.RequestID, Metadata: c.Metadata,
		Releases: s.Releases, Forced: s.Forced,
	}
	return next, c.ok(next, now)
}

// Write is the granting branch of Decide: it applies when the lock is not held, in one atomic step (LS-CC-001, LS-ACC-01)
// that also takes the next token (LS-ACC-03). A missing document has no state, so the first acquire needs no case of its
// own. A state that this version does not know is not free.
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
