package placement_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/field"
	"github.com/leasehold-dev/leasehold/repo/placement"
)

func (w *world) removeCluster(epoch int64) placement.Removal {
	w.Helper()
	return must[placement.Removal](w)(
		w.RemoveCluster(w.Context(), placement.RemoveCluster{Cluster: w.cluster, Epoch: epoch, Reason: "not used"}))
}

// documents are how many there are of each kind of the cluster, and of its name.
func (w *world) documents() string {
	w.Helper()
	var counts []string
	for _, kind := range []string{placement.ActivationKind, "placement_members", "placement_member_leases",
		"placement_events", "placement_epochs", "placement_clusters"} {
		counts = append(counts, strconv.Itoa(len(w.kinds(kind))))
	}
	p := must[docstore.Page](w)(
		w.store.List(w.Context(), docstore.Query{Kind: "placement_registry", Limit: docstore.MaxLimit}))
	return strings.Join(append(counts, strconv.Itoa(len(p.Entries))), " ")
}

// TestRemovalAtADistance: activations, and the events of them, are found by 250 in one round trip and removed by 80 in
// each, so that a million identities take seven minutes 10 ms from the store.
func TestRemovalAtADistance(t *testing.T) {
	trips := func(activations int) int {
		w := newWorld(t)
		w.join("ann")
		for i := range activations {
			w.want(w.claim(room(strconv.Itoa(i))).Code, placement.OK)
		}
		w.clock.Advance(placement.DefaultTTL)
		w.store.took()
		w.store.lists = 0
		if o := w.removeCluster(1); o != (placement.Removal{Code: placement.OK, Identities: activations}) {
			t.Errorf("%+v", o)
		}
		n := w.store.took()
		return n[0] + n[1] + w.store.lists
	}
	const each = 2 * (1 + 4)
	if few, more := trips(250), trips(1000); more-few != 3*each {
		t.Errorf("%d round trips for 250, %d for 1000: want %d for each 250", few, more, each)
	}
	if took := 1_000_000 / 250 * each * 10 * time.Millisecond; took > 7*time.Minute {
		t.Errorf("a million take %v", took)
	}
}

// TestRemoveCluster: a cluster without members is removed, with all that it has but its head; another life of it goes
// on above everything that the first one gave, and no one of the first life can act in the second.
func TestRemoveCluster(t *testing.T) {
	w := newWorld(t)
	if o := w.removeCluster(1); o.Code != placement.ClusterUnknown {
		t.Errorf("%+v", o)
	}
	ann := w.join("ann", func(j *placement.Join) { j.Partitions = 16 })
	held := w.active(room("lobby"))
	if o := w.removeCluster(2); o.Code != placement.StaleEpoch || o.Epoch != 1 {
		t.Errorf("%+v", o)
	}
	before := w.documents()
	if o := w.removeCluster(1); o.Code != placement.MemberExists || o.RetryAfter != placement.DefaultTTL ||
		w.documents() != before {
		t.Errorf("%+v", o)
	}
	w.clock.Advance(placement.DefaultTTL) // she is dead, and no one has noticed
	if o := w.removeCluster(1); o != (placement.Removal{Code: placement.OK, Identities: 1}) {
		t.Errorf("%+v", o)
	}
	if got := w.documents(); got != "0 0 0 0 0 1 0" {
		t.Errorf("left are %s", got)
	}
	if o := w.removeCluster(1); o != (placement.Removal{Code: placement.OK, Replayed: true}) {
		t.Errorf("again: %+v", o)
	}
	if o := w.removeCluster(2); o.Code != placement.ClusterUnknown {
		t.Errorf("%+v", o)
	}
	if top := must[*placement.Topology](w)(w.Topology(t.Context(), w.cluster)); top != nil {
		t.Errorf("%+v", top)
	}
	w.want(w.claim(room("lobby")).Code, placement.Undetermined)
	names, _, err := w.Clusters(t.Context(), placement.Clusters{Tenant: w.cluster.Tenant})
	if err != nil || len(names) != 0 {
		t.Errorf("%v, %v", names, err)
	}

	again := w.join("ann", func(j *placement.Join) { j.Partitions = 32 }) // it may be set up otherwise
	if again.Number <= ann.Number {
		t.Errorf("incarnation %d after %d", again.Number, ann.Number)
	}
	if o := w.removeCluster(1); o.Code != placement.StaleEpoch { // a late delivery
		t.Errorf("%+v", o)
	}
	for what, code := range map[string]func() placement.Code{
		"heartbeat": func() placement.Code {
			return must[placement.MemberOutcome](w)(
				w.Heartbeat(t.Context(), placement.Heartbeat{Cluster: w.cluster, Incarnation: ann, Seq: 5})).Code
		},
		"leave": func() placement.Code {
			return must[placement.MemberOutcome](w)(w.Leave(t.Context(), w.cluster, ann)).Code
		},
		"claim": func() placement.Code {
			return must[placement.Outcome](w)(
				w.Claim(t.Context(), placement.Claim{Cluster: w.cluster, Identity: room("lobby"), RequestID: "r", By: ann})).Code
		},
		"state": func() placement.Code {
			return must[placement.Outcome](w)(w.WriteState(t.Context(), placement.WriteState{Hold: held, RequestID: "r"})).Code
		},
		"activated": func() placement.Code {
			return must[placement.Outcome](w)(w.Activated(t.Context(), placement.Activated{Hold: held})).Code
		},
	} {
		if got := code(); got == placement.OK {
			t.Errorf("%s of the earlier life is accepted", what)
		}
	}
	if o := w.claim(room("lobby")); o.Code != placement.OK || o.Activation.Token <= held.Token || o.Epoch <= 2 ||
		o.Activation.Owner != again {
		t.Errorf("%+v after token %d", o, held.Token)
	}
	// Another process remembers the epoch of the first life.
	w.want(must[placement.Removal](w)(w.RemoveCluster(t.Context(), placement.RemoveCluster{
		Cluster: w.cluster, Epoch: w.Cached(w.cluster).Epoch, Reason: "x",
	})).Code, placement.MemberExists)

	for name, c := range map[string]placement.RemoveCluster{
		"cluster": {Cluster: placement.Cluster{Tenant: "acme"}, Epoch: 1, Reason: "x"},
		"epoch":   {Cluster: w.cluster, Reason: "x"},
		"reason":  {Cluster: w.cluster, Epoch: 1},
	} {
		_, err := w.RemoveCluster(t.Context(), c)
		if e, ok := errors.AsType[*field.Error](err); !ok || e.Name != name {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestRemoveClusterWithAClockSetBack: tokens and incarnations of a later life are higher although the store's clock was
// set back by a minute.
func TestRemoveClusterWithAClockSetBack(t *testing.T) {
	w := newWorld(t)
	w.clock.Advance(time.Hour)
	var token, incarnation, epoch int64
	for range 5 {
		ann := w.join("ann")
		o := w.claim(room("lobby"))
		if o.Code != placement.OK || o.Activation.Token <= token || ann.Number <= incarnation || o.Epoch <= epoch {
			t.Fatalf("token %d, incarnation %d, epoch %d after %d, %d, %d", o.Activation.Token, ann.Number, o.Epoch, token,
				incarnation, epoch)
		}
		token, incarnation = o.Activation.Token, ann.Number
		must[placement.MemberOutcome](w)(w.Leave(t.Context(), w.cluster, ann))
		epoch = w.Cached(w.cluster).Epoch
		w.want(w.removeCluster(epoch).Code, placement.OK)
		w.clock.Advance(-time.Minute)
	}
}

// cut is a store whose deletes fail from some write on.
type cut struct {
	docstore.Store
	deletes int // that still succeed
}

var errCut = errors.New("cut off")

func (c *cut) Write(ctx context.Context, writes ...docstore.Write) (docstore.Result, error) {
	if writes[0].Delete {
		if c.deletes--; c.deletes < 0 {
			return docstore.Result{}, errCut
		}
	}
	return c.Store.Write(ctx, writes...)
}

// TestRemoveClusterGoesOn: wherever a removal ends early, a repetition or a sweep removes the rest; and if a member
// joined in between, nothing of the later life, nor its name.
func TestRemoveClusterGoesOn(t *testing.T) {
	for deletes := range 6 {
		for _, then := range []string{"again", "sweep", "join"} {
			t.Run(fmt.Sprint(then, " after ", deletes), func(t *testing.T) {
				w := newWorld(t)
				ann := w.join("ann")
				held := w.active(room("lobby"))
				must[placement.MemberOutcome](w)(w.Leave(t.Context(), w.cluster, ann))
				early := placement.New(&cut{w.store, deletes}, &placement.Options{Now: w.clock.Now})
				_, err := early.RemoveCluster(t.Context(), placement.RemoveCluster{Cluster: w.cluster, Epoch: 2, Reason: "x"})
				if !errors.Is(err, errCut) {
					t.Fatal(err)
				}
				w.Service = w.another()
				want := "0 0 0 0 0 1 0"
				switch then {
				case "again":
					if o := w.removeCluster(2); o.Code != placement.OK || !o.Replayed {
						t.Errorf("%+v", o)
					}
				case "sweep":
					w.clock.Advance(2 * time.Minute)
					w.sweep(0)
				case "join":
					bob := w.join("bob", func(j *placement.Join) { j.TTL = time.Hour })
					w.want(w.removeCluster(2).Code, placement.StaleEpoch)
					o := w.claim(room("lobby"))
					if o.Code != placement.OK || o.Activation.Token <= held.Token || o.Activation.Owner != bob {
						t.Errorf("%+v after %d", o, held.Token)
					}
					w.clock.Advance(2 * time.Minute)
					w.sweep(0)
					if p := w.lookup(room("lobby")); p.Owner == nil || p.Owner.Incarnation != bob {
						t.Errorf("%+v", p)
					}
					names, _, err := w.Clusters(t.Context(), placement.Clusters{Tenant: w.cluster.Tenant})
					if err != nil || len(names) != 1 {
						t.Errorf("%v, %v", names, err)
					}
					return
				}
				if got := w.documents(); got != want {
					t.Errorf("left are %s", got)
				}
			})
		}
	}
}

// TestClustersOfATenantCanBeUndone: at the bound of clusters, and at ten times the bound, the removal of one makes room
// for one; without an administrator, the retention of the empty ones does.
func TestClustersOfATenantCanBeUndone(t *testing.T) {
	const most = 3
	w := newWorld(t)
	w.Service = placement.New(w.store, &placement.Options{Now: w.clock.Now, MaxClusters: most, Retention: time.Hour})
	join := func(n int) placement.Code {
		w.cluster.Name = fmt.Sprint("c", n)
		return must[placement.MemberOutcome](w)(
			w.Join(t.Context(), placement.Join{Cluster: w.cluster, Member: "m", RequestID: "j", Partitions: 16})).Code
	}
	for n := range 10 * most {
		if n >= most {
			w.want(join(n), placement.Limit)
			w.cluster.Name = fmt.Sprint("c", n-most)
			w.clock.Advance(placement.DefaultTTL)
			w.want(w.removeCluster(1).Code, placement.OK)
		}
		w.want(join(n), placement.OK)
	}
	w.want(join(10*most), placement.Limit)
	for range 3 { // evicted, and then empty for the retention
		w.clock.Advance(time.Hour)
		must[placement.Swept](w)(w.Sweep(t.Context(), 0))
	}
	w.want(join(10*most), placement.OK)
}
