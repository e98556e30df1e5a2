package tests

import (
	"crypto/rand"
	"fmt"
	"maps"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/leasehold-dev/leasehold/adapters/awsdynamodb"
	"github.com/leasehold-dev/leasehold/adapters/sqlitestore"
	"github.com/leasehold-dev/leasehold/emulator/dynamodbtest/dynoxide"
	"github.com/leasehold-dev/leasehold/emulator/firestoretest"
	"github.com/leasehold-dev/leasehold/emulator/redistest"
	"github.com/leasehold-dev/leasehold/proof/suite"
	"github.com/leasehold-dev/leasehold/repo/analysis"
	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/runs"
)

// newStore opens an empty store that shows the time.
type newStore = func(t *testing.T, now func() time.Time) docstore.Store

// newFaultyStore opens one that loses requests and responses.
type newFaultyStore = func(t *testing.T, now func() time.Time) (docstore.Store, suite.Faults)

// The stores on which rules run: in a deep run, see [on]. A function prepares what the stores of a test share.
var (
	stores = map[string]func(*testing.T) newStore{
		"memory":                 func(*testing.T) newStore { return onMemory },
		"SQLite":                 func(*testing.T) newStore { return onSQLite },
		"DynamoDB":               func(*testing.T) newStore { return onDynamoDB(analysis.ExpiryField) },
		"Dynoxide":               onDynoxide,
		"redis-server":           func(t *testing.T) newStore { return onRedis(redistest.Start(t)) },
		"miniredis":              func(t *testing.T) newStore { return onRedis(redistest.StandIn(t)) },
		"Firestore, pessimistic": func(*testing.T) newStore { return onFirestore(firestoretest.Pessimistic) },
		"Firestore, optimistic":  func(*testing.T) newStore { return onFirestore(firestoretest.Optimistic) },
	}
	faultyStores = map[string]func(*testing.T) newFaultyStore{
		"memory":                 func(*testing.T) newFaultyStore { return faultyMemory },
		"DynamoDB":               func(*testing.T) newFaultyStore { return faultyDynamoDB },
		"redis-server":           func(t *testing.T) newFaultyStore { return faultyRedis(redistest.Start(t)) },
		"miniredis":              func(t *testing.T) newFaultyStore { return faultyRedis(redistest.StandIn(t)) },
		"Firestore, pessimistic": func(*testing.T) newFaultyStore { return faultyFirestore(firestoretest.Pessimistic) },
		"Firestore, optimistic":  func(*testing.T) newFaultyStore { return faultyFirestore(firestoretest.Optimistic) },
	}
)

// on puts rules to the test in memory, where a store may fail as well, and in a deep run on every store. That a rule
// does the same on all of them follows from docstoretest: it is one conditional write.
func on[S any](t *testing.T, stores map[string]func(*testing.T) S, test func(*testing.T, S)) {
	t.Helper()
	t.Parallel()
	for name, prepare := range stores {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if name != "memory" {
				suite.EveryStore(t)
			}
			test(t, prepare(t))
		})
	}
}

// rules puts rules to the test.
func rules(t *testing.T, test func(*testing.T, newStore)) {
	t.Helper()
	on(t, stores, test)
}

// ambiguous puts commands to the test whose request or response is lost.
func ambiguous(t *testing.T, test func(*testing.T, newFaultyStore)) {
	t.Helper()
	on(t, faultyStores, test)
}

// TestEachRuleOnceOnStores carries out a short program of each rule on every store, always.
func TestEachRuleOnceOnStores(t *testing.T) {
	t.Parallel()
	for name, prepare := range stores {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			suite.EachRuleOnce(t, prepare(t))
		})
	}
}

// TestLargestResultOnStores: every store carries the largest result, of one byte for a character or of several, beside
// all else that a run has, and one that is larger is refused before it gets there.
func TestLargestResultOnStores(t *testing.T) {
	t.Parallel()
	const most = analysis.MaxResultBytes
	for name, prepare := range stores {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			all := runs.New(prepare(t)(t, nil), nil)
			for i, result := range []string{
				strings.Repeat("x", most), strings.Repeat("\x01", most), strings.Repeat("\U0001f600", most/4),
			} {
				id := runs.ID{Tenant: strings.Repeat("t", runs.MaxTenantBytes), ID: fmt.Sprint(strings.Repeat("i", 255), i)}
				begin := func(owner string) runs.Outcome {
					o, err := all.Begin(unhurried(t), runs.Begin{ID: id, Owner: owner, RequestID: owner, TTLSeconds: 60,
						Fingerprint: strings.Repeat("f", analysis.MaxFingerprintBytes)})
					if err != nil {
						t.Fatal(err)
					}
					return o
				}
				finish := runs.Finish{ID: id, Owner: "ann", Token: begin("ann").Grant.Token, Status: analysis.Ready}
				for _, larger := range []int{most + 1, 10 * most} {
					finish.Result = strings.Repeat("x", larger)
					if _, err := all.Finish(unhurried(t), finish); err == nil || !strings.Contains(err.Error(), "262144 at most") {
						t.Errorf("a result of %d bytes: %v", larger, err)
					}
				}
				finish.Result = result
				if o, err := all.Finish(unhurried(t), finish); err != nil || o.Code != analysis.OK {
					t.Fatalf("%.100q: %v, %v", result, o.Code, err)
				}
				if o := begin("bob"); o.Code != analysis.AlreadyFinished || o.Result != result {
					t.Errorf("%.100q: %v, %d bytes come back", result, o.Code, len(o.Result))
				}
			}
		})
	}
}

// onMemory opens a store in memory, with its clock.
func onMemory(_ *testing.T, now func() time.Time) docstore.Store {
	return docstore.NewMemory(&docstore.MemoryOptions{Now: now})
}

func faultyMemory(t *testing.T, now func() time.Time) (docstore.Store, suite.Faults) {
	return suite.Unreliable(onMemory(t, now))
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

// onDynamoDB opens stores on emulators of their own, behind sockets.
func onDynamoDB(indexes ...string) newStore {
	return func(t *testing.T, now func() time.Time) docstore.Store {
		_, client := overNetwork(t)
		return openDynamo(t, client, "leasehold",
			awsdynamodb.Options{MaxSkew: awsdynamodb.TrustClock, Now: now, Indexes: indexes})
	}
}

// onDynoxide is another implementation of the service, whose authors read its manual for themselves.
func onDynoxide(t *testing.T) newStore {
	client := dynamoClient(dynoxide.Endpoint(t), nil)
	return func(t *testing.T, now func() time.Time) docstore.Store {
		return openDynamo(t, client, "leasehold-"+rand.Text(),
			awsdynamodb.Options{MaxSkew: awsdynamodb.TrustClock, Now: now, Indexes: []string{analysis.ExpiryField}})
	}
}

// onRedis opens stores on a server, each with a prefix of its own.
func onRedis(server *redistest.Server) newStore {
	return func(t *testing.T, now func() time.Time) docstore.Store { return openRedis(t, server, now) }
}

// onFirestore opens stores on emulators of their own.
func onFirestore(mode firestoretest.Mode) newStore {
	return func(t *testing.T, now func() time.Time) docstore.Store {
		s, _ := startFirestore(t, mode, now)
		return s
	}
}

// TestLocksOnStores: LS-INV-001, LS-INV-002, LS-INV-003, LS-INV-004, LS-CC-001, LS-ACC-01, LS-ACC-02, LS-ACC-03,
// LS-ACC-04.
func TestLocksOnStores(t *testing.T) { rules(t, suite.Locks) }

// TestModesOnStores (LS-INV-001): locks with several holders, a line and policies, against the same oracle.
func TestModesOnStores(t *testing.T) { rules(t, suite.Modes) }

// TestAnalysesOnStores: BE-041-DOD-1, BE-041-DOD-2, BE-041-DOD-3, BE-041-DOD-4, with an index for the sweep and
// without.
func TestAnalysesOnStores(t *testing.T) {
	rules(t, suite.Analyses)
	t.Run("DynamoDB without an index", func(t *testing.T) {
		suite.EveryStore(t)
		suite.Analyses(t, onDynamoDB())
	})
}

// TestRunsOnStores: a run whose time has passed counts as none where no store removes it.
func TestRunsOnStores(t *testing.T) { rules(t, suite.Runs) }

func TestMachineIDsOnStores(t *testing.T) { rules(t, suite.MachineIDs) }

// TestPlacementsOnStores: PLC-PLACE-2, PLC-PLACE-4, PLC-ONE-5, PLC-LOCK-1.
func TestPlacementsOnStores(t *testing.T) { rules(t, suite.Placements) }

// TestClockStepsOnStores: nothing stays closed on a store because its clock was wrong. The time of Firestore never goes
// back, and its emulator holds to that. The callers of DynamoDB are sure of the time here.
func TestClockStepsOnStores(t *testing.T) {
	set := maps.Clone(stores)
	maps.DeleteFunc(set, func(name string, _ func(*testing.T) newStore) bool { return strings.HasPrefix(name, "Firestore") })
	on(t, set, suite.ClockSteps)
}

// TestAmbiguousWritesOnStores (LS-ACC-04, LS-ACQ-004, LS-RNW-003, LS-REL-003): in all modes, at the first write of a
// command, and at its second.
func TestAmbiguousWritesOnStores(t *testing.T) { ambiguous(t, suite.Ambiguous) }

func TestAmbiguousAnalysesOnStores(t *testing.T) { ambiguous(t, suite.AmbiguousAnalyses) }

func TestAmbiguousRunsOnStores(t *testing.T) { ambiguous(t, suite.AmbiguousRuns) }

func TestAmbiguousMachineIDsOnStores(t *testing.T) { ambiguous(t, suite.AmbiguousMachineIDs) }

// TestAmbiguousPlacementsOnStores: commands on members and activations, most of which are transactions.
func TestAmbiguousPlacementsOnStores(t *testing.T) { ambiguous(t, suite.AmbiguousPlacements) }

// TestDamageOnStores has more damaged documents on each store than a small page has; in memory one of them, and more
// than a large page has, too.
func TestDamageOnStores(t *testing.T) {
	rules(t, func(t *testing.T, open newStore) { suite.Damage(t, open, 7) })
	for _, n := range []int{1, 101} {
		suite.Damage(t, onMemory, n)
	}
}

// TestWhatIsFreeIsObtainedOnStores (LS-ACQ-002, BE-041-DOD-3) asks on each store for what was left behind: locks,
// analyses, runs; and lets a pass remove what is kept no longer. Package suite has all numbers, in memory.
func TestWhatIsFreeIsObtainedOnStores(t *testing.T) {
	locks := suite.AtDepth(suite.Extent{Dead: []int{21}, Every: 5, Asks: 1}, suite.Everything)
	rules(t, func(t *testing.T, open newStore) {
		t.Run("locks", func(t *testing.T) { suite.ObtainableLocks(t, open, locks) })
		t.Run("analyses", func(t *testing.T) { suite.ObtainableAnalyses(t, open, suite.AtDepth(1, 200)) })
		t.Run("runs", func(t *testing.T) { suite.ObtainableRuns(t, open, suite.AtDepth([]int{1}, suite.TriesOfRuns)) })
		t.Run("retention", func(t *testing.T) { suite.ObtainableRetention(t, open) })
	})
}
