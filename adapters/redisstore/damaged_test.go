package redisstore_test

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/leasehold-dev/leasehold/adapters/redisstore"
	"github.com/leasehold-dev/leasehold/emulator/redistest"
	"github.com/leasehold-dev/leasehold/repo/docstore"
)

// TestDamagedKeys: keys of another type, and texts that are no documents, in the places of documents: first, at the end
// of a page, and more than a page has. They are on the page with what is wrong with them, stay as they are, and keep no
// other from being listed, walked to, found by a time or removed when it is due.
func TestDamagedKeys(t *testing.T) {
	for _, n := range []int{1, 9, 101, 201} {
		t.Run(strconv.Itoa(n), func(t *testing.T) {
			redistest.Each(t, nil, func(t *testing.T, server *redistest.Server) {
				at := time.Date(2026, 1, 1, 0, 0, 30, 0, time.UTC)
				s := open(t, server, &redisstore.Options{Prefix: "bad", Now: func() time.Time { return at }})
				put := func(id string, keep time.Duration) {
					t.Helper()
					w := docstore.Write{Key: docstore.Key{Kind: "things", Tenant: "acme", ID: id},
						Set: docstore.Doc{"t": docstore.String("1")}, Keep: keep}
					if _, err := s.Write(t.Context(), w); err != nil {
						t.Fatal(err)
					}
				}
				c := client(t, server)
				for i := range n {
					id := fmt.Sprintf("m%03d", i)
					put(id, time.Hour)
					key := "{bad}:doc:things/acme/" + id
					if err := c.Del(t.Context(), key).Err(); err != nil {
						t.Fatal(err)
					}
					if i%2 == 0 && !strings.Contains(t.Name(), "miniredis") { // whose scripts say another error
						if err := c.LPush(t.Context(), key, "foreign").Err(); err != nil {
							t.Fatal(err)
						}
					} else if err := c.Set(t.Context(), key, "foreign", 0).Err(); err != nil {
						t.Fatal(err)
					}
				}
				for _, id := range []string{"a", "m005x", "z"} {
					put(id, 2*time.Hour)
				}
				count := func(what string, want int, pages func(after string) (docstore.Page, error)) {
					t.Helper()
					found, damaged := 0, 0
					for after, i := "", 0; ; i++ {
						p, err := pages(after)
						if err != nil || i > 2*n+10 || len(p.Entries)+len(p.Damaged) > 10 {
							t.Fatal(what, len(p.Entries), len(p.Damaged), i, err)
						}
						found, damaged = found+len(p.Entries), damaged+len(p.Damaged)
						for _, d := range p.Damaged {
							if !errors.Is(d.Err, docstore.ErrDamaged) || d.Key.ID == "" {
								t.Fatalf("%s: %+v", what, d)
							}
						}
						if after = p.Next; after == "" {
							break
						}
					}
					if found != want || damaged != n {
						t.Errorf("%s: %d, and %d damaged ones", what, found, damaged)
					}
				}
				all := func(want int) {
					t.Helper()
					count("list", want, func(after string) (docstore.Page, error) {
						return s.List(t.Context(), docstore.Query{Kind: "things", Tenant: "acme", After: after, Limit: 10})
					})
					count("walk", want, func(after string) (docstore.Page, error) {
						return s.Walk(t.Context(), docstore.WalkQuery{Kind: "things", After: after, Limit: 10})
					})
				}
				all(3)
				due, err := s.Due(t.Context(), docstore.DueQuery{Kind: "things", Tenant: "acme", Field: "t", UpTo: at,
					Limit: docstore.MaxLimit})
				if err != nil || len(due.Entries) != 3 {
					t.Errorf("due: %d, %v", len(due.Entries), err)
				}
				if _, err := s.Get(t.Context(), docstore.Key{Kind: "things", Tenant: "acme", ID: "m000"}); !errors.Is(err,
					docstore.ErrDamaged) {
					t.Errorf("a damaged one alone: %v", err)
				}
				// Their time comes before that of the others. The first call says so, and no later one does.
				at = at.Add(3 * time.Hour)
				removed, err := s.Prune(t.Context(), 500)
				if passed, failed := docstore.Failure(err); removed != 3 || failed != nil || passed.Count != n ||
					!strings.Contains(err.Error(), "{bad}:doc:things/acme/m000") {
					t.Errorf("removed %d, %v", removed, err)
				}
				if removed, err := s.Prune(t.Context(), 500); removed != 0 || err != nil {
					t.Errorf("again: removed %d, %v", removed, err)
				}
				all(0)
				if got := c.Exists(t.Context(), "{bad}:doc:things/acme/m000").Val(); got != 1 {
					t.Error("what is another program's was removed")
				}
			})
		})
	}
}

// TestDamagedAmongSeveral: where one of several documents is none, no other is written.
func TestDamagedAmongSeveral(t *testing.T) {
	redistest.Each(t, nil, func(t *testing.T, server *redistest.Server) {
		s := open(t, server, &redisstore.Options{Prefix: "several"})
		if err := client(t, server).Set(t.Context(), "{several}:doc:locks/acme/b", "text", 0).Err(); err != nil {
			t.Fatal(err)
		}
		set := docstore.Doc{"n": docstore.Int(1)}
		r, err := s.Write(t.Context(), docstore.Write{Key: key("a"), Set: set}, docstore.Write{Key: key("b"), Set: set})
		if !errors.Is(err, docstore.ErrDamaged) {
			t.Errorf("%+v, %v, want ErrDamaged", r, err)
		}
		if snap, err := s.Get(t.Context(), key("a")); err != nil || snap.Docs[0] != nil {
			t.Errorf("beside it stands %v, %v", snap.Docs, err)
		}
	})
}
