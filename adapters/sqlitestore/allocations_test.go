//go:build !race

// Under the race detector pools forget a part of what they are given, by chance: allocations cannot be counted there.

package sqlitestore_test

import (
	"path/filepath"
	"testing"
)

// TestAllocationsOfACycle: the document that was written is not parsed when it is read. The condition of an acquire has
// 39 of the allocations: it asks four fields for the request, and four more for whether it was given up. It reads what
// counters go on from with 6, and moves what it forgets with 2.
func TestAllocationsOfACycle(t *testing.T) {
	const most = 237
	cycle := cycler(t, open(t, filepath.Join(t.TempDir(), "leasehold.db"), nil))
	for range 3 {
		cycle()
	}
	got := testing.AllocsPerRun(50, cycle)
	t.Logf("%v allocations", got)
	if got > most {
		t.Errorf("%v allocations, %d at most", got, most)
	}
}
