package bench

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bwmarrin/snowflake"
	"github.com/google/uuid"
	"github.com/oklog/ulid/v2"
	"github.com/rs/xid"
	"github.com/sony/sonyflake/v2"

	"github.com/leasehold-dev/leasehold/kazahana"
)

// grant is a provider that leases n machine IDs for an hour.
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

func leased(b *testing.B, n int) *kazahana.Generator {
	b.Helper()
	g, err := kazahana.New(grant(n), &kazahana.Options{MaxThroughputPerMs: 256 * int64(n)})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { g.Close(context.Background()) })
	if _, err := g.NextID(b.Context()); err != nil { // wait for the leases
		b.Fatal(err)
	}
	return g
}

// BenchmarkIDs compares generators, one ID per call. The baseline is one read of the monotonic clock and one atomic
// addition. Two kinds of limits show: what the code costs, and how many IDs the layout allows in a millisecond. The
// names of snowflakes say the latter; those with 22 bits of sequence show the code alone.
func BenchmarkIDs(b *testing.B) {
	var count atomic.Uint64
	start := time.Now()
	makers := []struct {
		name string
		open func(b *testing.B) func() error
	}{
		{"baseline", func(*testing.B) func() error {
			return func() error {
				count.Add(uint64(time.Since(start)))
				return nil
			}
		}},
	}
	add := func(name string, open func(b *testing.B) func() error) {
		makers = append(makers, struct {
			name string
			open func(b *testing.B) func() error
		}{name, open})
	}
	for _, n := range []int{1, 16, 8192} {
		add(fmt.Sprintf("kazahana/%d-per-ms", 256*n), func(b *testing.B) func() error {
			g, ctx := leased(b, n), context.Background()
			return func() error {
				_, err := g.NextID(ctx)
				return err
			}
		})
	}
	add("kazahana/batches-of-256", func(b *testing.B) func() error {
		g, ctx, batch, left := leased(b, 8192), context.Background(), make([]kazahana.ID, 256), 0
		return func() error {
			if left--; left >= 0 {
				return nil
			}
			left = len(batch) - 1
			return g.NextIDs(ctx, batch)
		}
	})
	for _, bits := range []uint8{12, 22} {
		add(fmt.Sprintf("bwmarrin-snowflake/%d-per-ms", 1<<bits), func(b *testing.B) func() error {
			node, step := snowflake.NodeBits, snowflake.StepBits // globals of the package
			b.Cleanup(func() { snowflake.NodeBits, snowflake.StepBits = node, step })
			snowflake.NodeBits, snowflake.StepBits = 22-bits, bits
			n, err := snowflake.NewNode(0)
			if err != nil {
				b.Fatal(err)
			}
			return func() error {
				n.Generate()
				return nil
			}
		})
	}
	own := func() (int, error) { return 0, nil }
	for _, s := range []struct {
		limit    string
		settings sonyflake.Settings
	}{
		{"256-per-10ms", sonyflake.Settings{MachineID: own}},
		{"2097152-per-ms", sonyflake.Settings{MachineID: own, TimeUnit: time.Millisecond, BitsSequence: 21,
			BitsMachineID: 1}},
	} {
		add("sonyflake-v2/"+s.limit, func(b *testing.B) func() error {
			f, err := sonyflake.New(s.settings)
			if err != nil {
				b.Fatal(err)
			}
			return func() error {
				_, err := f.NextID()
				return err
			}
		})
	}
	add("rs-xid", func(*testing.B) func() error {
		return func() error {
			xid.New()
			return nil
		}
	})
	add("oklog-ulid", func(*testing.B) func() error {
		return func() error {
			ulid.Make()
			return nil
		}
	})
	add("google-uuid-v7", func(*testing.B) func() error {
		return func() error {
			_, err := uuid.NewV7()
			return err
		}
	})
	for _, m := range makers {
		b.Run(m.name, func(b *testing.B) {
			next := m.open(b)
			b.ReportAllocs()
			for b.Loop() {
				if err := next(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
