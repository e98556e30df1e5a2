package httpapi

import (
	"net/http"
	"time"

	"github.com/leasehold-dev/leasehold/functions/metrics"
	"github.com/leasehold-dev/leasehold/repo/analysis"
	"github.com/leasehold-dev/leasehold/repo/lock"
	"github.com/leasehold-dev/leasehold/repo/placement"
)

// What endpoints tell the metrics of a request beyond its response.

// tookLock is told of each acquire and renewal of a lock.
func (a *api) tookLock(r *http.Request, o lock.Outcome) {
	if a.metrics == nil || o.Code != lock.OK {
		return
	}
	if o.TookOver {
		noteOf(r).facts.Takeover = metrics.KindLock
	}
	if o.Lease.Mode != lock.Rate { // that has no lease
		a.metrics.Granted(r.Context(), leaseOf(o.Lease), o.Lease.AcquiredAt, o.At, o.Lease.ExpiresAt)
	}
}

// endedLock is told of each release of a lock.
func (a *api) endedLock(o lock.Outcome) {
	if o.Code == lock.OK {
		a.metrics.Ended(leaseOf(o.Lease))
	}
}

func leaseOf(l lock.Lease) metrics.Lease {
	return metrics.Lease{Kind: metrics.KindLock, Tenant: l.Tenant, ID: l.Key, Token: l.Token}
}

// tookSet is told of each acquire and renewal of several locks.
func (a *api) tookSet(r *http.Request, o lock.SetOutcome) {
	noteOf(r).facts.Replayed = o.Replayed
	if a.metrics == nil || o.Code != lock.OK {
		return
	}
	for _, l := range o.Leases {
		a.metrics.Granted(r.Context(), leaseOf(l), l.AcquiredAt, o.At, l.ExpiresAt)
	}
}

// endedSet is told of each release of several locks.
func (a *api) endedSet(r *http.Request, o lock.SetOutcome) {
	noteOf(r).facts.Replayed = o.Replayed
	for _, l := range o.Leases {
		a.metrics.Ended(leaseOf(l))
	}
}

// tookRun is told of each acquire and refresh of the lock of an analysis or a run, by its kind.
func (a *api) tookRun(r *http.Request, run metrics.Lease, o analysis.Outcome) {
	facts := &noteOf(r).facts
	facts.Replayed = o.Replayed
	switch o.Code {
	case analysis.Locked, analysis.AlreadyFinished:
		facts.Skipped = string(o.Code)
	case analysis.OK:
		run.Token = o.Grant.Token
		a.metrics.Granted(r.Context(), run, time.Time{}, o.At, o.Grant.ExpiresAt)
	default: // it is an error
	}
}

// beganRun is told of each acquire of the lock of an analysis or a run.
func (a *api) beganRun(r *http.Request, run metrics.Lease, o analysis.Outcome) {
	a.tookRun(r, run, o)
	if o.Code == analysis.OK && o.Grant.Runs > 1 && !o.Replayed {
		noteOf(r).facts.Takeover = run.Kind
	}
}

// endedRun is told of each release and finish.
func (a *api) endedRun(r *http.Request, run metrics.Lease, how string, o analysis.Outcome) {
	facts := &noteOf(r).facts
	facts.Replayed = o.Replayed
	if o.Code != analysis.OK {
		return
	}
	a.metrics.Ended(run)
	if !o.Replayed {
		facts.Ended, facts.EndedKind = how, run.Kind
	}
}

// How runs end, for the metrics.
const (
	runSucceeded = "succeeded"
	runFailed    = "failed"
	runStopped   = "stopped" // released without a failure
)

// endOf is how a run ends that says so.
func endOf(failure, otherwise string) string {
	if failure != "" {
		return runFailed
	}
	return otherwise
}

func analysisLease(r *http.Request, token int64) metrics.Lease {
	return metrics.Lease{Kind: metrics.KindAnalysis, ID: string(analysisID(r)), Token: token}
}

func runLease(r *http.Request, token int64) metrics.Lease {
	id := runID(r)
	return metrics.Lease{Kind: metrics.KindRun, Tenant: id.Tenant, ID: id.ID, Token: token}
}

// moved is told of each change of the members of a cluster.
func moved(r *http.Request, o placement.MemberOutcome) {
	facts := &noteOf(r).facts
	facts.Replayed = o.Replayed
	if o.Code == placement.OK && !o.Replayed {
		facts.Moved = o.Moved
	}
}
