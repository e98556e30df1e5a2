package sqlitestore_test

import (
	"database/sql"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/leasehold-dev/leasehold/adapters/sqlitestore"
	"github.com/leasehold-dev/leasehold/repo/docstore"
)

// TestNoStatementScans: however many documents there are, every statement finds its own by a search and sorts nothing.
func TestNoStatementScans(t *testing.T) {
	path := filepath.Join(t.TempDir(), "leasehold.db")
	open(t, path, nil)
	db := dial(t, path)
	searched := 0
	for _, statement := range sqlitestore.Statements() {
		if !strings.Contains(statement, "docs") && !strings.Contains(statement, "facts") {
			continue // BEGIN, COMMIT, ROLLBACK
		}
		args := make([]any, strings.Count(statement, "?"))
		for i := range args {
			args[i] = "1"
		}
		for _, step := range plan(t, db, statement, args...) {
			if strings.HasPrefix(step, "SCAN") || strings.Contains(step, "TEMP B-TREE") {
				t.Errorf("%s\n%s", statement, step)
			}
			if strings.HasPrefix(step, "SEARCH") {
				searched++
			}
		}
	}
	if searched < 6 {
		t.Errorf("%d searches: plans look different now, see what SQLite calls a scan", searched)
	}
}

// plan is how SQLite carries a statement out.
func plan(t *testing.T, db *sql.Conn, statement string, args ...any) (steps []string) {
	t.Helper()
	rows, err := db.QueryContext(t.Context(), "EXPLAIN QUERY PLAN "+statement, args...)
	if err != nil {
		t.Fatal(statement, err)
	}
	defer rows.Close()
	for rows.Next() {
		var id, parent, unused int
		var step string
		if err := rows.Scan(&id, &parent, &unused, &step); err != nil {
			t.Fatal(err)
		}
		steps = append(steps, step)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return steps
}

// TestReadersDoNotHoldUpWriters: while a read transaction is open, such as that of a long page, writes are committed,
// and the page does not see them.
func TestReadersDoNotHoldUpWriters(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "leasehold.db"), nil)
	key := func(tenant string) docstore.Key { return docstore.Key{Kind: "locks", Tenant: tenant, ID: "k"} }
	write := func(tenant string, n int) {
		t.Helper()
		r, err := s.Write(t.Context(), docstore.Write{Key: key(tenant), Set: docstore.Doc{"n": docstore.Int(n)}})
		if err != nil || !r.Applied {
			t.Fatal(r, err)
		}
	}
	write("noisy", 0)
	err := s.WhileReading(t.Context(), key("noisy"), func() {
		for n := range 10 {
			write("quiet", n)
			write("noisy", n+1)
		}
		if got, err := s.Get(t.Context(), key("quiet")); err != nil || fmt.Sprint(got.Docs[0]["n"]) != "9" {
			t.Error(got, err)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
}
