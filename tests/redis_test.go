package tests

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/leasehold-dev/leasehold/adapters/redisstore"
	"github.com/leasehold-dev/leasehold/experimental/emulator/redistest"
	"github.com/leasehold-dev/leasehold/internal/suite"
	"github.com/leasehold-dev/leasehold/repo/docstore"
)

var redisPrefixes atomic.Int64

// longTimeouts are settings of a client, with which a machine that stands still for some seconds makes no difference. A
// server that is gone ends its connections.
const longTimeouts = "?dial_timeout=5m&read_timeout=5m&write_timeout=5m&pool_timeout=5m"

// onRedis opens a store with a prefix of its own.
func onRedis(t testing.TB, server *redistest.Server, now func() time.Time) *redisstore.Store {
	t.Helper()
	s, err := redisstore.Open(t.Context(), &redisstore.Options{
		Addr: "redis://" + server.Addr() + longTimeouts, Prefix: fmt.Sprint("test-", redisPrefixes.Add(1)), Now: now,
	})
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

// TestLocksOnRedis: LS-INV-001, LS-INV-002, LS-INV-003, LS-INV-004, LS-ACC-01, LS-ACC-02, LS-ACC-03, LS-ACC-04.
func TestLocksOnRedis(t *testing.T) {
	t.Parallel()
	suite.EveryStore(t)
	redistest.Each(t, nil, func(t *testing.T, server *redistest.Server) {
		suite.Locks(t, func(t *testing.T, now func() time.Time) docstore.Store { return onRedis(t, server, now) })
	})
}

// TestAnalysesOnRedis: BE-041-DOD-1, BE-041-DOD-2, BE-041-DOD-3, BE-041-DOD-4.
func TestAnalysesOnRedis(t *testing.T) {
	t.Parallel()
	suite.EveryStore(t)
	redistest.Each(t, nil, func(t *testing.T, server *redistest.Server) {
		suite.Analyses(t, func(t *testing.T, now func() time.Time) docstore.Store { return onRedis(t, server, now) })
	})
}

// TestAmbiguousAnalysesOnRedis: acquire, refresh, release and finish whose request or response was lost.
func TestAmbiguousAnalysesOnRedis(t *testing.T) {
	t.Parallel()
	suite.EveryStore(t)
	redistest.Each(t, nil, func(t *testing.T, server *redistest.Server) {
		suite.AmbiguousAnalyses(t, redisWithFaults(server))
	})
}

// TestMachineIDsOnRedis: leases of machine IDs, on the same servers.
func TestMachineIDsOnRedis(t *testing.T) {
	t.Parallel()
	suite.EveryStore(t)
	redistest.Each(t, nil, func(t *testing.T, server *redistest.Server) {
		suite.MachineIDs(t, func(t *testing.T, now func() time.Time) docstore.Store { return onRedis(t, server, now) })
	})
}

// TestPlacementsOnRedis: PLC-PLACE-2, PLC-PLACE-4, PLC-ONE-5, PLC-LOCK-1.
func TestPlacementsOnRedis(t *testing.T) {
	t.Parallel()
	suite.EveryStore(t)
	redistest.Each(t, nil, func(t *testing.T, server *redistest.Server) {
		suite.Placements(t, func(t *testing.T, now func() time.Time) docstore.Store { return onRedis(t, server, now) })
	})
}

// TestPlacementRequestsOnRedis: each call is one script, and nothing else; which is loaded the first time.
func TestPlacementRequestsOnRedis(t *testing.T) {
	t.Parallel()
	redistest.Each(t, nil, func(t *testing.T, server *redistest.Server) {
		clock := suite.NewClock()
		store := onRedis(t, server, clock.Now)
		scripts := map[string]int{"placed by a known epoch": 0, "claimed": 2, "joined": 2}
		suite.PlacementSteps(t, store, clock, server.ResetCommands, func(step string) {
			want, other := scripts[step]
			if !other {
				want = 1
			}
			got := server.Commands()
			delete(got, "EVAL")
			if sent := got["EVALSHA"]; sent != want || len(got) > min(want, 1) {
				t.Errorf("%s: sent %v, want %d scripts", step, got, want)
			}
		})
	})
}

// TestAmbiguousWritesOnRedis: LS-ACC-04, LS-ACQ-004, LS-RNW-003, LS-REL-003.
func TestAmbiguousWritesOnRedis(t *testing.T) {
	t.Parallel()
	suite.EveryStore(t)
	redistest.Each(t, nil, func(t *testing.T, server *redistest.Server) { suite.Ambiguous(t, redisWithFaults(server)) })
}

func TestRunsOnRedis(t *testing.T) {
	t.Parallel()
	suite.EveryStore(t)
	redistest.Each(t, nil, func(t *testing.T, server *redistest.Server) {
		suite.Runs(t, func(t *testing.T, now func() time.Time) docstore.Store { return onRedis(t, server, now) })
	})
}

// TestAmbiguousRunsOnRedis: commands of named runs whose request or response was lost.
func TestAmbiguousRunsOnRedis(t *testing.T) {
	t.Parallel()
	suite.EveryStore(t)
	redistest.Each(t, nil, func(t *testing.T, server *redistest.Server) {
		suite.AmbiguousRuns(t, redisWithFaults(server))
	})
}

func TestAmbiguousMachineIDsOnRedis(t *testing.T) {
	t.Parallel()
	suite.EveryStore(t)
	redistest.Each(t, nil, func(t *testing.T, server *redistest.Server) {
		suite.AmbiguousMachineIDs(t, redisWithFaults(server))
	})
}

// TestAmbiguousPlacementsOnRedis: the same for commands on members and activations.
func TestAmbiguousPlacementsOnRedis(t *testing.T) {
	t.Parallel()
	suite.EveryStore(t)
	redistest.Each(t, nil, func(t *testing.T, server *redistest.Server) {
		open := redisWithFaults(server)
		suite.AmbiguousPlacements(t, func(t *testing.T, now func() time.Time) (docstore.Store, suite.Faults) {
			s, faults := open(t, now)
			w := &armed{Store: s}
			return w, suite.Faults{
				// These commands read before they write, and a read is a script as well.
				Next:   func(t *testing.T, f suite.Fate) { w.arm(func() { faults.Next(t, f) }) },
				Met:    func() bool { return !w.waits() && faults.Met() },
				Settle: faults.Settle,
			}
		})
	})
}

// armed is a store that does something before its next write.
type armed struct {
	docstore.Store

	mu   sync.Mutex
	next func()
}

func (s *armed) arm(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.next = f
}

func (s *armed) waits() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.next != nil
}

// Write implements [docstore.Store].
func (s *armed) Write(ctx context.Context, writes ...docstore.Write) (docstore.Result, error) {
	s.mu.Lock()
	if s.next != nil {
		s.next()
		s.next = nil
	}
	s.mu.Unlock()
	return s.Store.Write(ctx, writes...)
}

// redisWithFaults opens stores whose writes fail on the way to the server.
func redisWithFaults(server *redistest.Server) func(*testing.T, func() time.Time) (docstore.Store, suite.Faults) {
	fates := map[suite.Fate]redistest.Fate{
		suite.LostRequest: redistest.LostRequest, suite.LostResponse: redistest.LostResponse,
		suite.AppliedThenError: redistest.ReturnsError, suite.AppliedLate: redistest.Late,
	}
	return func(t *testing.T, now func() time.Time) (docstore.Store, suite.Faults) {
		s := onRedis(t, server, now)
		// The server knows the script from here on, so that the fault hits the write itself.
		if _, err := s.Write(t.Context(), docstore.Write{Key: docstore.Key{Kind: "first", ID: "write"}}); err != nil {
			t.Fatal(err)
		}
		var injected *redistest.Injection
		return s, suite.Faults{
			Next: func(_ *testing.T, f suite.Fate) { injected = server.Inject(fates[f], "EVALSHA") },
			Met:  func() bool { return injected.Happened() },
			Settle: func(t *testing.T) {
				t.Helper()
				if err := injected.Release(t.Context()); err != nil {
					t.Error(err)
				}
			},
		}
	}
}
