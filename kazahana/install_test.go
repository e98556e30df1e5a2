package kazahana

import (
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// TestInstallAgainstCallers changes segments as fast as it goes, each with a capacity and random starts of its own,
// while callers take IDs: one millisecond must be read by one segment, and each ID is counted once. The burst window
// holds a minute of unused milliseconds, so that callers need not wait for the clock.
func TestInstallAgainstCallers(t *testing.T) {
	g, err := New(nil, &Options{BurstWindow: time.Minute, MaxThroughputPerMs: 64})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := g.NextID(t.Context()); err != nil {
		t.Fatal(err)
	}
	const installs, most = 150_000, 400_000
	var callers sync.WaitGroup
	var done atomic.Bool
	var got [4][]ID
	for i := range got {
		callers.Go(func() {
			for !done.Load() && len(got[i]) < most {
				ids := make([]ID, 1+len(got[i])%3)
				if err := g.NextIDs(t.Context(), ids); err != nil {
					t.Error(err)
					return
				}
				got[i] = append(got[i], ids...)
			}
		})
	}
	for n := range uint64(installs) {
		g.mu.Lock()
		g.install(func(from uint64) *segment {
			if n%8 == 7 {
				return nil // no one can take an ID until a caller finds out what is usable
			}
			s := g.buildFallback(from)
			s.cap, s.keys[0] = 1+n%64, n
			return s
		})
		g.mu.Unlock()
		if n%64 == 0 {
			runtime.Gosched()
		}
	}
	done.Store(true)
	callers.Wait()
	var all []ID
	for i := range got {
		if !slices.IsSorted(got[i]) {
			t.Errorf("the IDs of caller %d do not rise", i)
		}
		all = append(all, got[i]...)
	}
	slices.Sort(all)
	first := DefaultLayout().Decode(all[0])
	for i := 1; i < len(all); i++ {
		if all[i] == all[i-1] {
			t.Fatalf("%d twice among %d IDs and %d installs", all[i], len(all), installs)
		}
		if p := DefaultLayout().Decode(all[i]); !p.Time.Equal(first.Time) {
			first = p
		} else if p.Node-first.Node >= 64 {
			t.Fatalf("%+v and %+v are of two segments", first, p)
		}
	}
	if st := g.Stats(); st.IDs != uint64(len(all))+1 || st.FallbackIDs != st.IDs {
		t.Errorf("%d IDs and the first one, counted as %d, %d of them without a lease", len(all), st.IDs, st.FallbackIDs)
	}
	t.Logf("%d IDs, %d installs", len(all), installs)
}
