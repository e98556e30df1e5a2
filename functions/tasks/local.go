package tasks

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/leasehold-dev/leasehold/contracts"
	"github.com/leasehold-dev/leasehold/once"
	"github.com/leasehold-dev/leasehold/repo/analysis"
	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/field"
)

// Local is the gate of a worker that has the store at hand.
func Local(a *analysis.Analyses) once.Gate { return local{a} }

type local struct{ analyses *analysis.Analyses }

var _ once.Gate = local{}

// Acquire implements [once.Gate].
func (g local) Acquire(ctx context.Context, r once.Acquire) (once.Grant, error) {
	o, err := g.analyses.Acquire(ctx, analysis.Acquire{
		ID: analysis.ID(r.AnalysisID), Owner: r.Owner, RequestID: r.RequestID, TTLSeconds: int64(r.TTL / time.Second), MaxFailures: r.MaxFailures,
		Fingerprint: r.Fingerprint,
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
	case analysis.NotFound, analysis.RequestIDReused, analysis.Unreadable, analysis.Differs:
		return once.Grant{}, rejection(o)
	default: // granted, and expired by the time of the store's response
		return once.Grant{}, fmt.Errorf("%w: %s: %s", docstore.ErrUnavailable, o.Code, o.Detail)
	}
}

// Refresh implements [once.Gate].
func (g local) Refresh(ctx context.Context, l once.Lock, ttl time.Duration) (time.Time, error) {
	o, err := g.analyses.Refresh(ctx, analysis.Refresh{
		ID: analysis.ID(l.AnalysisID), Owner: l.Owner, Token: l.Token, TTLSeconds: int64(ttl / time.Second),
	})
	return o.Grant.ExpiresAt, lost(o, err)
}

// Release implements [once.Gate].
func (g local) Release(ctx context.Context, l once.Lock, failed string) error {
	return lost(g.analyses.Release(ctx, analysis.Release{
		ID: analysis.ID(l.AnalysisID), Owner: l.Owner, Token: l.Token, Failed: failed,
	}))
}

// Finish implements [once.Gate].
func (g local) Finish(ctx context.Context, l once.Lock, r once.Result) error {
	f := analysis.Finish{ID: analysis.ID(l.AnalysisID), Owner: l.Owner, Token: l.Token, Status: analysis.Ready, Result: r.Result}
	if r.Failed {
		f.Status, f.Result, f.Reason = analysis.Failed, "", r.Reason
	}
	return lost(g.analyses.Finish(ctx, f))
}

// lost is the error of a holder's command: every rejection means that the lock is no longer its own.
func lost(o analysis.Outcome, err error) error {
	if err != nil {
		return judged(err)
	}
	if o.Code == analysis.OK {
		return nil
	}
	return rejection(o)
}

func rejection(o analysis.Outcome) error {
	e := contracts.Errorf(contracts.Code(o.Code), "%s", o.Detail)
	if o.Code == analysis.NotFound {
		e.Field = "analysis_id"
	}
	return e
}

// judged gives errors that a retry would meet again their code: an invalid command, and a document that must be repaired first.
func judged(err error) error {
	if _, invalid := errors.AsType[*field.Error](err); invalid {
		return fmt.Errorf("%w: %w", contracts.CodeInvalidArgument, err)
	}
	if errors.Is(err, docstore.ErrDamaged) {
		return fmt.Errorf("%w: %w", contracts.CodeDocumentDamaged, err)
	}
	return err
}
