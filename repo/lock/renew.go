package lock

import (
	"time"

	"github.com/leasehold-dev/leasehold/repo/docstore"
)

// Renew asks for more time.
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

// Decide lets the holder of the lease, and nobody else, move its end to now + ttl_seconds, as long as it has not ended
// (LS-RNW-001, LS-RNW-002). A smaller ttl_seconds moves the end closer: that is what was asked for. A lease that has
// ended is never renewed, even when nobody took the lock since (LS-INV-004).
func (c Renew) Decide(s State, now time.Time) (State, Outcome) {
	if code := s.standing(c.Owner, c.Token, now); code != OK {
		return s, c.refused(code, c.Token, s, now)
	}
	if c.RequestID == s.RenewRequest {
		if c.TTLSeconds != s.TTLSeconds {
			return s, Outcome{
				Code: RequestIDReused, At: now, Lease: c.named(c.Token),
				Detail: "this request_id renewed the lease with another ttl_seconds; use a new request_id for a new renewal",
			}
		}
		return s, c.replayed(s, now) // LS-RNW-003
	}
	s.ExpiresAt = deadline(now, c.TTLSeconds) // LS-RNW-002
	s.TTLSeconds = c.TTLSeconds
	s.RenewRequest = c.RequestID
	return s, c.ok(s, now)
}

// Write is the granting branch of Decide.
func (c Renew) Write() docstore.Write {
	return docstore.Write{
		Key: c.key(),
		If: append(holds(c.Owner, c.Token),
			docstore.Not{Cond: docstore.Eq{Field: fRenewRequest, Value: docstore.String(c.RequestID)}}),
		Set: map[string]docstore.Value{
			fExpiresAt:    after(c.TTLSeconds),
			fTTL:          docstore.Int(c.TTLSeconds),
			fRenewRequest: docstore.String(c.RequestID),
		},
	}
}
