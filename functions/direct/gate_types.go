package direct

import (
	"cmp"
	"time"

	"github.com/leasehold-dev/leasehold/contracts"
	"github.com/leasehold-dev/leasehold/repo/analysis"
	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/runs"
)

// AcquireAnalysis is a request for the run of an analysis of the contract. The error is a [field.Error].
func AcquireAnalysis(id analysis.ID, r contracts.AnalysisLockRequest) (analysis.Acquire, error) {
	end, err := endOf(notAfter, r.NotAfter)
	return analysis.Acquire{
		ID: id, End: end, Owner: r.OwnerID, RequestID: r.RequestID, TTLSeconds: r.TTLSeconds, MaxFailures: r.MaxFailures,
		Fingerprint: r.Fingerprint,
	}, err
}

// BeginRun is a begin of the contract. The error is a [field.Error].
func BeginRun(id runs.ID, r contracts.RunBeginRequest) (runs.Begin, error) {
	end, err := endOf(notAfter, r.NotAfter)
	due, dueErr := timeOf("due_at", r.DueAt)
	next, nextErr := timeOf("next_due_at", r.NextDueAt)
	return runs.Begin{
		ID: id, End: end, Owner: r.OwnerID, RequestID: r.RequestID, TTLSeconds: r.TTLSeconds, MaxFailures: r.MaxFailures,
		Fingerprint: r.Fingerprint, KeepSeconds: r.KeepSeconds, MaxTakeovers: r.MaxTakeovers,
		Round: analysis.Round{Due: due, Next: next, EverySeconds: r.EverySeconds},
	}, cmp.Or(err, dueErr, nextErr)
}

// timeOf is a time of the contract, in whole milliseconds; the zero time if it is left out. The error is a
// [field.Error].
func timeOf(name, text string) (time.Time, error) {
	end, err := endOf(name, text)
	return end.NotAfter, err
}

// RetryRun is a request of the contract to let a run that ended so be begun once more. The error is a [field.Error].
func RetryRun(id runs.ID, from analysis.Status, r contracts.RunRetryRequest) (runs.Retry, error) {
	at, err := timeOf("finished_at", r.FinishedAt)
	return runs.Retry{ID: id, By: r.OwnerID, Reason: r.Reason, RequestID: r.RequestID, From: from, FinishedAt: at}, err
}

// SelectRuns is what a request of the contract lists. The error is a [field.Error].
func SelectRuns(list runs.List, after, before string) (runs.List, error) {
	var afterErr, beforeErr error
	list.Since, afterErr = timeOf("changed_after", after)
	list.Before, beforeErr = timeOf("changed_before", before)
	return list, cmp.Or(afterErr, beforeErr)
}

// OptionalTime is a time as the contract writes it; empty for the zero time.
func OptionalTime(t time.Time) contracts.Time {
	if t.IsZero() {
		return ""
	}
	return Time(t)
}

// Run is a run as every caller of its tenant may see it.
func Run(id string, s analysis.State, locked bool) contracts.Run {
	body := contracts.Run{
		RunID: id, Finished: s.Status.Finished(), Locked: locked, OwnerID: s.Owner, Runs: s.Runs, Failures: s.Failures,
		Result: s.Result, FailureReason: s.Reason, DueAt: OptionalTime(s.Due), BegunAt: OptionalTime(s.Begun),
		Retry: Retried(s.Retried),
	}
	if until, ok := s.KeptUntil(); ok {
		body.KeptUntil = Time(until)
	}
	if end, ok := s.ExpiresAt(); ok && s.Owner != "" {
		body.ExpiresAt = Time(end)
	}
	if body.Finished {
		body.Status, body.FinishedAt = contracts.RunEnd(s.Status), StoredTime(s.Finished)
	}
	return body
}

// NoRun is the error of an outcome that leaves the caller without a run. idField is what callers call the ID. What does
// not exist is told apart from a path that does not by the field: a worker drops the message of the one, and must not
// drop that of the other.
func NoRun(o analysis.Outcome, idField string) *contracts.Error {
	if e := endRejection(o.Code, notAfter, o.Detail, o.At); e != nil {
		return e
	}
	e := contracts.Errorf(contracts.Code(o.Code), "%s", o.Detail)
	switch o.Code {
	case analysis.NotFound:
		e.Field = idField
	case runs.Limit, analysis.InProgress:
		e.RetryAfter = o.RetryAfter
	default: // the others say no more
	}
	return e
}

// NoAnalysis is the error of a read of an analysis that does not exist.
func NoAnalysis() *contracts.Error {
	return NoRun(analysis.Outcome{Code: analysis.NotFound, Detail: "there is no such analysis"}, analysisID)
}

// Analysis is an analysis as everybody may see it who may see analyses.
func Analysis(id analysis.ID, s analysis.State, locked bool) contracts.Analysis {
	a := contracts.Analysis{
		AnalysisID: string(id), Status: string(s.Status), Finished: s.Status.Finished(), Locked: locked,
		OwnerID: s.Owner, Runs: s.Runs, Failures: s.Failures, Result: s.Result, FailureReason: s.Reason,
		Retry: Retried(s.Retried),
	}
	if end, ok := s.ExpiresAt(); ok && s.Owner != "" { // without an owner it is no lock's
		a.ExpiresAt = Time(end)
	}
	if s.Status.Finished() {
		a.FinishedAt = StoredTime(s.Finished)
	}
	return a
}

// Retried is the last retry of an analysis; nil if there was none.
func Retried(r analysis.Retried) *contracts.RunRetry {
	at := StoredTime(r.At)
	if at == "" {
		return nil
	}
	return &contracts.RunRetry{By: r.By, Reason: r.Reason, At: at}
}

// StoredTime is a time of the document if it has the form of the contract, as the server writes it; empty otherwise:
// the document is the user's.
func StoredTime(s string) contracts.Time {
	if _, err := docstore.ParseTime(docstore.String(s)); err != nil {
		return ""
	}
	return s
}
