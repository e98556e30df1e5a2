package redisstore_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	sdk "github.com/redis/go-redis/v9"

	"github.com/leasehold-dev/leasehold/adapters/redisstore"
	"github.com/leasehold-dev/leasehold/emulator/redistest"
	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/docstore/docstoretest"
)

// TestConformanceInShards runs the whole suite on a store of several shards.
func TestConformanceInShards(t *testing.T) {
	t.Parallel()
	redistest.Each(t, nil, func(t *testing.T, server *redistest.Server) {
		docstoretest.Run(t, func(t *testing.T) docstore.Store {
			return open(t, server, &redisstore.Options{Shards: 7})
		}, exceptions(server)...)
	})
}

// TestShardsStay: documents are found by the shard of their tenant, for ever.
func TestShardsStay(t *testing.T) {
	redistest.Each(t, nil, func(t *testing.T, server *redistest.Server) {
		admin := client(t, server)
		for shards, places := range map[int]map[string]int{
			1:  {"": 0, "acme": 0, "default": 0, "acme/rooms": 0, "日本": 0},
			2:  {"": 1, "acme": 1, "default": 0, "acme/rooms": 0, "日本": 1},
			16: {"": 5, "acme": 15, "default": 14, "acme/rooms": 0, "日本": 1},
			64: {"": 5, "acme": 47, "default": 30, "acme/rooms": 48, "日本": 17},
		} {
			prefix := fmt.Sprint("stay-", shards)
			s := open(t, server, &redisstore.Options{Prefix: prefix, Shards: shards})
			for tenant, want := range places {
				k := docstore.Key{Kind: "locks", Tenant: tenant, ID: "x"}
				if _, err := s.Write(t.Context(), docstore.Write{Key: k}); err != nil {
					t.Fatal(err)
				}
				name := fmt.Sprintf("{%s/%d}:doc:%s", prefix, want, k)
				if shards == 1 {
					name = fmt.Sprintf("{%s}:doc:%s", prefix, k)
				}
				if admin.Exists(t.Context(), name).Val() != 1 {
					t.Errorf("%d shards: %s is not at %s: %q", shards, k, name, admin.Keys(t.Context(), "*"+k.String()).Val())
				}
			}
		}
	})
}

// TestLayoutsDoNotMix: a store that was opened with another number of shards would find no documents, and grant what is
// held. It is not opened, and nothing is written.
func TestLayoutsDoNotMix(t *testing.T) {
	redistest.Each(t, nil, func(t *testing.T, server *redistest.Server) {
		admin := client(t, server)
		k := key("held")
		for _, found := range []int{1, 2, 16} {
			o := redisstore.Options{Addr: server.URL(), Prefix: fmt.Sprint("mix-", found), Shards: found}
			s := open(t, server, &o)
			if r, err := s.Write(t.Context(), docstore.Write{Key: k, If: docstore.Absent{}}); err != nil || !r.Applied {
				t.Fatal(err)
			}
			before := dump(t, admin)
			for _, other := range []int{0, 1, 2, 15, 16, 64} {
				if max(other, 1) == found {
					continue
				}
				o.Shards = other
				_, err := redisstore.Open(t.Context(), &o)
				layout := fmt.Sprint("in ", found, " shards")
				if found == 1 {
					layout = "in one shard"
				}
				says(t, err, []string{layout, fmt.Sprintf("set it to %d (LEASEHOLD_REDIS_SHARDS)", found), "another prefix",
					"nothing was changed", server.Addr()})
				if !errors.Is(err, docstore.ErrNotWritten) || errors.Is(err, docstore.ErrUnavailable) {
					t.Errorf("%v", err)
				}
			}
			if after := dump(t, admin); fmt.Sprint(after) != fmt.Sprint(before) {
				t.Errorf("keys changed from %v to %v", before, after)
			}
			o.Shards = found
			if r, err := open(t, server, &o).Write(t.Context(), docstore.Write{Key: k, If: docstore.Absent{}}); err != nil ||
				r.Applied {
				t.Errorf("%d shards, opened again: applied %v, %v", found, r.Applied, err)
			}
		}
		_, err := redisstore.Open(t.Context(), &redisstore.Options{Addr: server.Addr(), Shards: 65})
		says(t, err, []string{"Shards 65", "from 1 to 64"})
		_, err = redisstore.Open(t.Context(), &redisstore.Options{Addr: server.Addr(), Shards: -1})
		says(t, err, []string{"Shards -1"})
	})
}

// TestLayoutIsAskedOnceTheServerWrites: on a replica nothing can be marked. The first call that the server takes finds
// out.
func TestLayoutIsAskedOnceTheServerWrites(t *testing.T) {
	server := redistest.Start(t, "--replicaof", "127.0.0.1", "1")
	one, two := open(t, server, &redisstore.Options{Prefix: "p"}),
		open(t, server, &redisstore.Options{Prefix: "p", Shards: 2})
	if err := client(t, server).Do(t.Context(), "REPLICAOF", "NO", "ONE").Err(); err != nil {
		t.Fatal(err)
	}
	token(t, two, key("a"))
	_, err := one.Write(t.Context(), count(key("a")))
	if !errors.Is(err, docstore.ErrNotWritten) {
		t.Error(err)
	}
	says(t, err, []string{"in 2 shards", "set it to 2"})
}

// TestRequestsInShards: a step is one command however many shards there are, and so is a read within a tenant.
func TestRequestsInShards(t *testing.T) {
	redistest.Each(t, nil, func(t *testing.T, server *redistest.Server) {
		const shards = 8
		s := open(t, server, &redisstore.Options{Shards: shards})
		expect := func(name string, want int, do func() error) {
			t.Helper()
			for range 2 { // the first may send the script's text, too
				server.ResetCommands()
				if err := do(); err != nil {
					t.Errorf("%s: %v", name, err)
				}
			}
			if got := server.Commands(); !maps.Equal(got, map[string]int{"EVALSHA": want}) {
				t.Errorf("%s: sent %v, want %d", name, got, want)
			}
		}
		at := func(tenant, id string) docstore.Key {
			return docstore.Key{Kind: "locks", Tenant: tenant, ID: id}
		}
		add := map[string]int64{"n": 1}
		expect("a write", 1, func() error {
			_, err := s.Write(t.Context(), docstore.Write{Key: at("a", "x"), Add: add})
			return err
		})
		expect("two writes", 1, func() error {
			_, err := s.Write(t.Context(), docstore.Write{Key: at("a", "x"), Add: add},
				docstore.Write{Key: at("a", "y"), Add: add})
			return err
		})
		expect("a read of two", 1, func() error { _, err := s.Get(t.Context(), at("a", "x"), at("a", "y")); return err })
		expect("a read of two tenants", 2, func() error {
			_, err := s.Get(t.Context(), at("a", "x"), at("b", "y"))
			return err
		})
		expect("a page", 2, func() error {
			_, err := s.List(t.Context(), docstore.Query{Kind: "locks", Tenant: "a"})
			return err
		})
		expect("a prune of nothing", shards, func() error { _, err := s.Prune(t.Context(), 10); return err })
		expect("a walk of nothing", shards, func() error {
			_, err := s.Walk(t.Context(), docstore.WalkQuery{Kind: "none"})
			return err
		})
	})
}

// TestEmptiedShards: a process notices that the server was emptied with its next call, also on a shard that it never
// asked.
func TestEmptiedShards(t *testing.T) {
	redistest.Each(t, nil, func(t *testing.T, server *redistest.Server) {
		s, admin := open(t, server, &redisstore.Options{Prefix: "emptied", Shards: 4}), client(t, server)
		token(t, s, key("a"))
		if err := admin.FlushAll(t.Context()).Err(); err != nil {
			t.Fatal(err)
		}
		refusesAll(t, s, "restart Leasehold")
		for i := range 20 {
			_, err := s.Write(t.Context(), docstore.Write{Key: docstore.Key{Kind: "locks", Tenant: fmt.Sprint("t", i), ID: "x"}})
			if !errors.Is(err, docstore.ErrNotWritten) {
				t.Errorf("tenant t%d: %v", i, err)
			}
		}
		if keys := admin.Keys(t.Context(), "*").Val(); len(keys) != 0 {
			t.Errorf("%q was written", keys)
		}
	})
}

// TestLostWritesOfAShard: acknowledged writes that one shard has lost stop the store as a whole, once that was seen.
func TestLostWritesOfAShard(t *testing.T) {
	redistest.Each(t, nil, func(t *testing.T, server *redistest.Server) {
		s, admin := open(t, server, &redisstore.Options{Prefix: "back", Shards: 2}), client(t, server)
		lost, other := key("x"), docstore.Key{Kind: "locks", Tenant: "default", ID: "x"} // two shards, see TestShardsStay
		token(t, s, lost)
		backup := dump(t, admin)
		token(t, s, lost)
		putBack(t, admin, backup)
		token(t, s, other) // nothing is missing there
		if _, err := s.Get(t.Context(), lost); !errors.Is(err, docstore.ErrUnavailable) {
			t.Error(err)
		}
		refusesAll(t, s, "leasehold store raise-tokens")
	})
}

// TestShardsOfACluster: on a cluster, each shard is in a slot of its own, and a script is never sent keys of two.
func TestShardsOfACluster(t *testing.T) {
	server := redistest.StartCluster(t)
	const shards = 16
	s, admin := open(t, server, &redisstore.Options{Prefix: "spread", Shards: shards}), client(t, server)
	slots, byTenant := map[int64]int{}, map[string]int64{}
	for i := range 200 {
		tenant := fmt.Sprint("tenant-", i)
		writes := make([]docstore.Write, 3)
		for j := range writes {
			writes[j] = docstore.Write{Key: docstore.Key{Kind: fmt.Sprint("kind", j), Tenant: tenant, ID: "{x}"},
				Keep: time.Hour}
		}
		if r, err := s.Write(t.Context(), writes...); err != nil || !r.Applied {
			t.Fatalf("%v, %v", r.Applied, err)
		}
		for _, name := range admin.Keys(t.Context(), "*:doc:kind?/"+tenant+"/*").Val() {
			slot := admin.ClusterKeySlot(t.Context(), name).Val()
			if before, ok := byTenant[tenant]; ok && before != slot {
				t.Errorf("%s is in the slots %d and %d", tenant, before, slot)
			}
			byTenant[tenant] = slot
		}
		slots[byTenant[tenant]]++
	}
	if len(slots) != shards {
		t.Errorf("200 tenants are in %d slots, want %d", len(slots), shards)
	}
	if most := slices.Max(slices.Collect(maps.Values(slots))); most > 3*200/shards {
		t.Errorf("%d of 200 tenants are in one slot", most)
	}
	t.Run("conformance", func(t *testing.T) {
		docstoretest.Run(t, func(t *testing.T) docstore.Store { return open(t, server, &redisstore.Options{Shards: shards}) })
	})
}

// TestShardsOnSeveralMembers: three members of a cluster share the documents, the scripts are sent to each, and what
// goes through all tenants finds what is on all of them. Without the third, the tenants of the others go on.
func TestShardsOnSeveralMembers(t *testing.T) {
	cluster := redistest.StartClusterOf(t, 3)
	s := open(t, cluster[0], &redisstore.Options{Prefix: "members", Shards: 16})
	clients := make([]*sdk.Client, len(cluster))
	for i, member := range cluster {
		clients[i] = client(t, member)
	}
	const tenants = 60
	on := map[string]int{} // which member has a tenant
	for i := range tenants {
		k := docstore.Key{Kind: "locks", Tenant: fmt.Sprint("t", i), ID: "x"}
		mustWrite(t, s, waits(k, i), docstore.Write{Key: docstore.Key{Kind: "others", Tenant: k.Tenant, ID: "x"},
			Keep: time.Millisecond})
		for member, c := range clients {
			if len(c.Keys(t.Context(), "*:doc:"+k.String()).Val()) == 1 {
				on[k.Tenant] = member
			}
		}
	}
	has := map[int]int{}
	for _, member := range on {
		has[member]++
	}
	if len(on) != tenants || len(has) != len(cluster) {
		t.Errorf("the members have %v tenants", has)
	}
	seen := map[string]int{}
	for q := (docstore.WalkQuery{Kind: "locks", Limit: 7}); ; {
		p, err := s.Walk(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range p.Entries {
			seen[e.Key.Tenant]++
		}
		if q.After = p.Next; q.After == "" {
			break
		}
	}
	if len(seen) != tenants {
		t.Errorf("a walk finds %v", seen)
	}
	for tenant, n := range seen {
		q := docstore.DueQuery{Kind: "locks", Tenant: tenant, Field: "until", UpTo: dueAt.Add(time.Hour)}
		if found := dueIDs(t, s, q); n != 1 || !slices.Equal(found, []string{"x"}) {
			t.Errorf("%s: seen %d times, due %q", tenant, n, found)
		}
	}
	for removed := 0; removed < tenants; { // a millisecond after the last was written
		n, err := s.Prune(t.Context(), 1000)
		if err != nil {
			t.Fatal(err)
		}
		removed += n
	}
	keys := make([]docstore.Key, 0, tenants)
	for tenant := range on {
		keys = append(keys, docstore.Key{Kind: "locks", Tenant: tenant, ID: "x"})
	}
	if snap, err := s.Get(t.Context(), keys...); err != nil ||
		slices.ContainsFunc(snap.Docs, func(d docstore.Doc) bool { return d == nil }) {
		t.Errorf("%v, %v", snap.Docs, err)
	}
	if w := s.Warnings(); len(w) != 1 { // the members have the same settings, and it is said once
		t.Errorf("warnings %q", w)
	}

	cluster[2].Kill()
	for tenant, member := range on {
		_, err := s.Get(t.Context(), docstore.Key{Kind: "locks", Tenant: tenant, ID: "x"})
		if member == 2 && !errors.Is(err, docstore.ErrUnavailable) || member != 2 && err != nil {
			t.Errorf("%s on member %d: %v", tenant, member, err)
		}
		if member == 2 {
			maps.DeleteFunc(on, func(_ string, member int) bool { return member == 2 }) // each takes a second, and one shows it
		}
	}
}
