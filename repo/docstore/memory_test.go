package docstore_test

import (
	"fmt"
	"math/bits"
	"strings"
	"testing"
	"time"

	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/docstore/docstoretest"
)

func TestMemoryConformance(t *testing.T) {
	docstoretest.Run(t, func(*testing.T) docstore.Store { return docstore.NewMemory(nil) })
}

func TestMemoryClock(t *testing.T) {
	at := time.Date(2026, 1, 1, 9, 0, 30, 999_999_999, time.FixedZone("JST", 9*60*60))
	m := docstore.NewMemory(&docstore.MemoryOptions{Now: func() time.Time { return at }})
	k := docstore.Key{Kind: "locks", Tenant: "acme", ID: "deploy"}
	r, err := m.Write(t.Context(), docstore.Write{Key: k, Set: docstore.Doc{"until": docstore.Now.Add(30 * time.Second)}})
	if err != nil {
		t.Fatal(err)
	}
	if want := time.Date(2026, 1, 1, 0, 0, 30, 999_000_000, time.UTC); r.At != want {
		t.Errorf("At is %v, want %v", r.At, want)
	}
	if got, want := r.Docs[0]["until"], docstore.String("2026-01-01T00:01:00.999Z"); got != want {
		t.Errorf("until is %v, want %v", got, want)
	}
}

// TestMemoryTokensAfterTheClockWasSetBack: no token is seen twice, whether the document was removed or another is made;
// the time counts again once it has passed what was given.
func TestMemoryTokensAfterTheClockWasSetBack(t *testing.T) {
	noon := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	clock := noon
	m := docstore.NewMemory(&docstore.MemoryOptions{Now: func() time.Time { return clock }})
	last := docstore.Int(0)
	next := func(id string) {
		t.Helper()
		r, err := m.Write(t.Context(), docstore.Write{
			Key: docstore.Key{Kind: "locks", Tenant: "acme", ID: id}, Add: map[string]int64{"token": 1},
			StartAtNow: []string{"token"},
		})
		if err != nil || !r.Applied {
			t.Fatalf("applied %v, error %v", r.Applied, err)
		}
		token, _ := r.Docs[0]["token"].(docstore.Int)
		if token <= last {
			t.Errorf("%s has token %d after %d", id, token, last)
		}
		last = token
	}
	for range 1000 { // the counter runs ahead of the clock
		next("deploy")
	}
	for back := time.Hour; back <= 2*time.Hour; back += time.Hour {
		clock = noon.Add(-back)
		gone := docstore.Write{Key: docstore.Key{Kind: "locks", Tenant: "acme", ID: "deploy"},
			If: docstore.Has{Field: "token"}, Delete: true}
		if _, err := m.Write(t.Context(), gone); err != nil {
			t.Fatal(err)
		}
		next("deploy")
		next(fmt.Sprint("another, set back by ", back))
	}
	clock = noon.Add(time.Hour)
	next("an hour later")
	if want := docstore.Int(clock.UnixMicro() + 1); last != want {
		t.Errorf("an hour later the token is %d, want %d", last, want)
	}
}

// TestMemoryDoesNotScan: what a call compares grows with the logarithm of the number of documents. What it holds the
// lock for is no more than that, and the page that it returns.
func TestMemoryDoesNotScan(t *testing.T) {
	clock := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	m := docstore.NewMemory(&docstore.MemoryOptions{Now: func() time.Time { return clock }})
	compared := m.CountComparisons()
	key := func(tenant string, n int) docstore.Key {
		return docstore.Key{Kind: "locks", Tenant: tenant, ID: fmt.Sprintf("k%07d", n)}
	}
	write := func(k docstore.Key) {
		w := docstore.Write{Key: k, Set: docstore.Doc{"state": docstore.String("ACTIVE")}, Keep: time.Hour}
		if r, err := m.Write(t.Context(), w); err != nil || !r.Applied {
			t.Fatal(r, err)
		}
	}
	const documents, limit = 20_000, 10
	calls := map[string]func() error{
		"write of a new one": func() error { write(key("quiet", *compared)); return nil },
		"write":              func() error { write(key("noisy", 500)); return nil },
		"get": func() error {
			_, err := m.Get(t.Context(), key("noisy", 500))
			return err
		},
		"list": func() error {
			p, err := m.List(t.Context(), docstore.Query{Kind: "locks", Tenant: "noisy", Prefix: "k00005", Limit: limit})
			if len(p.Entries) != limit || p.Next == "" {
				t.Error(len(p.Entries), p.Next)
			}
			return err
		},
		"list of another tenant": func() error {
			_, err := m.List(t.Context(), docstore.Query{Kind: "locks", Tenant: "nothing", Limit: limit})
			return err
		},
		"walk": func() error {
			_, err := m.Walk(t.Context(), docstore.WalkQuery{Kind: "locks", Limit: limit})
			return err
		},
		"prune": func() error { // finds none
			_, err := m.Prune(t.Context(), limit)
			return err
		},
		"due": func() error {
			_, err := m.Due(t.Context(), docstore.DueQuery{Kind: "locks", Tenant: "noisy", Field: "state",
				UpTo: clock, Limit: limit})
			return err
		},
	}
	for n := range documents {
		write(key("noisy", n))
		if n+1 != 1000 && n+1 != documents {
			continue
		}
		for name, call := range calls {
			*compared = 0
			if err := call(); err != nil {
				t.Error(name, err)
			}
			if most := 8*bits.Len(uint(n)) + 10; *compared > most {
				t.Errorf("%s: %d comparisons among %d documents, want %d at most", name, *compared, n+1, most)
			}
		}
	}
}

// TestMemoryPrunesTheFirst: what may be removed first is removed first, and what was written again is kept for longer.
func TestMemoryPrunesTheFirst(t *testing.T) {
	clock := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	m := docstore.NewMemory(&docstore.MemoryOptions{Now: func() time.Time { return clock }})
	write := func(id string, keep time.Duration) {
		w := docstore.Write{Key: docstore.Key{Kind: "locks", Tenant: "acme", ID: id}, Set: docstore.Doc{"n": docstore.Int(1)},
			Keep: keep}
		if _, err := m.Write(t.Context(), w); err != nil {
			t.Fatal(err)
		}
	}
	left := func() string {
		p, err := m.List(t.Context(), docstore.Query{Kind: "locks", Tenant: "acme"})
		if err != nil {
			t.Fatal(err)
		}
		var ids strings.Builder
		for _, e := range p.Entries {
			ids.WriteString(e.Key.ID)
		}
		return ids.String()
	}
	write("a", 3*time.Minute)
	write("b", 2*time.Minute)
	write("c", time.Minute)
	write("d", time.Minute)
	write("c", 4*time.Minute)
	write("e", 0)
	for _, step := range []struct {
		limit, removed int
		left           string
	}{{1, 1, "abce"}, {1, 1, "ace"}, {5, 2, "e"}, {5, 0, "e"}} {
		clock = time.Date(2026, 1, 1, 0, 4, 0, 0, time.UTC)
		if n, err := m.Prune(t.Context(), step.limit); n != step.removed || err != nil || left() != step.left {
			t.Errorf("%d removed, %v, %q left, want %d and %q", n, err, left(), step.removed, step.left)
		}
	}
}

// TestUntilAtTheBound: a write is applied at its end and an hour before it, and not a millisecond later or earlier.
func TestUntilAtTheBound(t *testing.T) {
	noon := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		at   time.Duration // from the end to the time of the write
		want bool
	}{
		{-docstore.MaxAhead - time.Millisecond, false}, {-docstore.MaxAhead, true}, {-docstore.MaxAhead + 1, true},
		{-time.Millisecond, true}, {0, true}, {999 * time.Microsecond, true}, {time.Millisecond, false},
		{10 * time.Hour, false},
	} {
		m := docstore.NewMemory(&docstore.MemoryOptions{Now: func() time.Time { return noon.Add(c.at) }})
		r, err := m.Write(t.Context(), docstore.Write{
			Key: docstore.Key{Kind: "locks", Tenant: "acme", ID: "deploy"}, Set: docstore.Doc{"a": docstore.Now}, Until: noon,
		})
		if err != nil || r.Applied != c.want {
			t.Errorf("%v after the end: applied %v, error %v, want %v", c.at, r.Applied, err, c.want)
		}
	}
}
