package httpapi

import (
	"context"
	"errors"
	"net/http"
	"strings"

	"github.com/leasehold-dev/leasehold/contracts"
	"github.com/leasehold-dev/leasehold/functions/direct"
	"github.com/leasehold-dev/leasehold/repo/analysis"
	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/field"
	"github.com/leasehold-dev/leasehold/repo/page"
)

// maxFinishBytes bounds the body of a finish: the longest result with each byte escaped, and the rest.
const maxFinishBytes = 6*analysis.MaxResultBytes + MaxBodyBytes

// notGiven marks a member that the body does not have, where an empty one means something else: no JSON can hold it.
const notGiven = "\xff"

func analysisID(r *http.Request) analysis.ID { return analysis.ID(r.PathValue("analysis_id")) }

func (a *api) createAnalysis(w http.ResponseWriter, r *http.Request, _ Caller) error {
	// A caller that sends a document expects it to be stored.
	if _, err := readBody(w, r, 0); errors.Is(err, contracts.CodePayloadTooLarge) {
		return field.Errorf("body",
			"must be empty: the document is made with the status PENDING and nothing else; write your own fields into your store")
	} else if err != nil {
		return err
	}
	o, err := answer(a, r, func() (analysis.Outcome, error) {
		return a.analyses.Create(r.Context(), analysis.Create{ID: analysisID(r)})
	})
	if err != nil {
		return err
	}
	return send(w, contracts.AnalysisCreated{
		AnalysisID: string(analysisID(r)), Status: string(o.Grant.Status), Created: !o.Replayed,
	})
}

// lockAnalysis responds with a grant, or with why there is none: a run that is not granted is skipped, which is no
// error.
func (a *api) lockAnalysis(c call, b *contracts.AnalysisLockRequest) (any, error) {
	if err := c.asHolder(&b.OwnerID); err != nil {
		return nil, err
	}
	command, err := direct.AcquireAnalysis(analysisID(c.Request), *b)
	if err != nil {
		return nil, err
	}
	if b.GiveUp {
		o, err := a.analyses.GiveUp(c.Context(), analysis.GiveUp{Acquire: command})
		return c.gaveUp(o, b.OwnerID, err, noLock)
	}
	o, err := a.analyses.Acquire(c.Context(), command)
	c.began(o, b.OwnerID, err)
	return reply(c, o, o.Replayed, err, func(o analysis.Outcome) (any, error) {
		id, status := string(analysisID(c.Request)), string(o.Grant.Status)
		switch o.Code {
		case analysis.OK:
			return contracts.AnalysisGranted{
				AnalysisID: id, Acquired: true, Status: status, OwnerID: o.Grant.Owner, FencingToken: o.Grant.Token,
				ExpiresAt: direct.Time(o.Grant.ExpiresAt), RemainingMs: o.Grant.ExpiresAt.Sub(o.At).Milliseconds(),
				HeartbeatSeconds: heartbeat(b.TTLSeconds), Runs: o.Grant.Runs, Failures: o.Grant.Failures, Replayed: o.Replayed,
			}, nil
		case analysis.AlreadyFinished:
			return contracts.AnalysisSkipped{
				AnalysisID: id, Reason: contracts.SkipAlreadyFinished, Status: status, Result: o.Result, FailureReason: o.Reason,
			}, nil
		case analysis.Locked:
			return contracts.AnalysisSkipped{
				AnalysisID: id, Reason: contracts.SkipLocked, Status: status, OwnerID: o.Grant.Owner,
				ExpiresAt:    direct.Time(o.Grant.ExpiresAt),
				RetryAfterMs: max(1, o.RetryAfter.Milliseconds()),
			}, nil
		default:
			return nil, noLock(o)
		}
	})
}

// began notes what became of an attempt to have an analysis or a run: whose it is, if it was granted, and else why it
// was skipped.
func (c call) began(o analysis.Outcome, owner string, err error) {
	if err != nil {
		return
	}
	c.event().Takeover = o.Code == analysis.OK && o.Grant.Runs > 1
	c.note.gate(o, owner, 0, err)
	switch o.Code {
	case analysis.OK:
		c.event().Runs = o.Grant.Runs
		c.note.begins()
		return
	case analysis.AlreadyFinished:
		c.note.skipped = string(contracts.SkipAlreadyFinished)
	case analysis.Locked:
		c.note.skipped = string(contracts.SkipLocked)
	case analysis.NotDue:
		c.note.skipped = string(contracts.SkipNotDue)
	default: // an error
	}
	c.note.action = "" // nothing was granted
}

// gateEnded notes the end of an attempt by its holder, which failed if that says why.
func (c call) gateEnded(o analysis.Outcome, owner string, token int64, failed string, err error) {
	c.note.gate(o, owner, token, err)
	if c.note.ends(); failed != "" {
		c.event().Result = "failed"
	}
}

// gaveUp is the response to a request that was given up: none, because nothing is left of it.
func (c call) gaveUp(o analysis.Outcome, owner string, err error, rejected func(analysis.Outcome) error) (any, error) {
	c.note.action = strings.TrimSuffix(strings.TrimSuffix(c.note.action, "lock"), "begin") + actionGiveUp
	c.note.gate(o, owner, 0, err)
	c.note.ends()
	return reply(c, o, o.Replayed, err, ifOK(rejected, func(analysis.Outcome) any { return nil }))
}

// heartbeat is how often a lock should be refreshed: a fifth of its time leaves time for refreshes that fail. A lock of
// a second has no heartbeat of whole seconds.
func heartbeat(ttlSeconds int64) int64 {
	if ttlSeconds < 2 {
		return 0
	}
	return max(1, ttlSeconds/5)
}

func (a *api) refreshAnalysis(c call, b *contracts.AnalysisRefreshRequest) (held contracts.AnalysisLock, err error) {
	if err := c.asHolder(&b.OwnerID); err != nil {
		return held, err
	}
	o, err := a.analyses.Refresh(c.Context(), analysis.Refresh{
		ID: analysisID(c.Request), Owner: b.OwnerID, Token: b.FencingToken, TTLSeconds: b.TTLSeconds,
	})
	return reply(c, o, o.Replayed, err, ifOK(noLock, func(o analysis.Outcome) contracts.AnalysisLock {
		return contracts.AnalysisLock{
			AnalysisID: string(analysisID(c.Request)), OwnerID: o.Grant.Owner, FencingToken: o.Grant.Token,
			ExpiresAt: direct.Time(o.Grant.ExpiresAt), RemainingMs: o.Grant.ExpiresAt.Sub(o.At).Milliseconds(),
		}
	}))
}

func (a *api) releaseAnalysis(c call, b *contracts.AnalysisReleaseRequest) (released contracts.AnalysisReleased,
	err error) {
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
	o, err := a.analyses.Release(c.Context(), analysis.Release{
		ID: analysisID(c.Request), Owner: b.OwnerID, Token: b.FencingToken, Failed: b.FailureReason,
	})
	c.gateEnded(o, b.OwnerID, b.FencingToken, b.FailureReason, err)
	return reply(c, o, o.Replayed, err, ifOK(noLock, func(o analysis.Outcome) contracts.AnalysisReleased {
		return contracts.AnalysisReleased{AnalysisID: string(analysisID(c.Request)), Failures: o.Grant.Failures,
			Replayed: o.Replayed}
	}))
}

func (a *api) finishAnalysis(c call, b *contracts.AnalysisFinishRequest) (finished contracts.AnalysisFinished,
	err error) {
	if err := c.asHolder(&b.OwnerID); err != nil {
		return finished, err
	}
	switch b.FailureReason {
	case notGiven:
		b.FailureReason = ""
	case "":
		return finished, field.Errorf("failure_reason", "is empty: say why the analysis failed, or leave it out")
	}
	o, err := a.analyses.Finish(c.Context(), analysis.Finish{
		ID: analysisID(c.Request), Owner: b.OwnerID, Token: b.FencingToken,
		Status: analysis.Status(b.Status), Result: b.Result, Reason: b.FailureReason,
	})
	c.gateEnded(o, b.OwnerID, b.FencingToken, "", err)
	c.event().Result = string(b.Status)
	return reply(c, o, o.Replayed, err, ifOK(noLock, func(o analysis.Outcome) contracts.AnalysisFinished {
		return contracts.AnalysisFinished{AnalysisID: string(analysisID(c.Request)), Status: b.Status, Replayed: o.Replayed}
	}))
}

func (a *api) getAnalysis(c call) (contracts.Analysis, error) {
	s, now, err := a.analyses.Get(c.Context(), analysisID(c.Request))
	if err != nil {
		return contracts.Analysis{}, err
	}
	if !s.Exists {
		return contracts.Analysis{}, direct.NoAnalysis()
	}
	return direct.Analysis(analysisID(c.Request), s, s.Locked(now)), nil
}

func (a *api) listAnalyses(w http.ResponseWriter, r *http.Request, _ Caller) error {
	q, err := query(r, "prefix", "status", "state", "owner_id", "urgent", "page_size", "page_token")
	if err != nil {
		return err
	}
	list := analysis.List{
		Prefix: q["prefix"], Status: analysis.Status(q["status"]), Stage: analysis.Stage(q["state"]), Owner: q["owner_id"],
		PageToken: q["page_token"],
	}
	if list.PageSize, list.Urgent, err = selection(q); err != nil {
		return err
	}
	if err := list.Validate(); err != nil {
		return err // without waiting
	}
	show := func(l analysis.Listed) contracts.Analysis { return direct.Analysis(l.ID, l.State, l.Locked) }
	return sendList(a, w, r, "analyses", show, func(ctx context.Context) (readable []analysis.Listed, rest any,
		cost page.Cost, err error) {
		p, err := a.analyses.List(ctx, list)
		end := unreadable{Counts: workCounts(p.Looked), nextPage: nextPage{p.Next}}
		readable = a.readable(r, "analyses", p.Analyses, func(id string, c contracts.Code) {
			end.Unreadable = append(end.Unreadable, contracts.UnreadableAnalysis{AnalysisID: id, Code: c})
		})
		return readable, end, p.Cost, err
	})
}

// readable are those of a page that can be read. The others are passed to unreadable, and told of in the log.
func (a *api) readable(r *http.Request, what string, listed []analysis.Listed,
	unreadable func(id string, c contracts.Code)) (readable []analysis.Listed) {
	var damaged []docstore.Damaged
	for _, l := range listed {
		if l.Err == nil {
			readable = append(readable, l)
			continue
		}
		unreadable(string(l.ID), problemOf(l.Err).Code)
		damaged = append(damaged, docstore.Damaged{Err: l.Err})
	}
	a.passed(r, what, damaged)
	return readable
}

// unreadable is what follows the entries of a page of analyses.
type unreadable struct {
	Unreadable []contracts.UnreadableAnalysis `json:"unreadable,omitempty"`
	Counts     contracts.WorkCounts           `json:"counts"`
	nextPage
}

// workCounts are the counts of a page of analyses or runs.
func workCounts(l analysis.Looked) contracts.WorkCounts {
	in := func(s analysis.Stage) int64 { return int64(l.Stages[s]) }
	return contracts.WorkCounts{
		Documents: int64(l.Documents), Running: in(analysis.StageRunning), Stale: in(analysis.StageStale),
		Failed: in(analysis.StageFailed), Pending: in(analysis.StagePending), Ready: in(analysis.StageReady),
	}
}

func (a *api) retryAnalysis(c call, b *contracts.AnalysisRetryRequest) (retried contracts.AnalysisRetried, err error) {
	if err := c.asOwner(&b.OwnerID); err != nil {
		return retried, err
	}
	command := analysis.Retry{ID: analysisID(c.Request), By: b.OwnerID, RequestID: b.RequestID, Reason: b.Reason}
	if b.FinishedAt != "" {
		if command.FinishedAt, err = docstore.ParseTime(docstore.String(b.FinishedAt)); err != nil {
			return retried, field.Errorf("finished_at", "must be the time that the analysis showed, like %q",
				contracts.TimeFormat)
		}
	}
	o, err := a.analyses.Retry(c.Context(), command)
	c.event().Replayed = o.Replayed
	atStore(c.event(), o.At)
	return reply(c, o, o.Replayed, err, ifOK(noLock, func(o analysis.Outcome) contracts.AnalysisRetried {
		return contracts.AnalysisRetried{
			AnalysisID: string(analysisID(c.Request)), Status: string(o.Grant.Status), Retry: direct.Retried(o.Retried),
			Replayed: o.Replayed,
		}
	}))
}

// ifOK is what the outcome of a holder's command says if it is OK, else its rejection.
func ifOK[R any](rejected func(analysis.Outcome) error, say func(analysis.Outcome) R) func(analysis.Outcome) (R,
	error) {
	return func(o analysis.Outcome) (R, error) {
		if o.Code != analysis.OK {
			return *new(R), rejected(o)
		}
		return say(o), nil
	}
}

// noLock is the error of an outcome that leaves the caller without a lock.
func noLock(o analysis.Outcome) error { return direct.NoRun(o, "analysis_id") }

// lockOwner is [Caller.owner] for analyses, whose holders may also send back the whole name that a grant gave them.
func (c Caller) lockOwner(fromBody string) (string, error) {
	if c.Subject != "" {
		whole := ownerOf(c.Subject)
		if fromBody == whole {
			return whole, nil
		}
		fromBody = strings.TrimPrefix(fromBody, whole+"#")
	}
	return c.owner(fromBody)
}
