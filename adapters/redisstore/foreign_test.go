package redisstore_test

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/leasehold-dev/leasehold/adapters/redisstore"
	"github.com/leasehold-dev/leasehold/emulator/redistest"
	"github.com/leasehold-dev/leasehold/repo/docstore"
)

// foreign are members that other programs put among those of a set, before, between and behind its own, many in a row,
// and what no key of ours has.
func foreign(own string) (members []redis.Z) {
	for i := range 25 {
		for _, m := range []string{"\x00", "a\x00", own + "\xff", "zz\xff", strings.Repeat("q", 2000)} {
			members = append(members, redis.Z{Member: m + strconv.Itoa(i)})
		}
	}
	return append(members, redis.Z{Member: ""}, redis.Z{Member: "none"})
}

// TestForeignMembers: what other programs put into the sets of Leasehold keeps no document from being listed, walked
// to, found by a time or removed, is reported, and no page begins anew.
func TestForeignMembers(t *testing.T) {
	for _, shards := range []int{1, 3} {
		t.Run(strconv.Itoa(shards), func(t *testing.T) {
			redistest.Each(t, nil, func(t *testing.T, server *redistest.Server) {
				at := time.Date(2026, 1, 1, 0, 0, 30, 0, time.UTC)
				prefix := fmt.Sprintf("foreign%d", shards)
				s := open(t, server, &redisstore.Options{Prefix: prefix, Shards: shards, Now: func() time.Time { return at }})
				tenants := []string{"acme", "m", "zeta"}
				for _, tenant := range tenants {
					for i := range 12 {
						w := docstore.Write{
							Key: docstore.Key{Kind: "things", Tenant: tenant, ID: fmt.Sprintf("m%02d", i)},
							Set: docstore.Doc{"t": docstore.String("1")}, Keep: time.Hour,
						}
						if _, err := s.Write(t.Context(), w); err != nil {
							t.Fatal(err)
						}
					}
				}
				due := func(what string, reported bool) {
					t.Helper()
					found, named := 0, 0
					for after, i := "", 0; ; i++ {
						p, err := s.Due(t.Context(), docstore.DueQuery{Kind: "things", Tenant: "acme", Field: "t", UpTo: at,
							After: after, Limit: 5})
						if err != nil || i > 50 {
							t.Fatal(what, i, err)
						}
						found, named = found+len(p.Entries), named+len(p.Damaged)
						if after = p.Next; after == "" {
							break
						}
					}
					if found != 12 || (named > 0) != reported {
						t.Errorf("%s: %d are due, %d reports", what, found, named)
					}
				}
				due("before", false) // makes the index
				c := client(t, server)
				add := func(key string, members ...redis.Z) {
					t.Helper()
					if err := c.ZAdd(t.Context(), key, members...).Err(); err != nil {
						t.Fatal(err)
					}
				}
				live := docstore.Key{Kind: "things", Tenant: "acme", ID: "live"}
				kept := docstore.Key{Kind: "things", Tenant: "acme", ID: "kept"}
				for _, w := range []docstore.Write{{Key: live, Set: docstore.Doc{"n": docstore.Int(1)}, Keep: 24 * time.Hour},
					{Key: kept, Set: docstore.Doc{"n": docstore.Int(1)}}} {
					if _, err := s.Write(t.Context(), w); err != nil {
						t.Fatal(err)
					}
				}
				roots := []string{"{" + prefix + "}"}
				if shards > 1 {
					roots = nil
					for i := range shards {
						roots = append(roots, fmt.Sprintf("{%s/%d}", prefix, i))
					}
				}
				for _, root := range roots {
					for _, tenant := range tenants {
						if c.Exists(t.Context(), root+":ids:things/"+tenant).Val() == 1 {
							add(root+":ids:things/"+tenant, foreign("m05")...)
						}
						if by := root + ":by:things/" + tenant; c.Exists(t.Context(), by).Val() == 1 {
							for _, z := range foreign("t\x001\x00\x01m05") {
								z.Member = "t\x00" + z.Member.(string)
								add(by, z)
							}
						}
					}
					add(root+":tenants", foreign("things/acme")...)
					for _, z := range append(foreign("m"), redis.Z{Member: "%zz"}, redis.Z{Member: "b c"}, redis.Z{Member: "acme/x"},
						redis.Z{Member: "empty"}, redis.Z{Member: "m"}) {
						z.Member = "things/" + z.Member.(string)
						add(root+":tenants", z)
					}
					add(root+":ends", foreign("things/acme/m05")...)
					add(root+":ends", redis.Z{Member: "things/acme/m%30"}, redis.Z{Member: "things/acme/none"},
						redis.Z{Member: live.String()}, redis.Z{Member: kept.String()})
				}
				list := func(limit int) {
					t.Helper()
					found, named := 0, 0
					for after, i := "", 0; ; i++ {
						p, err := s.List(t.Context(), docstore.Query{Kind: "things", Tenant: "acme", After: after, Limit: limit})
						if err != nil || i > 50 {
							t.Fatal(i, err)
						}
						found, named = found+len(p.Entries), named+len(p.Damaged)
						for _, d := range p.Damaged {
							if d.Key.ID != "" || !errors.Is(d.Err, docstore.ErrDamaged) ||
								!strings.Contains(d.Err.Error(), ":ids:things/acme has ") {
								t.Errorf("%+v", d)
							}
						}
						if after = p.Next; after == "" {
							break
						}
					}
					if found != 14 || named == 0 || named > found {
						t.Errorf("%d on a page: %d documents, %d reports", limit, found, named)
					}
				}
				for _, limit := range []int{1, 2, 12, 14, docstore.MaxLimit} {
					list(limit)
					found, named := map[docstore.Key]int{}, 0
					for after, i := "", 0; ; i++ {
						p, err := s.Walk(t.Context(), docstore.WalkQuery{Kind: "things", After: after, Limit: limit})
						if err != nil || i > 100 {
							t.Fatal(i, err)
						}
						for _, e := range p.Entries {
							found[e.Key]++
						}
						named += len(p.Damaged)
						if after = p.Next; after == "" {
							break
						}
					}
					if len(found) != 38 || named == 0 || found[live] != 1 {
						t.Errorf("walked to %d, %d reports", len(found), named)
					}
				}
				due("with others among them", true)
				due("again", false) // an index is derived: they were removed from it
				removed, err := s.Prune(t.Context(), 500)
				if passed, failed := docstore.Failure(err); failed != nil || passed.Count == 0 {
					t.Errorf("removed %d: %v", removed, err)
				}
				if _, err := s.Prune(t.Context(), 500); err != nil {
					t.Errorf("again: %v", err)
				}
				list(5) // nothing was removed before its time
				at = at.Add(2 * time.Hour)
				if removed, err := s.Prune(t.Context(), 500); removed != 36 || err != nil {
					t.Errorf("removed %d, %v", removed, err)
				}
				at = at.Add(24 * time.Hour)
				if removed, err := s.Prune(t.Context(), 500); removed != 1 || err != nil {
					t.Errorf("the one that ends later: removed %d, %v", removed, err)
				}
				snap, err := s.Get(t.Context(), kept)
				if err != nil || snap.Docs[0] == nil {
					t.Errorf("one without an end: %v, %v", snap.Docs, err)
				}
			})
		})
	}
}

// TestForeignSets: a key of another type in the place of a set of one tenant, or of one shard, keeps no other tenant
// and no other shard from its turn.
func TestForeignSets(t *testing.T) {
	server := redistest.Start(t) // the stand-in's scripts say another error
	at := time.Date(2026, 1, 1, 0, 0, 30, 0, time.UTC)
	s := open(t, server, &redisstore.Options{Prefix: "sets", Shards: 3, Now: func() time.Time { return at }})
	const tenants = 20
	for i := range tenants {
		k := docstore.Key{Kind: "things", Tenant: fmt.Sprintf("t%02d", i), ID: "x"}
		if _, err := s.Write(t.Context(), docstore.Write{Key: k, Set: docstore.Doc{"t": docstore.String("1")},
			Keep: time.Hour}); err != nil {
			t.Fatal(err)
		}
	}
	c := client(t, server)
	instead := func(key string) {
		t.Helper()
		if err := errors.Join(c.Del(t.Context(), key).Err(), c.LPush(t.Context(), key, "foreign").Err()); err != nil {
			t.Fatal(err)
		}
	}
	ids := c.Keys(t.Context(), "{sets/*}:ids:things/t07").Val()
	if len(ids) != 1 {
		t.Fatal(ids)
	}
	instead(ids[0])
	found, named := 0, 0
	for after := ""; ; {
		p, err := s.Walk(t.Context(), docstore.WalkQuery{Kind: "things", After: after, Limit: 10})
		if err != nil {
			t.Fatal(err)
		}
		found, named = found+len(p.Entries), named+len(p.Damaged)
		if after = p.Next; after == "" {
			break
		}
	}
	if found != tenants-1 || named != 1 {
		t.Errorf("walked to %d, %d reports", found, named)
	}
	// The first shard has no ends any more: those of the others are removed, and each later call fails as well.
	at = at.Add(2 * time.Hour)
	in, err := c.ZCard(t.Context(), "{sets/0}:ends").Result()
	if err != nil || in == 0 {
		t.Fatal(in, err)
	}
	instead("{sets/0}:ends")
	there := 0 // where the damaged IDs are
	if strings.HasPrefix(ids[0], "{sets/0}") {
		there = 1
	}
	removed, err := s.Prune(t.Context(), 500)
	if passed, failed := docstore.Failure(err); !errors.Is(failed, docstore.ErrDamaged) ||
		removed != tenants-int(in)-1+there || passed.Count != 1-there {
		t.Errorf("removed %d, %v", removed, err)
	}
	if removed, err = s.Prune(t.Context(), 500); removed != 0 || !errors.Is(err, docstore.ErrDamaged) {
		t.Errorf("again: removed %d, %v", removed, err)
	}
}
