package sqlitestore_test

import (
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/leasehold-dev/leasehold/adapters/sqlitestore"
	"github.com/leasehold-dev/leasehold/repo/docstore"
)

// TestTheFileShrinks: when most documents have been removed, each call of Prune gives some space back, until a quarter
// is free. What is left stays as it is.
func TestTheFileShrinks(t *testing.T) {
	path := filepath.Join(t.TempDir(), "leasehold.db")
	clock := newHands(noon)
	s := open(t, path, clock.options())
	c := dial(t, path)
	pages := func(pragma string) (n int) {
		t.Helper()
		if err := c.QueryRowContext(t.Context(), "PRAGMA "+pragma).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	const documents, left = 4000, 40
	text := docstore.String(strings.Repeat("x", 2000))
	var group []docstore.Write
	for i := range documents {
		w := docstore.Write{Key: key(strconv.Itoa(i)), Set: docstore.Doc{"text": text}}
		if i%(documents/left) != 0 {
			w.Keep = time.Hour
		}
		if group = append(group, w); len(group) < docstore.MaxWrites {
			continue
		}
		if _, err := s.Write(t.Context(), group...); err != nil {
			t.Fatal(err)
		}
		group = nil
	}
	full := pages("page_count")
	clock.set(noon.Add(2 * time.Hour))
	if n, err := s.Prune(t.Context(), documents); err != nil || n != documents-left {
		t.Fatalf("%d removed, %v", n, err)
	}
	calls, before := 0, pages("page_count")
	for ; calls < 100; calls++ {
		if n, err := s.Prune(t.Context(), 1); err != nil || n != 0 {
			t.Fatalf("%d removed, %v", n, err)
		}
		now := pages("page_count")
		if now == before {
			break
		}
		if before-now > sqlitestore.ShrinkPages+sqlitestore.ShrinkPages/64 {
			t.Errorf("from %d to %d pages at once", before, now)
		}
		before = now
	}
	if free := pages("freelist_count"); before > full/4 || free > max(before/4, sqlitestore.ShrinkPages) || calls < 1 {
		t.Errorf("%d pages after %d calls, %d of them free; %d before", before, calls, free, full)
	}
	transactions := s.Stats().Transactions
	if _, err := s.Prune(t.Context(), 1); err != nil || s.Stats().Transactions != transactions {
		t.Errorf("%d commits where there is nothing to do, %v", s.Stats().Transactions-transactions, err)
	}
	p, err := s.List(t.Context(), docstore.Query{Kind: "locks", Tenant: "acme", Limit: 1000})
	if err != nil || len(p.Entries) != left {
		t.Errorf("%d documents are left, %v", len(p.Entries), err)
	}
	var sound string
	if err := c.QueryRowContext(t.Context(), "PRAGMA integrity_check").Scan(&sound); err != nil || sound != "ok" {
		t.Error(sound, err)
	}
}
