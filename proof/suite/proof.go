package suite

import (
	"context"
	"fmt"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/leasehold-dev/leasehold/repo/docstore"
)

// proof is how rules are shown to hold on a store: by programs of steps S that an oracle runs as well, and by histories
// of concurrent callers; there may be none of those. Names keep what runs on one store apart. The faults that both must
// notice are in proof/mutants.
type proof[S any] struct {
	program *rapid.Generator[[]S]
	run     func(ctx context.Context, store docstore.Store, clock *Clock, name string, program []S) error
	history func(ctx context.Context, store docstore.Store, clock *Clock, name string, seed uint64) error
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
	if p.history == nil {
		return
	}
	t.Run("histories are linearizable", func(t *testing.T) {
		clock := NewClock()
		store := newStore(t, clock.Now)
		for seed := range AtDepth(uint64(8), 20) {
			if err := p.history(t.Context(), store, clock, fmt.Sprint("history ", seed), seed); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// onMemory carries out the same programs each time, and some histories, on the store in memory.
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
	if p.history == nil {
		return
	}
	t.Run("histories", func(t *testing.T) {
		t.Parallel()
		store, clock := memory()
		for seed := range AtDepth(uint64(20), 200) {
			if err := p.history(t.Context(), store, clock, fmt.Sprint("history ", seed), seed); err != nil {
				t.Fatal(err)
			}
		}
	})
}
