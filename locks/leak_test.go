package locks_test

import (
	"runtime"
	"testing"

	"github.com/leasehold-dev/leasehold/functions/direct"
	"github.com/leasehold-dev/leasehold/repo/docstore"
)

// TestReleasedLocksLeaveNothing: of five thousand locks that were held and released no memory and no goroutine is left.
func TestReleasedLocksLeaveNothing(t *testing.T) {
	c, err := direct.NewLocks(docstore.NewMemory(nil), "default", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := c.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}()
	// used is what is in use after n locks of one key, whose record does not grow.
	used := func(n int) (bytes uint64, goroutines int) {
		for range n {
			l, err := c.Lock(t.Context(), "deploy-prod", nil)
			if err != nil {
				t.Fatal(err)
			}
			if err := l.Unlock(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		runtime.GC()
		runtime.GC() // what was to be finalized
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc, runtime.NumGoroutine()
	}
	before, first := used(500)
	after, last := used(5000)
	if most := before + 1<<20; after > most { // 200 bytes for each
		t.Errorf("%d bytes after 500 locks, %d after 5500", before, after)
	}
	if last > first+5 { // what is about to end
		t.Errorf("%d goroutines after 500 locks, %d after 5500", first, last)
	}
}
