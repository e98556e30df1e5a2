package tests

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"github.com/leasehold-dev/leasehold/adapters/awsdynamodb"
	"github.com/leasehold-dev/leasehold/emulator/dynamodbtest"
	"github.com/leasehold-dev/leasehold/proof/idsim"
	"github.com/leasehold-dev/leasehold/proof/suite"
	"github.com/leasehold-dev/leasehold/repo/docstore"
)

// openForIDs opens a store for one server after the other.
type openForIDs = func(t *testing.T, now func() time.Time, random *rand.Rand) func() docstore.Store

// sharedByIDs is one store for all servers.
func sharedByIDs(open newStore) openForIDs {
	return func(t *testing.T, now func() time.Time, _ *rand.Rand) func() docstore.Store {
		store := open(t, now)
		return func() docstore.Store { return store }
	}
}

// dynamoForIDs gives each server a clock of its own, seconds off: one that the store measures and corrects, and others
// that it has to trust.
func dynamoForIDs(t *testing.T, now func() time.Time, random *rand.Rand) func() docstore.Store {
	server := dynamodbtest.New(&dynamodbtest.Options{Now: now})
	client := dynamoClient("http://dynamodb.local", server.RoundTripper())
	skew := 10 * time.Second
	return func() docstore.Store {
		o := awsdynamodb.Options{MaxSkew: skew, Now: idsim.NewClock(random, 5*time.Second).Wall}
		skew = awsdynamodb.TrustClock
		return openDynamo(t, client, "leasehold", o)
	}
}

// TestIDsAreUnique (IDS-INTERVAL, IDS-UNIQUE): two hundred processes, in a deep run a thousand, that need more machine
// IDs than there are, make no ID twice but for those without a lease, and each makes them in order.
func TestIDsAreUnique(t *testing.T) {
	t.Parallel()
	for seed := range suite.AtDepth(uint64(1), 2) {
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
			t.Parallel()
			idsim.Run(t, idsim.Config{Seed: seed, Processes: suite.AtDepth(200, 1000), Lasts: 35 * time.Second,
				Open: sharedByIDs(onMemory)})
		})
	}
}

// TestIDsAreUniqueOnStores is the same, smaller, on a file and on the emulator of DynamoDB.
func TestIDsAreUniqueOnStores(t *testing.T) {
	t.Parallel()
	for name, open := range map[string]openForIDs{"SQLite": sharedByIDs(onSQLite), "DynamoDB": dynamoForIDs} {
		for seed := range suite.AtDepth(uint64(1), 3) {
			t.Run(fmt.Sprint(name, "/", seed), func(t *testing.T) {
				idsim.Run(t, idsim.Config{Seed: seed, Processes: 60, Lasts: time.Minute, Open: open})
			})
		}
	}
}
