package suite

import (
	"context"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/leasehold-dev/leasehold/repo/docstore"
)

// proof is how rules are shown to hold on a store: by programs of steps S that an oracle runs as well. That concurrent
// callers see the same follows from the store's own histories, see package docstoretest: a rule is one conditional
// write. Names keep what runs on one store apart. The faults that programs must notice are in proof/mutants.
type proof[S any] struct {
	program *rapid.Generator[[]S]
	run     func(ctx context.Context, store docstore.Store, clock *Clock, name string, program []S) error
}

func (p proof[S]) of(t *testing.T, newStore func(t *testing.T, now func() time.Time) docstore.Store) {
	t.Run("programs agree with the oracle", func(t *testing.T) {
		clock := NewClock()
		store := newStore(t, clock.Now)
		var programs atomic.Int64
		rapid.Check(t, func(r *rapid.T) {
			name := strconv.FormatInt(programs.Add(1), 10)
			if err := p.run(t.Context(), store, clock, name, p.program.Draw(r, "program")); err != nil {
				r.Fatal(err)
			}
		})
	})
}

// once carries out a few programs on a store.
func (p proof[S]) once(t *testing.T, newStore func(t *testing.T, now func() time.Time) docstore.Store) {
	t.Helper()
	clock := NewClock()
	store := newStore(t, clock.Now)
	for seed := range 3 {
		if err := p.run(t.Context(), store, clock, strconv.Itoa(seed), p.program.Example(seed)); err != nil {
			t.Fatalf("program %d: %v", seed, err)
		}
	}
}

// EachRuleOnce carries out a few programs of each rule on a store: that all of it works together. newStore is as for
// [Locks].
func EachRuleOnce(t *testing.T, newStore func(t *testing.T, now func() time.Time) docstore.Store) {
	for name, once := range map[string]func(*testing.T, func(*testing.T, func() time.Time) docstore.Store){
		"locks": locksProof.once, "modes": modesProof.once, "sets": setsProof.once, "analyses": analysesProof.once,
		"runs": runsProof.once, "placements": placementsProof.once, "machine IDs": machineIDsOnce,
	} {
		t.Run(name, func(t *testing.T) { once(t, newStore) })
	}
}

// onMemory carries out the same programs each time on the store in memory.
func (p proof[S]) onMemory(t *testing.T) {
	t.Helper()
	t.Parallel()
	memory := func() (docstore.Store, *Clock) {
		clock := NewClock()
		return docstore.NewMemory(&docstore.MemoryOptions{Now: clock.Now}), clock
	}
	t.Run("programs", func(t *testing.T) {
		t.Parallel()
		store, clock := memory()
		for seed := range AtDepth(1500, 10_000) {
			if err := p.run(t.Context(), store, clock, strconv.Itoa(seed), p.program.Example(seed)); err != nil {
				t.Fatalf("program %d: %v", seed, err)
			}
		}
	})
}
