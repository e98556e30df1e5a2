package httpapi

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"strings"

	"github.com/leasehold-dev/leasehold/contracts"
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
	if n, err := io.CopyN(io.Discard, r.Body, 1); n > 0 {
		return field.Errorf("body", "must be empty: the document is made with the status PENDING and nothing else; write your own fields into your store")
	} else if !errors.Is(err, io.EOF) {
		return field.Errorf("body", "ended before it was whole")
	}
	o, err := a.analyses.Create(r.Context(), analysis.Create{ID: analysisID(r)})
	if err != nil {
		return err
	}
	return send(w, contracts.AnalysisCreated{
		AnalysisID: string(analysisID(r)), Status: string(o.Grant.Status), Created: !o.Replayed,
	})
}

func (a *api) lockAnalysis(w http.ResponseWriter, r *http.Request, c Caller) error {
	body := contracts.AnalysisLockRequest{TTLSeconds: analysis.DefaultTTLSeconds}
	if err := decode(w, r, MaxBodyBytes, &body); err != nil {
		return err
	}
	owner, err := c.lockOwner(body.OwnerID)
	if err != nil {
		return err
	}
	o, err := a.analyses.Acquire(r.Context(), analysis.Acquire{
		ID: analysisID(r), Owner: owner, RequestID: body.RequestID, TTLSeconds: body.TTLSeconds, MaxFailures: body.MaxFailures,
		Fingerprint: body.Fingerprint,
	})
	ranOn(r, o)
	if err != nil {
		return err
	}
	id, status := string(analysisID(r)), string(o.Grant.Status)
	auditNote(r, slog.String("owner", owner))
	if o.Code != analysis.OK {
		noteOf(r).action = "" // nothing was granted
	}
	switch o.Code { // a run that is not granted is skipped: no error
	case analysis.OK:
		return send(w, contracts.AnalysisGranted{
			AnalysisID: id, Acquired: true, Status: status, OwnerID: o.Grant.Owner, FencingToken: o.Grant.Token,
			ExpiresAt: text(o.Grant.ExpiresAt), RemainingMs: o.Grant.ExpiresAt.Sub(o.At).Milliseconds(),
			HeartbeatSeconds: heartbeat(body.TTLSeconds), Runs: o.Grant.Runs, Failures: o.Grant.Failures, Replayed: o.Replayed,
		})
	case analysis.AlreadyFinished:
		noteOf(r).skipped = string(contracts.SkipAlreadyFinished)
		return send(w, contracts.AnalysisSkipped{
			AnalysisID: id, Reason: contracts.SkipAlreadyFinished, Status: status, Result: o.Result, FailureReason: o.Reason,
		})
	case analysis.Locked:
		noteOf(r).skipped = string(contracts.SkipLocked)
		return send(w, contracts.AnalysisSkipped{
			AnalysisID: id, Reason: contracts.SkipLocked, Status: status, OwnerID: o.Grant.Owner, ExpiresAt: text(o.Grant.ExpiresAt),
			RetryAfterMs: max(1, o.RetryAfter.Milliseconds()),
		})
	default:
		return noLock(o)
	}
}

// heartbeat is how often a lock should be refreshed: a fifth of its time leaves time for refreshes that fail. A lock of a
// second has no heartbeat of whole seconds.
func heartbeat(ttlSeconds int64) int64 {
	if ttlSeconds < 2 {
		return 0
	}
	return max(1, ttlSeconds/5)
}

func (a *api) refreshAnalysis(w http.ResponseWriter, r *http.Request, c Caller) error {
	body := contracts.AnalysisRefreshRequest{TTLSeconds: analysis.DefaultTTLSeconds}
	if err := decode(w, r, MaxBodyBytes, &body); err != nil {
		return err
	}
	owner, err := c.lockOwner(body.OwnerID)
	if err != nil {
		return err
	}
	o, err := a.analyses.Refresh(r.Context(), analysis.Refresh{
		ID: analysisID(r), Owner: owner, Token: body.FencingToken, TTLSeconds: body.TTLSeconds,
	})
	ranOn(r, o)
	return sendAnalysis(w, o, err, func() any {
		return contracts.AnalysisLock{
			AnalysisID: string(analysisID(r)), OwnerID: o.Grant.Owner, FencingToken: o.Grant.Token,
			ExpiresAt: text(o.Grant.ExpiresAt), RemainingMs: o.Grant.ExpiresAt.Sub(o.At).Milliseconds(),
		}
	})
}

func (a *api) releaseAnalysis(w http.ResponseWriter, r *http.Request, c Caller) error {
	body := contracts.AnalysisReleaseRequest{FailureReason: notGiven}
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
	o, err := a.analyses.Release(r.Context(), analysis.Release{
		ID: analysisID(r), Owner: owner, Token: body.FencingToken, Failed: body.FailureReason,
	})
	ranOn(r, o)
	return sendAnalysis(w, o, err, func() any {
		return contracts.AnalysisReleased{AnalysisID: string(analysisID(r)), Failures: o.Grant.Failures, Replayed: o.Replayed}
	})
}

func (a *api) finishAnalysis(w http.ResponseWriter, r *http.Request, c Caller) error {
	body := contracts.AnalysisFinishRequest{FailureReason: notGiven}
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
		return field.Errorf("failure_reason", "is empty: say why the analysis failed, or leave it out")
	}
	o, err := a.analyses.Finish(r.Context(), analysis.Finish{
		ID: analysisID(r), Owner: owner, Token: body.FencingToken,
		Status: analysis.Status(body.Status), Result: body.Result, Reason: body.FailureReason,
	})
	ranOn(r, o)
	return sendAnalysis(w, o, err, func() any {
		return contracts.AnalysisFinished{AnalysisID: string(analysisID(r)), Status: body.Status, Replayed: o.Replayed}
	})
}

func (a *api) getAnalysis(w http.ResponseWriter, r *http.Request, _ Caller) error {
	s, now, err := a.analyses.Get(r.Context(), analysisID(r))
	if err != nil {
		return err
	}
	if !s.Exists {
		return noLock(analysis.Outcome{Code: analysis.NotFound, Detail: "there is no such analysis"})
	}
	return send(w, analysisBody(analysisID(r), s, s.Locked(now)))
}

func (a *api) listAnalyses(w http.ResponseWriter, r *http.Request, _ Caller) error {
	q, err := query(r, "prefix", "status", "page_size", "page_token")
	if err != nil {
		return err
	}
	list := analysis.List{Prefix: q["prefix"], Status: analysis.Status(q["status"]), PageToken: q["page_token"]}
	if list.PageSize, err = pageSize(q); err != nil {
		return err
	}
	if err := list.Validate(); err != nil {
		return err // without waiting
	}
	show := func(l analysis.Listed) contracts.Analysis { return analysisBody(l.ID, l.State, l.Locked) }
	return sendList(a, w, r, "analyses", show, func(ctx context.Context) (readable []analysis.Listed, rest any, cost page.Cost, err error) {
		p, err := a.analyses.List(ctx, list)
		end := unreadable{nextPage: nextPage{p.Next}}
		var damaged []docstore.Damaged
		for _, l := range p.Analyses {
			if l.Err == nil {
				readable = append(readable, l)
				continue
			}
			end.Unreadable = append(end.Unreadable, contracts.UnreadableAnalysis{AnalysisID: string(l.ID), Code: problemOf(l.Err).Code})
			damaged = append(damaged, docstore.Damaged{Err: l.Err})
		}
		a.passed(r, "analyses", damaged)
		return readable, end, p.Cost, err
	})
}

// unreadable is what follows the entries of a page of analyses.
type unreadable struct {
	Unreadable []contracts.UnreadableAnalysis `json:"unreadable,omitempty"`
	nextPage
}

func (a *api) retryAnalysis(w http.ResponseWriter, r *http.Request, c Caller) error {
	if !c.Admin {
		return contracts.Errorf(contracts.CodePermissionDenied, "retrying an analysis needs the administrator's scope")
	}
	var body contracts.AnalysisRetryRequest
	if err := decode(w, r, MaxBodyBytes, &body); err != nil {
		return err
	}
	by, err := c.owner(body.OwnerID)
	if err != nil {
		return err
	}
	command := analysis.Retry{ID: analysisID(r), By: by, RequestID: body.RequestID, Reason: body.Reason}
	if body.FinishedAt != "" {
		if command.FinishedAt, err = docstore.ParseTime(docstore.String(body.FinishedAt)); err != nil {
			return field.Errorf("finished_at", "must be the time that the analysis showed, like %q", contracts.TimeFormat)
		}
	}
	o, err := a.analyses.Retry(r.Context(), command)
	factsOf(r).Replayed = o.Replayed
	auditNote(r, slog.String("reason", body.Reason), slog.Bool("replayed", o.Replayed))
	return sendAnalysis(w, o, err, func() any {
		return contracts.AnalysisRetried{
			AnalysisID: string(analysisID(r)), Status: string(o.Grant.Status), Retry: retryBody(o.Retried), Replayed: o.Replayed,
		}
	})
}

// analysisBody is an analysis as everybody may see it who may see analyses.
func analysisBody(id analysis.ID, s analysis.State, locked bool) contracts.Analysis {
	a := contracts.Analysis{
		AnalysisID: string(id), Status: string(s.Status), Finished: s.Status.Finished(), Locked: locked,
		OwnerID: s.Owner, Runs: s.Runs, Failures: s.Failures, Result: s.Result, FailureReason: s.Reason, Retry: retryBody(s.Retried),
	}
	if end, ok := s.ExpiresAt(); ok && s.Owner != "" { // without an owner it is no lock's
		a.ExpiresAt = text(end)
	}
	if s.Status.Finished() {
		a.FinishedAt = storedTime(s.Finished)
	}
	return a
}

// retryBody is the last retry of an analysis; nil if there was none.
func retryBody(r analysis.Retried) *contracts.AnalysisRetry {
	at := storedTime(r.At)
	if at == "" {
		return nil
	}
	return &contracts.AnalysisRetry{By: r.By, Reason: r.Reason, At: at}
}

// storedTime is a time of the document if it has the form of the contract, as the server writes it; empty otherwise: the document is the
// user's.
func storedTime(s string) contracts.Time {
	if _, err := docstore.ParseTime(docstore.String(s)); err != nil {
		return ""
	}
	return s
}

// sendAnalysis sends the outcome of a holder's command: the body if it is OK, else the error of the same code.
func sendAnalysis(w http.ResponseWriter, o analysis.Outcome, err error, body func() any) error {
	switch {
	case err != nil:
		return err
	case o.Code == analysis.OK:
		return send(w, body())
	default:
		return noLock(o)
	}
}

// noLock is the error of an outcome that leaves the caller without a lock. An analysis that does not exist is told apart
// from a path that does not by the field: a worker drops the message of the one, and must not drop that of the other.
func noLock(o analysis.Outcome) error {
	e := contracts.Errorf(contracts.Code(o.Code), "%s", o.Detail)
	if o.Code == analysis.NotFound {
		e.Field = "analysis_id"
	}
	return e
}

// lockOwner is [Caller.owner] for analyses, whose holders may also send back the whole name that a grant gave them.
func (c Caller) lockOwner(fromBody string) (string, error) {
	if c.Subject != "" {
		whole := escaped(c.Subject)
		if fromBody == whole {
			return whole, nil
		}
		fromBody = strings.TrimPrefix(fromBody, whole+"#")
	}
	return c.owner(fromBody)
}
