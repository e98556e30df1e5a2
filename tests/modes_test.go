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

// TestModesOnMemory (LS-INV-001): locks with several holders, a line and policies, against the oracle of the modes.
func TestModesOnMemory(t *testing.T) {
	t.Parallel()
	suite.Modes(t, onMemory)
}

func TestModesOnSQLite(t *testing.T) {
	t.Parallel()
	suite.Modes(t, onSQLite)
}

func TestModesOnRedis(t *testing.T) {
	t.Parallel()
	suite.EveryStore(t)
	redistest.Each(t, nil, func(t *testing.T, server *redistest.Server) {
		suite.Modes(t, func(t *testing.T, now func() time.Time) docstore.Store { return onRedis(t, server, now) })
	})
}

func TestModesOnDynamoDB(t *testing.T) {
	t.Parallel()
	suite.Modes(t, func(t *testing.T, now func() time.Time) docstore.Store {
		_, client := overNetwork(t)
		return openDynamo(t, client, "leasehold", awsdynamodb.Options{MaxSkew: awsdynamodb.TrustClock, Now: now})
	})
}

// TestModesOnDynoxide: on another implementation of the service.
func TestModesOnDynoxide(t *testing.T) {
	t.Parallel()
	client := dynamoClient(dynoxide.Endpoint(t), nil)
	suite.Modes(t, func(t *testing.T, now func() time.Time) docstore.Store {
		return openDynamo(t, client, "leasehold-"+rand.Text(), awsdynamodb.Options{MaxSkew: awsdynamodb.TrustClock, Now: now})
	})
}

func TestModesOnFirestore(t *testing.T) {
	t.Parallel()
	suite.EveryStore(t)
	for name, mode := range modes {
		t.Run(name, func(t *testing.T) {
			suite.Modes(t, func(t *testing.T, now func() time.Time) docstore.Store {
				s, _ := onFirestore(t, mode, now)
				return s
			})
		})
	}
}

// TestAmbiguousModes: commands on such locks whose request or response was lost, at their first write and at their
// second.
func TestAmbiguousModes(t *testing.T) {
	t.Parallel()
	suite.AmbiguousModes(t, func(t *testing.T, now func() time.Time) (docstore.Store, suite.Faults) {
		return suite.Unreliable(onMemory(t, now))
	})
}

func TestAmbiguousModesOnDynamoDB(t *testing.T) {
	t.Parallel()
	suite.AmbiguousModes(t, unreliableDynamo)
}

func TestAmbiguousModesOnRedis(t *testing.T) {
	t.Parallel()
	suite.EveryStore(t)
	redistest.Each(t, nil, func(t *testing.T, server *redistest.Server) {
		suite.AmbiguousModes(t, redisWithFaults(server))
	})
}

func TestAmbiguousModesOnFirestore(t *testing.T) {
	t.Parallel()
	suite.EveryStore(t)
	for name, mode := range modes {
		t.Run(name, func(t *testing.T) {
			suite.AmbiguousModes(t, func(t *testing.T, now func() time.Time) (docstore.Store, suite.Faults) {
				s, server := onFirestore(t, mode, now)
				return s, firestoreFaults(server)
			})
		})
	}
}
