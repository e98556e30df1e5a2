package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/leasehold-dev/leasehold/contracts"
	"github.com/leasehold-dev/leasehold/internal/lease"
	"github.com/leasehold-dev/leasehold/once"
)

// runNews is a gate that says on standard error what comes of the requests for a run: what begins, what it waits for,
// that the server cannot be reached. A command that a timer starts must outlast a restart of the server, so that it is
// asked on too where the address may be wrong.
type runNews struct {
	once.Gate

	cmd         *onceCmd
	s           *streams
	first       time.Time    // for which time a run is due by this machine's clock
	asked       once.Acquire // the latest request
	got         once.Grant   // and the latest response
	begun       bool         // the command
	unreachable bool         // was said
	waits       time.Time    // the due time of which it was said that it waits
}

// Acquire asks for the run. [once.Run] calls it once at a time.
func (n *runNews) Acquire(ctx context.Context, r once.Acquire) (once.Grant, error) {
	g, err := n.Gate.Acquire(ctx, r)
	if r.GiveUp {
		return g, err
	}
	if n.first.IsZero() {
		n.first = r.Due
	}
	n.asked = r
	why, unmet := n.cmd.explain(err), new(lease.Meeting).Unmet(err)
	_, unreachable := errors.AsType[*unreachableError](why)
	if (unmet || unreachable && !n.cmd.Quiet) && !n.unreachable {
		n.unreachable = true
		alwaysf(n.s, "%v\nleasehold: trying again for up to %s", why, inShort(runRetryFor))
	}
	if unmet {
		err = insisted{err}
	}
	if err == nil {
		n.got = g
		n.wait()
	}
	return g, err
}

// insisted is an error after which the request is sent again, although the address of the server may be wrong.
type insisted struct{ error }

// Unmet is for [lease.Meeting].
func (insisted) Unmet() int { return 0 }

// Unwrap is the error itself.
func (e insisted) Unwrap() error { return e.error }

// due is the time for which the run is due; the zero time if it comes round by no calendar.
func (n *runNews) due() time.Time { return n.asked.Due }

// name is the run as it is shown.
func (n *runNews) name() string { return n.cmd.job.named(n.cmd.Name, n.due()) }

// earlier reports whether a run was due earlier than the one that is asked for.
func (n *runNews) earlier(run time.Time) bool { return !n.due().IsZero() && run.Before(n.due()) }

// ahead reports whether the gate's clock has not come to the time for which a run is due by this machine's.
func (n *runNews) ahead() bool { return n.due().Before(n.first) }

// wait says once what [once.Run] waits for: that the run of an earlier due time ends, or that the gate's clock comes to
// the due time.
func (n *runNews) wait() {
	early := n.got.Reason == contracts.SkipNotDue && n.got.Now.Before(n.due())
	behind := n.got.Reason == contracts.SkipLocked && n.earlier(n.got.Due)
	if !early && !behind || n.waits.Equal(n.due()) {
		return
	}
	n.waits = n.due()
	if early {
		n.cmd.sayf(n.s, "%s is due in %s by %s clock; this machine's is ahead", n.name(),
			n.due().Sub(n.got.Now).Round(time.Second), n.whose())
		return
	}
	n.cmd.sayf(n.s, "%s waits until %s at most: %s", n.name(), n.cmd.job.calendar.Local(n.asked.NextDue),
		n.work(n.got.Due))
}

// whose says whose clock decides.
func (n *runNews) whose() string {
	if n.cmd.flags.given()["store"] != "" {
		return "the store's"
	}
	return "the server's"
}

// work says that a run of an earlier due time is at work.
func (n *runNews) work(due time.Time) string {
	if due.IsZero() {
		return "a run without a due time is still at work"
	}
	return "the run of " + n.cmd.job.named(n.cmd.Name, due) + " is still at work"
}

// begins says what runs, and how long its record is kept.
func (n *runNews) begins() {
	n.begun = true
	c := n.cmd
	kept := time.Now().Add(c.job.keep).UTC().Format(time.DateOnly)
	if c.job.keep < 2*aDay {
		kept = time.Now().Add(c.job.keep).UTC().Format(time.RFC3339)
	}
	what := "and it does not run again before"
	switch {
	case c.job.calendar != nil:
		what = "the next one is due at " + c.job.calendar.Local(n.asked.NextDue)
	case c.job.every > 0:
		what = "and it runs again " + inShort(c.job.every) + " from now at the earliest"
	}
	c.sayf(n.s, "running %s; its record is kept until %s or later, %s", n.name(), kept, what)
}

// end says what came of the run, and gives it its exit code.
func (n *runNews) end(ctx context.Context, out once.Outcome) error {
	switch {
	case out.Status == once.Locked && n.cmd.Skip:
		n.skipped(out)
		return nil
	case out.Status == once.AlreadyFinished && !n.ahead():
		n.finished(ctx, out)
		return nil
	default:
		return n.exit(out)
	}
}

// skipped says why nothing was run because of another worker.
func (n *runNews) skipped(out once.Outcome) {
	say := n.cmd.sayf
	if n.earlier(out.AtWork) { // this due time has no run
		say = alwaysf
	}
	say(n.s, "skipped: %v", n.exit(out))
}

// finished says that the run was finished before: when, and what came of it, as far as the gate tells.
func (n *runNews) finished(ctx context.Context, out once.Outcome) {
	since, result := "", ""
	if g, ok := n.Gate.(interface {
		Get(ctx context.Context, runID string) (contracts.Run, error)
	}); ok && !n.cmd.Quiet {
		ctx, cancel := context.WithTimeout(ctx, lookTimeout)
		defer cancel()
		if r, err := g.Get(ctx, n.cmd.Name); err == nil && r.FinishedAt != "" { // it is skipped whatever the answer
			since = ", since " + r.FinishedAt
		}
	}
	if out.Result != "" {
		result = ", with the result " + printable(out.Result)
	}
	next := "to run it once a day: leasehold once " + shellWord(n.cmd.Name) + " --every day -- COMMAND"
	switch {
	case n.cmd.job.calendar != nil:
		next = "the next one is due at " + n.cmd.job.calendar.Local(n.asked.NextDue)
	case n.cmd.job.every > 0 && n.got.RetryAfter > 0:
		next = "it runs again in " + inShort(n.got.RetryAfter.Round(time.Second)) + " at the earliest"
	case n.cmd.job.every > 0:
		next = "it runs again " + inShort(n.cmd.job.every) + " after the last success began"
	}
	n.cmd.sayf(n.s, "%s is finished already%s%s, and nothing was run; %s", n.name(), since, result, next)
}

// exit gives the outcome of a run its exit code.
func (n *runNews) exit(out once.Outcome) error {
	name := n.name()
	switch out.Status {
	case once.Ready:
		return nil
	case once.Locked:
		if n.earlier(out.AtWork) {
			return &exitError{exitOtherHolds, fmt.Errorf("%s had no run: %s", name, n.work(out.AtWork))}
		}
		return &exitError{exitOtherHolds, fmt.Errorf("another worker runs %s; its lock expires in %v unless it is refreshed",
			name, out.RetryAfter)}
	case once.AlreadyFinished: // and this machine's clock is ahead
		return &exitError{exitNotDue, fmt.Errorf(
			"%s is not due by %s clock, and %s is finished: set the clock of this machine", n.cmd.job.named(n.cmd.Name, n.first), n.whose(), name)}
	case once.AlreadyFailed:
		of := ""
		if n.cmd.Tenant != "default" {
			of = " --tenant " + shellWord(n.cmd.Tenant)
		}
		return &exitError{exitFailedBefore, fmt.Errorf("%s: %w: leasehold run retry%s %s --reason WHY", name, out.Err, of,
			shellWord(n.cmd.Name))}
	case once.Lost:
		return &exitError{exitLost, out.Err}
	case once.Failed:
		return failedRun(fmt.Errorf("%s is FAILED: %w", name, out.Err))
	case once.NotStored:
		return failedRun(fmt.Errorf("the command of %s is done, and the gate does not know it: it runs again when it is asked "+
			"for: %w", name, out.Err))
	case once.Retry:
		return failedRun(fmt.Errorf("the run of %s failed, and may be tried again: %w", name, out.Err))
	default:
		return failedRun(fmt.Errorf("the run of %s was stopped: %w", name, out.Err))
	}
}
