package placement_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/placement"
)

// TestMaxIdentities (LIM-NUMBER-1): a claim of an identity too many says what the bound is and when to try again, and
// leaves no record; those that there are can be claimed, handed over and ended as before, and count while they are
// kept.
func TestMaxIdentities(t *testing.T) {
	w := newWorld(t)
	w.Service = placement.New(w.store, &placement.Options{Now: w.clock.Now, MaxIdentities: 2, Retention: time.Hour})
	w.join("ann", func(j *placement.Join) { j.TTL = time.Hour })
	first := w.active(room("1"))
	w.active(room("2"))
	limited := func(id string) {
		t.Helper()
		o := w.claim(room(id))
		if o.Code != placement.Limit || !strings.Contains(o.Detail, "2 identities") || o.RetryAfter <= 0 ||
			o.RetryAfter > 5*time.Minute {
			t.Errorf("%s: %+v", id, o)
		}
		if got := len(w.activations()); got != 2 {
			t.Errorf("%d identities have a record", got)
		}
	}
	limited("3")
	if o := w.claim(room("1")); o.Code != placement.Exists {
		t.Errorf("what is active: %+v", o)
	}
	w.want(must[placement.Outcome](w)(w.Deactivate(t.Context(), placement.Deactivate{Hold: first})).Code, placement.OK)
	limited("3") // a free one counts
	if o := w.claim(room("1")); o.Code != placement.OK {
		t.Errorf("a free one again: %+v", o)
	}
	w.Service = placement.New(w.store, &placement.Options{Now: w.clock.Now, MaxIdentities: 2}) // another process
	limited("3")
	other := *w
	other.cluster.Name = "other"
	other.join("ann")
	if o := other.claim(room("3")); o.Code != placement.OK {
		t.Errorf("in another cluster: %+v", o)
	}
}

// TestMaxClusters: a join that would set up a cluster too many changes nothing; others join those that there are, and
// other tenants have their own.
func TestMaxClusters(t *testing.T) {
	w := newWorld(t)
	s := placement.New(w.store, &placement.Options{Now: w.clock.Now, MaxClusters: 2})
	join := func(tenant, cluster, member string, code placement.Code) placement.MemberOutcome {
		t.Helper()
		o, err := s.Join(t.Context(), placement.Join{
			Cluster: placement.Cluster{Tenant: tenant, Name: cluster}, Member: member, RequestID: fmt.Sprint("join ", member),
			TTL: time.Hour,
		})
		if err != nil || o.Code != code {
			t.Errorf("%s of %s: %+v, %v; want %s", cluster, tenant, o, err, code)
		}
		return o
	}
	join("acme", "a", "ann", placement.OK)
	join("acme/b", "a", "ann", placement.OK) // a tenant whose clusters look like those of the first
	join("acme", "b", "ann", placement.OK)
	if o := join("acme", "c", "ann", placement.Limit); !strings.Contains(o.Detail, "2 clusters") {
		t.Errorf("it says %q", o.Detail)
	}
	if top, err := s.Topology(t.Context(), placement.Cluster{Tenant: "acme", Name: "c"}); err != nil ||
		top != nil && top.Epoch != 0 {
		t.Errorf("the cluster is there: %+v, %v", top, err)
	}
	join("acme", "b", "bob", placement.OK)
	join("acmf", "c", "ann", placement.OK)
	join("acme/b", "b", "ann", placement.OK)
	join("acme/b", "c", "ann", placement.Limit)
	// A cluster that was named by a join which then failed is one of those that there may be, and can be set up.
	failing := placement.New(failingSteps{w.store}, &placement.Options{Now: w.clock.Now, MaxClusters: 2})
	half := placement.Join{Cluster: placement.Cluster{Tenant: "acmf", Name: "half"}, Member: "ann", RequestID: "join",
		TTL: time.Hour}
	if _, err := failing.Join(t.Context(), half); !errors.Is(err, docstore.ErrUnavailable) {
		t.Error(err)
	}
	join("acmf", "d", "ann", placement.Limit)
	join("acmf", "half", "ann", placement.OK)
	w.wantSwept(w.sweep(0), placement.Swept{Clusters: 6})
}

// failingSteps is a store that writes no more than one document at a time.
type failingSteps struct{ docstore.Store }

func (s failingSteps) Write(ctx context.Context, writes ...docstore.Write) (docstore.Result, error) {
	if len(writes) > 1 {
		return docstore.Result{}, docstore.ErrUnavailable
	}
	return s.Store.Write(ctx, writes...)
}
