package cost

import (
	"slices"
	"testing"
	"time"

	"github.com/leasehold-dev/leasehold/internal/price"
	"github.com/leasehold-dev/leasehold/repo/analysis"
	"github.com/leasehold-dev/leasehold/repo/census"
	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/lock"
	"github.com/leasehold-dev/leasehold/repo/placement"
	"github.com/leasehold-dev/leasehold/repo/rates"
	"github.com/leasehold-dev/leasehold/repo/rule"
	"github.com/leasehold-dev/leasehold/repo/runs"
)

// TestLimits counts what limits of tenants cost. A slice of a rate is a write, as is room for documents, and one that
// is refused is a write that was not applied. The first slice of a process, and the first room of a tenant, is both. A
// lock or a run with a record costs what it does without a bound. And the bound of clusters, whose names belong to no
// tenant, holds on each store.
func TestLimits(t *testing.T) {
	for _, open := range stores {
		s := open(t)
		now := s.clock.Now
		requests := func(what string, refused, applied float64, do func()) {
			t.Helper()
			s.reset()
			do()
			for _, m := range s.meters {
				var want Usage
				switch {
				case m.name == price.DynamoDB.Name: // each is billed, applied or not
					want = Usage{refused + applied, refused + applied, 0}
				case m.bill != nil: // Firestore reads and then commits
					want = Usage{refused + 2*applied, applied, refused + applied}
				case m.name == "SQLite": // counts commits
					want = Usage{applied, 0, 0}
				default:
					want = Usage{refused + applied, 0, 0}
				}
				if got := m.read(); got != want {
					t.Errorf("%s, %s: %+v, want %+v", m.name, what, got, want)
				}
			}
		}
		key := docstore.Key{Kind: rates.Kind, Tenant: tenant, ID: "tenant"}
		var o rates.Outcome
		take := func(want int64, granted bool) {
			t.Helper()
			var err error
			c := rates.Take{Key: key, Rate: 10, Want: want, At: o.At, TAT: o.TAT}
			if o, err = rule.Run(t.Context(), s, now, c); err != nil || granted != (o.Granted > 0) {
				t.Fatal(o, err)
			}
		}
		requests("the first slice of a rate", 1, 1, func() { take(10, true) })
		requests("a slice", 0, 1, func() { take(10, true) })
		requests("a slice that is refused", 1, 0, func() { take(10, false) })
		s.clock.Advance(time.Minute)

		room := census.Take{Kind: lock.Kind, Tenant: tenant, Need: 1, Want: 10, Most: 20}
		places := func(granted int) {
			t.Helper()
			if o, err := rule.Run(t.Context(), s, now, room); err != nil || o.Granted != granted {
				t.Fatal(o, err)
			}
		}
		requests("the first room of a tenant", 1, 1, func() { places(10) })
		requests("room", 0, 1, func() { places(10) })
		requests("room that is refused", 1, 0, func() { places(0) })

		p := &program{t: t, s: s, locks: lock.New(s, &lock.Options{MaxPerTenant: 1000, Now: now})}
		p.acquire("bounded", owner, lock.Acquire{}, lock.OK)
		requests("a lock with a record", 1, 0, func() { p.acquire("bounded", other, lock.Acquire{}, lock.Held) })

		all := runs.New(s, &runs.Options{Options: analysis.Options{Now: now}, MaxPerTenant: 1000})
		begin := func(id, owner string, code analysis.Code) {
			t.Helper()
			o, err := all.Begin(t.Context(), runs.Begin{ID: runs.ID{Tenant: tenant, ID: id}, Owner: owner, RequestID: owner,
				TTLSeconds: 30, KeepSeconds: 60})
			if err != nil || o.Code != code {
				t.Fatal(o, err)
			}
		}
		begin("first", "ann", analysis.OK)
		requests("a run, that there is no record, room for two, and its record", 1, 2,
			func() { begin("second", "ann", analysis.OK) })
		requests("a run with room in hand", 0, 1, func() { begin("third", "ann", analysis.OK) })
		requests("a run with a record", 1, 0, func() { begin("third", "bob", analysis.Locked) })

		placed := placement.New(s, &placement.Options{Now: now, MaxClusters: 1})
		join := func(cluster string, code placement.Code) {
			t.Helper()
			o, err := placed.Join(t.Context(), placement.Join{Cluster: placement.Cluster{Tenant: tenant, Name: cluster},
				Member: "ann", RequestID: cluster, TTL: time.Hour, Partitions: 16})
			if err != nil || o.Code != code {
				t.Fatal(o, err)
			}
		}
		join("one", placement.OK)
		for range 2 { // before they are counted, and after it
			join("two", placement.Limit)
			if done, err := census.Correct(t.Context(), s, 0); err != nil || done.Tallies != 3 || done.Documents != 5 {
				t.Errorf("corrected %+v, %v", done, err)
			}
			s.clock.Advance(time.Hour)
		}
		names, _, err := placed.Clusters(t.Context(), placement.Clusters{Tenant: tenant})
		if err != nil || !slices.Equal(names, []string{"one"}) {
			t.Errorf("clusters %v, %v", names, err)
		}
	}
}
