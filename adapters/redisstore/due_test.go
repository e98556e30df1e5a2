package redisstore_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/leasehold-dev/leasehold/adapters/redisstore"
	"github.com/leasehold-dev/leasehold/emulator/redistest"
	"github.com/leasehold-dev/leasehold/repo/docstore"
)

var dueAt = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// waits is a write of a document that waits until some milliseconds after dueAt.
func waits(k docstore.Key, ms int) docstore.Write {
	return docstore.Write{Key: k, Set: docstore.Doc{
		"until": docstore.FormatTime(dueAt.Add(time.Duration(ms) * time.Millisecond))}}
}

var waiting = docstore.DueQuery{Kind: "locks", Tenant: "acme", Field: "until", UpTo: dueAt}

// dueIDs is what a query finds on all of its pages.
func dueIDs(t *testing.T, s *redisstore.Store, q docstore.DueQuery) []string {
	t.Helper()
	found := []string{}
	for {
		p, err := s.Due(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range p.Entries {
			found = append(found, e.Key.ID)
		}
		if q.After = p.Next; q.After == "" {
			return found
		}
	}
}

func mustWrite(t *testing.T, s *redisstore.Store, writes ...docstore.Write) {
	t.Helper()
	if r, err := s.Write(t.Context(), writes...); err != nil || !r.Applied {
		t.Fatalf("applied %v, %v", r.Applied, err)
	}
}

// TestRequestsOfDue: a page is two commands however many documents there are, and one if nothing is due. The first page
// of all reads the kind's documents once.
func TestRequestsOfDue(t *testing.T) {
	redistest.Each(t, nil, func(t *testing.T, server *redistest.Server) {
		s := open(t, server, &redisstore.Options{Prefix: "due"})
		for from := 0; from < 2000; from += 100 {
			writes := make([]docstore.Write, 100)
			for i := range writes {
				writes[i] = waits(key(fmt.Sprintf("%04d", from+i)), 1+from+i)
			}
			mustWrite(t, s, writes...)
		}
		due := func(name string, upTo, entries int, want map[string]int) {
			t.Helper()
			server.ResetCommands()
			q := waiting
			q.UpTo = dueAt.Add(time.Duration(upTo) * time.Millisecond)
			p, err := s.Due(t.Context(), q)
			if err != nil || len(p.Entries) != entries {
				t.Errorf("%s: %d entries, %v, want %d", name, len(p.Entries), err, entries)
			}
			if got := server.Commands(); !maps.Equal(got, want) {
				t.Errorf("%s: sent %v, want %v", name, got, want)
			}
		}
		// The index: found missing, begun, the tenants, two full pages of IDs and an empty one, each full one with its
		// documents, ended, and then the page.
		due("the first page of all", 0, 0, map[string]int{"EVALSHA": 10, "EVAL": 4})
		due("nothing is due", 0, 0, map[string]int{"EVALSHA": 1})
		due("the first with a document", 1, 1, map[string]int{"EVALSHA": 2, "EVAL": 1})
		due("one", 1, 1, map[string]int{"EVALSHA": 2})
		due("a page of many", 2000, docstore.DefaultLimit, map[string]int{"EVALSHA": 2})
		mustWrite(t, s, waits(key("0000"), 5000))
		due("none again", 1, 0, map[string]int{"EVALSHA": 1})
		server.ResetCommands()
		mustWrite(t, s, waits(key("0000"), 1))
		if got := server.Commands(); !maps.Equal(got, map[string]int{"EVALSHA": 1}) {
			t.Errorf("a write with an index: %v", got)
		}
		due("again", 1, 1, map[string]int{"EVALSHA": 2})
	})
}

// TestIndexIsWhatDocumentsSay: after any writes the index has exactly the members that the documents have, whatever the
// texts are, and nothing of documents that are gone.
func TestIndexIsWhatDocumentsSay(t *testing.T) {
	redistest.Each(t, nil, func(t *testing.T, server *redistest.Server) {
		at := dueAt
		s := open(t, server, &redisstore.Options{Prefix: "says", Shards: 2, Now: func() time.Time { return at }})
		admin := client(t, server)
		r := rand.New(rand.NewPCG(1, 2))
		values := []docstore.Value{
			docstore.String(""), docstore.String("a"), docstore.String("a\x00"), docstore.String("a\x00b"),
			docstore.String("\x00"), docstore.String("\x00\x01"),
			docstore.String("a\x00\x01b"), docstore.String("a\u00ff"), docstore.String("b"), docstore.Now, docstore.Int(5),
			docstore.Bytes("a"), docstore.Map{"a": "b"},
			docstore.Before("other"), docstore.Before("until"),
		}
		ids := []string{"a", "b", "\x01", "a\x01b", "日本", "/"}
		kinds := []string{"locks", "locks-x", "lock"}
		for _, kind := range kinds[:2] {
			for _, tenant := range []string{"acme", "default"} { // one in each shard
				dueIDs(t, s, docstore.DueQuery{Kind: kind, Tenant: tenant, Field: "until", UpTo: dueAt})
				dueIDs(t, s, docstore.DueQuery{Kind: kind, Tenant: tenant, Field: "other", UpTo: dueAt})
			}
		}
		write := func(k docstore.Key) docstore.Write {
			w := docstore.Write{Key: k, Set: docstore.Doc{}}
			switch r.IntN(8) {
			case 0:
				return docstore.Write{Key: k, If: docstore.Not{Cond: docstore.Absent{}}, Delete: true}
			case 1:
				w.Unset = []string{"until", "other"}
			case 2:
				w.Keep = time.Millisecond
			case 3:
				w.Set["more"] = docstore.Bool(true)
			case 4:
				w.Set["other"] = values[r.IntN(len(values)-2)]
			default:
				w.Set["until"] = values[r.IntN(len(values))]
			}
			return w
		}
		for step := range 600 {
			tenant := []string{"acme", "default"}[r.IntN(2)]
			one := docstore.Key{Kind: kinds[r.IntN(3)], Tenant: tenant, ID: ids[r.IntN(len(ids))]}
			other := docstore.Key{Kind: kinds[r.IntN(3)], Tenant: tenant, ID: ids[r.IntN(len(ids))]}
			writes := []docstore.Write{write(one)}
			if one != other {
				writes = append(writes, write(other))
			}
			_, _ = s.Write(t.Context(), writes...) // refused or damaged is as good
			if at = at.Add(time.Millisecond); step%10 == 0 {
				if _, err := s.Prune(t.Context(), 100); err != nil {
					t.Fatal(err)
				}
			}
			if step%20 > 0 {
				continue
			}
			for _, kind := range kinds {
				page, err := s.List(t.Context(), docstore.Query{Kind: kind, Tenant: tenant})
				if err != nil {
					t.Fatal(err)
				}
				want := 0
				for _, field := range []string{"until", "other"} {
					var said []docstore.Entry
					for _, e := range page.Entries {
						if v, ok := e.Doc[field].(docstore.String); ok && kind != "lock" {
							want++
							if v <= docstore.FormatTime(at) {
								said = append(said, e)
							}
						}
					}
					slices.SortStableFunc(said, func(a, b docstore.Entry) int {
						return strings.Compare(string(a.Doc[field].(docstore.String)), string(b.Doc[field].(docstore.String)))
					})
					names := []string{}
					for _, e := range said {
						names = append(names, e.Key.ID)
					}
					if kind == "lock" {
						continue
					}
					q := docstore.DueQuery{Kind: kind, Tenant: tenant, Field: field, UpTo: at, Limit: 1 + r.IntN(4)}
					if got := dueIDs(t, s, q); !slices.Equal(got, names) {
						t.Fatalf("step %d, %s of %s/%s: %q, want %q", step, field, kind, tenant, got, names)
					}
				}
				shard := map[string]int{"acme": 1, "default": 0}[tenant]
				name := fmt.Sprintf("{says/%d}:by:%s/%s", shard, kind, tenant)
				if got := admin.ZCard(t.Context(), name).Val(); got != int64(want) {
					t.Fatalf("step %d: %s has %d members, want %d: %q", step, name, got, want,
						admin.ZRange(t.Context(), name, 0, -1).Val())
				}
			}
		}
	})
}

// TestIndexThatAnotherServerForgets: another server takes the place of the one on which an index is filled. It has
// forgotten what was put there; or that a second index was begun, which another process begins anew, and dies. The end
// of the first is not believed.
func TestIndexThatAnotherServerForgets(t *testing.T) {
	redistest.Each(t, []string{"--appendonly", "yes", "--appendfsync", "no"}, func(t *testing.T, server *redistest.Server) {
		admin := client(t, server)
		another := func(replica map[string]any) {
			t.Helper()
			putBack(t, admin, replica)
			server.Another(t)
		}
		want := []string{"before", "meanwhile"}
		t.Run("a page", func(t *testing.T) {
			o := &redisstore.Options{Addr: server.URL(), Prefix: "page"}
			s, other := open(t, nil, o), open(t, nil, o)
			mustWrite(t, s, waits(key("before"), -9))
			var replica map[string]any
			err := s.Fills(t.Context(), waiting, func() { replica = dump(t, admin) }, func() {
				another(replica)
				mustWrite(t, other, waits(key("meanwhile"), -8))
			})
			if err != nil {
				t.Fatal(err)
			}
			if got := dueIDs(t, other, waiting); !slices.Equal(got, want) {
				t.Errorf("%q, want %q", got, want)
			}
		})
		t.Run("a second index", func(t *testing.T) {
			o := &redisstore.Options{Addr: server.URL(), Prefix: "second"}
			s, other := open(t, nil, o), open(t, nil, o)
			mustWrite(t, s, waits(key("before"), -9))
			dueIDs(t, s, docstore.DueQuery{Kind: "locks", Tenant: "acme", Field: "other", UpTo: dueAt})
			replica := dump(t, admin)
			err := s.Fills(t.Context(), waiting, func() {}, func() {
				another(replica)
				mustWrite(t, other, waits(key("meanwhile"), -8))
				died := errors.New("it died")
				if err := func() (err error) {
					defer func() { err, _ = recover().(error) }()
					return other.Fills(t.Context(), waiting, func() { panic(died) }, nil)
				}(); !errors.Is(err, died) {
					t.Error(err)
				}
			})
			if err != nil {
				t.Fatal(err)
			}
			if got := dueIDs(t, other, waiting); !slices.Equal(got, want) {
				t.Errorf("%q, want %q", got, want)
			}
		})
	})
}

// TestIndexWhoseBeginningIsForgotten: a failover while an index is filled forgets that writes keep it, which is no
// write, so that nobody notices. What is written then is found by the next search, whether it is the first index of the
// shard or the second; of the first, also if another process has begun it anew meanwhile. It is filled again once.
func TestIndexWhoseBeginningIsForgotten(t *testing.T) {
	redistest.Each(t, nil, func(t *testing.T, server *redistest.Server) {
		admin := client(t, server)
		forgotten := func(prefix string, second, again bool) {
			o := &redisstore.Options{Prefix: prefix}
			s, other := open(t, server, o), open(t, server, o)
			mustWrite(t, s, waits(key("before"), -9))
			if second {
				dueIDs(t, s, docstore.DueQuery{Kind: "locks", Tenant: "acme", Field: "other", UpTo: dueAt})
			}
			// fills searches until the documents are about to be put into the index.
			fills := func(s *redisstore.Store) (late *redistest.Injection, ended chan error, end func()) {
				t.Helper()
				ctx, end := context.WithCancel(t.Context())
				late = server.InjectInto(redistest.Late, "EVALSHA", "{"+prefix+"}:doc:locks/acme/before")
				ended = make(chan error, 1)
				go func() {
					_, err := s.Due(ctx, waiting)
					ended <- err
				}()
				for deadline := time.Now().Add(time.Minute); !late.Happened(); time.Sleep(time.Millisecond) {
					if time.Now().After(deadline) {
						t.Fatalf("%s: no index is filled", prefix)
					}
				}
				return late, ended, end
			}
			replica := dump(t, admin)
			late, ended, end := fills(s)
			defer end()
			putBack(t, admin, replica)
			mustWrite(t, other, waits(key("meanwhile"), -8))
			if again {
				lost, gone, end := fills(other)
				end()
				if err := <-gone; !errors.Is(err, context.Canceled) {
					t.Errorf("%s: the other process: %v", prefix, err)
				}
				defer func() { _ = lost.Release(t.Context()) }()
			}
			if err := late.Release(t.Context()); err != nil {
				t.Fatal(err)
			}
			if err := <-ended; err != nil {
				t.Errorf("%s: the search that was on its way: %v", prefix, err)
			}
			mustWrite(t, s, waits(key("then"), -7))
			if got, want := dueIDs(t, s, waiting), []string{"before", "meanwhile", "then"}; !slices.Equal(got, want) {
				t.Errorf("%s: %q, want %q", prefix, got, want)
			}
			server.ResetCommands()
			dueIDs(t, s, waiting)
			if got := server.Commands(); !maps.Equal(got, map[string]int{"EVALSHA": 2}) {
				t.Errorf("%s, the second time: sent %v", prefix, got)
			}
		}
		forgotten("first", false, false)
		forgotten("first-begun-again", false, true)
		forgotten("second", true, false)
	})
}

// TestIndexAndOtherPrograms: what another program did to a document is not shown as it was, and leaves nothing in the
// index.
func TestIndexAndOtherPrograms(t *testing.T) {
	redistest.Each(t, nil, func(t *testing.T, server *redistest.Server) {
		s, admin := open(t, server, &redisstore.Options{Prefix: "others"}), client(t, server)
		for i, id := range []string{"changed", "deleted", "later", "removed", "stays"} {
			mustWrite(t, s, waits(key(id), i-10))
		}
		dueIDs(t, s, waiting)
		doc := func(id string) string { return "{others}:doc:locks/acme/" + id }
		set := func(id string, d docstore.Doc) error {
			return admin.Set(t.Context(), doc(id), redisstore.PackDocument(0, d), 0).Err()
		}
		for _, err := range []error{
			set("changed", docstore.Doc{"until": docstore.Int(5)}), set("removed", docstore.Doc{}),
			admin.Del(t.Context(), doc("deleted")).Err(),
			set("later", docstore.Doc{"until": docstore.String("2025-12-31T00:00:00.000Z")}),
		} {
			if err != nil {
				t.Fatal(err)
			}
		}
		if got := dueIDs(t, s, waiting); !slices.Equal(got, []string{"stays"}) {
			t.Errorf("found %q", got)
		}
		if n := admin.ZCard(t.Context(), "{others}:by:locks/acme").Val(); n != 1 {
			t.Errorf("%d members are left", n)
		}
		// The next write of Leasehold to the document, whatever it writes, puts it into the index.
		mustWrite(t, s, docstore.Write{Key: key("later"), Set: docstore.Doc{"more": docstore.Int(1)}})
		if got := dueIDs(t, s, waiting); !slices.Equal(got, []string{"later", "stays"}) {
			t.Errorf("found %q", got)
		}
		if err := admin.Do(t.Context(), "ZADD", "{others}:by:locks/acme", 0, "until\x00strange").Err(); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Due(t.Context(), waiting); err != nil { // it lies behind the bound
			t.Error(err)
		}
		if err := admin.Do(t.Context(), "ZADD", "{others}:by:locks/acme", 0, "until\x001").Err(); err != nil {
			t.Fatal(err)
		}
		p, err := s.Due(t.Context(), waiting)
		if err != nil || len(p.Entries) != 2 || len(p.Damaged) != 1 {
			t.Fatalf("%+v, %v", p, err)
		}
		says(t, p.Damaged[0].Err, []string{"damaged", "{others}:by:locks/acme"})
	})
}

// TestTidiesOnlyWhatIsNotSo: a write may come between finding a document that has another text and taking it off the
// index. It stays there.
func TestTidiesOnlyWhatIsNotSo(t *testing.T) {
	redistest.Each(t, nil, func(t *testing.T, server *redistest.Server) {
		s, admin := open(t, server, &redisstore.Options{Prefix: "between"}), client(t, server)
		text := func(ms int) string {
			s, _ := waits(docstore.Key{}, ms).Set["until"].(docstore.String)
			return string(s)
		}
		mustWrite(t, s, waits(key("written again"), -5))
		mustWrite(t, s, waits(key("another program's"), -4))
		dueIDs(t, s, waiting)
		doc := "{between}:doc:" + key("another program's").String()
		if err := admin.Set(t.Context(), doc, redisstore.PackDocument(0, docstore.Doc{}), 0).Err(); err != nil {
			t.Fatal(err)
		}
		if err := s.Tidy(t.Context(), waiting, map[docstore.Key]string{key("written again"): text(-5),
			key("another program's"): text(-4)}); err != nil {
			t.Fatal(err)
		}
		if n := admin.ZCard(t.Context(), "{between}:by:locks/acme").Val(); n != 1 {
			t.Errorf("%d members are left, want 1", n)
		}
		if got := dueIDs(t, s, waiting); !slices.Equal(got, []string{"written again"}) {
			t.Errorf("found %q", got)
		}
	})
}
