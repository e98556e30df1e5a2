package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/leasehold-dev/leasehold/adapters/redisstore"
	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/lock"
)

// scaled are the stores of which load that grows is measured; a server that is not installed is skipped by name.
var scaled = []string{"memory", "sqlite", "redis"}

// openScaled opens a store for a benchmark.
func openScaled(b *testing.B, name string) docstore.Store {
	b.Helper()
	switch name {
	case "memory":
		return docstore.NewMemory(nil)
	case "sqlite":
		return openSQLite(b)
	}
	binary, err := exec.LookPath("redis-server")
	if err != nil {
		b.Skip("redis-server is not installed: apt-get install redis-server")
	}
	socket := filepath.Join(b.TempDir(), "redis.sock")
	c := exec.Command(binary, "--port", "0", "--unixsocket", socket, "--save", "", "--dir", b.TempDir())
	if err := c.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		_ = c.Process.Kill()
		_ = c.Wait()
	})
	for begin := time.Now(); time.Since(begin) < time.Minute; time.Sleep(10 * time.Millisecond) {
		if _, err := os.Stat(socket); err == nil {
			break
		}
	}
	s, err := redisstore.Open(b.Context(), &redisstore.Options{Addr: "unix://" + socket})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := s.Close(); err != nil {
			b.Error(err)
		}
	})
	return s
}

// fillLocks makes a store have n locks of a tenant, as they are after a release.
func fillLocks(b *testing.B, s docstore.Store, tenant string, n int) {
	b.Helper()
	locks := lock.New(s, nil)
	id := lock.ID{Tenant: "pattern", Key: "k"}
	o, err := locks.Acquire(b.Context(), lock.Acquire{ID: id, Owner: "ci-runner-7f3d9c2b", RequestID: "r", TTLSeconds: 60})
	if err == nil {
		o, err = locks.Release(b.Context(), lock.Release{ID: id, Owner: "ci-runner-7f3d9c2b", RequestID: "e",
			Token: o.Lease.Token})
	}
	if err != nil || o.Code != lock.OK {
		b.Fatal(o.Code, err)
	}
	found, err := s.Get(b.Context(), docstore.Key{Kind: lock.Kind, Tenant: "pattern", ID: "k"})
	if err != nil {
		b.Fatal(err)
	}
	const together = 50 // in one call
	work := make(chan int)
	var done sync.WaitGroup
	for range 16 {
		done.Go(func() {
			for first := range work {
				var writes []docstore.Write
				for i := first; i < min(n, first+together); i++ {
					writes = append(writes, docstore.Write{
						Key: docstore.Key{Kind: lock.Kind, Tenant: tenant, ID: fmt.Sprintf("k%07d", i)}, Set: found.Docs[0],
						Keep: lock.DefaultRetention,
					})
				}
				if _, err := s.Write(b.Context(), writes...); err != nil {
					b.Error(err)
				}
			}
		})
	}
	for first := 0; first < n; first += together {
		work <- first
	}
	close(work)
	done.Wait()
}

// BenchmarkManyLocks acquires and releases a lock in stores with a thousand and a million locks, in turns, and reports
// how many times as long it takes in the larger one.
//
//	go test -C tests/bench -run '^$' -bench ManyLocks -benchtime 5000x
func BenchmarkManyLocks(b *testing.B) {
	const few, many = 1_000, 1_000_000
	for _, name := range scaled {
		b.Run(name, func(b *testing.B) {
			var cycles [2]func(int) error
			for i, n := range []int{few, many} {
				s := openScaled(b, name)
				fillLocks(b, s, "acme", n)
				locks, at := lock.New(s, nil), 0
				cycles[i] = func(round int) error {
					at = (at + 7919) % n // another one each time
					id := lock.ID{Tenant: "acme", Key: fmt.Sprintf("k%07d", at)}
					o, err := locks.Acquire(b.Context(), lock.Acquire{ID: id, Owner: "ann", RequestID: fmt.Sprint("r", round),
						TTLSeconds: 60})
					if err == nil && o.Code == lock.OK {
						o, err = locks.Release(b.Context(), lock.Release{ID: id, Owner: "ann", RequestID: fmt.Sprint("e", round),
							Token: o.Lease.Token})
					}
					if err == nil && o.Code != lock.OK {
						err = fmt.Errorf("the code is %s", o.Code)
					}
					return err
				}
			}
			var took [2][]float64
			b.ResetTimer()
			for round := range b.N {
				for i, cycle := range cycles {
					begin := time.Now()
					if err := cycle(round); err != nil {
						b.Fatal(err)
					}
					took[i] = append(took[i], time.Since(begin).Seconds()*1e6)
				}
			}
			b.ReportMetric(median(took[0]), "µs/cycle-1e3")
			b.ReportMetric(median(took[1]), "µs/cycle-1e6")
			b.ReportMetric(median(took[1])/median(took[0]), "times")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// BenchmarkQuietBesideList acquires and releases a lock of a quiet tenant, alone and while another tenant lists its
// locks without a pause, in turns of 50 cycles, and reports the quiet one's times. Lister and store share the
// processors with it: what a list takes of them is in the figures.
//
//	go test -C tests/bench -run '^$' -bench QuietBesideList -benchtime 60x
func BenchmarkQuietBesideList(b *testing.B) {
	const theirs, cycles = 10_000, 50
	for _, name := range scaled {
		b.Run(name, func(b *testing.B) {
			s := openScaled(b, name)
			fillLocks(b, s, "noisy", theirs)
			locks := lock.New(s, nil)
			cycle := throughLocks(b.Context(), locks)
			var took [2][]float64
			pages := 0
			b.ResetTimer()
			for range b.N {
				for beside := range 2 {
					ctx, stop := context.WithCancel(b.Context())
					var lister sync.WaitGroup
					if beside == 1 {
						lister.Go(func() { pages += listAll(ctx, b, locks) })
					}
					for range cycles {
						begin := time.Now()
						if err := cycle(0); err != nil {
							b.Fatal(err)
						}
						took[beside] = append(took[beside], time.Since(begin).Seconds()*1e6)
						time.Sleep(time.Millisecond) // it is quiet
					}
					stop()
					lister.Wait()
				}
			}
			at := func(beside int, q float64) float64 {
				all := slices.Sorted(slices.Values(took[beside]))
				return all[int(q*float64(len(all)-1))]
			}
			b.ReportMetric(at(0, 0.5), "alone-p50-µs")
			b.ReportMetric(at(0, 0.99), "alone-p99-µs")
			b.ReportMetric(at(1, 0.5), "beside-p50-µs")
			b.ReportMetric(at(1, 0.99), "beside-p99-µs")
			b.ReportMetric(at(1, 0.99)/at(0, 0.99), "p99-times")
			b.ReportMetric(float64(pages)/float64(b.N), "pages/turn")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// listAll lists a tenant's locks until the context ends, in the largest pages, and returns how many it read.
func listAll(ctx context.Context, b *testing.B, locks *lock.Locks) (pages int) {
	token := ""
	for ctx.Err() == nil {
		p, err := locks.List(ctx, lock.List{Tenant: "noisy", PageSize: lock.MaxPageSize, PageToken: token})
		if err != nil {
			if !errors.Is(err, context.Canceled) {
				b.Error(err)
			}
			return pages
		}
		token = p.Next
		pages++
	}
	return pages
}
