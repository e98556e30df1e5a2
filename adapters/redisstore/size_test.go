package redisstore_test

import (
	"testing"

	sdk "github.com/redis/go-redis/v9"

	"github.com/leasehold-dev/leasehold/adapters/redisstore"
	"github.com/leasehold-dev/leasehold/emulator/redistest"
	"github.com/leasehold-dev/leasehold/proof/suite"
	"github.com/leasehold-dev/leasehold/repo/lock"
)

// sizeOfTheLock is the key of the only lock, and the bytes of that and what is stored there.
func sizeOfTheLock(t *testing.T, c *sdk.Client) (key string, n int) {
	t.Helper()
	keys, err := c.Keys(t.Context(), "*:doc:"+lock.Kind+"/*").Result()
	if err != nil || len(keys) != 1 {
		t.Fatal(keys, err)
	}
	stored, err := c.Get(t.Context(), keys[0]).Result()
	if err != nil {
		t.Fatal(err)
	}
	return keys[0], len(keys[0]) + len(stored)
}

// TestSizeOfALock: with ordinary names and 256 bytes of labels, the key and the document of a lock that has been used
// for long, and what the real server says that they take in memory. docs/guides/stores.md has the figures.
func TestSizeOfALock(t *testing.T) {
	redistest.Each(t, nil, func(t *testing.T, server *redistest.Server) {
		clock := suite.NewClock()
		c := client(t, server)
		memory := int64(0)
		plain, forced := suite.UsedLock(t, lock.New(open(t, server, &redisstore.Options{Now: clock.Now, Prefix: "leasehold"}),
			nil), clock.Advance, func() int {
			key, n := sizeOfTheLock(t, c)
			if server.Real {
				used, err := c.MemoryUsage(t.Context(), key, 0).Result()
				if err != nil {
					t.Fatal(err)
				}
				memory = max(memory, used)
			}
			return n
		})
		if plain > 957 || forced > 1033 || memory > 1200 {
			t.Errorf("%d bytes, %d after force-releases, %d in memory: correct docs/guides/stores.md", plain, forced, memory)
		}
	})
}

// TestSizeOfASharedLock: what holders and places in line take of the key and the document. docs/guides/stores.md has
// the figures.
func TestSizeOfASharedLock(t *testing.T) {
	redistest.Each(t, nil, func(t *testing.T, server *redistest.Server) {
		clock := suite.NewClock()
		c := client(t, server)
		locks := lock.New(open(t, server, &redisstore.Options{Now: clock.Now, Prefix: "leasehold"}), nil)
		held, all, holder, place := suite.SharedLock(t, locks, func() int {
			_, n := sizeOfTheLock(t, c)
			return n
		})
		if held > 10353 || all > 18869 || holder > 103 || place > 86 {
			t.Errorf("%d bytes, %d with places, %d for a holder, %d for a place: correct docs/guides/stores.md", held,
				all, holder, place)
		}
	})
}
