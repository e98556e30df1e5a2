package bench

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leasehold-dev/leasehold/kazahana"
	"github.com/leasehold-dev/leasehold/proof/suite"
	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/machineid"
)

const trip = 10 * time.Millisecond

// fill leases machine IDs of the default space for an hour, one by one, until so many of its 8192 are leased.
func fill(t testing.TB, store docstore.Store, leased int) {
	t.Helper()
	s, err := machineid.New(store, hour(), nil)
	if err != nil {
		t.Fatal(err)
	}
	o, _, err := s.Occupancy(t.Context(), machineid.DefaultSpace)
	if err != nil {
		t.Fatal(err)
	}
	for range leased - o.Leased {
		if _, err := s.Acquire(t.Context(), kazahana.AcquireOptions{}); err != nil {
			t.Fatal(err)
		}
	}
}

func hour() []machineid.ServiceConfig {
	s := machineid.DefaultService()
	s.LeaseDuration = time.Hour.Milliseconds()
	return []machineid.ServiceConfig{s}
}

// copied is a store with the same space in it.
func copied(t testing.TB, from docstore.Store) docstore.Store {
	t.Helper()
	page, err := from.List(t.Context(), docstore.Query{Kind: machineid.Kind, Tenant: machineid.DefaultSpace})
	if err != nil {
		t.Fatal(err)
	}
	to := docstore.NewMemory(nil)
	for _, e := range page.Entries {
		if _, err := to.Write(t.Context(), docstore.Write{Key: e.Key, Set: e.Doc}); err != nil {
			t.Fatal(err)
		}
	}
	return to
}

// contend lets n callers, each with a process of its own, ask for a machine ID at the same moment. It returns how long
// each took, in round trips, and how many found no free machine ID.
func contend(t testing.TB, far *suite.Far, n int) (trips []float64, exhausted int) {
	t.Helper()
	var (
		mu   sync.Mutex
		done sync.WaitGroup
		ids  = make(map[int64]bool)
	)
	for range n {
		s, err := machineid.New(far, hour(), nil)
		if err != nil {
			t.Fatal(err)
		}
		done.Go(func() {
			begin := time.Now()
			r, err := s.Acquire(context.Background(), kazahana.AcquireOptions{})
			mu.Lock()
			defer mu.Unlock()
			trips = append(trips, float64(time.Since(begin))/float64(trip))
			switch {
			case errors.Is(err, kazahana.ErrExhausted):
				exhausted++
			case err != nil:
				t.Error(err)
			case ids[r.Leases[0].ID]:
				t.Errorf("machine ID %d was leased twice", r.Leases[0].ID)
			default:
				ids[r.Leases[0].ID] = true
			}
		})
	}
	done.Wait()
	slices.Sort(trips)
	return trips, exhausted
}

func mean(xs []float64) float64 {
	sum := 0.0
	for _, x := range xs {
		sum += x
	}
	return sum / float64(len(xs))
}

// TestMachineIDTable prints what an acquire costs, by how full the space is and by how many ask at the same moment.
//
//	go test -C tests/bench -run MachineIDTable -v
func TestMachineIDTable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Until(suite.Epoch)) // a bubble begins in 2000
		t.Logf("%8s %10s %10s %10s %10s %10s %10s", "leased", "callers", "reads", "writes", "trips", "p99", "exhausted")
		full := docstore.NewMemory(nil)
		for _, leased := range []float64{0, 0.5, 0.9, 0.99, 1} {
			fill(t, full, max(1, int(8192*leased))) // the first one ever also sets up the space
			for _, callers := range []int{1, 100, 1000} {
				var trips []float64
				exhausted, gets, writes := 0, int64(0), int64(0)
				for round := range max(1, 100/callers) {
					far := suite.NewFar(copied(t, full), trip, uint64(round))
					took, none := contend(t, far, callers)
					g, w := far.Requests()
					trips, exhausted, gets, writes = append(trips, took...), exhausted+none, gets+g, writes+w
				}
				slices.Sort(trips)
				n := float64(len(trips))
				t.Logf("%6g %% %10d %10.2f %10.2f %10.2f %10.2f %10d", leased*100, callers,
					float64(gets)/n, float64(writes)/n, mean(trips), trips[len(trips)*99/100], exhausted)
			}
		}
	})
}
