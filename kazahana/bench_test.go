package kazahana_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/leasehold-dev/leasehold/kazahana"
)

// grant is a provider that gives n leases of the default layout for an hour, and takes them back.
type grant int

func (n grant) Acquire(context.Context, kazahana.AcquireOptions) (kazahana.AcquireResponse, error) {
	now := time.Now().UnixMilli()
	var r kazahana.AcquireResponse
	for id := range int64(n) {
		r.Leases = append(r.Leases, kazahana.Lease{
			ID: id, Created: now, Expired: now + time.Hour.Milliseconds(), Secret: "s", Layout: kazahana.DefaultLayout(),
		})
	}
	return r, nil
}

func (grant) Release(context.Context, kazahana.ReleaseOptions) error { return nil }

func benchGenerator(b *testing.B, leases int) *kazahana.Generator {
	b.Helper()
	g, err := kazahana.New(grant(leases), &kazahana.Options{MaxThroughputPerMs: int64(leases) * 256})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { g.Close(context.Background()) })
	if _, err := g.NextID(b.Context()); err != nil {
		b.Fatal(err)
	}
	return g
}

var sink atomic.Int64 // keeps results alive

// BenchmarkNextID measures one ID per call. The floor is what no generator that looks at the clock can do without: one
// read of the monotonic clock and one atomic addition. With few leases the layout is the limit: 3906/leases ns.
func BenchmarkNextID(b *testing.B) {
	b.Run("floor", func(b *testing.B) {
		var n atomic.Uint64
		start := time.Now()
		var last time.Duration
		b.ReportAllocs()
		for b.Loop() {
			last = time.Since(start)
			n.Add(1)
		}
		sink.Store(int64(last))
	})
	for _, leases := range []int{1, 4, 16, 64, 256, 8192} {
		b.Run(fmt.Sprintf("leases=%d", leases), func(b *testing.B) {
			g := benchGenerator(b, leases)
			b.ReportAllocs()
			for b.Loop() {
				id, err := g.NextID(context.Background())
				if err != nil {
					b.Fatal(err)
				}
				_ = id
			}
		})
	}
	b.Run("standalone", func(b *testing.B) {
		g, err := kazahana.New(nil, &kazahana.Options{MaxThroughputPerMs: 1 << 18})
		if err != nil {
			b.Fatal(err)
		}
		b.ReportAllocs()
		for b.Loop() {
			if _, err := g.NextID(context.Background()); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// BenchmarkNextIDParallel measures one generator under all processors.
func BenchmarkNextIDParallel(b *testing.B) {
	b.Run("floor", func(b *testing.B) {
		var n atomic.Uint64
		start := time.Now()
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				sink.Store(int64(time.Since(start)))
				n.Add(1)
			}
		})
	})
	for _, leases := range []int{1, 8192} {
		b.Run(fmt.Sprintf("leases=%d", leases), func(b *testing.B) {
			g := benchGenerator(b, leases)
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					if _, err := g.NextID(context.Background()); err != nil {
						b.Error(err)
						return
					}
				}
			})
		})
	}
}

// BenchmarkNextIDs measures a batch; ns/ID is the figure.
func BenchmarkNextIDs(b *testing.B) {
	for _, batch := range []int{16, 256, 4096} {
		b.Run(fmt.Sprintf("batch=%d", batch), func(b *testing.B) {
			g := benchGenerator(b, 8192)
			ids := make([]kazahana.ID, batch)
			b.ReportAllocs()
			for b.Loop() {
				if err := g.NextIDs(context.Background(), ids); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*batch), "ns/ID")
		})
	}
}
