package main

import (
	"runtime"
	"testing"
)

// TestCollectionsAreSpared: a server does not collect each few megabytes, unless it is told when to collect.
func TestCollectionsAreSpared(t *testing.T) {
	t.Cleanup(func() { spare = nil })
	collections := func() uint32 {
		runtime.GC()
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		for range spareBytes / 2 / 1024 {
			kept = make([]byte, 1024)
		}
		runtime.ReadMemStats(&after)
		return after.NumGC - before.NumGC
	}
	for _, set := range []string{"GOGC", "GOMEMLIMIT"} {
		t.Run(set, func(t *testing.T) {
			t.Setenv("GOGC", "")
			t.Setenv("GOMEMLIMIT", "")
			t.Setenv(set, "100")
			if spareCollections(); spare != nil {
				t.Errorf("%s is set, and the server decides otherwise", set)
			}
		})
	}
	t.Setenv("GOGC", "")
	t.Setenv("GOMEMLIMIT", "")
	if n := collections(); n == 0 {
		t.Error("nothing to spare: the collector does not run anyway")
	}
	spareCollections()
	if n := collections(); n != 0 {
		t.Errorf("%d collections of %d MB of garbage", n, spareBytes/2>>20)
	}
}

var kept []byte
