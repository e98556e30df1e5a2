package direct

import (
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
	return runs.Begin{
		ID: id, End: end, Owner: r.OwnerID, RequestID: r.RequestID, TTLSeconds: r.TTLSeconds, MaxFailures: r.MaxFailures,
		Fingerprint: r.Fingerprint, KeepSeconds: r.KeepSeconds,
	}, err
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
	case runs.Limit:
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
func Retried(r analysis.Retried) *contracts.AnalysisRetry {
	at := StoredTime(r.At)
	if at == "" {
		return nil
	}
	return &contracts.AnalysisRetry{By: r.By, Reason: r.Reason, At: at}
}

// StoredTime is a time of the document if it has the form of the contract, as the server writes it; empty otherwise:
// the document is the user's.
func StoredTime(s string) contracts.Time {
	if _, err := docstore.ParseTime(docstore.String(s)); err != nil {
		return ""
	}
	return s
}
