package tests

import (
	"fmt"
	"testing"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/leasehold-dev/leasehold/adapters/gcpfirestore"
	"github.com/leasehold-dev/leasehold/emulator/firestoretest"
	"github.com/leasehold-dev/leasehold/proof/suite"
	"github.com/leasehold-dev/leasehold/repo/docstore"
)

// startFirestore opens a store on an emulator of its own.
func startFirestore(t *testing.T, mode firestoretest.Mode, now func() time.Time) (*gcpfirestore.Store,
	*firestoretest.Server) {
	t.Helper()
	server := firestoretest.Start(t, &firestoretest.Options{Mode: mode, Now: now})
	watchQueries(t, server)
	return openFirestore(t, &gcpfirestore.Options{Project: "test", Root: "leasehold/v1",
		Now: now, ClientOptions: server.ClientOptions()}), server
}

func openFirestore(t *testing.T, o *gcpfirestore.Options) *gcpfirestore.Store {
	t.Helper()
	s, err := gcpfirestore.Open(t.Context(), o)
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

// TestPlacementRequestsOnFirestore: what a step costs, in requests and in documents that are billed.
func TestPlacementRequestsOnFirestore(t *testing.T) {
	t.Parallel()
	clock := suite.NewClock()
	store, server := startFirestore(t, firestoretest.Pessimistic, clock.Now)
	want := map[string]string{
		"placed by a known epoch":       "map[], 0 reads and 0 writes",
		"looked up":                     "map[BatchGetDocuments:1], 3 reads and 0 writes",
		"claimed":                       "map[BatchGetDocuments:2 Commit:1], 6 reads and 3 writes",
		"claimed again":                 "map[BatchGetDocuments:1], 3 reads and 0 writes",
		"activated":                     "map[BatchGetDocuments:1 Commit:1], 3 reads and 3 writes",
		"state":                         "map[BatchGetDocuments:1 Commit:1], 1 reads and 1 writes",
		"first alarm":                   "map[BatchGetDocuments:3 Commit:2], 4 reads and 3 writes",
		"alarm":                         "map[BatchGetDocuments:1 Commit:1], 2 reads and 2 writes",
		"state with an alarm":           "map[BatchGetDocuments:1 Commit:1], 2 reads and 2 writes",
		"state with an alarm for later": "map[BatchGetDocuments:1 Commit:1], 1 reads and 1 writes",
		"state, alarm cleared":          "map[BatchGetDocuments:1 Commit:1], 1 reads and 1 writes",
		"alarm for later":               "map[BatchGetDocuments:1 Commit:1], 1 reads and 1 writes",
		"alarm for earlier":             "map[BatchGetDocuments:1 Commit:1], 2 reads and 2 writes",
		"looked for an alarm for later": "map[BatchGetDocuments:3 Commit:1 RunQuery:4], 11 reads and 3 writes",
		"looked for alarms":             "map[BatchGetDocuments:3 Commit:1 RunQuery:4], 12 reads and 4 writes",
		"looked for alarms, none due":   "map[RunQuery:2], 3 reads and 0 writes",
		"alarm cleared":                 "map[BatchGetDocuments:1 Commit:1], 1 reads and 1 writes",
		"deactivated":                   "map[BatchGetDocuments:1 Commit:1], 2 reads and 2 writes",
		"heartbeat":                     "map[BatchGetDocuments:1 Commit:1], 1 reads and 1 writes",
		"topology":                      "map[BatchGetDocuments:1], 1 reads and 0 writes",
		"events, none new":              "map[RunQuery:1], 1 reads and 0 writes",
		"joined":                        "map[BatchGetDocuments:2 Commit:1], 8 reads and 5 writes",
	}
	suite.PlacementSteps(t, store, clock, server.ResetCounts, func(step string) {
		reads, writes := server.Billed()
		if got := fmt.Sprintf("%v, %d reads and %d writes", server.Counts(), reads, writes); got != want[step] {
			t.Errorf("%s: %s, want %s", step, got, want[step])
		}
	})
}

// faultyFirestore opens stores with faults of a Commit. The store retries after all but the last.
func faultyFirestore(mode firestoretest.Mode) newFaultyStore {
	return func(t *testing.T, now func() time.Time) (docstore.Store, suite.Faults) {
		s, server := startFirestore(t, mode, now)
		return s, firestoreFaults(server)
	}
}

func firestoreFaults(server *firestoretest.Server) suite.Faults {
	var late *firestoretest.Injection
	caughtUp := make(chan struct{})
	return suite.Faults{
		Next: func(_ *testing.T, f suite.Fate) {
			effect := map[suite.Fate]firestoretest.Effect{
				suite.LostRequest:      firestoretest.Fail{Code: codes.Unavailable},
				suite.LostResponse:     firestoretest.ApplyThenFail{Code: codes.Unavailable},
				suite.AppliedThenError: firestoretest.ApplyThenFail{Code: codes.Internal},
				suite.AppliedLate:      firestoretest.ApplyLate{Until: caughtUp},
			}[f]
			late = server.Inject(firestoretest.Fault{Method: "Commit", Times: 1, Effect: effect})
		},
		Met: func() bool { return late.Hits() > 0 },
		Settle: func(t *testing.T) {
			t.Helper()
			close(caughtUp)
			if err := late.Wait(t.Context()); err != nil {
				t.Error(err)
			}
			if late.Hits() != 1 {
				t.Errorf("the fault happened %d times, want once", late.Hits())
			}
		},
	}
}
