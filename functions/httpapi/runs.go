package httpapi

import (
	"context"
	"math"
	"net/http"

	"github.com/leasehold-dev/leasehold/contracts"
	"github.com/leasehold-dev/leasehold/functions/direct"
	"github.com/leasehold-dev/leasehold/repo/analysis"
	"github.com/leasehold-dev/leasehold/repo/field"
	"github.com/leasehold-dev/leasehold/repo/page"
	"github.com/leasehold-dev/leasehold/repo/runs"
)

func runID(r *http.Request) runs.ID {
	return runs.ID{Tenant: r.PathValue("tenant_id"), ID: r.PathValue("run_id")}
}

// secondsNotGiven marks seconds that the body does not have, where 0 is none that it may have.
const secondsNotGiven = math.MinInt64

// given is a span of time of a body as the rule is told: 0 is nothing said there, and no time here.
func given(seconds int64) int64 {
	switch seconds {
	case secondsNotGiven:
		return 0
	case 0:
		return -1 // refused
	default:
		return seconds
	}
}

// beginRun responds with a grant, or with why there is none, which is no error.
func (a *api) beginRun(c call, b *contracts.RunBeginRequest) (any, error) {
	if err := c.asHolder(&b.OwnerID); err != nil {
		return nil, err
	}
	b.KeepSeconds, b.EverySeconds = given(b.KeepSeconds), given(b.EverySeconds)
	command, err := direct.BeginRun(runID(c.Request), *b)
	if err != nil {
		return nil, err
	}
	if b.GiveUp {
		o, err := a.runs.GiveUp(c.Context(), command)
		return c.gaveUp(o, b.OwnerID, err, noRun)
	}
	o, err := a.runs.Begin(c.Context(), command)
	c.began(o, b.OwnerID, err)
	return reply(c, o, o.Replayed, err, func(o runs.Outcome) (any, error) {
		id := runID(c.Request).ID
		switch o.Code {
		case analysis.OK:
			return contracts.RunGranted{
				RunID: id, Acquired: true, OwnerID: o.Grant.Owner, FencingToken: o.Grant.Token,
				ExpiresAt: direct.Time(o.Grant.ExpiresAt), RemainingMs: o.Grant.ExpiresAt.Sub(o.At).Milliseconds(),
				HeartbeatSeconds: heartbeat(b.TTLSeconds), DueAt: direct.OptionalTime(o.Due), Runs: o.Grant.Runs,
				Failures: o.Grant.Failures, Replayed: o.Replayed,
			}, nil
		case analysis.AlreadyFinished:
			return contracts.RunSkipped{
				RunID: id, Reason: contracts.SkipAlreadyFinished, Status: contracts.RunEnd(o.Grant.Status), Result: o.Result,
				FailureReason: o.Reason, DueAt: direct.OptionalTime(o.Due), RetryAfterMs: o.RetryAfter.Milliseconds(),
			}, nil
		case analysis.NotDue:
			return contracts.RunSkipped{
				RunID: id, Reason: contracts.SkipNotDue, DueAt: direct.OptionalTime(o.Due), Now: direct.Time(o.At),
				RetryAfterMs: o.RetryAfter.Milliseconds(),
			}, nil
		case analysis.Locked:
			return contracts.RunSkipped{
				RunID: id, Reason: contracts.SkipLocked, OwnerID: o.Grant.Owner, ExpiresAt: direct.Time(o.Grant.ExpiresAt),
				RetryAfterMs: max(1, o.RetryAfter.Milliseconds()), DueAt: direct.OptionalTime(o.Due),
			}, nil
		default:
			return nil, noRun(o)
		}
	})
}

func (a *api) refreshRun(c call, b *contracts.RunRefreshRequest) (held contracts.RunLock, err error) {
	if err := c.asHolder(&b.OwnerID); err != nil {
		return held, err
	}
	o, err := a.runs.Refresh(c.Context(), runs.Refresh{
		ID: runID(c.Request), Owner: b.OwnerID, Token: b.FencingToken, TTLSeconds: b.TTLSeconds,
		KeepSeconds: given(b.KeepSeconds),
	})
	return reply(c, o, o.Replayed, err, ifOK(noRun, func(o runs.Outcome) contracts.RunLock {
		return contracts.RunLock{
			RunID: runID(c.Request).ID, OwnerID: o.Grant.Owner, FencingToken: o.Grant.Token,
			ExpiresAt: direct.Time(o.Grant.ExpiresAt), RemainingMs: o.Grant.ExpiresAt.Sub(o.At).Milliseconds(),
		}
	}))
}

func (a *api) releaseRun(c call, b *contracts.RunReleaseRequest) (released contracts.RunReleased, err error) {
	if err := c.asHolder(&b.OwnerID); err != nil {
		return released, err
	}
	switch b.FailureReason {
	case notGiven:
		b.FailureReason = ""
	case "": // a run that failed without saying why must not go uncounted
		return released, field.Errorf("failure_reason",
			"is empty: say why the run failed, or leave it out for a run that was only stopped")
	}
	o, err := a.runs.Release(c.Context(), runs.Release{
		ID: runID(c.Request), Owner: b.OwnerID, Token: b.FencingToken, Failed: b.FailureReason,
		KeepSeconds: given(b.KeepSeconds),
	})
	c.gateEnded(o, b.OwnerID, b.FencingToken, b.FailureReason, err)
	return reply(c, o, o.Replayed, err, ifOK(noRun, func(o runs.Outcome) contracts.RunReleased {
		return contracts.RunReleased{RunID: runID(c.Request).ID, Failures: o.Grant.Failures, Replayed: o.Replayed}
	}))
}

func (a *api) finishRun(c call, b *contracts.RunFinishRequest) (finished contracts.RunFinished, err error) {
	if err := c.asHolder(&b.OwnerID); err != nil {
		return finished, err
	}
	switch b.FailureReason {
	case notGiven:
		b.FailureReason = ""
	case "":
		return finished, field.Errorf("failure_reason", "is empty: say why the run failed, or leave it out")
	}
	o, err := a.runs.Finish(c.Context(), runs.Finish{
		ID: runID(c.Request), Owner: b.OwnerID, Token: b.FencingToken, Status: analysis.Status(b.Status), Result: b.Result,
		Reason: b.FailureReason, KeepSeconds: given(b.KeepSeconds),
	})
	c.gateEnded(o, b.OwnerID, b.FencingToken, "", err)
	c.event().Result = string(b.Status)
	return reply(c, o, o.Replayed, err, ifOK(noRun, func(o runs.Outcome) contracts.RunFinished {
		return contracts.RunFinished{RunID: runID(c.Request).ID, Status: b.Status, Replayed: o.Replayed}
	}))
}

func (a *api) getRun(c call) (contracts.Run, error) {
	s, now, err := a.runs.Get(c.Context(), runID(c.Request))
	if err != nil {
		return contracts.Run{}, err
	}
	if !s.Exists {
		return contracts.Run{}, noRun(analysis.Outcome{Code: analysis.NotFound,
			Detail: "there is no such run; its record may have been removed"})
	}
	return direct.Run(runID(c.Request).ID, s, s.Locked(now)), nil
}

// retryRun lets a run that ended so be begun once more.
func (a *api) retryRun(from analysis.Status) func(call, *contracts.RunRetryRequest) (contracts.RunRetried, error) {
	return func(c call, b *contracts.RunRetryRequest) (retried contracts.RunRetried, err error) {
		if err := c.asHolder(&b.OwnerID); err != nil {
			return retried, err
		}
		command, err := direct.RetryRun(runID(c.Request), from, *b)
		if err != nil {
			return retried, err
		}
		o, err := a.runs.Retry(c.Context(), command)
		c.event().Replayed = o.Replayed
		atStore(c.event(), o.At)
		return reply(c, o, o.Replayed, err, ifOK(noRun, func(o runs.Outcome) contracts.RunRetried {
			done := contracts.RunRetried{RunID: runID(c.Request).ID, Retry: direct.Retried(o.Retried), Replayed: o.Replayed}
			if o.Grant.Status.Finished() {
				done.Status = contracts.RunEnd(o.Grant.Status)
			}
			return done
		}))
	}
}

func (a *api) removeRun(c call, b *contracts.RunRemoveRequest) (removed contracts.RunRemoved, err error) {
	if err := c.asHolder(&b.OwnerID); err != nil {
		return removed, err
	}
	o, err := a.runs.Remove(c.Context(), runs.Remove{
		ID: runID(c.Request), By: b.OwnerID, Reason: b.Reason, RequestID: b.RequestID,
	})
	c.event().Replayed = o.Replayed
	atStore(c.event(), o.At)
	return reply(c, o, o.Replayed, err, ifOK(noRun, func(o runs.Outcome) contracts.RunRemoved {
		return contracts.RunRemoved{RunID: runID(c.Request).ID, Replayed: o.Replayed}
	}))
}

func (a *api) listRuns(w http.ResponseWriter, r *http.Request, _ Caller) error {
	q, err := query(r, "prefix", "state", "owner_id", "urgent", "changed_after", "changed_before", "page_size",
		"page_token")
	if err != nil {
		return err
	}
	list := runs.List{
		Tenant: r.PathValue("tenant_id"), Prefix: q["prefix"], Stage: analysis.Stage(q["state"]), Owner: q["owner_id"],
		PageToken: q["page_token"],
	}
	if list.PageSize, list.Urgent, err = selection(q); err != nil {
		return err
	}
	if list, err = direct.SelectRuns(list, q["changed_after"], q["changed_before"]); err != nil {
		return err
	}
	if err := list.Validate(); err != nil {
		return err // without waiting
	}
	show := func(l analysis.Listed) contracts.Run { return direct.Run(string(l.ID), l.State, l.Locked) }
	return sendList(a, w, r, "runs", show, func(ctx context.Context) (readable []analysis.Listed, rest any,
		cost page.Cost, err error) {
		p, err := a.runs.List(ctx, list)
		end := unreadableRuns{Counts: workCounts(p.Looked), nextPage: nextPage{p.Next}}
		readable = a.readable(r, "runs", p.Runs, func(id string, c contracts.Code) {
			end.Unreadable = append(end.Unreadable, contracts.UnreadableRun{RunID: id, Code: c})
		})
		return readable, end, p.Cost, err
	})
}

// unreadableRuns is what follows the entries of a page of runs.
type unreadableRuns struct {
	Unreadable []contracts.UnreadableRun `json:"unreadable,omitempty"`
	Counts     contracts.WorkCounts      `json:"counts"`
	nextPage
}

// noRun is the error of an outcome that leaves the caller without the run.
func noRun(o runs.Outcome) error { return direct.NoRun(o, "run_id") }
