package once

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/leasehold-dev/leasehold/contracts"
	"github.com/leasehold-dev/leasehold/internal/backoff"
	"github.com/leasehold-dev/leasehold/internal/fencing"
	"github.com/leasehold-dev/leasehold/internal/hold"
	"github.com/leasehold-dev/leasehold/internal/lease"
	"github.com/leasehold-dev/leasehold/internal/term"
)

// Status says how a [Run] ended.
type Status string

// The statuses.
const (
	Ready  Status = "ready"          // the work ran, and the run is READY
	Failed Status = "failed"         // the work failed for good, and the run is FAILED
	Retry  Status = "attempt_failed" // the work failed, and may be retried
	// NotStored:
	// the work ran, to its result or so that it failed for good, and the gate has stored neither: Err is [ErrNotStored].
	// Until the end is stored, if it is sent again (Outcome.Storing), the run may begin again
	NotStored       Status = "not_stored"
	AlreadyFinished Status = "already_finished" // skipped: the run was READY before
	// AlreadyFailed:
	// skipped: the run was FAILED before, or too many of its attempts failed or were taken over
	AlreadyFailed Status = "already_failed"
	Locked        Status = "locked"           // skipped: another worker runs it; retry after Outcome.RetryAfter
	Unknown       Status = "unknown_analysis" // there is no such run
	Lost          Status = "lock_lost"        // the lock was lost before the end was stored; nothing was written
	// Stopped:
	// the caller's context ended; the lock was released, or the request for it given up. An attempt that a deadline
	// ended, or a cause that is one, counts as failed
	Stopped Status = "stopped"
)

// Outcome is what came of a [Run].
type Outcome struct {
	Status Status
	// with Locked, and with AlreadyFinished of a run with Options.Every: when to ask again
	RetryAfter time.Duration
	Due        time.Time // with Options.Schedule: for which time the run is due
	// AtWork, with Locked, is for which time the run is due that another worker has, if that is known: where it is
	// before Due, Due had no run.
	AtWork time.Time
	Token  int64 // the fence of the run, 0 if there was none
	// with Ready and NotStored what the work returned, with AlreadyFinished what it returned then; empty if the gate does
	// not say
	Result string
	Err    error // with Retry, NotStored, Failed, Lost and Stopped: why; with AlreadyFailed [ErrFailed]

	// GivenUp, with Failed and AlreadyFailed, says that too many attempts failed or were taken over, and that none has
	// failed for good; of a run that was FAILED before, as far as the gate says.
	GivenUp bool

	// Storing, with NotStored, is the end of the work while that is sent again in the background; nil if it no longer is.
	Storing *Storing
}

// ErrFailed is the error of a run that was skipped because it was FAILED before: what it should have done is not done,
// and no worker will do it, unless it is an analysis' run and an administrator retries that.
var ErrFailed = errors.New("the run was FAILED before, and does not begin again unless it is retried")

// Work is what a run is for. Its context is cancelled with the cause [ErrLost] the moment the lock is lost, and with
// the caller's cause when the caller's context ends; it must then stop. The text that it returns is stored with READY:
// UTF-8 of at most [MaxResultBytes]. An error is a failed attempt (see [Permanent]), and so is a panic, as a
// [*PanicError].
type Work func(ctx context.Context, l Lock) (result string, err error)

// Run runs the work if the gate grants it, and says what came of it. Options may be nil.
//
// It returns when the work has returned, also after the lock was lost and the work was told to stop: a run that still
// runs is not reported as over. What the work returned is stored for as long as the gate accepts it: Run waits for that
// while the lock lasts, for ten seconds at least, and after that it goes on in the background, see [Storing]. When ctx
// ends, or the gate does not respond, before it is known what became of the request for the run, the request is given
// up, so that nothing stays locked by it: see [Acquire].GiveUp. Run does not outlast ctx by more than a second for
// that, nor for anything else that it has to send, which goes on in the background then, or by Options.SettleTime; a
// work that does not stop is waited for. A work that returns without an error in spite of an ended ctx has done what it
// was asked, and its result is stored. So is that of one that returns after its lock has expired by the clocks of this
// process, if the gate still accepts it, because no other worker took over; under a lock that the gate called lost,
// nothing is written.
//
// An error means that nothing ran: the arguments are invalid, the gate did not respond within Options.Wait and
// RetryFor, or its server has never answered and its address may be wrong, which is known within a second. Everything
// else is an Outcome.
func Run(ctx context.Context, gate Gate, runID string, work Work, o *Options) (Outcome, error) {
	s, err := o.settings()
	if err != nil {
		return Outcome{}, fmt.Errorf("run once: %w", err)
	}
	switch {
	case gate == nil:
		return Outcome{}, errors.New("run once: the gate is nil")
	case work == nil:
		return Outcome{}, errors.New("run once: the work is nil")
	}
	if err := checkID(runID); err != nil {
		return Outcome{}, fmt.Errorf("run once: %w", err)
	}
	r := &run{Options: s, gate: gate, id: runID}
	if ctx.Err() != nil {
		return Outcome{Status: Stopped, Err: context.Cause(ctx)}, nil //nolint:nilerr // an outcome
	}
	grant, asked, err := r.waited(ctx)
	if err != nil && r.open && (ctx.Err() != nil || !unknown(err) && !rejected(err)) {
		r.giveUp(ctx)
	}
	switch {
	case err != nil && unknown(err):
		return Outcome{Status: Unknown}, nil
	case err != nil && ctx.Err() != nil:
		return Outcome{Status: Stopped, Err: because(context.Cause(ctx), err)}, nil //nolint:nilerr // an outcome
	case err != nil:
		return Outcome{}, fmt.Errorf("ask for run %q: %w", runID, err)
	case !grant.Acquired && grant.Reason == contracts.SkipAlreadyFinished &&
		grant.Status == string(contracts.RunFailed):
		return Outcome{Status: AlreadyFailed, Err: failedBefore(grant.Result.Reason), GivenUp: grant.GivenUp,
			Due: r.due}, nil
	case !grant.Acquired && grant.Reason == contracts.SkipAlreadyFinished:
		return Outcome{Status: AlreadyFinished, Result: grant.Result.Result, RetryAfter: grant.RetryAfter, Due: r.due}, nil
	case !grant.Acquired:
		return Outcome{Status: Locked, RetryAfter: grant.RetryAfter, Due: r.due, AtWork: grant.Due}, nil
	}
	r.lock, r.failures = grant.Lock, grant.Failures
	if ctx.Err() != nil { // during the request
		return r.stopped(ctx, nil), nil //nolint:nilerr // an outcome
	}
	out := r.hold(ctx, grant, asked, work)
	out.Due = r.due
	return out, nil
}

// failedBefore is [ErrFailed] with the reason, if the gate says it.
func failedBefore(reason string) error {
	if reason == "" {
		return ErrFailed
	}
	return fmt.Errorf("%w: %s", ErrFailed, reason)
}

// run is one call of [Run].
type run struct {
	Options

	gate     Gate
	id       string
	lock     Lock
	failures int64 // attempts that failed before this one
	open     bool  // a request for the run may have been carried out, or may still be

	due, next time.Time // of which time the run is asked for, with a Schedule
	turns     int       // how often the schedule was asked again
}

// polls are the waits between two requests for a run that another worker has.
var polls = backoff.Policy{First: 100 * time.Millisecond, Max: time.Second, EqualJitter: true}

// waited is acquire, again and again while another worker has the run, for as long as the caller waits, and for a run
// of a schedule until it is due and no earlier one is at work.
func (r *run) waited(ctx context.Context) (Grant, term.Moment, error) {
	r.choose(time.Now())
	until := r.clock().Add(r.Wait)
	var behind *Grant // of a run that was due earlier, while that is at work
	for poll := 0; ; poll++ {
		left := r.clock().Until(until)
		g, asked, err := r.within(ctx, max(0, left)+r.RetryFor)
		left = r.clock().Until(until)
		var pause time.Duration
		switch {
		case err != nil || g.Acquired:
			return g, asked, err
		case g.Reason == contracts.SkipNotDue && behind != nil:
			return *behind, asked, nil
		case g.Reason == contracts.SkipNotDue:
			if pause, err = r.notDue(g); err != nil {
				return g, asked, err
			}
		case g.Reason != contracts.SkipLocked:
			return g, asked, nil
		case r.behind(g):
			if behind = &g; time.Now().After(r.next.Add(maxAhead)) {
				return g, asked, nil
			}
			pause = roundPolls.Delay(poll)
		case left <= 0:
			return g, asked, nil
		default:
			pause = min(polls.Delay(poll), left)
		}
		if g.Reason == contracts.SkipLocked && g.RetryAfter > 0 {
			pause = min(pause, g.RetryAfter)
		}
		if r.clock.Sleep(ctx, r.clock().Add(pause)) != nil {
			return g, asked, context.Cause(ctx)
		}
	}
}

// within is acquire in a span of time.
func (r *run) within(ctx context.Context, span time.Duration) (Grant, term.Moment, error) {
	ctx, cancel := context.WithTimeout(ctx, span)
	defer cancel()
	return r.acquire(ctx)
}

// acquire retries until there is a response. asked is the time before the request that got it.
func (r *run) acquire(ctx context.Context) (g Grant, asked term.Moment, err error) {
	// A lock that expired before the response arrived was never held: that is no loss, and asked again. The request that
	// got it is spent, though, and another try is another request.
	spent := func(err error) bool {
		return errors.Is(err, contracts.CodeRequestIDReused) || errors.Is(err, contracts.CodeLeaseExpired)
	}
	var first lease.Meeting
	final := func(err error) bool {
		return unknown(err) || first.Unmet(err) ||
			rejected(err) && (!r.madeUp || !errors.Is(err, contracts.CodeRequestIDReused))
	}
	err = insist(ctx, min(tryTime, r.TTL), final, func(ctx context.Context) error {
		var err error
		asked = r.clock()
		g, err = r.gate.Acquire(ctx, r.request())
		r.open = r.open || err == nil || lease.Unsettled(err)
		if err == nil && g.Acquired && r.clock().Until(asked.End(g.Remaining)) <= 0 {
			err = fmt.Errorf("%w: before the gate's response arrived", contracts.CodeLeaseExpired)
		}
		if r.madeUp && spent(err) {
			r.RequestID = rand.Text()
		}
		return err
	})
	return g, asked, err
}

// request is the request for the run.
func (r *run) request() Acquire {
	return Acquire{RunID: r.id, Owner: r.Owner, RequestID: r.RequestID, TTL: r.TTL, MaxFailures: r.MaxFailures,
		Fingerprint: r.Fingerprint, MaxTakeovers: r.MaxTakeovers, Due: r.due, NextDue: r.next, Every: r.Every}
}

// giveUp gives the latest request for the run up. If that is not settled in time, a lock that came of the request
// expires: worth a warning, nothing more.
func (r *run) giveUp(ctx context.Context) {
	request := r.request()
	request.GiveUp = true
	warn := func(err error) {
		if err != nil && !unknown(err) && !errors.Is(err, contracts.CodeRequestIDReused) && !errors.Is(err, errBackground) {
			r.Warn(fmt.Errorf("give up the request for the run of %q, which may be locked until that expires: %w", r.id, err))
		}
	}
	warn(r.settle(ctx, cmp.Or(r.SettleTime, giveUpTime), hold.GraceTime, warn, func(ctx context.Context) error {
		return insist(ctx, tryTime, ended, func(ctx context.Context) error {
			g, err := r.gate.Acquire(ctx, request)
			if err == nil && g.Acquired { // the gate does not know how to give up
				if err = r.gate.Release(ctx, g.Lock, ""); IsLost(err) {
					err = nil
				}
			}
			return err
		})
	}))
}

// hold runs the work under a granted lock.
func (r *run) hold(ctx context.Context, g Grant, asked term.Moment, work Work) Outcome {
	t := term.New(fencing.With(ctx, r.lock.Lease()), r.clock, asked.End(g.Remaining), expired)
	defer t.Cancel(nil)

	// The lock is kept as long as the work runs, also when the caller's context has ended and the work winds up.
	keeping, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	var keepers sync.WaitGroup
	keepers.Go(func() { t.Watch(keeping) })
	keepers.Go(func() { r.heartbeat(t).Run(keeping, asked.Due(r.Heartbeat, g.Remaining, r.TTL)) })

	result, err := perform(t.Context(), work, r.lock)

	lost := t.Settle()
	stop()
	keepers.Wait()
	switch {
	case err == nil && errors.Is(lost, expiredError{}): // the gate knows whether another worker has begun
		return r.ready(ctx, t, result)
	case lost != nil:
		return Outcome{Status: Lost, Token: r.lock.Token, Err: because(lost, err)}
	case err == nil:
		return r.ready(ctx, t, result)
	case errors.Is(ctx.Err(), context.DeadlineExceeded), errors.Is(context.Cause(ctx), context.DeadlineExceeded):
		return r.timeOver(ctx, t, err)
	case ctx.Err() != nil:
		return r.stopped(ctx, err)
	default:
		return r.failed(ctx, t, err)
	}
}

// because is err with what followed from it, unless that says the same.
func because(err, followed error) error {
	if followed == nil || errors.Is(followed, err) || errors.Is(followed, context.Canceled) {
		return err
	}
	return fmt.Errorf("%w; then: %w", err, followed)
}
