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

// damagedDocuments are on a store: more than a small page has.
const damagedDocuments = 7

func TestDamageOnMemory(t *testing.T) {
	t.Parallel()
	for _, n := range []int{1, damagedDocuments, 101} {
		suite.Damage(t, onMemory, n)
	}
}

func TestDamageOnSQLite(t *testing.T) {
	t.Parallel()
	suite.Damage(t, onSQLite, damagedDocuments)
}

func TestDamageOnRedis(t *testing.T) {
	t.Parallel()
	redistest.Each(t, nil, func(t *testing.T, server *redistest.Server) {
		suite.Damage(t, func(t *testing.T, now func() time.Time) docstore.Store { return onRedis(t, server, now) },
			damagedDocuments)
	})
}

func TestDamageOnDynamoDB(t *testing.T) {
	t.Parallel()
	suite.Damage(t, func(t *testing.T, now func() time.Time) docstore.Store {
		_, client := overNetwork(t)
		return openDynamo(t, client, "leasehold", awsdynamodb.Options{
			MaxSkew: awsdynamodb.TrustClock, Now: now, Indexes: analysisIndexes["indexed"],
		})
	}, damagedDocuments)
}

// TestDamageOnDynoxide: on another implementation of the service.
func TestDamageOnDynoxide(t *testing.T) {
	t.Parallel()
	client := dynamoClient(dynoxide.Endpoint(t), nil)
	suite.Damage(t, func(t *testing.T, now func() time.Time) docstore.Store {
		return openDynamo(t, client, "leasehold-"+rand.Text(), awsdynamodb.Options{
			MaxSkew: awsdynamodb.TrustClock, Now: now, Indexes: analysisIndexes["indexed"],
		})
	}, damagedDocuments)
}

func TestDamageOnFirestore(t *testing.T) {
	t.Parallel()
	for name, mode := range modes {
		t.Run(name, func(t *testing.T) {
			suite.Damage(t, func(t *testing.T, now func() time.Time) docstore.Store {
				s, _ := onFirestore(t, mode, now)
				return s
			}, damagedDocuments)
		})
	}
}
