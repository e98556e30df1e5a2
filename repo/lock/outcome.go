package lock

import (
	"time"

	"github.com/leasehold-dev/leasehold/repo/docstore"
)

// Code says how a command ended. Refusals are outcomes, not errors; the HTTP contract uses the same words.
type Code string

// The outcomes of the lock commands.
const (
	OK              Code = "OK"
	Held            Code = "LOCK_HELD"         // somebody holds the lock: Outcome.Lease says who and until when
	LeaseLost       Code = "LEASE_LOST"        // the token is not the current one
	LeaseExpired    Code = "LEASE_EXPIRED"     // the lease ended by time
	LeaseReleased   Code = "LEASE_RELEASED"    // the lease was released, by its owner or by force
	NotOwner        Code = "NOT_OWNER"         // the current lease belongs to somebody else
	NotHeld         Code = "LOCK_NOT_HELD"     // there is no lease to end by force
	RequestIDReused Code = "REQUEST_ID_REUSED" // the request_id was used with other parameters
)

// Status is a lock with its latest lease, as anybody in its tenant may see it: no token, so that reading never gives the
// right to write.
type Status struct {
	Tenant     string
	Key        string
	Phase      Phase
	LeaseID    string
	Owner      string
	AcquiredAt time.Time
	ExpiresAt  time.Time
	ReleasedAt time.Time // zero unless Released
	TTLSeconds int64     // of the latest acquire or renew
	Metadata   map[string]string
	Forced     Forced // the latest force-release of the lock, zero if there was none
}

// Lease is a lease as its holder sees it.
type Lease struct {
	Status
	Token int64 // the fencing token
}

// Outcome is the answer to a command.
type Outcome struct {
	Code     Code
	Replayed bool // the request_id was known: this is the earlier answer, nothing was changed now

	// Lease is, for OK, the caller's lease. For Held it is the holder's, without its token, and for the other
	// refusals it is what is known of the lease that the caller named.
	//
	// A repeated Release of a lease that has been followed by others shows only what is still remembered: tenant, key,
	// owner, token and phase.
	Lease Lease

	At         time.Time     // the store's time of the decision
	RetryAfter time.Duration // for Held: when the lease ends, if its holder does nothing
	Detail     string        // a sentence for people that says more than the code, may be empty
}

// lease shows the latest lease of the state at the time now.
func (id ID) lease(s State, now time.Time) Lease {
	return Lease{Token: s.Token, Status: Status{
		Tenant: id.Tenant, Key: id.Key, Phase: s.PhaseAt(now), LeaseID: s.LeaseID, Owner: s.Owner,
		AcquiredAt: s.AcquiredAt, ExpiresAt: s.ExpiresAt, ReleasedAt: s.ReleasedAt, TTLSeconds: s.TTLSeconds,
		Metadata: s.Metadata, Forced: s.Forced,
	}}
}

// named is a lease of which nothing is shown but its name.
func (id ID) named(token int64) Lease {
	return Lease{Token: token, Status: Status{Tenant: id.Tenant, Key: id.Key}}
}

// ok answers with the caller's lease as the state has it.
func (id ID) ok(s State, now time.Time) Outcome {
	return Outcome{Code: OK, Lease: id.lease(s, now), At: now}
}

// replayed answers a repeated command with the lease that its first delivery obtained.
func (id ID) replayed(s State, now time.Time) Outcome {
	o := id.ok(s, now)
	o.Replayed = true
	return o
}

// held answers that somebody else has the lock.
func (id ID) held(s State, now time.Time) Outcome {
	l := id.lease(s, now)
	l.Token = 0
	return Outcome{Code: Held, Lease: l, At: now, RetryAfter: s.ExpiresAt.Sub(now)}
}

// refused answers that the lease named by token is not, or no longer, the caller's to change. It shows the caller
// nothing of anybody else's lease.
func (id ID) refused(code Code, token int64, s State, now time.Time) Outcome {
	l := id.named(token)
	o := Outcome{Code: code, At: now}
	switch code {
	case LeaseExpired:
		l.ExpiresAt = s.ExpiresAt
		o.Detail = "the lease ended at " + string(docstore.FormatTime(s.ExpiresAt)) + "; acquire the lock again"
	case LeaseReleased:
		l.ReleasedAt = s.ReleasedAt
		o.Detail = "the lease was released at " + string(docstore.FormatTime(s.ReleasedAt)) + "; acquire the lock again"
		if s.wasForced() {
			o.Detail = "the lease was ended by " + s.Forced.By + ": " + s.Forced.Reason
		}
	case LeaseLost:
		o.Detail = "a later lease has been granted; stop the work that this token protects"
		if token > s.Token {
			o.Detail = "this token was never granted"
		}
	case NotOwner:
		o.Detail = "the lease belongs to another owner_id"
	default: // the other codes are not about a lease that the caller names
	}
	o.Lease = l
	return o
}
