package tests

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/leasehold-dev/leasehold/adapters/awsdynamodb"
	"github.com/leasehold-dev/leasehold/emulator/dynamodbtest"
	"github.com/leasehold-dev/leasehold/proof/placementsim"
	"github.com/leasehold-dev/leasehold/proof/suite"
	"github.com/leasehold-dev/leasehold/repo/docstore"
)

// sharedMemory is one store in memory for all processes of a simulation.
func sharedMemory(*testing.T) placementsim.Opener {
	s := docstore.NewMemory(nil)
	return func(*rand.Rand) docstore.Store { return s }
}

// TestPlacementSimulation: twenty thousand operations of members and callers that die, freeze, are cut off and lose
// messages, in a deep run a million: no two activations of an identity take effect at a time (PLC-ONE-5, PLC-LOCK-1).
func TestPlacementSimulation(t *testing.T) {
	t.Parallel()
	placementsim.Proof(t, suite.AtDepth(20_000, 1_000_000), sharedMemory)
}

// TestPlacementSimulationWithClocksApart: the same on DynamoDB, where the callers' clocks count. Each process has one
// that is off by up to the full bound, in either direction: no one is evicted, and no lock phase ends, early by the
// true time (PLC-ONE-5).
func TestPlacementSimulationWithClocksApart(t *testing.T) {
	t.Parallel()
	placementsim.Proof(t, suite.AtDepth(1, 50_000), func(t *testing.T) placementsim.Opener {
		client := dynamoClient("http://dynamodb.local", dynamodbtest.New(nil).RoundTripper())
		return func(r *rand.Rand) docstore.Store {
			const most = 990 * time.Millisecond // what is left of the second is the precision with which clocks are measured
			off := []time.Duration{most, -most, 0}[r.IntN(3)]
			return openDynamo(t, client, "leasehold", awsdynamodb.Options{
				MaxSkew: time.Second, Now: func() time.Time { return time.Now().Add(off) },
			})
		}
	})
}
