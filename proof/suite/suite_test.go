package suite

import "testing"

// TestLocks and the tests of its kind hold the rules against their oracles, in memory: the same programs each
// time. What they must notice is in proof/mutants. LS-ACQ-001, LS-ACQ-002 to 004, LS-RNW-001 to 003,
// LS-REL-001 to 003, LS-INV-001, LS-INV-002, LS-INV-003, LS-INV-004, LS-ACC-03.
func TestLocks(t *testing.T) { locksProof.onMemory(t) }

func TestLockSets(t *testing.T) { setsProof.onMemory(t) }

func TestAnalyses(t *testing.T) { analysesProof.onMemory(t) }

func TestRuns(t *testing.T) { runsProof.onMemory(t) }

func TestPlacements(t *testing.T) { placementsProof.onMemory(t) }
