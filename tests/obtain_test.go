package tests

import (
	"crypto/rand"
	"testing"
	"time"

	"github.com/leasehold-dev/leasehold/adapters/awsdynamodb"
	"github.com/leasehold-dev/leasehold/experimental/emulator/dynamodbtest/dynoxide"
	"github.com/leasehold-dev/leasehold/experimental/emulator/redistest"
	"github.com/leasehold-dev/leasehold/internal/suite"
	"github.com/leasehold-dev/leasehold/repo/docstore"
)

// whatIsFreeIsObtained (LS-ACQ-002, BE-041-DOD-3) asks on a store for what was left behind: locks, analyses, runs; and
// lets a pass remove what is kept no longer. The memory store has all numbers, in package suite.
func whatIsFreeIsObtained(t *testing.T, newStore func(t *testing.T, now func() time.Time) docstore.Store) {
	t.Helper()
	t.Run("locks", func(t *testing.T) {
		suite.ObtainableLocks(t, newStore, suite.AtDepth(suite.Extent{Dead: []int{21}, Every: 5, Asks: 1}, suite.Everything))
	})
	t.Run("analyses", func(t *testing.T) { suite.ObtainableAnalyses(t, newStore, suite.AtDepth(1, 200)) })
	t.Run("runs", func(t *testing.T) { suite.ObtainableRuns(t, newStore, suite.AtDepth([]int{1}, suite.TriesOfRuns)) })
	t.Run("retention", func(t *testing.T) { suite.ObtainableRetention(t, newStore) })
}

func TestWhatIsFreeIsObtainedOnSQLite(t *testing.T) {
	t.Parallel()
	whatIsFreeIsObtained(t, onSQLite)
}

func TestWhatIsFreeIsObtainedOnRedis(t *testing.T) {
	t.Parallel()
	redistest.Each(t, nil, func(t *testing.T, server *redistest.Server) {
		whatIsFreeIsObtained(t, func(t *testing.T, now func() time.Time) docstore.Store { return onRedis(t, server, now) })
	})
}

func TestWhatIsFreeIsObtainedOnDynamoDB(t *testing.T) {
	t.Parallel()
	whatIsFreeIsObtained(t, func(t *testing.T, now func() time.Time) docstore.Store {
		_, client := overNetwork(t)
		return openDynamo(t, client, "leasehold", awsdynamodb.Options{
			MaxSkew: awsdynamodb.TrustClock, Now: now, Indexes: analysisIndexes["indexed"],
		})
	})
}

// TestWhatIsFreeIsObtainedOnDynoxide: on another implementation of the service.
func TestWhatIsFreeIsObtainedOnDynoxide(t *testing.T) {
	t.Parallel()
	client := dynamoClient(dynoxide.Endpoint(t), nil)
	whatIsFreeIsObtained(t, func(t *testing.T, now func() time.Time) docstore.Store {
		return openDynamo(t, client, "leasehold-"+rand.Text(), awsdynamodb.Options{
			MaxSkew: awsdynamodb.TrustClock, Now: now, Indexes: analysisIndexes["indexed"],
		})
	})
}

func TestWhatIsFreeIsObtainedOnFirestore(t *testing.T) {
	t.Parallel()
	for name, mode := range modes {
		t.Run(name, func(t *testing.T) {
			whatIsFreeIsObtained(t, func(t *testing.T, now func() time.Time) docstore.Store {
				s, _ := onFirestore(t, mode, now)
				return s
			})
		})
	}
}
