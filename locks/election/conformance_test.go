package election_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/leasehold-dev/leasehold/contracts"
	"github.com/leasehold-dev/leasehold/contracts/conformance"
	"github.com/leasehold-dev/leasehold/locks"
	"github.com/leasehold-dev/leasehold/locks/election"
	"github.com/leasehold-dev/leasehold/proof/conformancetest"
)

// TestConformance: elections do what the scripts say, which hold for the clients in all languages.
func TestConformance(t *testing.T) {
	conformancetest.Run(t, conformance.Elections, openConformance)
}

// TestConformanceCanFail: a script of which a step is wrong fails, whichever step that is.
func TestConformanceCanFail(t *testing.T) {
	conformancetest.Falsify(t, conformance.Elections, openConformance)
}

func openConformance(t *testing.T, e conformancetest.Env) conformancetest.Program {
	t.Helper()
	c, err := e.Dial(t).Locks(e.Client.Tenant, &locks.Options{Owner: e.Client.Owner,
		TTL: time.Duration(e.Client.TTLSeconds) * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	return program{c}
}

// program has elections in the terms of the scripts.
type program struct{ locks *locks.Client }

// Close implements io.Closer.
func (p program) Close() error {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return p.locks.Close(ctx)
}

// Do implements [conformancetest.Program].
func (p program) Do(ctx context.Context, c conformancetest.Call) (got conformancetest.Obtained, err error) {
	e := election.New(p.locks, c.Key, nil)
	switch c.Op {
	case "campaign":
		l, err := e.Campaign(ctx)
		if err != nil {
			return got, err
		}
		got.Handle, got.Context, got.Value = l, l.Context(), map[string]any{"token": l.Token()}
	case "lead":
		result := ""
		err = e.Lead(ctx, func(ctx context.Context, l *election.Leader) (err error) {
			result, err = c.Work(ctx, map[string]any{"token": l.Token()})
			return err
		})
		got.Value = map[string]any{"result": result}
	case "resign":
		l, _ := c.Of.(*election.Leader)
		err = l.Resign(ctx)
	case "leader":
		l, err := e.Leader(ctx)
		got.Value = map[string]any{"leads": l.LeaseID != "", "owner": l.Owner, "lease_id": l.LeaseID}
		return got, err
	case "observe":
		var leaders []string
		for l, err := range e.Observe(ctx) {
			if err != nil {
				l.Owner = "unknown"
			}
			if leaders = append(leaders, l.Owner); len(leaders) == c.Count {
				break
			}
		}
		got.Value, err = map[string]any{"leaders": leaders}, context.Cause(ctx)
	default:
		err = fmt.Errorf("there is no operation %q", c.Op)
	}
	return got, err
}

// Describe implements [conformancetest.Program].
func (program) Describe(err error) map[string]any {
	d := map[string]any{"class": "unavailable"}
	e, coded := errors.AsType[*contracts.Error](err)
	if coded {
		d["code"] = e.Code
	}
	switch {
	case errors.Is(err, locks.ErrLost):
		d["class"] = "lost"
	case errors.Is(err, context.Canceled):
		d["class"] = "cancelled"
	case errors.As(err, new(*conformancetest.WorkError)):
		d["class"] = "failed"
	case coded && e.Status < 500 && !e.Retryable:
		d["class"] = "rejected"
	}
	return d
}
