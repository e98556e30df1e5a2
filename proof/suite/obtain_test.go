package suite

import (
	"testing"
	"time"

	"github.com/leasehold-dev/leasehold/repo/docstore"
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
