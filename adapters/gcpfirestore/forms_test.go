package gcpfirestore_test

import (
	"errors"
	"fmt"
	"maps"
	"testing"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/leasehold-dev/leasehold/emulator/firestoretest"
	"github.com/leasehold-dev/leasehold/repo/docstore"
)

// TestKeepIsATimestamp: the time until which a document is kept is a field of a TTL policy, and no field of the port.
// Every write that says so moves it, the others leave it.
func TestKeepIsATimestamp(t *testing.T) {
	server := firestoretest.Start(t, nil)
	s, c := open(t, server, ""), client(t, server)
	doc := c.Doc("tenants/acme/locks/n")
	var until time.Time
	for i, w := range []docstore.Write{
		{Keep: time.Hour}, {Keep: 30 * time.Minute, Set: docstore.Doc{"v": docstore.Int(1)}},
		{Set: docstore.Doc{"v": docstore.Int(2)}}, {Unset: []string{"v"}},
	} {
		w.Key = key("n")
		r, err := s.Write(t.Context(), w)
		if err != nil || !r.Applied {
			t.Fatal(r, err)
		}
		if w.Keep > 0 {
			until = r.At.Add(w.Keep)
		}
		snap, err := doc.Get(t.Context())
		if err != nil || !snap.Data()["_keep_until"].(time.Time).Equal(until) {
			t.Errorf("write %d: the document has %v, want %v, %v", i, snap.Data(), until, err)
		}
		got, err := s.Get(t.Context(), key("n"))
		if _, shown := got.Docs[0]["_keep_until"]; err != nil || shown || !got.Docs[0].Equal(r.Docs[0]) {
			t.Errorf("write %d: read as %v, written as %v, %v", i, got.Docs[0], r.Docs[0], err)
		}
	}
}

// TestDelete: a deletion costs what a change costs, and after a lost response it does not remove what another caller
// made.
func TestDelete(t *testing.T) {
	remove := docstore.Write{Key: key("n"), If: docstore.Has{Field: "n"}, Delete: true}
	for _, c := range []struct {
		name    string
		effect  firestoretest.Effect
		meddle  []docstore.Write
		applied bool
		found   docstore.Doc // of a rejection
		unknown bool
		n       int64
		commits int
	}{
		{name: "as usual", applied: true, commits: 1},
		{name: "request lost", effect: firestoretest.Fail{Code: codes.Unavailable}, applied: true, commits: 2},
		{name: "response lost", effect: firestoretest.ApplyThenFail{Code: codes.Unavailable}, commits: 1},
		{name: "another was faster", effect: firestoretest.Delay{}, meddle: []docstore.Write{
			{Key: key("n"), Set: docstore.Doc{"owner": docstore.String("bob")}, Unset: []string{"n"}}},
			found: docstore.Doc{"owner": docstore.String("bob")}, commits: 1},
		{name: "another was faster, still to delete", effect: firestoretest.Delay{}, meddle: []docstore.Write{increment},
			applied: true, commits: 2},
		{name: "changed meanwhile", effect: firestoretest.Fail{Code: codes.Unavailable}, meddle: []docstore.Write{increment},
			unknown: true, n: 2, commits: 1},
		{name: "made again meanwhile", effect: firestoretest.Fail{Code: codes.Unavailable},
			meddle: []docstore.Write{remove, create}, unknown: true, n: 1, commits: 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			server := firestoretest.Start(t, nil)
			s, other := open(t, server, ""), open(t, server, "")
			if _, err := s.Write(t.Context(), create); err != nil {
				t.Fatal(err)
			}
			server.ResetCounts()
			if c.effect != nil {
				fault(server, c.effect, func() {
					for _, w := range c.meddle {
						if r, err := other.Write(t.Context(), w); err != nil || !r.Applied {
							t.Error(r, err)
						}
					}
				})
			}
			r, err := s.Write(t.Context(), remove)
			if r.Applied != c.applied || errors.Is(err, docstore.ErrUnavailable) != c.unknown || err != nil && !c.unknown {
				t.Errorf("%+v, %v", r, err)
			}
			if err == nil && !r.Docs[0].Equal(c.found) {
				t.Errorf("found %v, want %v", r.Docs[0], c.found)
			}
			if got := server.Count("Commit") - len(c.meddle); got != c.commits {
				t.Errorf("%d commits, want %d", got, c.commits)
			}
			if got := n(t, s); got != c.n {
				t.Errorf("n is %d, want %d", got, c.n)
			}
		})
	}
}

// TestWalk: all tenants of a kind, one request for a page, and no documents of other collections of that name.
func TestWalk(t *testing.T) {
	for _, root := range []string{"", "lease/v1", "locks/x"} {
		t.Run(root, func(t *testing.T) {
			server := firestoretest.Start(t, nil)
			s, c := open(t, server, root), client(t, server)
			want := map[docstore.Key]bool{}
			for _, kind := range []string{"locks", "tenants", "fences"} {
				for i := range 12 {
					k := docstore.Key{Kind: kind, Tenant: []string{"", "acme", "a/b"}[i%3], ID: fmt.Sprint("id/", i)}
					if _, err := s.Write(t.Context(), docstore.Write{Key: k, Keep: time.Hour}); err != nil {
						t.Fatal(err)
					}
					want[k] = kind == "locks"
				}
			}
			maps.DeleteFunc(want, func(_ docstore.Key, ours bool) bool { return !ours })
			below := root
			if below != "" {
				below += "/"
			}
			for _, path := range []string{"users/u/locks/a", "tenants/t/things/x/locks/a", "locks/a/things/b/locks/c",
				"tenants/__a__\u0001/locks/a"} {
				if _, err := c.Doc(below+path).Set(t.Context(), map[string]any{"v": 1}); err != nil {
					t.Fatal(err)
				}
			}
			want[docstore.Key{Kind: "locks", Tenant: "__a__", ID: "a"}] = true
			if root != "" { // beside the root
				for _, path := range []string{"locks/a", "lease/v2/locks/a"} {
					if _, err := c.Doc(path).Set(t.Context(), map[string]any{"v": 1}); err != nil {
						t.Fatal(err)
					}
				}
			}
			for _, limit := range []int{1, 5, 0} {
				found, pages := map[docstore.Key]bool{}, 0
				server.ResetCounts()
				for q := (docstore.WalkQuery{Kind: "locks", Limit: limit}); pages == 0 || q.After != ""; pages++ {
					p, err := s.Walk(t.Context(), q)
					if err != nil {
						t.Fatal(err)
					}
					for _, e := range p.Entries {
						if found[e.Key] || e.Doc == nil {
							t.Errorf("%s: %v, seen before: %v", e.Key, e.Doc, found[e.Key])
						}
						found[e.Key] = true
					}
					q.After = p.Next
				}
				if !maps.Equal(found, want) {
					t.Errorf("limit %d: found %v, want %v", limit, found, want)
				}
				if got := server.Counts(); got["RunQuery"] != pages || len(got) != 1 {
					t.Errorf("limit %d: %v requests for %d pages", limit, got, pages)
				}
			}
			for _, after := range []string{"x", "a//b/c", "a/b/c"} {
				if _, err := s.Walk(t.Context(), docstore.WalkQuery{Kind: "locks", After: after}); !errors.Is(err,
					docstore.ErrInvalid) {
					t.Errorf("after %q: %v", after, err)
				}
			}
		})
	}
}
