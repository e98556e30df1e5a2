package tests

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/leasehold-dev/leasehold/adapters/sqlitestore"
	"github.com/leasehold-dev/leasehold/internal/suite"
	"github.com/leasehold-dev/leasehold/repo/docstore"
)

// onMemory opens a store in memory, with its clock.
func onMemory(_ *testing.T, now func() time.Time) docstore.Store {
	return docstore.NewMemory(&docstore.MemoryOptions{Now: now})
}

// onSQLite opens a store in a file of its own.
func onSQLite(t *testing.T, now func() time.Time) docstore.Store {
	t.Helper()
	s, err := sqlitestore.Open(t.Context(), filepath.Join(t.TempDir(), "leasehold.db"), &sqlitestore.Options{Now: now})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// TestLocksOnMemory: LS-INV-001, LS-INV-002, LS-INV-003, LS-INV-004, LS-ACC-01, LS-ACC-02, LS-ACC-03, LS-ACC-04.
func TestLocksOnMemory(t *testing.T) {
	t.Parallel()
	suite.Locks(t, onMemory)
}

// TestLocksOnSQLite: LS-INV-001, LS-INV-002, LS-INV-003, LS-INV-004, LS-ACC-01, LS-ACC-02, LS-ACC-03, LS-ACC-04.
func TestLocksOnSQLite(t *testing.T) {
	t.Parallel()
	suite.Locks(t, onSQLite)
}

// TestAnalysesOnMemory: BE-041-DOD-1, BE-041-DOD-2, BE-041-DOD-3, BE-041-DOD-4.
func TestAnalysesOnMemory(t *testing.T) {
	t.Parallel()
	suite.Analyses(t, onMemory)
}

// TestAnalysesOnSQLite: BE-041-DOD-1, BE-041-DOD-2, BE-041-DOD-3, BE-041-DOD-4.
func TestAnalysesOnSQLite(t *testing.T) {
	t.Parallel()
	suite.Analyses(t, onSQLite)
}

// TestPlacementsOnMemory: PLC-PLACE-2, PLC-PLACE-4, PLC-ONE-5, PLC-LOCK-1.
func TestPlacementsOnMemory(t *testing.T) {
	t.Parallel()
	suite.Placements(t, onMemory)
}

// TestPlacementsOnSQLite: PLC-PLACE-2, PLC-PLACE-4, PLC-ONE-5, PLC-LOCK-1.
func TestPlacementsOnSQLite(t *testing.T) {
	t.Parallel()
	suite.Placements(t, onSQLite)
}

// TestAmbiguousAnalyses: acquire, refresh, release and finish whose request or response was lost.
func TestAmbiguousAnalyses(t *testing.T) {
	t.Parallel()
	suite.AmbiguousAnalyses(t, func(t *testing.T, now func() time.Time) (docstore.Store, suite.Faults) {
		return suite.Unreliable(onMemory(t, now))
	})
}

func TestMachineIDsOnMemory(t *testing.T) {
	t.Parallel()
	suite.MachineIDs(t, onMemory)
}

func TestMachineIDsOnSQLite(t *testing.T) {
	t.Parallel()
	suite.MachineIDs(t, onSQLite)
}

func TestAmbiguousMachineIDs(t *testing.T) {
	t.Parallel()
	suite.AmbiguousMachineIDs(t, func(_ *testing.T, now func() time.Time) (docstore.Store, suite.Faults) {
		return suite.Unreliable(docstore.NewMemory(&docstore.MemoryOptions{Now: now}))
	})
}

// TestAmbiguousPlacements: commands on members and activations whose request or response was lost.
func TestAmbiguousPlacements(t *testing.T) {
	t.Parallel()
	suite.AmbiguousPlacements(t, func(t *testing.T, now func() time.Time) (docstore.Store, suite.Faults) {
		return suite.Unreliable(onMemory(t, now))
	})
}

// TestRunsOnMemory and the tests of its kind: a run whose time has passed counts as none where no store removes it.
func TestRunsOnMemory(t *testing.T) {
	t.Parallel()
	suite.Runs(t, onMemory)
}

func TestRunsOnSQLite(t *testing.T) {
	t.Parallel()
	suite.Runs(t, onSQLite)
}

// TestAmbiguousRuns: commands of named runs whose request or response was lost.
func TestAmbiguousRuns(t *testing.T) {
	t.Parallel()
	suite.AmbiguousRuns(t, func(t *testing.T, now func() time.Time) (docstore.Store, suite.Faults) {
		return suite.Unreliable(onMemory(t, now))
	})
}

// TestAmbiguousWrites: LS-ACC-04, LS-ACQ-004, LS-RNW-003, LS-REL-003.
func TestAmbiguousWrites(t *testing.T) {
	t.Parallel()
	suite.Ambiguous(t, func(t *testing.T, now func() time.Time) (docstore.Store, suite.Faults) {
		return suite.Unreliable(onMemory(t, now))
	})
}
