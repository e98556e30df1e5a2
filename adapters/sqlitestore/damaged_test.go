package sqlitestore_test

import (
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/leasehold-dev/leasehold/adapters/sqlitestore"
	"github.com/leasehold-dev/leasehold/repo/docstore"
)

// TestDamagedRows: rows that are no documents, first, at the end of a page, and more than a page has, are on the page
// with what is wrong with them, and keep no other from being listed, walked to or found by a time.
func TestDamagedRows(t *testing.T) {
	for _, n := range []int{1, 9, 11, 101} {
		t.Run(strconv.Itoa(n), func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "store.db")
			s, err := sqlitestore.Open(t.Context(), path, nil)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = s.Close() }()
			for _, id := range []string{"a", "m5x", "z"} {
				w := docstore.Write{Key: docstore.Key{Kind: "things", Tenant: "acme", ID: id},
					Set: docstore.Doc{"t": docstore.String("1")}}
				if _, err := s.Write(t.Context(), w); err != nil {
					t.Fatal(err)
				}
			}
			db, err := sql.Open("sqlite", path)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = db.Close() }()
			for i := range n {
				if _, err := db.Exec("INSERT INTO docs (kind, tenant, id, doc) VALUES ('things', 'acme', ?, 'no document')",
					fmt.Sprintf("m%d", i)); err != nil {
					t.Fatal(err)
				}
			}
			count := func(pages func(after string) (docstore.Page, error)) (found, damaged int) {
				t.Helper()
				for after, i := "", 0; ; i++ {
					p, err := pages(after)
					if err != nil || i > 2*n+10 || len(p.Entries)+len(p.Damaged) > 10 {
						t.Fatal(len(p.Entries), len(p.Damaged), i, err)
					}
					found, damaged = found+len(p.Entries), damaged+len(p.Damaged)
					for _, d := range p.Damaged {
						if !errors.Is(d.Err, docstore.ErrDamaged) || d.Key.ID == "" {
							t.Fatalf("%+v", d)
						}
					}
					if after = p.Next; after == "" {
						return found, damaged
					}
				}
			}
			if found, damaged := count(func(after string) (docstore.Page, error) {
				return s.List(t.Context(), docstore.Query{Kind: "things", Tenant: "acme", After: after, Limit: 10})
			}); found != 3 || damaged != n {
				t.Errorf("listed %d and %d damaged ones", found, damaged)
			}
			if found, damaged := count(func(after string) (docstore.Page, error) {
				return s.Walk(t.Context(), docstore.WalkQuery{Kind: "things", After: after, Limit: 10})
			}); found != 3 || damaged != n {
				t.Errorf("walked to %d and %d damaged ones", found, damaged)
			}
			if _, err := s.Get(t.Context(), docstore.Key{Kind: "things", Tenant: "acme", ID: "m0"}); !errors.Is(err,
				docstore.ErrDamaged) {
				t.Errorf("a damaged one alone: %v", err)
			}
		})
	}
}
