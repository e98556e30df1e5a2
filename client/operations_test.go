package client_test

import (
	"errors"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/leasehold-dev/leasehold/client"
	"github.com/leasehold-dev/leasehold/contracts"
	"github.com/leasehold-dev/leasehold/fence"
	"github.com/leasehold-dev/leasehold/functions/httpapi"
	"github.com/leasehold-dev/leasehold/kazahana"
	"github.com/leasehold-dev/leasehold/once"
	"github.com/leasehold-dev/leasehold/proof/contracttest"
	"github.com/leasehold-dev/leasehold/repo/docstore"
)

// TestOperations: who calls, what happened, and what there is, over a real connection.
func TestOperations(t *testing.T) {
	s := httptest.NewServer(contracttest.Handler(t, httpapi.New(docstore.NewMemory(nil), httpapi.Development{},
		&httpapi.Options{Outcomes: 10})))
	t.Cleanup(s.Close)
	c, err := client.New(s.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	if who, err := c.Operations().Caller(ctx); err != nil || !who.Administrator || !who.Development {
		t.Errorf("caller %+v, %v", who, err)
	}
	for _, owner := range []string{"ann", "bob"} {
		_, err = c.LockAPI().Acquire(ctx, "acme", "ü/k", contracts.AcquireRequest{OwnerID: owner, TTLSeconds: 30})
	}
	if !errors.Is(err, contracts.CodeLockHeld) {
		t.Fatal(err)
	}
	yes, no := true, false
	for name, x := range map[string]struct {
		q    client.OutcomeQuery
		want []int64
	}{
		"all":      {client.OutcomeQuery{}, []int64{2, 1}},
		"rejected": {client.OutcomeQuery{Rejected: &yes}, []int64{2}},
		"done":     {client.OutcomeQuery{Rejected: &no}, []int64{1}},
		"after":    {client.OutcomeQuery{After: 1}, []int64{2}},
		"page":     {client.OutcomeQuery{PageSize: 1, PageToken: "2"}, []int64{1}},
		"path":     {client.OutcomeQuery{Path: "/v1/tenants/acme/locks/%C3%BC%2Fk/"}, []int64{2, 1}},
		"request":  {client.OutcomeQuery{RequestID: "another"}, nil},
	} {
		p, err := c.Operations().Outcomes(ctx, x.q)
		var got []int64
		for _, o := range p.Outcomes {
			got = append(got, o.Number)
		}
		if err != nil || !slices.Equal(got, x.want) {
			t.Errorf("%s: %v, %v; want %v", name, got, err, x.want)
		}
	}

	if o, err := c.Runs("acme").Acquire(ctx, once.Acquire{RunID: "order/1", Owner: "w", RequestID: "r1",
		TTL: time.Minute}); err == nil {
		t.Fatalf("a name with a slash: %+v", o)
	}
	if _, err := c.Runs("acme").Acquire(ctx, once.Acquire{RunID: "order-1", Owner: "w", RequestID: "r1",
		TTL: time.Minute}); err != nil {
		t.Fatal(err)
	}
	if p, err := c.Runs("acme").List(ctx, client.RunQuery{Prefix: "order", PageSize: 10}); err != nil || len(p.Runs) != 1 || !p.Runs[0].Locked {
		t.Errorf("runs %+v, %v", p, err)
	}

	fences := c.Fences()
	if _, err := fences.Get(ctx, "acme", "db/1"); !errors.Is(err, contracts.CodeNotFound) {
		t.Errorf("no fence: %v", err)
	}
	if _, err := fences.Check(ctx, "acme", "db/1", fence.Lease{Subject: "lock/db", Token: 7}); err != nil {
		t.Fatal(err)
	}
	if f, err := fences.Get(ctx, "acme", "db/1"); err != nil || f.HighestToken != 7 || f.Subject != "lock/db" {
		t.Errorf("fence %+v, %v", f, err)
	}

	if _, err := c.MachineIDs().Acquire(ctx, kazahana.AcquireOptions{}); err != nil {
		t.Fatal(err)
	}
	m, err := c.MachineIDs().Map(ctx, "default")
	if err != nil || m.Leased != 1 || strings.Count(strings.Join(m.Pages, ""), "9") != 1 {
		t.Errorf("map of %d leases, %v", m.Leased, err)
	}
	if _, err := c.MachineIDs().Map(ctx, "other"); !errors.Is(err, contracts.CodeNotFound) {
		t.Errorf("another space: %v", err)
	}

	for _, name := range []string{"a", "b"} {
		if _, err := c.Placements("acme", name).Join(ctx, "m", contracts.MemberJoinRequest{TTLSeconds: 10}); err != nil {
			t.Fatal(err)
		}
	}
	p, err := c.Clusters(ctx, "acme", 1, "a")
	if err != nil || len(p.Clusters) != 1 || p.Clusters[0].Cluster != "b" {
		t.Errorf("clusters %+v, %v", p, err)
	}
}
