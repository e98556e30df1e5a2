package kazahana_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/leasehold-dev/leasehold/kazahana"
	"github.com/leasehold-dev/leasehold/proof/suite/idtable"
)

// program is a random run of processes that share a table.
type program struct {
	TTL       time.Duration
	Units     int
	Latency   time.Duration
	Processes []process
	Steps     []step
}

type process struct {
	Throughput int64
	Backward   int64
	Strict     bool
	Window     time.Duration
	Skew       time.Duration
}

type step struct {
	Kind    string
	Process int
	Count   int
	By      time.Duration
}

// programs draws programs. They are hostile: few machine IDs, so that each changes hands often; clocks seconds apart,
// which step; processes that end and start in the millisecond in which they last made an ID.
var programs = rapid.Custom(func(t *rapid.T) program {
	const second = int64(time.Second)
	skew := rapid.Map(rapid.OneOf(rapid.Just(int64(0)), rapid.Int64Range(-int64(20*time.Millisecond),
		int64(20*time.Millisecond)),
		rapid.Int64Range(-5*second, 5*second)), func(n int64) time.Duration { return time.Duration(n) })
	p := program{
		TTL: rapid.SampledFrom([]time.Duration{60 * time.Millisecond, 700 * time.Millisecond, 12 * time.Second}).Draw(t,
			"ttl"),
		Units:   rapid.SampledFrom([]int{2, 4, 8}).Draw(t, "units"),
		Latency: rapid.SampledFrom([]time.Duration{0, 300 * time.Microsecond, 5 * time.Millisecond}).Draw(t, "latency"),
	}
	p.Processes = rapid.SliceOfN(rapid.Custom(func(t *rapid.T) process {
		return process{
			Throughput: rapid.SampledFrom([]int64{1, 256, 512}).Draw(t, "throughput"),
			Backward:   rapid.SampledFrom([]int64{-1, 0, 5000}).Draw(t, "backward"),
			Strict:     rapid.Bool().Draw(t, "strict"),
			Window:     rapid.SampledFrom([]time.Duration{0, 0, 8 * time.Millisecond}).Draw(t, "window"),
			Skew:       skew.Draw(t, "skew"),
		}
	}), 2, 4).Draw(t, "processes")
	p.Steps = rapid.SliceOfN(rapid.Custom(func(t *rapid.T) step {
		s := step{
			Kind: rapid.SampledFrom([]string{
				"ids", "ids", "ids", "batch", "batch", "sleep", "sleep", "restart", "restart", "set the clock", "outage", "layout",
			}).Draw(t, "kind"),
			Process: rapid.IntRange(0, len(p.Processes)-1).Draw(t, "process"),
		}
		switch s.Kind {
		case "ids", "batch":
			s.Count = rapid.SampledFrom([]int{1, 2, 300, 1000}).Draw(t, "count")
		case "sleep":
			s.By = rapid.SampledFrom([]time.Duration{
				100 * time.Microsecond, time.Millisecond, p.TTL / 10, p.TTL / 2, p.TTL, time.Second,
			}).Draw(t, "by")
		case "set the clock":
			s.By = skew.Draw(t, "by")
		}
		return s
	}), 20, 120).Draw(t, "steps")
	return p
})

// run executes a program and returns what is wrong with its leases and IDs.
func run(t *testing.T, p program) (ids, fallbacks int, fault error) {
	synctest.Test(t, func(t *testing.T) {
		shared := newClock()
		leases := newTable(p.Units, p.TTL, shared.Wall)
		leases.latency = p.Latency
		oracle := idtable.New(shared.Wall)

		clocks := make([]*clock, len(p.Processes))
		running := make([]*kazahana.Generator, len(p.Processes))
		holders := make([]*idtable.Holder, len(p.Processes))
		start := func(i int) {
			o := p.Processes[i]
			holders[i] = oracle.Holder(fmt.Sprint("process ", i), leases)
			g, err := kazahana.New(holders[i], &kazahana.Options{
				MaxThroughputPerMs: o.Throughput, MaxBackwardMs: &o.Backward, DisableFallback: o.Strict, BurstWindow: o.Window,
				Clock: clocks[i], Log: slog.New(slog.DiscardHandler), AcquireRetryInterval: 100 * time.Millisecond,
				MaxSkew: 20 * time.Second,
			})
			if err != nil {
				t.Fatal(err)
			}
			running[i] = g
		}
		stop := func(i int) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			_ = running[i].Close(ctx) // a lease that cannot be released runs out
		}
		take := func(i int, got ...kazahana.ID) {
			ids += len(got)
			fallbacks += holders[i].Made(kazahana.DefaultLayout(), got...)
		}
		for i, o := range p.Processes {
			clocks[i] = newClock()
			clocks[i].step(o.Skew)
			start(i)
		}
		for _, s := range p.Steps {
			g := running[s.Process]
			ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
			switch s.Kind {
			case "ids":
				for range s.Count {
					id, err := g.NextID(ctx)
					if err != nil {
						expectable(t, err)
						break
					}
					take(s.Process, id)
				}
			case "batch":
				got := make([]kazahana.ID, s.Count)
				if err := g.NextIDs(ctx, got); err != nil {
					expectable(t, err)
				} else {
					take(s.Process, got...)
				}
			case "sleep":
				time.Sleep(s.By)
			case "restart":
				stop(s.Process)
				start(s.Process)
			case "set the clock":
				clocks[s.Process].step(s.By)
			case "outage":
				leases.set(func(t *table) { t.away = !t.away })
			case "layout":
				leases.set(func(t *table) {
					if t.layout.BitSeq == 8 {
						t.layout.BitID, t.layout.BitSeq = 13, 9
					} else {
						t.layout = kazahana.DefaultLayout()
					}
				})
			}
			cancel()
		}
		for i := range running {
			stop(i)
		}
		fault = oracle.Err()
	})
	return ids, fallbacks, fault
}

// expectable fails the test on an error that NextID does not promise.
func expectable(t *testing.T, err error) {
	t.Helper()
	_, backward := errors.AsType[*kazahana.ClockBackwardError](err)
	_, without := errors.AsType[*kazahana.LeaseAcquisitionError](err)
	if !backward && !without && !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("unexpected: %v", err)
	}
}

// TestIDsAreUniqueAndOrdered: whatever clocks, leases and the provider do, no two processes make the same ID under
// leases, and the IDs of each process rise.
func TestIDsAreUniqueAndOrdered(t *testing.T) {
	var all, without int
	rapid.Check(t, func(rt *rapid.T) {
		ids, fallbacks, fault := run(t, programs.Draw(rt, "program"))
		if fault != nil {
			rt.Fatal(fault)
		}
		all, without = all+ids, without+fallbacks
	})
	t.Logf("%d IDs, %d of them without a lease", all, without)
	if all < 10_000 || without == 0 || without > all*9/10 {
		t.Errorf("%d IDs, %d of them without a lease: the programs do not reach what they are meant to", all, without)
	}
}
