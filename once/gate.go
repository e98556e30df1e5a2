package once

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/leasehold-dev/leasehold/contracts"
	"github.com/leasehold-dev/leasehold/internal/fencing"
	"github.com/leasehold-dev/leasehold/internal/lease"
)

// Gate grants runs, of analyses or under names of their callers: an HTTP client of a server, or the rule itself on a
// store. Its methods may be called from several goroutines at once, and return soon after their context ends.
//
// The errors of a gate carry a [contracts.Code]. These mean that the lock is no longer the caller's: LEASE_LOST,
// LEASE_EXPIRED, LEASE_RELEASED, NOT_OWNER, ALREADY_FINISHED; errors that are [ErrLost] mean the same. NOT_FOUND with
// the field "analysis_id" or "run_id" means that there is no such run. RUN_DIFFERS means that the ID was used before
// with another fingerprint. Other codes that are not retryable end the attempt. After any other error the method is
// called again with the same arguments.
type Gate interface {
	// Acquire asks for a run, or gives such a request up: see [Acquire].GiveUp. A run that is not granted is no error:
	// Grant.Reason says why.
	//
	// A request may come to the gate later than it was sent. One that comes when its context has ended should obtain
	// nothing any more, as far as the gate can tell.
	Acquire(ctx context.Context, r Acquire) (Grant, error)

	// Refresh moves the lock's expiry to now + ttl and returns it.
	Refresh(ctx context.Context, l Lock, ttl time.Duration) (expiresAt time.Time, err error)

	// Release ends the lock and leaves the run unfinished. failed says why the attempt failed, and counts; it is empty if
	// the attempt did not fail but was stopped.
	Release(ctx context.Context, l Lock, failed string) error

	// Finish makes the run READY or FAILED, for good.
	Finish(ctx context.Context, l Lock, r Result) error
}

// Acquire is a worker's request for a run.
type Acquire struct {
	RunID     string        // the ID of the run, whether it is an analysis' or its caller's
	Owner     string        // who runs it, for people; the gate may know a better name
	RequestID string        // the same for every retry of this attempt, another for every attempt
	TTL       time.Duration // whole seconds

	// MaxFailures ends the run as FAILED instead of another attempt, once so many have failed; 0 is no bound.
	MaxFailures int64

	// Fingerprint says what the run is about; empty compares nothing. See [Options].
	Fingerprint string

	// MaxTakeovers is how often the run may be taken over from a worker that died; nil is as the gate says.
	MaxTakeovers *int64

	// Due and NextDue say for a job that comes round again which of its runs is asked for: the gate grants it from Due on
	// and before NextDue, by its own clock. Zero times for any other run.
	Due, NextDue time.Time

	// Every, without Due, is after what time since the beginning of a run another one may begin, when that has ended:
	// whole seconds. 0 for any other run.
	Every time.Duration

	// GiveUp gives up the request with this RequestID instead; everything else is as it was sent. A lock that it obtained
	// ends as if it had never been, and no delivery of the request obtains one from now on. The response is the zero
	// Grant and no error, also when there was nothing to give up, and when it is repeated; the code REQUEST_ID_REUSED, or
	// NOT_FOUND of the analysis, says that there is nothing either. [Run] sends it when its context ends, or the gate
	// does not respond, and it does not know what became of the request.
	//
	// A gate that does not know this field carries out the request once more, and has the right response to that. Run
	// sees then that it got a lock, and releases it.
	GiveUp bool
}

// OfAnalysis says what is wrong with a request for the run of an analysis: only runs that callers name come round
// again, or have a bound of takeovers of their own.
func (r Acquire) OfAnalysis() error {
	switch {
	case !r.Due.IsZero() || r.Every != 0:
		return errors.New("an analysis does not come round again: use Options.Schedule and Options.Every with a run of a " +
			"name of your own")
	case r.MaxTakeovers != nil:
		return errors.New("Options.MaxTakeovers is for runs with a name of your own: how often an analysis is taken over is " +
			"a setting of the gate")
	default:
		return nil
	}
}

// Grant is the response to [Acquire].
type Grant struct {
	Acquired   bool
	Reason     contracts.RunSkip // unless Acquired
	RetryAfter time.Duration     // with SkipLocked: when the lock expires, unless its holder refreshes it
	Due        time.Time         // for which time the run is due that is granted, at work or finished; zero for none
	Now        time.Time         // with SkipNotDue: the gate's time, by which the run is not due
	Status     string            // of the run, as far as the gate says
	Result     Result            // with SkipAlreadyFinished: how it ended, as far as the gate says
	Lock       Lock              // if Acquired
	Remaining  time.Duration     // if Acquired: the time to the lock's expiry when the gate decided
	// attempts begun since the last that ended by itself, with this one; above 1 it is a takeover
	Runs     int64
	Failures int64 // attempts that failed before this one
	GivenUp  bool  // with SkipAlreadyFinished: too many attempts failed or were taken over, see [Outcome]
}

// Lock is a lock that was granted.
type Lock struct {
	RunID     string // the ID of the run, as [Acquire] has it
	Owner     string
	Token     int64 // the fencing token: pass it on to whatever the run writes to
	ExpiresAt time.Time
}

// Lease is the token with the run that it is one of, for the fences of a database: see [fence.SQL].
//
// [fence.SQL]: https://pkg.go.dev/github.com/leasehold-dev/leasehold/fence#SQL
func (l Lock) Lease() fencing.Lease { return fencing.OfRun(l.RunID, l.Token) }

// Result is how a run ended.
type Result struct {
	Failed bool
	Result string // unless Failed: the result or where it is, stored in the run's document; may be empty
	Reason string // if Failed
}

// ErrLost marks a lock that is no longer the caller's: it expired by this process's clocks, or the gate says so, and
// then the error has the gate's code as well. It is the cause with which the context of a run is cancelled.
var ErrLost = lease.Lost("the lock is lost")

// lostCodes are the codes that say so.
var lostCodes = []contracts.Code{
	contracts.CodeLeaseLost, contracts.CodeLeaseExpired, contracts.CodeLeaseReleased, contracts.CodeNotOwner,
	contracts.CodeAlreadyFinished,
}

// IsLost reports whether an error, of a [Gate] or of this package, means that the lock is not, or no longer, the
// caller's.
func IsLost(err error) bool {
	return errors.Is(err, ErrLost) || unknown(err) ||
		slices.ContainsFunc(lostCodes, func(c contracts.Code) bool { return errors.Is(err, c) })
}

// unknown reports whether the gate says that there is no such run. NOT_FOUND without the field is about the path: the
// server is another one.
func unknown(err error) bool {
	if e, ok := errors.AsType[*contracts.Error](err); ok {
		return e.Code == contracts.CodeNotFound && (e.Field == "analysis_id" || e.Field == "run_id")
	}
	return errors.Is(err, contracts.CodeNotFound)
}

// rejected reports whether the gate would reject the same request again, although the lock is not lost.
func rejected(err error) bool { return !IsLost(err) && lease.Final(err) }
