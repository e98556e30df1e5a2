package kazahana_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"testing"

	"github.com/leasehold-dev/leasehold/client"
	"github.com/leasehold-dev/leasehold/contracts"
	"github.com/leasehold-dev/leasehold/contracts/conformance"
	"github.com/leasehold-dev/leasehold/kazahana"
	"github.com/leasehold-dev/leasehold/proof/conformancetest"
)

// TestConformance: the generator does what the scripts say, which hold for those in all languages.
func TestConformance(t *testing.T) {
	conformancetest.Run(t, conformance.IDs, openConformance)
}

// TestConformanceThroughFrontEnds: the same through each service in front of a Lambda function.
func TestConformanceThroughFrontEnds(t *testing.T) {
	conformancetest.Through(t, conformance.IDs, openConformance)
}

// TestConformanceCanFail: a script of which a step is wrong fails, whichever step that is.
func TestConformanceCanFail(t *testing.T) {
	conformancetest.Falsify(t, conformance.IDs, openConformance)
}

// TestConformanceCatches: clients that do what none may do fail.
func TestConformanceCatches(t *testing.T) {
	conformancetest.Catch(t, conformance.IDs, openConformance,
		"no one is asked to wait", "redirects are followed", "each request is sent twice", "no credentials",
		"the clocks are not looked at")
}

func openConformance(t *testing.T, e conformancetest.Env) conformancetest.Program {
	t.Helper()
	return &scripted{client: e.Dial(t), env: e}
}

// scripted is generators in the terms of the scripts.
type scripted struct {
	client *client.Client
	env    conformancetest.Env
	made   []*kazahana.Generator
}

// Close implements io.Closer.
func (p *scripted) Close() error {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	for _, g := range p.made {
		_ = g.Close(ctx)
	}
	return nil
}

// Do implements [conformancetest.Program].
func (p *scripted) Do(ctx context.Context, c conformancetest.Call) (conformancetest.Obtained, error) {
	if c.Op == "generator" {
		g, err := kazahana.New(p.client.MachineIDs(), &kazahana.Options{
			ServiceID: c.Options.Service, MaxThroughputPerMs: c.Options.Throughput, DisableFallback: c.Options.NoFallback,
			MaxBackwardMs: c.Options.MaxBackward, Clock: p.env.Clock, Log: slog.New(slog.DiscardHandler),
		})
		if err == nil {
			p.made = append(p.made, g)
		}
		return conformancetest.Obtained{Handle: g}, err
	}
	g, ok := c.Of.(*kazahana.Generator)
	if !ok {
		return conformancetest.Obtained{}, fmt.Errorf("%s is not of a generator", c.Op)
	}
	switch c.Op {
	case "next":
		ids := make([]kazahana.ID, c.Count)
		if err := g.NextIDs(ctx, ids); err != nil {
			return conformancetest.Obtained{}, err
		}
		ascending := slices.IsSorted(ids) && len(slices.Compact(slices.Clone(ids))) == len(ids)
		return conformancetest.Obtained{Value: map[string]any{
			"count": len(ids), "ascending": ascending, "first": parts(g, ids[0]), "last": parts(g, ids[len(ids)-1]),
		}}, nil
	case "close":
		return conformancetest.Obtained{}, g.Close(ctx)
	}
	return conformancetest.Obtained{}, fmt.Errorf("there is no operation %q", c.Op)
}

func parts(g *kazahana.Generator, id kazahana.ID) map[string]any {
	d := g.Layout().Decode(id)
	return map[string]any{
		"id": id.String(), "time_ms": d.Time.UnixMilli(), "machine_id": d.MachineID, "sequence": d.Sequence,
		"fallback": d.Fallback,
	}
}

// Describe implements [conformancetest.Program].
func (*scripted) Describe(err error) map[string]any {
	d := map[string]any{"class": "unavailable"}
	e, coded := errors.AsType[*contracts.Error](err)
	if coded {
		d["code"], d["retry_after_ms"] = e.Code, e.RetryAfter.Milliseconds()
	}
	switch {
	case errors.As(err, new(*kazahana.ClockBackwardError)), errors.Is(err, kazahana.ErrTimeRange):
		d["class"] = "clock"
	case errors.Is(err, context.Canceled):
		d["class"] = "cancelled"
	case errors.Is(err, kazahana.ErrConfiguration), coded && e.Status < 500 && !e.Retryable:
		d["class"] = "rejected"
	}
	return d
}
