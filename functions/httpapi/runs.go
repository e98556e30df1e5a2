package httpapi

import (
	"context"
	"log/slog"
	"net/http"

	"github.com/leasehold-dev/leasehold/contracts"
	"github.com/leasehold-dev/leasehold/repo/analysis"
	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/field"
	"github.com/leasehold-dev/leasehold/repo/page"
	"github.com/leasehold-dev/leasehold/repo/runs"
)

func runID(r *http.Request) runs.ID {
	return runs.ID{Tenant: r.PathValue("tenant_id"), ID: r.PathValue("run_id")}
}

func (a *api) beginRun(w http.ResponseWriter, r *http.Request, c Caller) error {
	body := contracts.RunBeginRequest{TTLSeconds: runs.DefaultTTLSeconds, KeepSeconds: runs.DefaultKeepSeconds}
	if err := decode(w, r, MaxBodyBytes, &body); err != nil {
		return err
	}
	owner, err := c.lockOwner(body.OwnerID)
	if err != nil {
		return err
	}
	o, err := a.runs.Begin(r.Context(), runs.Begin{
		ID: runID(r), Owner: owner, RequestID: body.RequestID, TTLSeconds: body.TTLSeconds, MaxFailures: body.MaxFailures,
		Fingerprint: body.Fingerprint, KeepSeconds: body.KeepSeconds,
	})
	ranOn(r, o)
	if err != nil {
		return err
	}
	auditNote(r, slog.String("owner", owner))
	if o.Code != analysis.OK {
		noteOf(r).action = "" // nothing was granted
	}
	id := runID(r).ID
	switch o.Code { // a run that is not granted is no error
	case analysis.OK:
		return send(w, contracts.RunGranted{
			RunID: id, Acquired: true, OwnerID: o.Grant.Owner, FencingToken: o.Grant.Token,
			ExpiresAt: text(o.Grant.ExpiresAt), RemainingMs: o.Grant.ExpiresAt.Sub(o.At).Milliseconds(),
			HeartbeatSeconds: heartbeat(body.TTLSeconds), Runs: o.Grant.Runs, Failures: o.Grant.Failures, Replayed: o.Replayed,
		})
	case analysis.AlreadyFinished:
		noteOf(r).skipped = string(contracts.SkipAlreadyFinished)
		return send(w, contracts.RunSkipped{
			RunID: id, Reason: contracts.SkipAlreadyFinished, Status: contracts.AnalysisEnd(o.Grant.Status), Result: o.Result, FailureReason: o.Reason,
		})
	case analysis.Locked:
		noteOf(r).skipped = string(contracts.SkipLocked)
		return send(w, contracts.RunSkipped{
			RunID: id, Reason: contracts.SkipLocked, OwnerID: o.Grant.Owner, ExpiresAt: text(o.Grant.ExpiresAt),
			RetryAfterMs: max(1, o.RetryAfter.Milliseconds()),
		})
	default:
		return noRun(o)
	}
}

func (a *api) refreshRun(w http.ResponseWriter, r *http.Request, c Caller) error {
	body := contracts.RunRefreshRequest{TTLSeconds: runs.DefaultTTLSeconds, KeepSeconds: runs.DefaultKeepSeconds}
	if err := decode(w, r, MaxBodyBytes, &body); err != nil {
		return err
	}
	owner, err := c.lockOwner(body.OwnerID)
	if err != nil {
		return err
	}
	o, err := a.runs.Refresh(r.Context(), runs.Refresh{
		ID: runID(r), Owner: owner, Token: body.FencingToken, TTLSeconds: body.TTLSeconds, KeepSeconds: body.KeepSeconds,
	})
	ranOn(r, o)
	return sendRun(w, o, err, func() any {
		return contracts.RunLock{
			RunID: runID(r).ID, OwnerID: o.Grant.Owner, FencingToken: o.Grant.Token,
			ExpiresAt: text(o.Grant.ExpiresAt), RemainingMs: o.Grant.ExpiresAt.Sub(o.At).Milliseconds(),
		}
	})
}

func (a *api) releaseRun(w http.ResponseWriter, r *http.Request, c Caller) error {
	body := contracts.RunReleaseRequest{FailureReason: notGiven, KeepSeconds: runs.DefaultKeepSeconds}
	if err := decode(w, r, MaxBodyBytes, &body); err != nil {
		return err
	}
	owner, err := c.lockOwner(body.OwnerID)
	if err != nil {
		return err
	}
	switch body.FailureReason {
	case notGiven:
		body.FailureReason = ""
	case "": // a run that failed without saying why must not go uncounted
		return field.Errorf("failure_reason", "is empty: say why the run failed, or leave it out for a run that was only stopped")
	}
	o, err := a.runs.Release(r.Context(), runs.Release{
		ID: runID(r), Owner: owner, Token: body.FencingToken, Failed: body.FailureReason, KeepSeconds: body.KeepSeconds,
	})
	ranOn(r, o)
	return sendRun(w, o, err, func() any {
		return contracts.RunReleased{RunID: runID(r).ID, Failures: o.Grant.Failures, Replayed: o.Replayed}
	})
}

func (a *api) finishRun(w http.ResponseWriter, r *http.Request, c Caller) error {
	body := contracts.RunFinishRequest{FailureReason: notGiven, KeepSeconds: runs.DefaultKeepSeconds}
	if err := decode(w, r, maxFinishBytes, &body); err != nil {
		return err
	}
	owner, err := c.lockOwner(body.OwnerID)
	if err != nil {
		return err
	}
	switch body.FailureReason {
	case notGiven:
		body.FailureReason = ""
	case "":
		return field.Errorf("failure_reason", "is empty: say why the run failed, or leave it out")
	}
	o, err := a.runs.Finish(r.Context(), runs.Finish{
		ID: runID(r), Owner: owner, Token: body.FencingToken, Status: analysis.Status(body.Status), Result: body.Result,
		Reason: body.FailureReason, KeepSeconds: body.KeepSeconds,
	})
	ranOn(r, o)
	return sendRun(w, o, err, func() any {
		return contracts.RunFinished{RunID: runID(r).ID, Status: body.Status, Replayed: o.Replayed}
	})
}

func (a *api) getRun(w http.ResponseWriter, r *http.Request, _ Caller) error {
	s, now, err := a.runs.Get(r.Context(), runID(r))
	if err != nil {
		return err
	}
	if !s.Exists {
		return noRun(analysis.Outcome{Code: analysis.NotFound, Detail: "there is no such run; its record may have been removed"})
	}
	return send(w, runBody(runID(r).ID, s, s.Locked(now)))
}

// runBody is a run as every caller of its tenant may see it.
func runBody(id string, s analysis.State, locked bool) contracts.Run {
	body := contracts.Run{
		RunID: id, Finished: s.Status.Finished(), Locked: locked, OwnerID: s.Owner, Runs: s.Runs, Failures: s.Failures,
		Result: s.Result, FailureReason: s.Reason,
	}
	if end, ok := s.ExpiresAt(); ok && s.Owner != "" {
		body.ExpiresAt = text(end)
	}
	if body.Finished {
		body.Status, body.FinishedAt = contracts.AnalysisEnd(s.Status), storedTime(s.Finished)
	}
	return body
}

func (a *api) listRuns(w http.ResponseWriter, r *http.Request, _ Caller) error {
	q, err := query(r, "prefix", "page_size", "page_token")
	if err != nil {
		return err
	}
	list := runs.List{Tenant: r.PathValue("tenant_id"), Prefix: q["prefix"], PageToken: q["page_token"]}
	if list.PageSize, err = pageSize(q); err != nil {
		return err
	}
	if err := list.Validate(); err != nil {
		return err // without waiting
	}
	show := func(l analysis.Listed) contracts.Run { return runBody(string(l.ID), l.State, l.Locked) }
	return sendList(a, w, r, "runs", show, func(ctx context.Context) (readable []analysis.Listed, rest any, cost page.Cost, err error) {
		p, err := a.runs.List(ctx, list)
		end := unreadableRuns{nextPage: nextPage{p.Next}}
		var damaged []docstore.Damaged
		for _, l := range p.Runs {
			if l.Err == nil {
				readable = append(readable, l)
				continue
			}
			end.Unreadable = append(end.Unreadable, contracts.UnreadableRun{RunID: string(l.ID), Code: problemOf(l.Err).Code})
			damaged = append(damaged, docstore.Damaged{Err: l.Err})
		}
		a.passed(r, "runs", damaged)
		return readable, end, p.Cost, err
	})
}

// unreadableRuns is what follows the entries of a page of runs.
type unreadableRuns struct {
	Unreadable []contracts.UnreadableRun `json:"unreadable,omitempty"`
	nextPage
}

// sendRun sends the outcome of a holder's command: the body if it is OK, else the error of the same code.
func sendRun(w http.ResponseWriter, o runs.Outcome, err error, body func() any) error {
	switch {
	case err != nil:
		return err
	case o.Code == analysis.OK:
		return send(w, body())
	default:
		return noRun(o)
	}
}

// noRun is the error of an outcome that leaves the caller without the run.
func noRun(o runs.Outcome) error {
	e := contracts.Errorf(contracts.Code(o.Code), "%s", o.Detail)
	if o.Code == analysis.NotFound {
		e.Field = "run_id"
	}
	return e
}
