package tests

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/leasehold-dev/leasehold/adapters/sqlite"
	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/tests/suite"
)

// TestLocksOnMemory: LS-INV-001, LS-INV-002, LS-INV-003, LS-INV-004, LS-ACC-01, LS-ACC-02, LS-ACC-03, LS-ACC-04.
func TestLocksOnMemory(t *testing.T) {
	suite.Locks(t, func(_ *testing.T, now func() time.Time) docstore.Store {
		return docstore.NewMemory(&docstore.MemoryOptions{Now: now})
	})
}

// TestLocksOnSQLite: LS-INV-001, LS-INV-002, LS-INV-003, LS-INV-004, LS-ACC-01, LS-ACC-02, LS-ACC-03, LS-ACC-04.
func TestLocksOnSQLite(t *testing.T) {
	suite.Locks(t, func(t *testing.T, now func() time.Time) docstore.Store {
		s, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "locks.db"), &sqlite.Options{Now: now})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
		return s
	})
}

// TestAmbiguousWrites: LS-ACC-04, LS-ACQ-004, LS-RNW-003, LS-REL-003.
func TestAmbiguousWrites(t *testing.T) {
	suite.Ambiguous(t, func(_ *testing.T, now func() time.Time) (docstore.Store, suite.Faults) {
		return suite.Unreliable(docstore.NewMemory(&docstore.MemoryOptions{Now: now}))
	})
}
