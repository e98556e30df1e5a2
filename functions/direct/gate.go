package direct

import (
	"context"
	"fmt"
	"time"

	"github.com/leasehold-dev/leasehold/contracts"
	"github.com/leasehold-dev/leasehold/internal/ends"
	"github.com/leasehold-dev/leasehold/once"
	"github.com/leasehold-dev/leasehold/repo/analysis"
	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/runs"
)

// AnalysisGate is the gate of analyses on a store, for once.Run and for workers that have the store at hand. It does
// what a server's client does.
type AnalysisGate struct {
	once.Gate

	service *analysis.Analyses
}

// Analyses is the gate of analyses on a store.
func Analyses(a *analysis.Analyses) *AnalysisGate {
	return &AnalysisGate{gate{a, analysisID, &ends.Clock{}}, a}
}

// analysisID is the field of the contract.
const analysisID = "analysis_id"

// Create makes the document of an analysis unless there is one, and reports whether it did.
func (a *AnalysisGate) Create(ctx context.Context, id string) (created bool, err error) {
	o, err := a.service.Create(ctx, analysis.Create{ID: analysis.ID(id)})
	switch {
	case err != nil:
		return false, withCode(err)
	case o.Code != analysis.OK:
		return false, NoRun(o, analysisID)
	default:
		return !o.Replayed, nil
	}
}

// Get reads an analysis. If there is none, the error is NOT_FOUND with the field "analysis_id".
func (a *AnalysisGate) Get(ctx context.Context, id string) (contracts.Analysis, error) {
	s, now, err := a.service.Get(ctx, analysis.ID(id))
	switch {
	case err != nil:
		return contracts.Analysis{}, withCode(err)
	case !s.Exists:
		return contracts.Analysis{}, NoAnalysis()
	default:
		return Analysis(analysis.ID(id), s, s.Locked(now)), nil
	}
}

// RunGate is the gate of a tenant's runs on a store. It does what a server's client does.
type RunGate struct {
	once.Gate

	runs namedRuns
}

// Runs is the gate of a tenant's runs on a store, for package idempotency and for once.Run with names of the caller's
// own. Records are kept for keep after the end of a run, in whole seconds, from a minute to ten years; 0 leaves what
// other processes say, a day if none does.
func Runs(r *runs.Runs, tenant string, keep time.Duration) *RunGate {
	named := namedRuns{r, tenant, int64(keep / time.Second)}
	return &RunGate{gate{named, "run_id", &ends.Clock{}}, named}
}

// Get reads a run. If there is none, the error is NOT_FOUND with the field "run_id".
func (r *RunGate) Get(ctx context.Context, id string) (contracts.Run, error) {
	s, now, err := r.runs.runs.Get(ctx, r.runs.id(analysis.ID(id)))
	switch {
	case err != nil:
		return contracts.Run{}, withCode(err)
	case !s.Exists:
		return contracts.Run{}, NoRun(analysis.Outcome{Code: analysis.NotFound, Detail: "there is no such run"}, "run_id")
	default:
		return Run(id, s, s.Locked(now)), nil
	}
}

// gate answers a program as the rule decides, in the same words whatever it guards.
type gate struct {
	commands

	idField string // what callers call the ID
	ends    *ends.Clock
}

var _ once.Gate = gate{}

// commands are those of the rule: [analysis.Analyses], or what sends them to runs.
type commands interface {
	Acquire(ctx context.Context, c analysis.Acquire) (analysis.Outcome, error)
	GiveUp(ctx context.Context, c analysis.GiveUp) (analysis.Outcome, error)
	Refresh(ctx context.Context, c analysis.Refresh) (analysis.Outcome, error)
	Release(ctx context.Context, c analysis.Release) (analysis.Outcome, error)
	Finish(ctx context.Context, c analysis.Finish) (analysis.Outcome, error)
}

// Acquire implements [once.Gate]. The request has an end, after which no copy of it obtains anything.
func (g gate) Acquire(ctx context.Context, r once.Acquire) (once.Grant, error) {
	c := analysis.Acquire{
		ID: analysis.ID(r.RunID), Owner: r.Owner, RequestID: r.RequestID, TTLSeconds: int64(r.TTL / time.Second),
		MaxFailures: r.MaxFailures, Fingerprint: r.Fingerprint,
		Round: analysis.Round{Due: r.Due, Next: r.NextDue, EverySeconds: int64(r.Every / time.Second)},
	}
	if r.MaxTakeovers != nil {
		c.MaxTakeovers, c.NoTakeover = *r.MaxTakeovers, *r.MaxTakeovers == 0
	}
	if g.idField == analysisID {
		if err := r.OfAnalysis(); err != nil {
			return once.Grant{}, err
		}
	}
	if r.GiveUp {
		o, err := g.GiveUp(ctx, analysis.GiveUp{Acquire: c})
		return once.Grant{}, g.lost(o, err)
	}
	var end string
	return ended(ctx, g.ends, &end, func() (_ once.Grant, err error) {
		if c.End, err = endOf(notAfter, end); err != nil {
			return once.Grant{}, withCode(err)
		}
		o, err := g.commands.Acquire(ctx, c)
		if err != nil {
			return once.Grant{}, withCode(err)
		}
		return g.grant(r, o)
	})
}

// grant is the outcome of an acquire.
func (g gate) grant(r once.Acquire, o analysis.Outcome) (once.Grant, error) {
	switch o.Code {
	case analysis.OK:
		return once.Grant{
			Acquired: true, Status: string(o.Grant.Status), Remaining: o.Grant.ExpiresAt.Sub(o.At),
			Runs: o.Grant.Runs, Failures: o.Grant.Failures, Due: o.Due,
			Lock: once.Lock{RunID: r.RunID, Owner: o.Grant.Owner, Token: o.Grant.Token, ExpiresAt: o.Grant.ExpiresAt},
		}, nil
	case analysis.AlreadyFinished:
		return once.Grant{
			Reason: contracts.SkipAlreadyFinished, Status: string(o.Grant.Status), RetryAfter: o.RetryAfter, Due: o.Due,
			Result:  once.Result{Failed: o.Grant.Status == analysis.Failed, Result: o.Result, Reason: o.Reason},
			GivenUp: o.GivenUp,
		}, nil
	case analysis.Locked:
		return once.Grant{Reason: contracts.SkipLocked, Status: string(o.Grant.Status), RetryAfter: o.RetryAfter,
			Due: o.Due}, nil
	case analysis.NotDue:
		return once.Grant{Reason: contracts.SkipNotDue, RetryAfter: o.RetryAfter, Due: o.Due, Now: o.At}, nil
	case analysis.NotFound, analysis.RequestIDReused, analysis.Unreadable, analysis.Differs, analysis.TooLate,
		analysis.TooFar, runs.Limit:
		return once.Grant{}, g.rejection(o)
	default: // granted, and expired by the time of the store's response
		return once.Grant{}, fmt.Errorf("%w: %s: %s", docstore.ErrUnavailable, o.Code, o.Detail)
	}
}

// Refresh implements [once.Gate].
func (g gate) Refresh(ctx context.Context, l once.Lock, ttl time.Duration) (time.Time, error) {
	o, err := g.commands.Refresh(ctx, analysis.Refresh{
		ID: analysis.ID(l.RunID), Owner: l.Owner, Token: l.Token, TTLSeconds: int64(ttl / time.Second),
	})
	return o.Grant.ExpiresAt, g.lost(o, err)
}

// Release implements [once.Gate].
func (g gate) Release(ctx context.Context, l once.Lock, failed string) error {
	return g.lost(g.commands.Release(ctx, analysis.Release{
		ID: analysis.ID(l.RunID), Owner: l.Owner, Token: l.Token, Failed: failed,
	}))
}

// Finish implements [once.Gate].
func (g gate) Finish(ctx context.Context, l once.Lock, r once.Result) error {
	f := analysis.Finish{
		ID: analysis.ID(l.RunID), Owner: l.Owner, Token: l.Token, Status: analysis.Ready, Result: r.Result,
	}
	if r.Failed {
		f.Status, f.Result, f.Reason = analysis.Failed, "", r.Reason
	}
	return g.lost(g.commands.Finish(ctx, f))
}

// lost is the error of a command that is not an acquire: every rejection of a holder's means that the lock is no longer
// its own.
func (g gate) lost(o analysis.Outcome, err error) error {
	switch {
	case err != nil:
		return withCode(err)
	case o.Code == analysis.OK:
		return nil
	default:
		return g.rejection(o)
	}
}

func (g gate) rejection(o analysis.Outcome) error { return NoRun(o, g.idField) }

// namedRuns sends the commands of the rule to the runs of a tenant.
type namedRuns struct {
	runs   *runs.Runs
	tenant string
	keep   int64
}

func (r namedRuns) id(id analysis.ID) runs.ID { return runs.ID{Tenant: r.tenant, ID: string(id)} }

func (r namedRuns) begin(c analysis.Acquire) runs.Begin {
	return runs.Begin{
		ID: r.id(c.ID), End: c.End, Owner: c.Owner, RequestID: c.RequestID, TTLSeconds: c.TTLSeconds,
		MaxFailures: c.MaxFailures, Fingerprint: c.Fingerprint, KeepSeconds: r.keep, Round: c.Round,
		MaxTakeovers: takeovers(c),
	}
}

// takeovers is how often a run may be taken over, as a begin says it.
func takeovers(c analysis.Acquire) *int64 {
	if c.MaxTakeovers == 0 && !c.NoTakeover {
		return nil
	}
	return &c.MaxTakeovers
}

func (r namedRuns) Acquire(ctx context.Context, c analysis.Acquire) (analysis.Outcome, error) {
	return r.runs.Begin(ctx, r.begin(c))
}

func (r namedRuns) GiveUp(ctx context.Context, c analysis.GiveUp) (analysis.Outcome, error) {
	return r.runs.GiveUp(ctx, r.begin(c.Acquire))
}

func (r namedRuns) Refresh(ctx context.Context, c analysis.Refresh) (analysis.Outcome, error) {
	return r.runs.Refresh(ctx, runs.Refresh{
		ID: r.id(c.ID), Owner: c.Owner, Token: c.Token, TTLSeconds: c.TTLSeconds, KeepSeconds: r.keep,
	})
}

func (r namedRuns) Release(ctx context.Context, c analysis.Release) (analysis.Outcome, error) {
	return r.runs.Release(ctx, runs.Release{
		ID: r.id(c.ID), Owner: c.Owner, Token: c.Token, Failed: c.Failed, KeepSeconds: r.keep,
	})
}

func (r namedRuns) Finish(ctx context.Context, c analysis.Finish) (analysis.Outcome, error) {
	return r.runs.Finish(ctx, runs.Finish{
		ID: r.id(c.ID), Owner: c.Owner, Token: c.Token, Status: c.Status, Result: c.Result, Reason: c.Reason,
		KeepSeconds: r.keep,
	})
}
