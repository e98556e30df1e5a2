package suite

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/placement"
)

// freePlacements asks what can be had once those who had it are dead: an identity by one claim, in whatever phase its
// owner left it; a place in a cluster that the dead fill, by one join; the name of a cluster whose members are dead, by
// one removal.
func freePlacements(t *testing.T, newStore func(t *testing.T, now func() time.Time) docstore.Store) {
	clock := NewClock()
	store := newStore(t, clock.Now)
	s := placement.New(store, &placement.Options{Now: clock.Now})
	cluster := placement.Cluster{Tenant: "acme", Name: "free"}
	join := func(member string, ttl time.Duration, offer placement.Offer) placement.MemberOutcome {
		t.Helper()
		o, err := s.Join(t.Context(), placement.Join{
			Cluster: cluster, Member: member, RequestID: "j", TTL: ttl, Partitions: placement.MinPartitions, Offer: offer,
		})
		if err != nil {
			t.Fatal(err)
		}
		return o
	}
	rooms := placement.Offer{Kinds: []string{"room"}}
	claim := func(id string) placement.Outcome {
		t.Helper()
		o, err := s.Claim(t.Context(), placement.Claim{Cluster: cluster, Identity: placement.Identity{Kind: "room", ID: id},
			RequestID: fmt.Sprint(id, clock.Now())})
		if err != nil {
			t.Fatal(err)
		}
		return o
	}

	// Each owner leaves the identities that it has in another phase, and dies.
	const each = 8
	if o := join("dead", 10*time.Second, rooms); o.Code != placement.OK {
		t.Fatal(o)
	}
	tokens := map[string]int64{}
	for i := range each {
		for _, phase := range []placement.Phase{placement.Locked, placement.Active} {
			id := fmt.Sprint(phase, i)
			o := claim(id)
			if o.Code != placement.OK {
				t.Fatal(o)
			}
			hold := placement.Hold{Cluster: cluster, Identity: o.Activation.Identity, Owner: o.Activation.Owner,
				Token: o.Activation.Token}
			var err error
			if phase != placement.Locked {
				o, err = s.Activated(t.Context(), placement.Activated{Hold: hold})
			}
			if err != nil || o.Code != placement.OK {
				t.Fatal(o, err)
			}
			tokens[id] = hold.Token
		}
	}
	clock.Advance(5 * time.Second)
	if o := join("alive", time.Hour, rooms); o.Code != placement.OK {
		t.Fatal(o)
	}
	clock.Advance(5 * time.Second) // the lease of the first one ends now
	for id, token := range tokens {
		if o := claim(id); o.Code != placement.OK || o.Activation.Owner.Member != "alive" || o.Activation.Token <= token {
			t.Errorf("%s, whose owner is dead: %+v", id, o)
		}
	}

	// A cluster that the dead fill.
	cluster.Name = "full"
	heavy := placement.Offer{Labels: map[string]string{}}
	for n := range placement.MaxKinds {
		heavy.Kinds = append(heavy.Kinds, fmt.Sprintf("k%0*d", placement.MaxKindBytes-1, n))
	}
	for n := range placement.MaxLabels {
		heavy.Labels[fmt.Sprintf("%0*d", placement.MaxLabelKeyBytes, n)] = strings.Repeat("v", placement.MaxLabelValueBytes)
	}
	n := 0
	o := join("m0", 30*time.Second, heavy)
	for ; o.Code == placement.OK && n < 1000; o = join(fmt.Sprint("m", n), 30*time.Second, heavy) {
		n++
	}
	if o.Code != placement.ClusterFull || o.RetryAfter != 30*time.Second {
		t.Fatalf("after %d members: %+v", n, o)
	}
	clock.Advance(o.RetryAfter)
	for i := range 3 {
		if o := join(fmt.Sprint("late", i), 30*time.Second, heavy); o.Code != placement.OK {
			t.Errorf("a cluster of %d dead members: %+v", n, o)
		}
	}

	// And when all are dead it can be removed, and begun again above what it was.
	clock.Advance(30 * time.Second)
	top, err := s.Topology(t.Context(), cluster)
	if err != nil {
		t.Fatal(err)
	}
	if r, err := s.RemoveCluster(t.Context(), placement.RemoveCluster{Cluster: cluster, Epoch: top.Epoch,
		Reason: "not used"}); err != nil || r.Code != placement.OK {
		t.Fatalf("%+v, %v", r, err)
	}
	for _, kind := range []string{placement.ActivationKind, "placement_members", "placement_member_leases",
		"placement_events", "placement_epochs"} {
		p, err := store.List(t.Context(), docstore.Query{Kind: kind, Tenant: "acme/full", Limit: 10})
		if err != nil || len(p.Entries) > 0 {
			t.Errorf("%s: %v, %v", kind, p.Entries, err)
		}
	}
	again := join("m0", 30*time.Second, rooms)
	if again.Code != placement.OK || again.Epoch <= top.Epoch || again.Incarnation.Number <= top.Members[0].Number {
		t.Errorf("%+v after epoch %d", again, top.Epoch)
	}
}
