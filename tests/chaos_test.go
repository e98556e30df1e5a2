package tests

import (
	"testing"
	"time"

	"github.com/leasehold-dev/leasehold/adapters/awsdynamodb"
	"github.com/leasehold-dev/leasehold/adapters/gcpfirestore"
	"github.com/leasehold-dev/leasehold/experimental/emulator/dynamodbtest"
	"github.com/leasehold-dev/leasehold/experimental/emulator/firestoretest"
	"github.com/leasehold-dev/leasehold/internal/suite"
	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/tests/internal/chaos"
)

// memoryInside opens a store in memory inside a bubble.
func memoryInside(*testing.T) func(*testing.T) docstore.Store {
	return func(t *testing.T) docstore.Store { return onMemory(t, time.Now) }
}

// TestChaosOnMemory: 200 deliveries of 20 analyses, with workers killed at random points (BE-041-DOD-1, BE-041-DOD-3,
// BE-041-DOD-4).
func TestChaosOnMemory(t *testing.T) {
	t.Parallel()
	chaos.Proof(t, suite.AtDepth(50, 500), memoryInside)
}

// TestChaosOnSQLite: the same on a file.
func TestChaosOnSQLite(t *testing.T) {
	t.Parallel()
	chaos.Proof(t, suite.AtDepth(3, 30), func(*testing.T) func(*testing.T) docstore.Store {
		return func(t *testing.T) docstore.Store { return onSQLite(t, time.Now) }
	})
}

// TestChaosOnDynamoDB: the same through the SDK, with clocks that are measured, and the margin before a takeover.
func TestChaosOnDynamoDB(t *testing.T) {
	t.Parallel()
	chaos.Proof(t, suite.AtDepth(1, 10), func(*testing.T) func(*testing.T) docstore.Store {
		return func(t *testing.T) docstore.Store {
			server := dynamodbtest.New(nil)
			return openDynamo(t, dynamoClient("http://dynamodb.local", server.RoundTripper()), "leasehold",
				awsdynamodb.Options{Indexes: analysisIndexes["indexed"]})
		}
	})
}

// TestChaosOnFirestore: the same through the SDK, by the server's clock.
func TestChaosOnFirestore(t *testing.T) {
	t.Parallel()
	chaos.Proof(t, suite.AtDepth(1, 5), func(t *testing.T) func(*testing.T) docstore.Store {
		outside := chaos.NewOutside(t.Context())
		server := firestoretest.Start(t, &firestoretest.Options{Mode: firestoretest.Pessimistic, Now: outside.Now})
		s := openFirestore(t, &gcpfirestore.Options{Project: "test", Root: "leasehold/v1",
			ClientOptions: server.ClientOptions()})
		return func(*testing.T) docstore.Store { return outside.Store(s) }
	})
}
