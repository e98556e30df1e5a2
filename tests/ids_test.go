package tests

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/leasehold-dev/leasehold/adapters/awsdynamodb"
	"github.com/leasehold-dev/leasehold/adapters/sqlitestore"
	"github.com/leasehold-dev/leasehold/experimental/emulator/dynamodbtest"
	"github.com/leasehold-dev/leasehold/internal/suite"
	"github.com/leasehold-dev/leasehold/kazahana"
	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/machineid"
	"github.com/leasehold-dev/leasehold/tests/internal/idsim"
)

// idSeeds are the seeds of a test, or those that LEASEHOLD_ID_SEEDS names: LEASEHOLD_ID_SEEDS=17,18 runs two.
func idSeeds(t *testing.T, normally ...uint64) []uint64 {
	t.Helper()
	named := os.Getenv("LEASEHOLD_ID_SEEDS")
	if named == "" {
		return normally
	}
	var seeds []uint64
	for s := range strings.SplitSeq(named, ",") {
		seed, err := strconv.ParseUint(s, 10, 64)
		if err != nil {
			t.Fatalf("LEASEHOLD_ID_SEEDS: %v", err)
		}
		seeds = append(seeds, seed)
	}
	return seeds
}

// uniqueIDs runs a simulation and fails the test on any fault, and if the run did not reach what it is meant to.
func uniqueIDs(t *testing.T, c idsim.Config) {
	t.Helper()
	r := idsim.Run(t, c)
	t.Log(r)
	if !r.Clean() {
		t.Errorf("to run it again: LEASEHOLD_ID_SEEDS=%d go test ./tests -run '^%s$'", c.Seed, t.Name())
		return
	}
	// Lower bounds, far below what was seen, for as many processes and seconds.
	scale := int64(c.Processes) * int64(c.Lasts/time.Second)
	for _, reached := range []struct {
		what      string
		got, each int64 // one in so many process seconds at least
	}{
		{"IDs under a lease", r.Leased, 1}, {"under a cached one", r.Cached, 100}, {"random", r.Random, 1},
		{"leases", r.Leases, 200}, {"responses that none is free", r.Exhausted, 200}, {"releases", r.Releases, 1000},
		{"releases again", r.Replays, 4000}, {"kills", r.Kills, 200}, {"shutdowns", r.Shutdowns, 400},
		{"partitions", r.Partitions, 200}, {"clock steps", r.Steps, 100}, {"lost requests", r.LostRequests, 4000},
		{"lost responses", r.LostResponses, 4000}, {"waits for sequences", r.SequenceWaits, 100},
		{"rejections by the clock", r.ClockRejections, 500},
	} {
		if want := max(1, scale/reached.each); reached.got < want {
			t.Errorf("%d %s, want %d at least: the run does not reach what it is meant to", reached.got, reached.what, want)
		}
	}
}

// idServers are three servers, some way from their stores; a generator talks to one of them.
func idServers(t *testing.T, s idsim.Setting, stores ...docstore.Store) idsim.Servers {
	t.Helper()
	var servers []*machineid.Service
	for i := range 3 {
		far := suite.NewFar(stores[i%len(stores)], 2*time.Millisecond, s.Random.Uint64())
		server, err := machineid.New(far, s.Services, nil)
		if err != nil {
			t.Fatal(err)
		}
		servers = append(servers, server)
	}
	var next atomic.Uint64
	return func() kazahana.LeaseProvider { return servers[next.Add(1)%3] }
}

func idsOnMemory(t *testing.T, s idsim.Setting) idsim.Servers {
	t.Helper()
	return idServers(t, s, docstore.NewMemory(&docstore.MemoryOptions{Now: s.Clock.Wall}))
}

func idsOnSQLite(t *testing.T, s idsim.Setting) idsim.Servers {
	t.Helper()
	store, err := sqlitestore.Open(t.Context(), filepath.Join(t.TempDir(), "ids.db"),
		&sqlitestore.Options{Now: s.Clock.Wall})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	return idServers(t, s, store)
}

// idsOnDynamoDB gives each server a clock of its own, seconds off: one that the store measures and corrects, and two
// that it has to trust.
func idsOnDynamoDB(t *testing.T, s idsim.Setting) idsim.Servers {
	t.Helper()
	server := dynamodbtest.New(&dynamodbtest.Options{Now: s.Clock.Wall})
	client := dynamoClient("http://dynamodb.local", server.RoundTripper())
	var stores []docstore.Store
	for _, skew := range []time.Duration{10 * time.Second, awsdynamodb.TrustClock, awsdynamodb.TrustClock} {
		now := idsim.DrawClock(s.Random).Wall
		stores = append(stores, openDynamo(t, client, "leasehold", awsdynamodb.Options{MaxSkew: skew, Now: now}))
	}
	return idServers(t, s, stores...)
}

// onMemoryIDs is a run on the store in memory, of a thousand processes in a deep run.
func onMemoryIDs(seed uint64) idsim.Config {
	return idsim.Config{Seed: seed, Processes: suite.AtDepth(200, 1000), Lasts: 35 * time.Second, Serve: idsOnMemory}
}

// TestIDsAreUnique: processes on a table that is 99 % full make no ID twice, but for random ones, and each
// makes them in order.
func TestIDsAreUnique(t *testing.T) {
	t.Parallel()
	for _, seed := range idSeeds(t, suite.AtDepth([]uint64{1}, []uint64{1, 2})...) {
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
			t.Parallel()
			uniqueIDs(t, onMemoryIDs(seed))
		})
	}
}

// TestIDsAreUniqueOnStores is the same, smaller, on a file and on the emulator of DynamoDB.
func TestIDsAreUniqueOnStores(t *testing.T) {
	t.Parallel()
	for name, serve := range map[string]func(*testing.T, idsim.Setting) idsim.Servers{
		"SQLite": idsOnSQLite, "DynamoDB": idsOnDynamoDB,
	} {
		for _, seed := range idSeeds(t, suite.AtDepth([]uint64{1}, []uint64{1, 2, 3})...) {
			t.Run(name+"/"+strconv.FormatUint(seed, 10), func(t *testing.T) {
				uniqueIDs(t, idsim.Config{Seed: seed, Processes: 60, Lasts: time.Minute, Serve: serve})
			})
		}
	}
}
