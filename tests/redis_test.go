package tests

import (
	"errors"
	"fmt"
	"maps"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/leasehold-dev/leasehold/adapters/redisstore"
	"github.com/leasehold-dev/leasehold/emulator/redistest"
	"github.com/leasehold-dev/leasehold/internal/suite"
	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/lock"
)

var redisPrefixes atomic.Int64

// onRedis opens a store with a prefix of its own.
func onRedis(t testing.TB, server *redistest.Server, now func() time.Time) *redisstore.Store {
	t.Helper()
	s, err := redisstore.Open(t.Context(), &redisstore.Options{
		Addr: server.Addr(), Prefix: fmt.Sprint("test-", redisPrefixes.Add(1)), Now: now,
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
	redistest.Each(t, nil, func(t *testing.T, server *redistest.Server) {
		suite.Locks(t, func(t *testing.T, now func() time.Time) docstore.Store { return onRedis(t, server, now) })
	})
}

// TestAnalysesOnRedis: BE-041-DOD-1, BE-041-DOD-2, BE-041-DOD-3, BE-041-DOD-4. A sweep walks there: Redis has no index.
func TestAnalysesOnRedis(t *testing.T) {
	redistest.Each(t, nil, func(t *testing.T, server *redistest.Server) {
		suite.Analyses(t, func(t *testing.T, now func() time.Time) docstore.Store { return onRedis(t, server, now) })
	})
}

// TestAmbiguousAnalysesOnRedis: acquire, refresh, release and finish whose request or answer was lost.
func TestAmbiguousAnalysesOnRedis(t *testing.T) {
	redistest.Each(t, nil, func(t *testing.T, server *redistest.Server) { suite.AmbiguousAnalyses(t, redisWithFaults(server)) })
}

// TestMachineIDsOnRedis: leases of machine IDs, on the same servers.
func TestMachineIDsOnRedis(t *testing.T) {
	redistest.Each(t, nil, func(t *testing.T, server *redistest.Server) {
		suite.MachineIDs(t, func(t *testing.T, now func() time.Time) docstore.Store { return onRedis(t, server, now) })
	})
}

// TestAmbiguousWritesOnRedis: LS-ACC-04, LS-ACQ-004, LS-RNW-003, LS-REL-003.
func TestAmbiguousWritesOnRedis(t *testing.T) {
	redistest.Each(t, nil, func(t *testing.T, server *redistest.Server) { suite.Ambiguous(t, redisWithFaults(server)) })
}

func TestAmbiguousMachineIDsOnRedis(t *testing.T) {
	redistest.Each(t, nil, func(t *testing.T, server *redistest.Server) { suite.AmbiguousMachineIDs(t, redisWithFaults(server)) })
}

// redisWithFaults opens stores whose writes meet their fate on the way to the server.
func redisWithFaults(server *redistest.Server) func(*testing.T, func() time.Time) (docstore.Store, suite.Faults) {
	fates := map[suite.Fate]redistest.Fate{
		suite.LostRequest: redistest.LostRequest, suite.LostAnswer: redistest.LostAnswer,
		suite.AppliedThenError: redistest.AnswersError, suite.AppliedLate: redistest.Late,
	}
	return func(t *testing.T, now func() time.Time) (docstore.Store, suite.Faults) {
		s := onRedis(t, server, now)
		// The server knows the script from here on: what meets the fate is the write itself.
		if _, err := s.Write(t.Context(), docstore.Write{Key: docstore.Key{Kind: "first", ID: "write"}}); err != nil {
			t.Fatal(err)
		}
		var injected *redistest.Injection
		return s, suite.Faults{
			Next: func(_ *testing.T, f suite.Fate) { injected = server.Inject(fates[f], "EVALSHA") },
			Settle: func(t *testing.T) {
				t.Helper()
				if err := injected.Release(t.Context()); err != nil {
					t.Error(err)
				}
			},
		}
	}
}

// TestCostsOnRedis: a command is one request, whatever becomes of it; a look is one, a list two.
func TestCostsOnRedis(t *testing.T) {
	redistest.Each(t, nil, func(t *testing.T, server *redistest.Server) {
		clock := suite.NewClock()
		locks := lock.New(onRedis(t, server, clock.Now), nil)
		id := lock.ID{Tenant: "acme", Key: "k"}
		acquire := func(owner, request string) func() (lock.Outcome, error) {
			return func() (lock.Outcome, error) {
				return locks.Acquire(t.Context(), lock.Acquire{ID: id, Owner: owner, RequestID: request, TTLSeconds: 60})
			}
		}
		renew := func(token int64) func() (lock.Outcome, error) {
			return func() (lock.Outcome, error) {
				return locks.Renew(t.Context(), lock.Renew{ID: id, Owner: "ann", Token: token, RequestID: "n1", TTLSeconds: 60})
			}
		}
		release := func(token int64) func() (lock.Outcome, error) {
			return func() (lock.Outcome, error) {
				return locks.Release(t.Context(), lock.Release{ID: id, Owner: "ann", Token: token, RequestID: "e1"})
			}
		}
		look := func() (lock.Outcome, error) {
			_, _, err := locks.Get(t.Context(), id)
			return lock.Outcome{Code: lock.OK}, err
		}
		list := func() (lock.Outcome, error) {
			p, err := locks.List(t.Context(), lock.List{Tenant: "acme"})
			if err == nil && len(p.Locks) != 1 {
				err = fmt.Errorf("%d locks", len(p.Locks))
			}
			return lock.Outcome{Code: lock.OK}, err
		}
		steps := []struct {
			name string
			wait time.Duration
			do   func() (lock.Outcome, error)
			code lock.Code
			cost map[string]int
		}{
			{"the first command of all", 0, acquire("ann", "r1"), lock.OK, map[string]int{"EVALSHA": 1, "EVAL": 1}},
			{"acquire, replayed", 0, acquire("ann", "r1"), lock.OK, nil},
			{"acquire, held", 0, acquire("bob", "r2"), lock.Held, nil},
			{"renew", 0, renew(1), lock.OK, nil},
			{"renew, replayed", 0, renew(1), lock.OK, nil},
			{"release, never granted", 0, release(7), lock.LeaseLost, nil},
			{"release", 0, release(1), lock.OK, nil},
			{"release, replayed", 0, release(1), lock.OK, nil},
			{"acquire, free", 0, acquire("bob", "r3"), lock.OK, nil},
			{"renew, lost", 0, renew(1), lock.LeaseLost, nil},
			{"acquire, expired", time.Hour, acquire("ann", "r4"), lock.OK, nil},
			{"the first look of all", 0, look, lock.OK, map[string]int{"EVALSHA": 1, "EVAL": 1}},
			{"look", 0, look, lock.OK, nil},
			{"the first list of all", 0, list, lock.OK, map[string]int{"EVALSHA": 2, "EVAL": 1}},
			{"list", 0, list, lock.OK, map[string]int{"EVALSHA": 2}},
		}
		for _, step := range steps {
			if step.cost == nil {
				step.cost = map[string]int{"EVALSHA": 1}
			}
			clock.Advance(step.wait)
			server.ResetCommands()
			if o, err := step.do(); err != nil || o.Code != step.code {
				t.Errorf("%s: %s, error %v, want %s", step.name, o.Code, err, step.code)
			}
			if got := server.Commands(); !maps.Equal(got, step.cost) {
				t.Errorf("%s: sent %v, want %v", step.name, got, step.cost)
			}
		}
	})
}

// TestRedisKilled kills redis-server with SIGKILL under load, again and again on the same files, with appendonly yes and
// appendfsync always. What it acknowledged must hold afterwards: no token is given twice (LS-INV-002).
func TestRedisKilled(t *testing.T) {
	const (
		rounds  = 3
		clients = 4
		before  = 100 // acknowledgements before the kill
	)
	server := redistest.Start(t, "--appendonly", "yes", "--appendfsync", "always")
	store := onRedis(t, server, nil)
	if w := store.Warnings(); len(w) != 0 {
		t.Errorf("the server is not what this test is about: %q", w)
	}
	counter := func(n int) docstore.Key {
		return docstore.Key{Kind: "locks", Tenant: "acme", ID: fmt.Sprint("counter ", n)}
	}
	var acknowledged [clients]docstore.Int
	for round := range rounds {
		var (
			done    sync.WaitGroup
			answers = make(chan struct{}, clients*before)
		)
		for n := range clients {
			done.Go(func() {
				for {
					r, err := store.Write(t.Context(), docstore.Write{Key: counter(n), Add: map[string]int64{"token": 1}})
					if err != nil {
						if !errors.Is(err, docstore.ErrUnavailable) {
							t.Errorf("round %d: %v", round, err)
						}
						return
					}
					token, _ := r.Docs[0]["token"].(docstore.Int)
					if token <= acknowledged[n] {
						t.Errorf("round %d: token %d after %d", round, token, acknowledged[n])
					}
					acknowledged[n] = token
					select {
					case answers <- struct{}{}:
					default: // enough for this round
					}
				}
			})
		}
		for i := range before {
			select {
			case <-answers:
			case <-time.After(time.Minute):
				t.Fatalf("round %d: only %d acknowledgements in a minute", round, i)
			}
		}
		server.Kill()
		done.Wait()
		server.Restart(t)
		for n, most := range acknowledged {
			snap, err := store.Get(t.Context(), counter(n))
			if err != nil {
				t.Fatal(err)
			}
			// One write may have been applied and its answer lost with the server.
			if token, _ := snap.Docs[0]["token"].(docstore.Int); token != most && token != most+1 {
				t.Errorf("round %d: counter %d is %d, acknowledged was %d", round, n, token, most)
			}
		}
	}
}
