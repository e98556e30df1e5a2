package tests

import (
	"testing"
	"time"

	"github.com/leasehold-dev/leasehold/adapters/awsdynamodb"
	"github.com/leasehold-dev/leasehold/adapters/gcpfirestore"
	"github.com/leasehold-dev/leasehold/emulator/dynamodbtest"
	"github.com/leasehold-dev/leasehold/emulator/firestoretest"
	"github.com/leasehold-dev/leasehold/proof/chaos"
	"github.com/leasehold-dev/leasehold/proof/suite"
	"github.com/leasehold-dev/leasehold/repo/analysis"
	"github.com/leasehold-dev/leasehold/repo/docstore"
)

// TestChaosOnStores: 200 deliveries of 20 analyses, with workers killed at random points (BE-041-DOD-1, BE-041-DOD-3,
// BE-041-DOD-4). On DynamoDB with clocks that are measured, and the margin before a takeover; on Firestore by the
// server's clock.
func TestChaosOnStores(t *testing.T) {
	t.Parallel()
	inside := func(open func(*testing.T) docstore.Store) chaos.Opener {
		return func(*testing.T) func(*testing.T) docstore.Store { return open }
	}
	for name, c := range map[string]struct {
		seeds int
		open  chaos.Opener
	}{
		"memory": {suite.AtDepth(50, 500), inside(func(t *testing.T) docstore.Store { return onMemory(t, time.Now) })},
		"SQLite": {suite.AtDepth(3, 30), inside(func(t *testing.T) docstore.Store { return onSQLite(t, time.Now) })},
		"DynamoDB": {suite.AtDepth(1, 10), inside(func(t *testing.T) docstore.Store {
			return openDynamo(t, dynamoClient("http://dynamodb.local", dynamodbtest.New(nil).RoundTripper()), "leasehold",
				awsdynamodb.Options{Indexes: []string{analysis.ExpiryField}})
		})},
		"Firestore": {suite.AtDepth(1, 5), func(t *testing.T) func(*testing.T) docstore.Store {
			outside := chaos.NewOutside(t.Context())
			server := firestoretest.Start(t, &firestoretest.Options{Mode: firestoretest.Pessimistic, Now: outside.Now})
			s := openFirestore(t, &gcpfirestore.Options{Project: "test", Root: "leasehold/v1",
				ClientOptions: server.ClientOptions()})
			return func(*testing.T) docstore.Store { return outside.Store(s) }
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			chaos.Proof(t, c.seeds, c.open)
		})
	}
}
