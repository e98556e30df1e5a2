package suite

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/leasehold-dev/leasehold/kazahana"
	"github.com/leasehold-dev/leasehold/repo/analysis"
	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/lock"
	"github.com/leasehold-dev/leasehold/repo/machineid"
	"github.com/leasehold-dev/leasehold/repo/placement"
	"github.com/leasehold-dev/leasehold/repo/runs"
)

// Damage asks on a store that other programs write to whether their documents keep any other from its turn: from being
// listed, swept, evicted, leased, and whether each is reported. n documents are damaged, before, between and behind
// the others.
func Damage(t *testing.T, newStore func(t *testing.T, now func() time.Time) docstore.Store, n int) {
	t.Helper()
	for name, ask := range map[string]func(damaged, *testing.T){
		"locks": damaged.locks, "analyses": damaged.analyses, "runs": damaged.runs, "clusters": damaged.clusters,
		"machine IDs": damaged.machineIDs,
	} {
		t.Run(name, func(t *testing.T) {
			clock := NewClock()
			ask(damaged{newStore(t, clock.Now), clock, n}, t)
		})
	}
}

// damaged is a store, and how many documents are to be damaged in it.
type damaged struct {
	docstore.Store

	clock *Clock
	n     int
}

// strange are values that other programs may write, of kinds that no rule writes.
var strange = []docstore.Value{docstore.String("strange"), docstore.Bool(true), docstore.Map{"strange": "x"},
	docstore.Bytes("strange")}

// spoil writes a field of documents, of those that are there and of others.
func (d damaged) spoil(t *testing.T, kind, tenant, field string, names func(i int) string, beside docstore.Doc) {
	t.Helper()
	for i := range d.n {
		set := docstore.Doc{field: strange[i%len(strange)]}
		maps.Copy(set, beside)
		k := docstore.Key{Kind: kind, Tenant: tenant, ID: names(i)}
		if _, err := d.Write(t.Context(), docstore.Write{Key: k, Set: set}); err != nil {
			t.Fatal(err)
		}
	}
}

// among are names before, between and behind a, m and z.
func among(i int) string { return fmt.Sprintf("%s%03d", []string{"0", "b", "zz"}[i%3], i) }

func (d damaged) locks(t *testing.T) {
	locks := lock.New(d, nil)
	for _, key := range []string{"a", "m", "z"} {
		o, err := locks.Acquire(t.Context(), lock.Acquire{ID: lock.ID{Tenant: "acme", Key: key}, Owner: "ann",
			RequestID: "r", TTLSeconds: 60})
		if err != nil || o.Code != lock.OK {
			t.Fatal(o, err)
		}
	}
	d.spoil(t, lock.Kind, "acme", "state", among, docstore.Doc{"token": docstore.Bool(true)})
	found, bad := 0, 0
	for q := (lock.List{Tenant: "acme", PageSize: 2}); ; {
		p, err := locks.List(t.Context(), q)
		if err != nil || len(p.Locks)+len(p.Damaged) > 2 {
			t.Fatal(len(p.Locks), len(p.Damaged), err)
		}
		found, bad = found+len(p.Locks), bad+len(p.Damaged)
		if q.PageToken = p.Next; p.Next == "" {
			break
		}
	}
	if found != 3 || bad != d.n {
		t.Errorf("%d locks and %d damaged ones, of %d", found, bad, d.n)
	}
}

// queueOf keeps the names of what was queued.
type queueOf struct{ ids []string }

func (q *queueOf) Enqueue(_ context.Context, id analysis.ID, _ string) error {
	q.ids = append(q.ids, string(id))
	return nil
}

func (d damaged) analyses(t *testing.T) {
	stale := docstore.Doc{"lockOwner": docstore.String("dead"),
		"lockExpiresAt": docstore.FormatTime(d.clock.Now().Add(-time.Hour))}
	for _, id := range []string{"a", "m", "z"} {
		if _, err := d.Write(t.Context(), docstore.Write{Key: docstore.Key{Kind: analysis.Kind, ID: id},
			Set: stale}); err != nil {
			t.Fatal(err)
		}
	}
	d.spoil(t, analysis.Kind, "", "lockToken", among, stale)
	q := &queueOf{}
	analyses := analysis.New(d, nil)
	done, err := analyses.Sweep(t.Context(), analysis.Sweep{Queue: q, PageSize: 2})
	slices.Sort(q.ids)
	if passed, failed := docstore.Failure(err); failed != nil || passed.Count != d.n || done.Damaged != d.n ||
		done.Requeued != 3 || fmt.Sprint(q.ids) != "[a m z]" {
		t.Errorf("%+v, %v; queued %v", done, err, q.ids)
	}
	found, bad := 0, 0
	for l := (analysis.List{PageSize: 2}); ; {
		p, err := analyses.List(t.Context(), l)
		if err != nil {
			t.Fatal(err)
		}
		for _, a := range p.Analyses {
			if a.Err == nil {
				found++
			} else {
				bad++
			}
		}
		if l.PageToken = p.Next; p.Next == "" {
			break
		}
	}
	if found != 3 || bad != d.n {
		t.Errorf("%d analyses and %d damaged ones, of %d", found, bad, d.n)
	}
}

func (d damaged) runs(t *testing.T) {
	all := runs.New(d, nil)
	for _, name := range []string{"a", "m", "z"} {
		begin := runs.Begin{ID: runs.ID{Tenant: "acme", ID: name}, Owner: "ann", RequestID: "r", TTLSeconds: 60,
			KeepSeconds: 3600}
		if o, err := all.Begin(t.Context(), begin); err != nil || o.Code != analysis.OK {
			t.Fatal(o, err)
		}
	}
	d.spoil(t, runs.Kind, "acme", "lockToken", among, nil)
	found, bad := 0, 0
	for q := (runs.List{Tenant: "acme", PageSize: 2}); ; {
		p, err := all.List(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range p.Runs {
			if r.Err == nil {
				found++
			} else {
				bad++
			}
		}
		if q.PageToken = p.Next; p.Next == "" {
			break
		}
	}
	if found != 3 || bad != d.n {
		t.Errorf("%d runs and %d damaged ones, of %d", found, bad, d.n)
	}
}

func (d damaged) clusters(t *testing.T) {
	s := placement.New(d, &placement.Options{Now: d.clock.Now})
	cluster := placement.Cluster{Tenant: "acme", Name: "prod"}
	for _, name := range []string{"a", "m", "z"} {
		j := placement.Join{Cluster: cluster, Member: name, RequestID: "j", Offer: placement.Offer{Kinds: []string{"room"}}}
		o, err := s.Join(t.Context(), j)
		if err != nil || o.Code != placement.OK {
			t.Fatal(o, err)
		}
		c := placement.Claim{Cluster: cluster, Identity: placement.Identity{Kind: "room", ID: name}, RequestID: "c",
			By: o.Incarnation}
		if o, err := s.Claim(t.Context(), c); err != nil {
			t.Fatal(o, err)
		}
	}
	d.spoil(t, "placement_member_leases", "acme/prod", "expires_at", among, nil)
	d.spoil(t, placement.ActivationKind, "acme/prod", "token", func(i int) string { return "room/" + among(i) }, nil)
	d.spoil(t, "placement_registry", "", "at", func(i int) string { return "no cluster" + among(i) }, nil)
	d.spoil(t, "placement_clusters", "acme/broken", "epoch", func(int) string { return "head" }, nil)
	d.spoil(t, "placement_registry", "", "epoch", func(int) string { return "acme/broken" }, nil)
	d.clock.Advance(time.Hour)
	swept, err := s.Sweep(t.Context(), 0)
	if passed, failed := docstore.Failure(err); failed != nil || swept.Evicted != 3 || passed.Count != swept.Damaged ||
		passed.Count < 2*d.n+1 || swept.Errors != swept.Damaged {
		t.Errorf("%+v, %v", swept, err)
	}
	first := ""
	events, bad := map[string]bool{}, map[string]bool{}
	for round := range 2 {
		for after := ""; ; {
			p, err := s.Events(t.Context(), cluster, placement.EventQuery{After: after, Limit: 2})
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range p.Events {
				events[e.ID] = true
				if first == "" {
					first = e.ID
				}
			}
			for _, b := range p.Damaged {
				bad[b.Key.ID] = true
			}
			if p.Next == after {
				break
			}
			after = p.Next
		}
		if round == 0 {
			if len(events) < 2 || len(bad) != 0 {
				t.Fatalf("%d events", len(events))
			}
			clear(events)
			d.spoil(t, "placement_events", "acme/prod", "epoch", func(i int) string {
				return first + "-" + strings.ToUpper(among(i))
			}, nil)
			d.clock.Advance(time.Hour)
		}
	}
	if len(events) < 2 || len(bad) != d.n {
		t.Errorf("%d events and %d damaged ones, of %d", len(events), len(bad), d.n)
	}
}

func (d damaged) machineIDs(t *testing.T) {
	c := machineid.DefaultService()
	c.BitTs, c.BitID = 45, 10 // four pages
	s, err := machineid.New(d, []machineid.ServiceConfig{c}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Acquire(t.Context(), kazahana.AcquireOptions{}); err != nil {
		t.Fatal(err)
	}
	d.clock.Advance(time.Hour)
	bad := min(d.n, 3)
	pages := damaged{d.Store, d.clock, bad}
	pages.spoil(t, machineid.Kind, machineid.DefaultSpace, "not_before",
		func(i int) string { return fmt.Sprintf("page-%03d", i) }, nil)
	leases := 0
	for {
		r, err := s.Acquire(t.Context(), kazahana.AcquireOptions{ThroughputPerMs: 128 * 256})
		if errors.Is(err, kazahana.ErrExhausted) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		for _, l := range r.Leases {
			if l.ID < int64(128*bad) {
				t.Errorf("machine ID %d is of a damaged page", l.ID)
			}
		}
		leases += len(r.Leases)
	}
	o, _, err := s.Occupancy(t.Context(), machineid.DefaultSpace)
	if leases != 128*(4-bad) || err != nil || o.Free != 0 || o.Unreadable.Count != bad {
		t.Errorf("%d leases, %+v, %v", leases, o, err)
	}
}
