package analysis

import (
	"fmt"
	"time"

	"github.com/leasehold-dev/leasehold/repo/rule"
)

// Code says how a command ended. Rejections are outcomes, not errors; the HTTP contract uses the same words.
type Code string

// The outcomes of the commands.
const (
	OK              Code = "OK"
	AlreadyFinished Code = "ALREADY_FINISHED" // the status is READY or FAILED
	Locked          Code = "ANALYSIS_LOCKED"  // another worker runs it: Outcome.Grant says who and until when
	NotFound        Code = "NOT_FOUND"        // there is no such document
	Lost            Code = "LEASE_LOST"       // the token is not the current one: another worker took over
	NotOwner        Code = "NOT_OWNER"        // the token belongs to another owner
	Released        Code = "LEASE_RELEASED"   // the lock of this token was released
	Expired         Code = "LEASE_EXPIRED"    // the lock expired
	// RequestIDReused:
	// the request obtained the lock before, and that is over; or it was another one
	RequestIDReused Code = "REQUEST_ID_REUSED"
	TooLate         Code = rule.TooLate      // the command came after its end, see [rule.End]
	TooFar          Code = rule.TooFar       // the end of the command is further away than it may be
	Unreadable      Code = "LOCK_UNREADABLE" // lockExpiresAt does not say whether the lock has ended
	NotStale        Code = "NOT_STALE"       // the lock is no longer the one that the sweep found
	NotFailed       Code = "NOT_FAILED"      // only what is FAILED can be retried
	NotReady        Code = "NOT_READY"       // only a run that is READY can be run again
	InProgress      Code = "RUN_IN_PROGRESS" // a worker runs it: its record cannot be removed
	NotDue          Code = "NOT_DUE"         // a run that is due at another time than now, see [Round]
	Changed         Code = "END_CHANGED"     // it ended at another time than the retry names
	Differs         Code = "RUN_DIFFERS"     // the ID was used before with another fingerprint
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

// Outcome is the result of a command.
type Outcome struct {
	Code     Code
	Replayed bool // the command had been carried out before, nothing was changed now

	// CountedAnew says that the command found an end further ahead than it can be, and counted it from now, of an acquire:
	// a clock was wrong when it was written, see [rule.When.Impossible].
	CountedAnew bool

	// Grant is, for OK, the caller's lock or what it left behind. For Locked it is the holder's, without its token. For
	// AlreadyFinished it has the status. Otherwise it is empty.
	Grant Grant

	// Retried is the last retry of the analysis, in the outcome of a [Retry] that is OK.
	Retried Retried

	// Result and Reason are how the analysis ended, in the outcome of an [Acquire] that is AlreadyFinished: the result of
	// READY, or why it is FAILED. Another writer may have written them, at any length.
	Result, Reason string

	// GivenUp says, of what is FAILED in the outcome of an [Acquire] that is AlreadyFinished, that it was given up: too
	// many of its runs failed or were taken over.
	GivenUp bool

	Due        time.Time     // for which time the run of the document is due, or was; zero if it came without one
	At         time.Time     // the store's time of the decision
	RetryAfter time.Duration // for Locked: when the lock ends, if its holder does nothing; otherwise when to ask again
	Detail     string        // a sentence for people that says more than the code, may be empty
}

func (s State) grant() Grant {
	var end time.Time
	if s.Owner != "" {
		end, _ = s.ExpiresAt()
	}
	return Grant{Status: s.Status, Owner: s.Owner, Token: s.Token, ExpiresAt: end, Runs: s.Runs, Failures: s.Failures}
}

// ok is the caller's lock, or what it left behind. What is left of the lock counts from Outcome.At.
// However far ahead a wrong clock has written its end, no more is left than a lock lasts.
func (s State) ok(w rule.When) Outcome {
	o := Outcome{Code: OK, At: w.Latest(), Grant: s.grant(), Due: s.Due}
	if least := o.Grant.ExpiresAt.Add(-s.longest()); least.After(o.At) {
		o.At = least
	}
	return o
}

// over is the outcome of an acquire of what is finished.
func (s State) over(at time.Time) Outcome {
	o := Outcome{Code: AlreadyFinished, At: at, Grant: Grant{Status: s.Status}, Due: s.Due}
	if s.Status == Failed {
		o.Reason = s.Reason
	} else {
		o.Result = s.Result
	}
	return o
}

// replayed is the outcome of a repeated command.
func (s State) replayed(w rule.When) Outcome {
	o := s.ok(w)
	o.Replayed = true
	return o
}

// rejectLate turns a grant into [Expired] if the lock was over before the response arrived: its holder would begin its
// work unprotected.
func (o Outcome) rejectLate(w rule.When) Outcome {
	if o.Code != OK || !w.Late(o.Grant.ExpiresAt) {
		o.At = o.At.Add(w.Lost) // what is left counts from here
		return o
	}
	return Outcome{Code: Expired, At: o.At, Detail: fmt.Sprintf(
		"the store took %v to respond, longer than the lock lasts; ask for a longer ttl_seconds", w.Took.Round(
			time.Millisecond))}
}

// refused says that the lock of a token is not, or no longer, the caller's.
func (sh *Shape) refused(s State, code Code, token int64, w rule.When) Outcome {
	o := Outcome{Code: code, At: w.Latest()}
	switch code {
	case AlreadyFinished:
		o.Grant.Status = s.Status
		o.Detail = "the " + sh.Thing + " is already " + string(s.Status) + "; it stays so"
	case NotFound:
		o.Detail = "there is no such " + sh.Thing + "; its document may have been removed"
	case Expired:
		o.Detail = "the lock expired; stop the work, or acquire again"
	case Released:
		o.Detail = "the lock was released; acquire again"
	case NotOwner:
		o.Detail = "the lock belongs to another owner_id"
	case Lost:
		o.Detail = "another worker took the " + sh.Thing + " over; stop the work that this token protects"
		if token > s.Token {
			o.Detail = "this token was never granted"
		}
	default: // the other codes say it all
	}
	return o
}
