package tests

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/leasehold-dev/leasehold/adapters/redisstore"
	"github.com/leasehold-dev/leasehold/emulator/redistest"
	"github.com/leasehold-dev/leasehold/proof/suite"
	"github.com/leasehold-dev/leasehold/repo/docstore"
)

var redisPrefixes atomic.Int64

// openRedis opens a store with a prefix of its own.
func openRedis(t testing.TB, server *redistest.Server, now func() time.Time) *redisstore.Store {
	t.Helper()
	s, err := redisstore.Open(t.Context(), &redisstore.Options{
		Addr: server.URL(), Prefix: fmt.Sprint("test-", redisPrefixes.Add(1)), Now: now,
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

// TestPlacementRequestsOnRedis: each call is one script, and nothing else; which is loaded the first time.
func TestPlacementRequestsOnRedis(t *testing.T) {
	t.Parallel()
	redistest.Each(t, nil, func(t *testing.T, server *redistest.Server) {
		clock := suite.NewClock()
		store := openRedis(t, server, clock.Now)
		scripts := map[string]int{"placed by a known epoch": 0, "claimed": 2, "joined": 2, "first alarm": 3,
			"looked for an alarm for later": 11, "looked for alarms": 11, "looked for alarms, none due": 4}
		suite.PlacementSteps(t, store, clock, server.ResetCommands, func(step string) {
			want, other := scripts[step]
			if !other {
				want = 1
			}
			got := server.Commands()
			delete(got, "EVAL") // the first sight of a script
			if sent := got["EVALSHA"]; sent != want || len(got) > min(want, 1) {
				t.Errorf("%s: sent %v, want %d scripts", step, got, want)
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

// faultyRedis opens stores whose writes fail on the way to the server.
func faultyRedis(server *redistest.Server) newFaultyStore {
	fates := map[suite.Fate]redistest.Fate{
		suite.LostRequest: redistest.LostRequest, suite.LostResponse: redistest.LostResponse,
		suite.AppliedThenError: redistest.ReturnsError, suite.AppliedLate: redistest.Late,
	}
	return func(t *testing.T, now func() time.Time) (docstore.Store, suite.Faults) {
		s := &armed{Store: openRedis(t, server, now)}
		// The server knows the script from here on, so that the fault hits the write itself.
		if _, err := s.Write(t.Context(), docstore.Write{Key: docstore.Key{Kind: "first", ID: "write"}}); err != nil {
			t.Fatal(err)
		}
		var injected *redistest.Injection
		return s, suite.Faults{
			// A command may read before it writes, and a read is a script as well.
			Next: func(_ *testing.T, f suite.Fate) {
				s.arm(func() { injected = server.Inject(fates[f], "EVALSHA") })
			},
			Met: func() bool { return !s.waits() && injected.Happened() },
			Settle: func(t *testing.T) {
				t.Helper()
				if err := injected.Release(t.Context()); err != nil {
					t.Error(err)
				}
			},
		}
	}
}
