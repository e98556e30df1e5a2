package kazahana_test

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leasehold-dev/leasehold/kazahana"
)

// TestConcurrentCallers: while leases change hands every few milliseconds and fallback comes and goes, four goroutines
// see rising IDs, no ID comes twice, and every one is counted. This one runs in real time: the schedule is what it is
// about.
func TestConcurrentCallers(t *testing.T) {
	leases := newTable(512, 20*time.Millisecond, time.Now)
	g, err := kazahana.New(leases, &kazahana.Options{MaxThroughputPerMs: 1 << 14, AcquireRetryInterval: time.Millisecond,
		Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	stop, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var all sync.WaitGroup
	all.Go(func() {
		begin := time.Now()
		for away := true; stop.Err() == nil; away = !away {
			time.Sleep(15 * time.Millisecond)
			leases.set(func(t *table) { t.away = away })
			const enough = 50_000
			if st := g.Stats(); time.Since(begin) > 300*time.Millisecond && st.FallbackIDs > enough &&
				st.IDs-st.FallbackIDs > enough {
				cancel()
			}
		}
	})
	var got [4][]kazahana.ID
	for i := range got {
		all.Go(func() {
			batch := make([]kazahana.ID, 100)
			for n := 0; stop.Err() == nil; n++ {
				if n%8 == i {
					if err := g.NextIDs(t.Context(), batch); err != nil {
						t.Error(err)
						return
					}
					got[i] = append(got[i], batch...)
					continue
				}
				id, err := g.NextID(t.Context())
				if err != nil {
					t.Error(err)
					return
				}
				got[i] = append(got[i], id)
				if n%64 == 0 {
					_ = g.Stats()
				}
			}
		})
	}
	all.Wait()
	leases.set(func(t *table) { t.away = false })
	if err := g.Close(t.Context()); err != nil {
		t.Error(err)
	}
	var ids []kazahana.ID
	for i := range got {
		for k := 1; k < len(got[i]); k++ {
			if got[i][k] <= got[i][k-1] {
				t.Fatalf("goroutine %d got %d after %d", i, got[i][k], got[i][k-1])
			}
		}
		ids = append(ids, got[i]...)
	}
	slices.Sort(ids)
	fallbacks := uint64(0)
	for i, id := range ids {
		if i > 0 && id == ids[i-1] {
			t.Fatalf("%d twice", id)
		}
		if g.Layout().Decode(id).Fallback {
			fallbacks++
		}
	}
	st := g.Stats()
	t.Logf("%d IDs, %d of them without a lease, %+v", len(ids), fallbacks, st)
	if st.IDs != uint64(len(ids)) || st.FallbackIDs != fallbacks {
		t.Errorf("%d IDs, %d of them without a lease: %+v", len(ids), fallbacks, st)
	}
}

// TestCloseStopsCallers: no ID that is handed out is stamped after the time that Close has signed.
func TestCloseStopsCallers(t *testing.T) {
	leases := newTable(64, time.Minute, time.Now)
	g, err := kazahana.New(leases, nil)
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	var last [4]kazahana.ID
	for i := range last {
		all.Go(func() {
			for {
				id, err := g.NextID(t.Context())
				if err != nil {
					if !errors.Is(err, kazahana.ErrClosed) {
						t.Error(err)
					}
					return
				}
				last[i] = id
			}
		})
	}
	time.Sleep(20 * time.Millisecond)
	if err := g.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	all.Wait()
	if slices.Max(last[:]) == 0 {
		t.Error("no caller got an ID")
	}
	signed := leases.released()[0].Timestamp
	for _, id := range last {
		if at := id.Time(g.Layout()).UnixMilli(); at > signed {
			t.Errorf("an ID of %d after the signed %d", at, signed)
		}
	}
}

// TestNothingIsAllocated: neither by a call nor by a batch.
func TestNothingIsAllocated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, p := range map[string]kazahana.LeaseProvider{
			"leased": newTable(64, 10*time.Minute, func() time.Time {
				return time.Now().Add(origin.Sub(time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)))
			}), "standalone": nil,
		} {
			g, err := kazahana.New(p, &kazahana.Options{Clock: newClock(), MaxThroughputPerMs: 1 << 13})
			if err != nil {
				t.Fatal(err)
			}
			ids := make([]kazahana.ID, 7)
			allocs := testing.AllocsPerRun(100, func() {
				if _, err := g.NextID(t.Context()); err != nil {
					t.Fatal(err)
				}
				if err := g.NextIDs(t.Context(), ids); err != nil {
					t.Fatal(err)
				}
			})
			if allocs != 0 {
				t.Errorf("%s: %v allocations", name, allocs)
			}
			if err := g.Close(t.Context()); err != nil {
				t.Error(err)
			}
		}
	})
}
