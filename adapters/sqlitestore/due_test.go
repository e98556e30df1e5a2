package sqlitestore_test

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/leasehold-dev/leasehold/adapters/sqlitestore"
	"github.com/leasehold-dev/leasehold/repo/docstore"
)

// waiting is the query for what waits until a second of 1970.
func waiting(second int64) docstore.DueQuery {
	return docstore.DueQuery{Kind: "locks", Tenant: "acme", Field: "until", UpTo: time.Unix(second, 0)}
}

// TestDueUsesItsIndex: SQLite searches the index from the cursor on, up to the greatest value, and sorts nothing.
func TestDueUsesItsIndex(t *testing.T) {
	path := filepath.Join(t.TempDir(), "leasehold.db")
	s := open(t, path, nil)
	if _, err := s.Due(t.Context(), waiting(1)); err != nil {
		t.Fatal(err)
	}
	rows, err := dial(t, path).QueryContext(t.Context(), "EXPLAIN QUERY PLAN "+sqlitestore.DueQuery("locks", "until"),
		"acme", "1970", "", "")
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	var plan []string
	for rows.Next() {
		var id, parent, unused int
		var step string
		if err := rows.Scan(&id, &parent, &unused, &step); err != nil {
			t.Fatal(err)
		}
		plan = append(plan, step)
	}
	want := `SEARCH docs USING INDEX due locks until 756e74696c (tenant=? AND <expr>>? AND <expr><?)`
	if got := strings.Join(plan, "\n"); rows.Err() != nil || got != want {
		t.Errorf("the plan is\n%s\nwant\n%s (%v)", got, want, rows.Err())
	}
}

// TestDueIndexIsMadeOnce, also by several callers and several processes at once, and is there for the next one.
func TestDueIndexIsMadeOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "leasehold.db")
	a, b := open(t, path, nil), open(t, path, nil)
	for i := range 20 {
		if _, err := a.Write(t.Context(), docstore.Write{
			Key: key(strconv.Itoa(i)), Set: docstore.Doc{"until": docstore.FormatTime(time.Unix(int64(i), 0))},
		}); err != nil {
			t.Fatal(err)
		}
	}
	var callers sync.WaitGroup
	for _, s := range []*sqlitestore.Store{a, b, a, b, a, b} {
		callers.Go(func() {
			if p, err := s.Due(t.Context(), waiting(9)); err != nil || len(p.Entries) != 10 {
				t.Errorf("%d entries, %v", len(p.Entries), err)
			}
		})
	}
	callers.Wait()
	c := dial(t, path)
	var n int
	if err := c.QueryRowContext(t.Context(),
		"SELECT count(*) FROM sqlite_schema WHERE type = 'index' AND name LIKE 'due %'").Scan(&n); err != nil || n != 1 {
		t.Errorf("%d indexes, %v", n, err)
	}
	run(t, c, sqlitestore.DueIndex("locks", "until"), "PRAGMA integrity_check")
}

// TestDueWithForeignDocuments: what another caller put into the file keeps no one from finding the rest, nor from
// writing.
func TestDueWithForeignDocuments(t *testing.T) {
	path := filepath.Join(t.TempDir(), "leasehold.db")
	s := open(t, path, nil)
	c := dial(t, path)
	insert := func(id, doc string) {
		t.Helper()
		if _, err := c.ExecContext(t.Context(), "INSERT INTO docs (kind, tenant, id, doc) VALUES ('locks', 'acme', ?, ?)", id,
			doc); err != nil {
			t.Fatalf("%s: %v", id, err)
		}
	}
	insert("no JSON", "until")
	insert("a list", `["until"]`)
	insert("a number", "7")
	insert("an object", `{"until":{"until":"1970"}}`)
	insert("null", `{"until":null}`)
	insert("half a pair", `{"until":"\ud800"}`)
	insert("half a pair first", `{"until":"1970\ud800"}`)
	insert("escaped name", `{"unt\u0069l":"1970-01-01T00:00:00.000Z"}`)
	insert("space", ` { "until" : "1970-01-01T00:00:00.000Z" } `)
	if _, err := s.Write(t.Context(), docstore.Write{Key: key("good"),
		Set: docstore.Doc{"until": docstore.FormatTime(time.Unix(1, 0))}}); err != nil {
		t.Fatal(err)
	}
	find := func(want ...string) {
		t.Helper()
		for limit := range 3 {
			q, got := waiting(1), []string(nil)
			for q.Limit = limit; ; {
				p, err := s.Due(t.Context(), q)
				if err != nil {
					t.Fatal(err)
				}
				for _, e := range p.Entries {
					got = append(got, e.Key.ID)
				}
				if q.After = p.Next; q.After == "" {
					break
				}
			}
			if strings.Join(got, ",") != strings.Join(want, ",") {
				t.Errorf("found %q, want %q", got, want)
			}
		}
	}
	find("escaped name", "space", "good")
	insert("no JSON either", "{")
	insert("later", `{"until":"1970-01-01T00:00:00.500Z"}`)
	find("escaped name", "space", "later", "good")
}

// TestDueWithoutTheFile: what cannot be indexed is an error that says why, and no endless wait.
func TestDueWithoutTheFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "leasehold.db")
	s := open(t, path, &sqlitestore.Options{BusyTimeout: 20 * time.Millisecond})
	release := hold(t, path)
	if _, err := s.Due(t.Context(), waiting(1)); err == nil || !strings.Contains(err.Error(), "index "+path) {
		t.Errorf("while another process writes: %v", err)
	}
	release()
	if _, err := s.Due(t.Context(), waiting(1)); err != nil {
		t.Errorf("afterwards: %v", err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	q := waiting(1)
	q.Field = "other"
	if _, err := s.Due(t.Context(), q); err == nil {
		t.Error("the file is gone, and no error says so")
	}
}
