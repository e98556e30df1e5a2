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

// proof is how a rule is shown to stand on a store: by programs of steps S that an oracle runs as well, by histories of
// callers at once, and by planted faults that must not go unnoticed by either. Names keep what runs on one store apart.
type proof[S any] struct {
	program *rapid.Generator[[]S]
	run     func(ctx context.Context, store docstore.Store, clock *Clock, name string, program []S) error
	history func(ctx context.Context, store docstore.Store, clock *Clock, name string, seed uint64) error
	mutants map[string]func(docstore.Store) docstore.Store
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
	t.Run("planted faults are noticed", func(t *testing.T) {
		for name, plant := range p.mutants {
			t.Run(name, func(t *testing.T) {
				clock := NewClock()
				store := plant(newStore(t, clock.Now))
				const programs = 2000
				for seed := range programs {
					if err := p.run(t.Context(), store, clock, strconv.Itoa(seed), p.program.Example(seed)); err != nil {
						return
					}
				}
				t.Errorf("%d programs did not notice", programs)
			})
		}
	})
	t.Run("histories are linearizable", func(t *testing.T) {
		clock := NewClock()
		store := newStore(t, clock.Now)
		for seed := range uint64(20) {
			if err := p.history(t.Context(), store, clock, fmt.Sprint("history ", seed), seed); err != nil {
				t.Fatal(err)
			}
		}
	})
	t.Run("histories notice planted faults", func(t *testing.T) {
		for name, plant := range p.mutants {
			t.Run(name, func(t *testing.T) {
				clock := NewClock()
				store := plant(newStore(t, clock.Now))
				const histories = 200
				for seed := range uint64(histories) {
					if err := p.history(t.Context(), store, clock, fmt.Sprint("history ", seed), seed); err != nil {
						return
					}
				}
				t.Errorf("%d histories did not notice", histories)
			})
		}
	})
}
