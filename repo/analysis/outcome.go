package analysis

import (
	"time"
	"unicode/utf8"

	"github.com/leasehold-dev/leasehold/repo/field"
)

// Code says how a command ended. Refusals are outcomes, not errors; the HTTP contract uses the same words.
type Code string

// The outcomes of the commands.
const (
	OK              Code = "OK"
	AlreadyFinished Code = "ALREADY_FINISHED" // the status is READY or FAILED
	Locked          Code = "ANALYSIS_LOCKED"  // somebody runs it: Outcome.Grant says who and until when
	NotFound        Code = "NOT_FOUND"        // there is no such document
	Lost            Code = "LEASE_LOST"       // the token is not the current one: somebody took over
	NotOwner        Code = "NOT_OWNER"        // the token is somebody else's
	Released        Code = "LEASE_RELEASED"   // the lock of this token was given back
	Expired         Code = "LEASE_EXPIRED"    // the lock ended by time
	NotStale        Code = "NOT_STALE"        // the sweep came late: the lock is not what it found
)

// Grant is the lock as its holder sees it.
type Grant struct {
	Status    Status
	Owner     string
	Token     int64 // the fence
	ExpiresAt time.Time
	Runs      int64 // runs begun since the last that ended by itself, with this one; above 1 it is a takeover
	Failures  int64 // runs that failed so far
}

// Outcome is the answer to a command.
type Outcome struct {
	Code     Code
	Replayed bool // the command had been carried out before, nothing was changed now

	// Grant is, for OK, the caller's lock or what it left behind. For Locked it is the holder's, without its token. For
	// AlreadyFinished it has the status. Otherwise it is empty.
	Grant Grant

	At         time.Time     // the store's time of the decision
	RetryAfter time.Duration // for Locked: when the lock ends, if its holder does nothing
	Detail     string        // a sentence for people that says more than the code, may be empty
}

func (s State) grant() Grant {
	end, _ := s.ExpiresAt()
	return Grant{Status: s.Status, Owner: s.Owner, Token: s.Token, ExpiresAt: end, Runs: s.Runs, Failures: s.Failures}
}

// refused answers that the lock of a token is not, or no longer, the caller's.
func (s State) refused(code Code, token int64, now time.Time) Outcome {
	o := Outcome{Code: code, At: now}
	switch code {
	case AlreadyFinished:
		o.Grant.Status = s.Status
		o.Detail = "the analysis is already " + string(s.Status) + "; it stays so"
	case NotFound:
		o.Detail = "there is no such analysis; its document may have been deleted"
	case Expired:
		o.Detail = "the lock ended by time; stop the work, or acquire again"
	case Released:
		o.Detail = "the lock was given back; acquire again"
	case NotOwner:
		o.Detail = "the lock belongs to another owner_id"
	case Lost:
		o.Detail = "somebody took the analysis over; stop the work that this token protects"
		if token > s.Token {
			o.Detail = "this token was never granted"
		}
	default: // the other codes say it all
	}
	return o
}

// validText checks text that may have line breaks.
func validText(name, s string) error {
	if !utf8.ValidString(s) {
		return field.Errorf(name, "is not valid UTF-8")
	}
	return nil
}
