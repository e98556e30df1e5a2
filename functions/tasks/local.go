package tasks

import (
	"context"
	"errors"
	"fmt"
	"time"

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
		ID: analysis.ID(r.AnalysisID), Owner: r.Owner, RequestID: r.RequestID, TTLSeconds: int64(r.TTL / time.Second),
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
		return once.Grant{Reason: once.AlreadyFinished, Status: string(o.Grant.Status)}, nil
	case analysis.Locked:
		return once.Grant{Reason: once.Locked, Status: string(o.Grant.Status), RetryAfter: o.RetryAfter}, nil
	case analysis.NotFound:
		return once.Grant{}, refused(once.ErrUnknown, o)
	default: // granted, and over by the time the store had answered
		return once.Grant{}, refused(docstore.ErrUnavailable, o)
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

// lost is the answer to a holder: every refusal means that the lock is no longer its own.
func lost(o analysis.Outcome, err error) error {
	if err != nil {
		return judged(err)
	}
	if o.Code == analysis.OK {
		return nil
	}
	return refused(once.ErrLost, o)
}

func refused(err error, o analysis.Outcome) error {
	return fmt.Errorf("%w: %s: %s", err, o.Code, o.Detail)
}

// judged marks the errors that asking again would not change: a command that is malformed, and a document that somebody
// has to mend first.
func judged(err error) error {
	if _, malformed := errors.AsType[*field.Error](err); malformed || errors.Is(err, docstore.ErrDamaged) {
		return fmt.Errorf("%w: %w", once.ErrRefused, err)
	}
	return err
}
