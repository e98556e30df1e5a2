package sqlitestore_test

import (
	"path/filepath"
	"testing"

	"github.com/leasehold-dev/leasehold/adapters/sqlitestore"
	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/docstore/docstoretest"
)

func TestConformance(t *testing.T) {
	docstoretest.Run(t, func(t *testing.T) docstore.Store {
		return open(t, filepath.Join(t.TempDir(), "leasehold.db"), nil)
	})
}

// open opens a store for one test, which closes it.
func open(t testing.TB, path string, o *sqlitestore.Options) *sqlitestore.Store {
	t.Helper()
	s, err := sqlitestore.Open(t.Context(), path, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return s
}

func key(id string) docstore.Key { return docstore.Key{Kind: "locks", Tenant: "acme", ID: id} }
