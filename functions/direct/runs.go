package direct

import (
	"context"
	"fmt"
	"time"

	"github.com/leasehold-dev/leasehold/contracts"
	"github.com/leasehold-dev/leasehold/once"
	"github.com/leasehold-dev/leasehold/repo/analysis"
	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/runs"
)

// Runs is the gate of a tenant's runs on a store, for package idempotency and for once.Run with names of the caller's own. Records are
// kept for keep after the last write of their holder, in whole seconds, from a minute to 30 days; 0 means a day.
func Runs(r *runs.Runs, tenant string, keep time.Duration) once.Gate {
	if keep == 0 {
		keep = runs.DefaultKeepSeconds * time.Second
	}
	return namedRuns{r, tenant, int64(keep / time.Second)}
}

type namedRuns struct {
	runs   *runs.Runs
	tenant string
	keep   int64
}

var _ once.Gate = namedRuns{}

func (g namedRuns) id(id string) runs.ID { return runs.ID{Tenant: g.tenant, ID: id} }

// Acquire implements [once.Gate].
func (g namedRuns) Acquire(ctx context.Context, r once.Acquire) (once.Grant, error) {
	o, err := g.runs.Begin(ctx, runs.Begin{
		ID: g.id(r.AnalysisID), Owner: r.Owner, RequestID: r.RequestID, TTLSeconds: int64(r.TTL / time.Second), MaxFailures: r.MaxFailures,
		Fingerprint: r.Fingerprint, KeepSeconds: g.keep,
	})
	if err != nil {
		return once.Grant{}, judged(err)
	}
	switch o.Code {
	case analysis.OK:
		return once.Grant{
			Acquired: true, Status: string(o.Grant.Status), Remaining: o.Grant.ExpiresAt.Sub(o.At), Runs: o.Grant.Runs, Failures: o.Grant.Failures,
			Lock: once.Lock{AnalysisID: r.AnalysisID, Owner: o.Grant.Owner, Token: o.Grant.Token, ExpiresAt: o.Grant.ExpiresAt},
		}, nil
	case analysis.AlreadyFinished:
		return once.Grant{
			Reason: contracts.SkipAlreadyFinished, Status: string(o.Grant.Status),
			Result: once.Result{Failed: o.Grant.Status == analysis.Failed, Result: o.Result, Reason: o.Reason},
		}, nil
	case analysis.Locked:
		return once.Grant{Reason: contracts.SkipLocked, Status: string(o.Grant.Status), RetryAfter: o.RetryAfter}, nil
	case analysis.RequestIDReused, analysis.Unreadable, analysis.Differs:
		return once.Grant{}, notHeld(o)
	default: // granted, and expired by the time of the store's response
		return once.Grant{}, fmt.Errorf("%w: %s: %s", docstore.ErrUnavailable, o.Code, o.Detail)
	}
}

// Refresh implements [once.Gate].
func (g namedRuns) Refresh(ctx context.Context, l once.Lock, ttl time.Duration) (time.Time, error) {
	o, err := g.runs.Refresh(ctx, runs.Refresh{
		ID: g.id(l.AnalysisID), Owner: l.Owner, Token: l.Token, TTLSeconds: int64(ttl / time.Second), KeepSeconds: g.keep,
	})
	return o.Grant.ExpiresAt, ofHolder(o, err)
}

// Release implements [once.Gate].
func (g namedRuns) Release(ctx context.Context, l once.Lock, failed string) error {
	return ofHolder(g.runs.Release(ctx, runs.Release{ID: g.id(l.AnalysisID), Owner: l.Owner, Token: l.Token, Failed: failed, KeepSeconds: g.keep}))
}

// Finish implements [once.Gate].
func (g namedRuns) Finish(ctx context.Context, l once.Lock, r once.Result) error {
	f := runs.Finish{ID: g.id(l.AnalysisID), Owner: l.Owner, Token: l.Token, Status: analysis.Ready, Result: r.Result, KeepSeconds: g.keep}
	if r.Failed {
		f.Status, f.Result, f.Reason = analysis.Failed, "", r.Reason
	}
	return ofHolder(g.runs.Finish(ctx, f))
}

// ofHolder is the error of a holder's command: every rejection means that the lock is no longer its own.
func ofHolder(o runs.Outcome, err error) error {
	switch {
	case err != nil:
		return judged(err)
	case o.Code == analysis.OK:
		return nil
	default:
		return notHeld(o)
	}
}

func notHeld(o runs.Outcome) error {
	e := contracts.Errorf(contracts.Code(o.Code), "%s", o.Detail)
	if o.Code == analysis.NotFound {
		e.Field = "run_id"
	}
	return e
}
