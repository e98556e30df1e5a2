package lock

import (
	"fmt"
	"time"

	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/rule"
)

// Code says how a command ended. Rejections are outcomes, not errors; the HTTP contract uses the same words.
type Code string

// The outcomes of the lock commands.
const (
	OK            Code = "OK"
	Held          Code = "LOCK_HELD"      // another request holds the lock: Outcome.Lease says who and until when
	LeaseLost     Code = "LEASE_LOST"     // the token is not the current one
	LeaseExpired  Code = "LEASE_EXPIRED"  // the lease expired
	LeaseReleased Code = "LEASE_RELEASED" // the lease was released, by its owner or by force
	NotOwner      Code = "NOT_OWNER"      // the current lease belongs to another owner
	// LeaseChanged:
	// the lease does not expire when its caller thinks: Outcome.Lease says when it does
	LeaseChanged Code = "LEASE_CHANGED"
	// ModeDiffers:
	// the lock is held or waited for in another mode or with another limit; or what was asked for does not exist in its
	// mode
	ModeDiffers Code = "LOCK_MODE_DIFFERS"
	QueueFull   Code = "LOCK_QUEUE_FULL" // as many wait in line as may
	Delayed     Code = "LOCK_DELAYED"    // a lease was lost, and the lock stays closed for its lock delay
	NotHeld     Code = "LOCK_NOT_HELD"   // there is no lease to end by force
	Limit       Code = "LOCK_LIMIT"      // the tenant has as many locks as it may have, see [Options].MaxPerTenant
	TooLate     Code = rule.TooLate      // the command came after its end, see [rule.End]
	TooFar      Code = rule.TooFar       // the end of the command is further away than it may be
	// RequestIDReused:
	// the request_id was used with other parameters, or for a lease that has ended
	RequestIDReused Code = "REQUEST_ID_REUSED"
)

// Status is a lock with its latest lease, as everyone in its tenant may see it: without the token, so that reading
// never gives the right to write.
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
	Forced     Forced // how the lease was ended, zero unless an administrator did

	Mode          Mode  // empty is Exclusive
	Limit         int64 // with Permits and Rate
	WindowSeconds int64 // with Rate
	// until then the lock stays closed, see Acquire.LockDelaySeconds, or a rate is used up; zero if neither
	FreeAt time.Time
	// with several leases, or a line: the leases that last, by token. The fields above are of the latest lease
	Holders []Holder
	Waiting []Waiter // the line, the next one first
	History []Past   // by Get: the last leases that have ended, the latest first
	Refused Refused  // by Get: who was refused last, if that is recorded; zero if no one was
}

// Holder is one lease of a lock that can have several.
type Holder struct {
	LeaseID    string
	Owner      string
	Mode       Mode  // Exclusive or Shared, or that of the lock
	Permit     int64 // with Permits: from 1 to the limit; otherwise 0
	AcquiredAt time.Time
	ExpiresAt  time.Time
	TTLSeconds int64
	Metadata   map[string]string
}

// Waiter is a request that waits in line.
type Waiter struct {
	Owner string
	Mode  Mode
	Since time.Time
	Until time.Time // when the place is given up, unless the request is sent again
}

// Past is a lease that has ended.
type Past struct {
	Owner      string // cut to MaxPastBytes
	Token      int64
	AcquiredAt time.Time
	EndedAt    time.Time
	Ended      Ended
	By         string // with EndedForced the administrator, with EndedReplaced who replaced it; cut to MaxPastBytes
}

// MaxPastBytes is how much of a name a [Past] keeps.
const MaxPastBytes = 32

// Ended is how a lease ended.
type Ended string

// How leases end.
const (
	EndedReleased Ended = "released"
	EndedExpired  Ended = "expired"
	EndedForced   Ended = "forced"
	EndedReplaced Ended = "replaced"
)

// Refused is who was refused, and when.
type Refused struct {
	Owner string // cut to MaxPastBytes
	At    time.Time
}

// Lease is a lease as its holder sees it.
type Lease struct {
	Status
	Token  int64 // the fencing token
	Permit int64 // with Permits: which one, from 1 to the limit. Tokens of one permit only ever increase
}

// Outcome is the result of a command.
type Outcome struct {
	Code     Code
	Replayed bool // the request_id was known: this is the earlier result, nothing was changed now

	// TookOver says that the lease before had expired and was not released, of an acquire on a store with a
	// [rule.Observer] or with [Options].HandedOver: on others it is false. The lock must remember that lease.
	TookOver bool

	// Replaced says that the lease before lasted, and that the acquire ended it, as both were acquired with Replace.
	Replaced bool

	// CountedAnew says that the command found an end further ahead than it can be, and counted it from now, of an acquire:
	// the store's clock was wrong when it was written, see [rule.When.Impossible].
	CountedAnew bool

	// Lease is, for OK, the caller's lease. For Held it is the holder's, without its token, and for the other
	// refusals it is what is known of the lease that the caller named.
	//
	// A repeated Release or ForceRelease of a lease that has been followed by others shows only what is still remembered:
	// tenant, key and phase, and for a Release owner and token.
	Lease Lease

	At time.Time // the store's time of the decision
	// with Acquire.WaitSeconds: from the beginning of the command to before the request to the store by which it was
	// decided
	Waited   time.Duration
	Position int64 // for Held: the caller's place in line, 1 being the next; 0 if it has none
	Newcomer bool  // for Held: the request has a place in line when it comes again; its response is not held
	// for Held and Delayed: when the lock is free, if its holder does nothing, or at once if [Options].Stop ended the
	// wait; for Limit: when the tenant may be counted again
	RetryAfter time.Duration
	Detail     string // a sentence for people that says more than the code, may be empty

	lost    bool // the request had a place in line, and has it no more
	unsent  bool // the request was not sent to the store yet
	created bool // by a [GiveUp]: it made the record of the lock
}

// lease shows the latest lease of the state at the time now.
func (id ID) lease(s State, now time.Time) Lease {
	l := Lease{Token: s.Token, Permit: s.permit, Status: Status{
		Tenant: id.Tenant, Key: id.Key, Phase: s.PhaseAt(now), LeaseID: s.LeaseID, Owner: s.Owner,
		AcquiredAt: s.AcquiredAt, ExpiresAt: s.ExpiresAt, ReleasedAt: s.ReleasedAt, TTLSeconds: s.TTLSeconds,
		Metadata: s.Metadata, FreeAt: s.closedUntil(now), Mode: s.mode, Limit: s.limit, WindowSeconds: s.window,
	}}
	if s.wasForced() {
		l.Forced = s.Forced
	}
	return l
}

// latestLease shows the latest lease in either form, or nothing but the lock where it is not known any more.
func (id ID) latestLease(s State, now time.Time) Lease {
	latest := s.leaseOf(s.Token)
	if latest.Token != s.Token {
		return id.named(0)
	}
	return id.lease(latest, now)
}

// status is the lock as everyone in its tenant may see it at the time now.
func (id ID) status(s State, now time.Time) Status {
	if s.shared != nil {
		return s.toShared().status(id, s, now)
	}
	return id.lease(s, now).Status
}

// howEnded says for the release of a lease that others have followed what is remembered of its end. Most such releases
// are of a lease that was released, by a delivery that is forgotten: nothing was lost then.
func (s State) howEnded(token int64) string {
	const after = "later leases have been granted since"
	for _, p := range s.history() {
		if p.Token != token {
			continue
		}
		switch at := string(docstore.FormatTime(p.EndedAt)); p.Ended {
		case EndedReleased:
			return "the lease was released at " + at + ", by a request that is no longer remembered; " + after
		case EndedForced:
			return "the lease was ended by " + p.By + " at " + at + "; " + after
		default: // one that was replaced is told by whom
			return "the lease expired at " + at + ", and a later lease has been granted; stop the work that this token protects"
		}
	}
	return "the lease has ended, whether by a release is no longer remembered; " + after
}

// replacedBy says who replaced the lease, if someone did.
func (o Outcome) replacedBy(by string) Outcome {
	if by != "" && o.Code == LeaseLost {
		o.Detail = "the lease was replaced by " + by + "; stop the work that this token protects"
	}
	return o
}

// named is a lease with nothing but its name.
func (id ID) named(token int64) Lease {
	return Lease{Token: token, Status: Status{Tenant: id.Tenant, Key: id.Key}}
}

// ok is the caller's lease as the state has it.
func (id ID) ok(s State, w rule.When) Outcome {
	return Outcome{Code: OK, Lease: id.lease(s, w.Latest()), At: w.Latest()}
}

// replayed is the outcome of a repeated command: the lease that its first delivery obtained.
func (id ID) replayed(s State, w rule.When) Outcome {
	o := id.ok(s, w)
	o.Replayed = true
	return o
}

// endedBefore is the outcome of a repeated command that ended a lease which has been followed by another.
func (id ID) endedBefore(token int64, w rule.When) Outcome {
	l := id.named(token)
	l.Phase = Released
	return Outcome{Code: OK, Replayed: true, At: w.Latest(), Lease: l}
}

// rejectLate turns a grant into [LeaseExpired] if the lease was over before the response arrived: its holder would
// begin its work unprotected. The token is shown, so that the lease can be released.
func (o Outcome) rejectLate(w rule.When) Outcome {
	if o.Code != OK || !w.Late(o.Lease.ExpiresAt) {
		o.At = o.At.Add(w.Lost) // what is left counts from here
		return o.possible()
	}
	l := ID{Tenant: o.Lease.Tenant, Key: o.Lease.Key}.named(o.Lease.Token)
	l.ExpiresAt = o.Lease.ExpiresAt
	return Outcome{Code: LeaseExpired, At: o.At, Lease: l, Detail: fmt.Sprintf(
		"the store took %v to respond, longer than the lease lasts; ask for a longer ttl_seconds", w.Took.Round(
			time.Millisecond))}
}

// heldRefusal is the refusal because of a lease that is held, or whose lock delay lasts. It shows the lease without its
// token. The state is as its holder sees it, see [State.leaseOf].
func (c Acquire) heldRefusal(s State, w rule.When) Outcome {
	l := c.lease(s, w.At)
	l.Token, l.Permit = 0, 0
	o := Outcome{Code: Held, Lease: l, At: w.At, RetryAfter: s.FreeAt().Sub(w.At)}
	switch {
	case !l.FreeAt.IsZero():
		o.Code, o.Detail = Delayed, s.delayedDetail()
	case c.Replace && !s.Replaceable:
		o.Detail = "its holder was acquired without replace, so that no one may replace it"
	case c.Replace && c.mayBeForgotten(s, w):
		o.Detail = s.forgottenDetail()
	case c.Owner == s.Owner:
		o.Detail = "this owner_id holds the lock, under another request_id"
	}
	return o
}

// reused is the outcome of a request_id that was used before, for something else or for a lease that has ended.
func (id ID) reused(w rule.When, token int64, detail string) Outcome {
	return Outcome{Code: RequestIDReused, At: w.Latest(), Lease: id.named(token), Detail: detail}
}

// refused says that the lease named by token is not, or no longer, the caller's to change. It shows nothing of the
// lease of another owner.
func (id ID) refused(code Code, token int64, s State, w rule.When) Outcome {
	o := Outcome{Code: code, At: w.Latest(), Lease: id.named(token)}
	switch code {
	case LeaseExpired:
		o.Lease.ExpiresAt = s.ExpiresAt
		o.Detail = "the lease expired at " + string(docstore.FormatTime(s.ExpiresAt)) + "; acquire the lock again"
	case LeaseReleased:
		o.Lease.ReleasedAt = s.ReleasedAt
		o.Detail = "the lease was released at " + string(docstore.FormatTime(s.ReleasedAt)) + "; acquire the lock again"
		switch {
		case s.wasForced():
			o.Detail = "the lease was ended by " + s.Forced.By + ": " + s.Forced.Reason
		case s.EndedBy != "":
			o.Detail = "the lease was ended by " + s.EndedBy
		}
	case LeaseLost:
		o.Detail = "a later lease has been granted; stop the work that this token protects"
		if token >= s.Token {
			o.Detail =
				"there is no lease with this token: none was ever granted with it, or the record of the lock was removed since"
		}
	case LeaseChanged:
		o.Lease.ExpiresAt = s.ExpiresAt
		o.Detail = "the lease expires at " + string(docstore.FormatTime(s.ExpiresAt)) +
			"; name this time, or none, to renew it"
	case NotOwner:
		o.Detail = "the lease belongs to another owner_id"
	default: // the other codes are not about a lease that the caller names
	}
	return o
}
