package suite

import (
	"testing"
	"time"

	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/lock"
)

func onMemory(_ *testing.T, now func() time.Time) docstore.Store {
	return docstore.NewMemory(&docstore.MemoryOptions{Now: now})
}

// TestWhatIsFreeIsObtained (LS-ACQ-002): what no one holds is had by one caller that asks once, in every mode, by a
// set, by the head of a line; a force-release leaves it free; and no sequence of refusals is endless.
func TestWhatIsFreeIsObtained(t *testing.T) {
	t.Parallel()
	e := Everything
	e.Programs = AtDepth(10, 1000)
	ObtainableLocks(t, onMemory, e)
}

// TestWhatIsStaleIsObtained (BE-041-DOD-3): the same of analyses and runs whose holders died.
func TestWhatIsStaleIsObtained(t *testing.T) {
	t.Parallel()
	t.Run("analyses", func(t *testing.T) { ObtainableAnalyses(t, onMemory, AtDepth(40, 2000)) })
	t.Run("runs", func(t *testing.T) { ObtainableRuns(t, onMemory, TriesOfRuns) })
}

// TestWhatHasEndedIsRemoved: and what is kept no longer is removed by a pass, however much it is.
func TestWhatHasEndedIsRemoved(t *testing.T) {
	t.Parallel()
	ObtainableRetention(t, onMemory)
}

// TestObtainableChecksBite: each way in which what is free cannot be had is noticed.
func TestObtainableChecksBite(t *testing.T) {
	for name, plant := range obtainMutants {
		t.Run("locks/"+name, func(t *testing.T) {
			t.Parallel()
			clock := NewClock()
			store := onMemory(t, clock.Now)
			l := lock.New(store, &lock.Options{Now: clock.Now})
			s := plant(faultyServer{l, store, clock})
			r := &obtaining{store: store, clock: clock, tenant: "acme", servers: []lockServer{s, s}}
			for err := range r.all(t.Context(), Extent{Dead: []int{1, 21}}) {
				t.Log(err)
				return
			}
			t.Error("no question noticed")
		})
	}
	for name, plant := range analysisObtainMutants {
		t.Run("analyses/"+name, func(t *testing.T) {
			t.Parallel()
			clock := NewClock()
			store := onMemory(t, clock.Now)
			for seed := range 200 {
				if err := staleAnalyses(t.Context(), store, plant(store), clock, seed); err != nil {
					t.Log(err)
					return
				}
			}
			t.Error("no program noticed")
		})
	}
	for name, plant := range runObtainMutants {
		t.Run("runs/"+name, func(t *testing.T) {
			t.Parallel()
			clock := NewClock()
			store := onMemory(t, clock.Now)
			if err := obtainableRuns(t.Context(), store, plant(store), clock, TriesOfRuns); err == nil {
				t.Error("not noticed")
			}
		})
	}
	memory := func(t *testing.T) (*docstore.Memory, *Clock) {
		t.Helper()
		clock := NewClock()
		return docstore.NewMemory(&docstore.MemoryOptions{Now: clock.Now}), clock
	}
	for name, plant := range retentionMutants {
		t.Run("retention/"+name, func(t *testing.T) {
			t.Parallel()
			store, clock := memory(t)
			if err := retention(t.Context(), store, store, plant(store), clock, retentionBatch+1); err == nil {
				t.Error("not noticed")
			}
		})
	}
	t.Run("retention/a pass that stops", func(t *testing.T) {
		t.Parallel()
		store, clock := memory(t)
		if err := retention(t.Context(), store, prunesOnce{store}, store, clock, retentionBatch+1); err == nil {
			t.Error("not noticed")
		}
	})
}
