package cluster_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/leasehold-dev/leasehold/client"
	"github.com/leasehold-dev/leasehold/cluster"
	"github.com/leasehold-dev/leasehold/contracts"
	"github.com/leasehold-dev/leasehold/contracts/conformance"
	"github.com/leasehold-dev/leasehold/proof/conformancetest"
)

// TestConformance: the reader of events does what the scripts say, which hold for clients in all languages.
func TestConformance(t *testing.T) {
	conformancetest.Run(t, conformance.Events, openConformance)
}

// TestConformanceThroughFrontEnds: the same through each service in front of a Lambda function.
func TestConformanceThroughFrontEnds(t *testing.T) {
	conformancetest.Through(t, conformance.Events, openConformance)
}

// TestConformanceCanFail: a script of which a step is wrong fails, whichever step that is.
func TestConformanceCanFail(t *testing.T) {
	conformancetest.Falsify(t, conformance.Events, openConformance)
}

// TestConformanceCatches: clients that do what none may do fail.
func TestConformanceCatches(t *testing.T) {
	conformancetest.Catch(t, conformance.Events, openConformance,
		"no one is asked to wait", "each request is sent twice", "no credentials")
}

func openConformance(t *testing.T, e conformancetest.Env) conformancetest.Program {
	t.Helper()
	return follower{e.Dial(t), e.Client.Tenant}
}

// follower is a reader of events in the terms of the scripts.
type follower struct {
	client *client.Client
	tenant string
}

// Do implements [conformancetest.Program].
func (f follower) Do(ctx context.Context, c conformancetest.Call) (conformancetest.Obtained, error) {
	if c.Op != "follow" {
		return conformancetest.Obtained{}, fmt.Errorf("there is no operation %q", c.Op)
	}
	r := cluster.NewEventReader(f.client.Placements(f.tenant, c.Key), cluster.EventQuery{Member: c.Options.Member,
		After: c.Options.After, Wait: 8 * time.Second})
	var ids []string
	for len(ids) < c.Count {
		page, _, err := r.Next(ctx)
		if err != nil {
			return conformancetest.Obtained{}, err
		}
		for _, e := range page.Events {
			ids = append(ids, e.EventID)
		}
	}
	return conformancetest.Obtained{Value: map[string]any{"ids": ids, "place": r.Place()}}, nil
}

// Describe implements [conformancetest.Program].
func (follower) Describe(err error) map[string]any {
	d := map[string]any{"class": "unavailable"}
	e, coded := errors.AsType[*contracts.Error](err)
	if coded {
		d["code"], d["field"] = e.Code, e.Field
	}
	switch {
	case errors.Is(err, context.Canceled):
		d["class"] = "cancelled"
	case coded && e.Status < 500 && !e.Retryable:
		d["class"] = "rejected"
	}
	return d
}
