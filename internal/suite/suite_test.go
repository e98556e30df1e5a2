package suite

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/leasehold-dev/leasehold/repo/docstore"
)

// TestLocks and the tests of its kind hold the rules against their oracles, in memory: the same programs each time, and
// some histories. What they must notice is in tests/mutants. LS-ACQ-001 to 004, LS-RNW-001 to 003, LS-REL-001 to 003,
// LS-INV-001, LS-INV-002, LS-INV-003, LS-INV-004.
func TestLocks(t *testing.T) { locksProof.onMemory(t) }

func TestLockSets(t *testing.T) { setsProof.onMemory(t) }

func TestAnalyses(t *testing.T) { analysesProof.onMemory(t) }

func TestRuns(t *testing.T) { runsProof.onMemory(t) }

func TestPlacements(t *testing.T) { placementsProof.onMemory(t) }

// stalling is a store that stops for a while after some grants, before it responds.
type stalling struct {
	through
	grants atomic.Int64
	when   func(grant int64) bool
	stall  func()
}

func (s *stalling) Write(ctx context.Context, writes ...docstore.Write) (docstore.Result, error) {
	r, err := s.Store.Write(ctx, writes...)
	if grants := writes[0].Add != nil; grants && r.Applied && s.when(s.grants.Add(1)) {
		s.stall()
	}
	return r, err
}

// TestHistoriesWithStalls: leases of a second, and a store or a machine that stops for longer. Histories by the clock
// of the store do not see that the machine stops; a response that is late by that clock is an outcome that the model
// knows.
//
// Both matter: histories by the machine's clock without such an outcome, as they once were, are not linearizable.
func TestHistoriesWithStalls(t *testing.T) {
	t.Parallel()
	// run returns the first seed's history that cannot be explained.
	run := func(t *testing.T, seeds uint64, when func(int64) bool, stall func(*Clock),
		measured func(*Clock) measure) error {
		t.Helper()
		for seed := range seeds {
			clock := NewClock()
			store := &stalling{
				through: through{docstore.NewMemory(&docstore.MemoryOptions{Now: clock.Now})}, when: when, stall: func() {
					stall(clock)
				},
			}
			name := fmt.Sprint("history ", seed)
			if err := analysisHistory(t.Context(), store, clock, name, seed, measured(clock)); err != nil {
				return err
			}
		}
		return nil
	}
	machine, once := func(*Clock) { time.Sleep(1100 * time.Millisecond) }, func(grant int64) bool { return grant == 2 }
	virtual, often := func(c *Clock) { c.Advance(5 * tick) }, func(grant int64) bool { return grant%3 == 0 }
	t.Run("the machine stops", func(t *testing.T) {
		t.Parallel()
		if err := run(t, 3, once, machine, func(c *Clock) measure { return measure{c.Now, true} }); err != nil {
			t.Error(err)
		}
	})
	t.Run("the store stops", func(t *testing.T) {
		t.Parallel()
		if err := run(t, 20, often, virtual, func(c *Clock) measure { return measure{c.Now, true} }); err != nil {
			t.Error(err)
		}
	})
	t.Run("by the machine's clock", func(t *testing.T) {
		t.Parallel()
		if err := run(t, 10, once, machine, func(*Clock) measure { return measure{time.Now, false} }); err == nil {
			t.Error("a machine that stopped in the middle of a grant was not noticed")
		}
	})
	t.Run("without late grants", func(t *testing.T) {
		t.Parallel()
		if err := run(t, 20, often, virtual, func(c *Clock) measure { return measure{c.Now, false} }); err == nil {
			t.Error("no grant was late")
		}
	})
}
