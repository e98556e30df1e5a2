package kazahana_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leasehold-dev/leasehold/kazahana"
)

// world is a bubble of time with a clock, a table of 64 machine IDs with leases of ten minutes, and what generators
// told.
type world struct {
	*testing.T
	clock  *clock
	table  *table
	mu     sync.Mutex
	events []kazahana.Event
}

func bubble(t *testing.T, f func(w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &world{T: t, clock: newClock()}
		w.table = newTable(64, 10*time.Minute, func() time.Time { return origin.Add(time.Since(w.clock.start)) })
		f(w)
	})
}

// generator makes one with the world's clock; it is closed in the end.
func (w *world) generator(p kazahana.LeaseProvider, o kazahana.Options) *kazahana.Generator {
	w.Helper()
	o.Clock = w.clock
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	o.Observe = func(e kazahana.Event) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.events = append(w.events, e)
	}
	g, err := kazahana.New(p, &o)
	if err != nil {
		w.Fatal(err)
	}
	w.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		_ = g.Close(ctx)
	})
	return g
}

// heard are the events so far.
func (w *world) heard() []kazahana.Event {
	synctest.Wait() // events are told by a goroutine of their own
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.events)
}

// told is how often each kind of event was told.
func (w *world) told() map[kazahana.EventKind]int {
	n := map[kazahana.EventKind]int{}
	for _, e := range w.heard() {
		n[e.Kind]++
	}
	return n
}

// next is an ID, taken apart.
func (w *world) next(g *kazahana.Generator) kazahana.Parts {
	w.Helper()
	id, err := g.NextID(w.Context())
	if err != nil {
		w.Fatal(err)
	}
	return g.Layout().Decode(id)
}

// at is the world's time in milliseconds since its origin; of is that of an ID.
func (w *world) at() int64                   { return time.Since(w.clock.start).Milliseconds() }
func (w *world) of(p kazahana.Parts) int64   { return p.Time.Sub(origin).Milliseconds() }
func (w *world) sleepUntil(at time.Duration) { time.Sleep(at - time.Since(w.clock.start)) }

func TestSettingsThatCannotWork(t *testing.T) {
	for _, c := range []struct {
		name  string
		o     kazahana.Options
		wrong string
	}{
		{"throughput", kazahana.Options{MaxThroughputPerMs: -1}, "MaxThroughputPerMs"},
		{"too much throughput", kazahana.Options{MaxThroughputPerMs: 1<<21 + 1}, "2097152 IDs at most"},
		{"retry", kazahana.Options{AcquireRetryInterval: -1}, "AcquireRetryInterval"},
		{"retry bounds", kazahana.Options{AcquireRetryMaxInterval: time.Millisecond}, "at least AcquireRetryInterval"},
		{"window", kazahana.Options{BurstWindow: time.Hour}, "BurstWindow"},
		{"skew", kazahana.Options{MaxSkew: -1}, "MaxSkew"},
		{"few bits", kazahana.Options{BitTs: 31}, "BitTs"},
		{"many bits", kazahana.Options{BitTs: 61}, "BitTs"},
		{"epoch", kazahana.Options{DefaultEpoch: time.Unix(-1, 0)}, "DefaultEpoch"},
		{"33 labels", kazahana.Options{Meta: labels(33)}, "Meta has 33 labels: at most 32"},
		{"a label without a name", kazahana.Options{Meta: map[string]string{"": "x"}}, `the key ""`},
		{"a long name", kazahana.Options{Meta: map[string]string{strings.Repeat("k", 65): "x"}}, "1 to 64 bytes"},
		{"a long label", kazahana.Options{Meta: map[string]string{"host": strings.Repeat("x", 513)}},
			`Meta["host"] must be at most 512`},
		{"a line in a label", kazahana.Options{Meta: map[string]string{"host": "a\nb"}}, `Meta["host"]`},
		{"no text in a label", kazahana.Options{Meta: map[string]string{"host": "\xff"}}, `Meta["host"]`},
	} {
		t.Run(c.name, func(t *testing.T) {
			if _, err := kazahana.New(nil, &c.o); err == nil || !strings.Contains(err.Error(), c.wrong) {
				t.Errorf("%v, want %q", err, c.wrong)
			}
		})
	}
	_, err := kazahana.New(nil, &kazahana.Options{DisableFallback: true})
	if _, ok := errors.AsType[*kazahana.NoProviderError](err); !ok {
		t.Errorf("neither provider nor fallback: %v", err)
	}
}

func labels(n int) map[string]string {
	m := map[string]string{}
	for i := range n {
		m[strings.Repeat("k", 62)+strconv.Itoa(10+i)] = strings.Repeat("v", 512)
	}
	return m
}

// TestMeta: labels at their bounds, and those of a generator that names none, are what a provider takes.
func TestMeta(t *testing.T) {
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct{ given, want map[string]string }{
		"default":  {nil, map[string]string{"host": host, "pid": strconv.Itoa(os.Getpid())}},
		"none":     {map[string]string{}, map[string]string{}},
		"as many":  {labels(32), labels(32)},
		"ones own": {map[string]string{"zone": "b", "empty": ""}, map[string]string{"zone": "b", "empty": ""}},
	} {
		bubble(t, func(w *world) {
			w.next(w.generator(w.table, kazahana.Options{Meta: c.given}))
			if got := w.table.acquired()[0].Meta; !maps.Equal(got, c.want) {
				t.Errorf("%s: %v, want %v", name, got, c.want)
			}
		})
	}
}

func TestStandalone(t *testing.T) {
	bubble(t, func(w *world) {
		g := w.generator(nil, kazahana.Options{})
		other := w.generator(nil, kazahana.Options{})
		first, second, foreign := w.next(g), w.next(g), w.next(other)
		if !first.Fallback || w.of(first) != 0 || second.Node != first.Node+1 {
			t.Errorf("%+v, then %+v", first, second)
		}
		if foreign.Node == first.Node { // one in two million
			t.Errorf("two processes drew the same start, %d", first.Node)
		}
		time.Sleep(time.Millisecond)
		if third := w.next(g); third.Node == second.Node+1 || w.of(third) != 1 { // one in two million
			t.Errorf("the start was not drawn anew: %+v", third)
		}
		ids := make([]kazahana.ID, 600)
		if err := g.NextIDs(w.Context(), ids); err != nil {
			t.Fatal(err)
		}
		if d := ids[599].Time(g.Layout()).Sub(origin).Milliseconds(); d != 3 || !slices.IsSorted(ids) {
			t.Errorf("601 IDs at 256 in a millisecond, the last at %d ms", d)
		}
		if st := g.Stats(); st.IDs != 603 || st.FallbackIDs != 603 || !st.Fallback || st.SequenceWaits != 2 {
			t.Errorf("%+v", st)
		}
	})
}

func TestFirstIDWaitsForTheFirstLease(t *testing.T) {
	bubble(t, func(w *world) {
		w.table.latency = 200 * time.Millisecond
		g := w.generator(w.table, kazahana.Options{ServiceID: "payments", Meta: map[string]string{"zone": "b"}})
		p := w.next(g)
		if p.Fallback || p.MachineID != 0 || p.Sequence != 0 || w.of(p) != 200 {
			t.Errorf("%+v at %d ms", p, w.at())
		}
		got := w.table.acquired()
		if len(got) != 1 || got[0].ServiceID != "payments" || got[0].ThroughputPerMs != 256 ||
			!maps.Equal(got[0].Meta, map[string]string{"zone": "b"}) {
			t.Errorf("asked for %+v", got)
		}
		want := kazahana.Stats{ServiceID: "payments", ActiveLeases: 1, ThroughputPerMs: 256, AcquireAttempts: 1, IDs: 1}
		if st := g.Stats(); st != want {
			t.Errorf("%+v, want %+v", st, want)
		}
	})
}

func TestContextBoundsTheWaitForTheFirstLease(t *testing.T) {
	bubble(t, func(w *world) {
		w.table.latency = 10 * time.Second
		g := w.generator(w.table, kazahana.Options{})
		ctx, cancel := context.WithTimeout(w.Context(), 300*time.Millisecond)
		defer cancel()
		if _, err := g.NextID(ctx); !errors.Is(err, context.DeadlineExceeded) || w.at() != 300 {
			t.Errorf("%v at %d ms", err, w.at())
		}
	})
}

// Only a call that would have to wait looks at the context.
func TestCanceledContext(t *testing.T) {
	bubble(t, func(w *world) {
		w.table.latency = time.Millisecond // the first lease comes after the first calls
		g := w.generator(w.table, kazahana.Options{})
		ctx, cancel := context.WithCancel(w.Context())
		cancel()
		if _, err := g.NextID(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("without a lease: %v", err)
		}
		if err := g.NextIDs(ctx, make([]kazahana.ID, 1)); !errors.Is(err, context.Canceled) {
			t.Errorf("without a lease: %v", err)
		}
		w.next(g)
		if _, err := g.NextID(ctx); err != nil {
			t.Errorf("with a lease: %v", err)
		}
	})
}

func TestFallbackAndBack(t *testing.T) {
	bubble(t, func(w *world) {
		w.table.away = true
		g := w.generator(w.table, kazahana.Options{})
		last := kazahana.ID(-1)
		fallbacks := 0
		for !t.Failed() {
			id, err := g.NextID(w.Context())
			if err != nil || id <= last {
				t.Fatalf("%d after %d: %v", id, last, err)
			}
			last = id
			if !g.Layout().Decode(id).Fallback {
				break
			}
			fallbacks++
			if fallbacks == 100 {
				w.table.set(func(t *table) { t.away = false })
			}
			time.Sleep(10 * time.Millisecond)
		}
		st := g.Stats()
		if fallbacks < 100 || fallbacks > 6200 { // the next try comes within a minute
			t.Errorf("%d fallback IDs", fallbacks)
		}
		if st.FallbackIDs != uint64(fallbacks) || st.IDs != st.FallbackIDs+1 || st.Fallback ||
			st.AcquireFailures+1 != st.AcquireAttempts {
			t.Errorf("%d fallback IDs, %+v", fallbacks, st)
		}
		told := w.told()
		if told[kazahana.EventFallback] != 1 || told[kazahana.EventRecovered] != 1 || told[kazahana.EventAcquired] != 1 ||
			told[kazahana.EventAcquireFailed] != int(st.AcquireFailures) {
			t.Errorf("told %v", told)
		}
	})
}

func TestStrictModeFailsWithTheCause(t *testing.T) {
	bubble(t, func(w *world) {
		w.table.away = true
		g := w.generator(w.table, kazahana.Options{DisableFallback: true, MaxBackwardMs: new(int64(0))})
		for range 3 {
			_, err := g.NextID(w.Context())
			if e, ok := errors.AsType[*kazahana.LeaseAcquisitionError](err); !ok || !errors.Is(e, errOutage) {
				t.Fatal(err)
			}
		}
		w.table.set(func(t *table) { t.away = false })
		time.Sleep(time.Minute)
		if p := w.next(g); p.Fallback {
			t.Errorf("%+v", p)
		}
		if st := g.Stats(); st.FallbackIDs != 0 || st.IDs != 1 {
			t.Errorf("%+v", st)
		}
	})
}

// The sequence of a live lease may be used up; that makes callers wait, and never makes a fallback ID.
func TestUsedUpSequenceWaits(t *testing.T) {
	bubble(t, func(w *world) {
		g := w.generator(w.table, kazahana.Options{})
		w.next(g)
		time.Sleep(500 * time.Microsecond)
		w.table.set(func(t *table) { t.away = true })
		for i := range int64(600) {
			if p := w.next(g); p.Fallback || p.Sequence != (i+1)%256 || w.of(p) != (i+1)/256 || w.at() != w.of(p) {
				t.Fatalf("ID %d at %d ms: %+v", i, w.at(), p)
			}
		}
		if st := g.Stats(); st.SequenceWaits != 2 || st.IDs != 601 || st.FallbackIDs != 0 {
			t.Errorf("%+v", st)
		}
	})
}

// After a wait the timer may come late. The milliseconds that were waited for are made up, up to four.
func TestLateTimerCostsNoThroughput(t *testing.T) {
	bubble(t, func(w *world) {
		g := w.generator(w.table, kazahana.Options{})
		ids := make([]kazahana.ID, 256)
		var stamps []int64
		for range 4 {
			if err := g.NextIDs(w.Context(), ids); err != nil {
				t.Fatal(err)
			}
			stamps = append(stamps, ids[0].Time(g.Layout()).Sub(origin).Milliseconds())
			if len(stamps) == 1 {
				time.Sleep(3 * time.Millisecond)
			}
		}
		time.Sleep(6 * time.Millisecond)
		stamps = append(stamps, w.of(w.next(g)))
		if !slices.Equal(stamps, []int64{0, 1, 2, 3, 9}) {
			t.Errorf("stamps %v", stamps)
		}
	})
}

func TestLeasesAreUsedLowestFirst(t *testing.T) {
	bubble(t, func(w *world) {
		g := w.generator(w.table, kazahana.Options{MaxThroughputPerMs: 1000})
		ids := make([]kazahana.ID, 1024)
		if err := g.NextIDs(w.Context(), ids); err != nil {
			t.Fatal(err)
		}
		for i, id := range ids {
			if p := g.Layout().Decode(id); p.Node != int64(i) || w.of(p) != 0 {
				t.Fatalf("ID %d: %+v", i, p)
			}
		}
		if st := g.Stats(); st.ActiveLeases != 4 || st.ThroughputPerMs != 1024 ||
			w.table.acquired()[0].ThroughputPerMs != 1000 {
			t.Errorf("%+v, asked for %+v", st, w.table.acquired())
		}
	})
}

// fixed is a provider that grants what it is told, attempt by attempt.
type fixed func(attempt int) ([]kazahana.Lease, error)

type script struct {
	mu    sync.Mutex
	tries int
	grant fixed
}

func (s *script) Acquire(context.Context, kazahana.AcquireOptions) (kazahana.AcquireResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tries++
	leases, err := s.grant(s.tries)
	return kazahana.AcquireResponse{Leases: leases}, err
}

func (s *script) Release(context.Context, kazahana.ReleaseOptions) error { return nil }

// lease is one of the default layout, by milliseconds since the origin.
func lease(id, from, until int64, change ...func(*kazahana.Lease)) kazahana.Lease {
	l := kazahana.Lease{
		ID: id, Created: origin.UnixMilli() + from, Expired: origin.UnixMilli() + until, Secret: "hush",
		Layout: kazahana.DefaultLayout(),
	}
	for _, c := range change {
		c(&l)
	}
	return l
}

func seq(bits int) func(*kazahana.Lease) {
	return func(l *kazahana.Lease) { l.BitID, l.BitSeq = 22-bits, bits }
}

// Leases with sequences of different widths are runs of one space of 22-bit numbers, and are used in its order.
func TestMixedLayouts(t *testing.T) {
	bubble(t, func(w *world) {
		g := w.generator(&script{grant: func(int) ([]kazahana.Lease, error) {
			return []kazahana.Lease{lease(3, 0, 1000, seq(9)), lease(1, 0, 1000), lease(40, 0, 1000, seq(4)),
				lease(9, 0, 1000, seq(6))}, nil
		}}, kazahana.Options{MaxThroughputPerMs: 512})
		ids := make([]kazahana.ID, 16+256+64+512)
		if err := g.NextIDs(w.Context(), ids); err != nil {
			t.Fatal(err)
		}
		var want []int64
		for _, r := range [][2]int64{{256, 512}, {576, 640}, {640, 656}, {1536, 2048}} {
			for n := r[0]; n < r[1]; n++ {
				want = append(want, n)
			}
		}
		for i, id := range ids {
			if p := g.Layout().Decode(id); p.Node != want[i] || w.of(p) != 0 {
				t.Fatalf("ID %d: %+v, want node %d", i, p, want[i])
			}
		}
		single := w.next(g)
		if single.Node != 256 || w.of(single) != 1 {
			t.Errorf("the next one: %+v", single)
		}
	})
}

// A lease with a lower machine ID that arrives within a millisecond is used from the next one on: IDs rise.
func TestNewLeaseBeginsWithANewMillisecond(t *testing.T) {
	bubble(t, func(w *world) {
		g := w.generator(&script{grant: func(try int) ([]kazahana.Lease, error) {
			if try == 1 {
				return []kazahana.Lease{lease(9, 0, 60_000)}, nil
			}
			return []kazahana.Lease{lease(2, w.at(), w.at()+60_000)}, nil
		}}, kazahana.Options{MaxThroughputPerMs: 512, AcquireRetryInterval: 3500 * time.Microsecond})
		var got []string
		for range 9 {
			p := w.next(g)
			got = append(got, fmt.Sprintf("%d:%d/%d", w.of(p), p.MachineID, p.Sequence))
			time.Sleep(500 * time.Microsecond)
			synctest.Wait()
		}
		want := []string{"0:9/0", "0:9/1", "1:9/0", "1:9/1", "2:9/0", "2:9/1", "3:9/0", "4:2/0", "4:2/1"}
		if !slices.Equal(got, want) {
			t.Errorf("got  %v\nwant %v", got, want)
		}
	})
}

// What was granted together is replaced together, when 85 to 95 % of it have passed: at another moment in each process,
// and as often after 90 % as before.
func TestRenewal(t *testing.T) {
	renewed := map[time.Duration]bool{}
	late := 0
	for range 20 {
		bubble(t, func(w *world) {
			g := w.generator(w.table, kazahana.Options{MaxThroughputPerMs: 512})
			w.next(g)
			var at time.Duration
			for len(w.table.acquired()) == 1 {
				time.Sleep(100 * time.Millisecond)
				at += 100 * time.Millisecond
			}
			if at < 510*time.Second || at > 570*time.Second+100*time.Millisecond {
				t.Errorf("renewed after %s", at)
			}
			renewed[at] = true
			if at > 540*time.Second+100*time.Millisecond {
				late++
			}
			w.sleepUntil(10*time.Minute - time.Millisecond)
			if p := w.next(g); p.MachineID != 0 {
				t.Errorf("the old lease is used to its end: %+v", p)
			}
			time.Sleep(time.Millisecond)
			if p := w.next(g); p.MachineID < 2 || p.Fallback {
				t.Errorf("after its end: %+v", p)
			}
			if got := w.table.acquired(); len(got) != 2 || got[1].ThroughputPerMs != 512 {
				t.Errorf("asked for %+v", got)
			}
			if st := g.Stats(); st.ActiveLeases != 2 || st.FallbackIDs != 0 {
				t.Errorf("%+v", st)
			}
		})
	}
	if len(renewed) < 10 || late == 0 || late == 20 { // all on one side: one in 500,000
		t.Errorf("20 processes renewed at %d moments, %d of them after 90 %%", len(renewed), late)
	}
}

// An outage longer than the lease: the last ID under it is stamped before its end, whatever follows is a fallback ID.
func TestLeaseEndsInAnOutage(t *testing.T) {
	bubble(t, func(w *world) {
		g := w.generator(w.table, kazahana.Options{})
		w.next(g)
		w.table.set(func(t *table) { t.away = true })
		w.sleepUntil(10*time.Minute - 3*time.Millisecond)
		for i := range int64(6) {
			if p := w.next(g); w.of(p) != 599_997+i || p.Fallback != (i >= 3) {
				t.Errorf("ID %d: %+v", i, p)
			}
			time.Sleep(time.Millisecond)
		}
		w.table.set(func(t *table) { t.away = false })
		time.Sleep(61 * time.Second)
		if p := w.next(g); p.Fallback {
			t.Errorf("after the outage: %+v", p)
		}
	})
}

// The bound of the wait doubles from 1 s to 60 s, or as the options say, half of each wait is fixed, and a success
// begins anew.
func TestBackoff(t *testing.T) {
	for _, c := range []struct {
		o          kazahana.Options
		first, max time.Duration
	}{
		{kazahana.Options{}, time.Second, time.Minute},
		{kazahana.Options{AcquireRetryInterval: 3 * time.Second}, 3 * time.Second, time.Minute},
		{kazahana.Options{AcquireRetryInterval: 100 * time.Millisecond, AcquireRetryMaxInterval: 5 * time.Second},
			100 * time.Millisecond, 5 * time.Second},
		{kazahana.Options{AcquireRetryInterval: 2 * time.Minute}, 2 * time.Minute, 2 * time.Minute},
	} {
		bubble(t, func(w *world) {
			var tries []time.Duration
			const granted = 12 // the lease lasts an hour; before its end the next one is asked for
			p := &script{grant: func(try int) ([]kazahana.Lease, error) {
				tries = append(tries, time.Since(w.clock.start))
				if try == granted {
					return []kazahana.Lease{lease(1, w.at(), w.at()+3_600_000)}, nil
				}
				return nil, errOutage
			}}
			w.generator(p, c.o)
			time.Sleep(3 * time.Hour)
			p.mu.Lock()
			defer p.mu.Unlock()
			bound, last := c.first, time.Duration(0)
			for i := 1; i < len(tries); i++ {
				wait := tries[i] - tries[i-1]
				if i == granted {
					if wait < 51*time.Minute || wait > 57*time.Minute+time.Second {
						t.Errorf("renewed after %s", wait)
					}
					bound, last = c.first, 0
					continue
				}
				if wait <= bound/2 || wait > bound || bound < c.max && wait <= last {
					t.Errorf("%+v: try %d after %s, want %s to %s", c.o, i+1, wait, bound/2, bound)
				}
				bound, last = min(2*bound, c.max), wait
			}
			if len(tries) < granted+20 {
				t.Errorf("%d tries within three hours", len(tries))
			}
		})
	}
}

func TestExhaustionIsWaitedOut(t *testing.T) {
	bubble(t, func(w *world) {
		var tries []time.Duration
		p := &script{grant: func(try int) ([]kazahana.Lease, error) {
			tries = append(tries, time.Since(w.clock.start))
			return nil, fmt.Errorf("wrapped: %w", &kazahana.ExhaustedError{
				RetryAfter: []time.Duration{20 * time.Second, time.Hour}[min(try, 2)-1]})
		}}
		w.generator(p, kazahana.Options{})
		time.Sleep(85 * time.Second)
		p.mu.Lock()
		defer p.mu.Unlock()
		if len(tries) != 3 || tries[1] < 20*time.Second || tries[1] >= 21*time.Second || tries[2]-tries[1] != time.Minute {
			t.Errorf("tries at %v", tries)
		}
	})
}

func TestClockSetBack(t *testing.T) {
	for _, c := range []struct {
		name    string
		limit   *int64
		by      time.Duration
		refused int64 // ms; 0 waits
	}{
		{"within the default", nil, -3 * time.Second, 0},
		{"beyond the default", nil, -8 * time.Second, 6900},
		{"without limit", new(int64(-1)), -time.Hour, 0},
		{"within a limit of its own", new(int64(10_000)), -8 * time.Second, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, func(w *world) {
				g := w.generator(w.table, kazahana.Options{MaxBackwardMs: c.limit})
				w.next(g)
				w.clock.step(c.by)
				w.sleepUntil(999 * time.Millisecond)
				before := w.next(g) // the wall clock is looked at each second
				if w.of(before) != 999 {
					t.Fatalf("before: %+v", before)
				}
				w.sleepUntil(1100 * time.Millisecond)
				behind := -c.by - 101*time.Millisecond
				id, err := g.NextID(w.Context())
				if c.refused > 0 {
					e, ok := errors.AsType[*kazahana.ClockBackwardError](err)
					if !ok || e.BackwardMs != behind.Milliseconds() || e.LimitMs != 5000 {
						t.Fatalf("%v", err)
					}
					if _, err := g.NextID(w.Context()); !errors.As(err, &e) || e.BackwardMs != behind.Milliseconds() {
						t.Errorf("the next call: %v", err)
					}
					// When the clock is back to within the limit, IDs go on.
					time.Sleep(behind)
					if p := w.next(g); w.of(p) != 999 {
						t.Errorf("later: %+v", p)
					}
				} else {
					// The rest of the last millisecond is still free. Then the clock is waited for.
					if p := g.Layout().Decode(id); err != nil || w.of(p) != 999 || p.Sequence != 1 {
						t.Fatalf("%+v %v", p, err)
					}
					for range 254 {
						w.next(g)
					}
					if p := w.next(g); w.of(p) != 1000 || w.at() != 1000-c.by.Milliseconds() {
						t.Errorf("%+v at %d ms", p, w.at())
					}
				}
				if st := g.Stats(); st.ClockBackward != 1 || st.LastBackward != -c.by ||
					w.told()[kazahana.EventClockBackward] != 1 {
					t.Errorf("%+v", st)
				}
			})
		})
	}
}

// With a limit of 0 each call reads the wall clock: the one after a step back fails, and none fails for the millisecond
// that a sample of the clock may be off.
func TestClockSetBackWithoutTolerance(t *testing.T) {
	bubble(t, func(w *world) {
		g := w.generator(w.table, kazahana.Options{MaxBackwardMs: new(int64(0))})
		w.sleepUntil(100 * time.Millisecond)
		w.next(g)
		w.clock.step(-time.Millisecond)
		if p := w.next(g); w.of(p) != 100 {
			t.Errorf("a millisecond behind: %+v", p)
		}
		w.clock.step(-time.Millisecond)
		for name, call := range map[string]func() error{
			"NextID": func() error {
				_, err := g.NextID(w.Context())
				return err
			}, "NextIDs": func() error { return g.NextIDs(w.Context(), make([]kazahana.ID, 2)) },
		} {
			if e, ok := errors.AsType[*kazahana.ClockBackwardError](call()); !ok || e.BackwardMs != 2 || e.LimitMs != 0 {
				t.Errorf("%s: %v", name, e)
			}
		}
		if st := g.Stats(); st.ClockBackward != 1 || st.LastBackward != 2*time.Millisecond {
			t.Errorf("%+v", st)
		}
		time.Sleep(3 * time.Millisecond)
		if p := w.next(g); w.of(p) != 101 {
			t.Errorf("when the clock has caught up: %+v", p)
		}
		if err := g.Close(w.Context()); err != nil {
			t.Fatal(err)
		}
		w.clock.step(-time.Minute)
		if _, err := g.NextID(w.Context()); !errors.Is(err, kazahana.ErrClosed) {
			t.Errorf("closed: %v", err)
		}
	})
}

func TestContextBoundsTheWaitForTheClock(t *testing.T) {
	bubble(t, func(w *world) {
		g := w.generator(nil, kazahana.Options{MaxBackwardMs: new(int64(-1)), MaxThroughputPerMs: 1})
		w.sleepUntil(time.Second)
		w.next(g)
		w.clock.step(-time.Hour)
		w.sleepUntil(2 * time.Second)
		ctx, cancel := context.WithTimeout(w.Context(), 1234*time.Millisecond)
		defer cancel()
		if _, err := g.NextID(ctx); !errors.Is(err, context.DeadlineExceeded) || w.at() != 3234 {
			t.Errorf("%v at %d ms", err, w.at())
		}
	})
}

// A jump forward may mean a copy of the process with the same leases: they are replaced, and not used any more.
func TestClockSetForward(t *testing.T) {
	bubble(t, func(w *world) {
		g := w.generator(w.table, kazahana.Options{})
		w.next(g)
		w.clock.step(2 * time.Second)
		w.sleepUntil(2 * time.Second)
		first := w.next(g)
		synctest.Wait()
		time.Sleep(time.Millisecond)
		second := w.next(g)
		if first.MachineID != 0 || w.of(first) != 4000 || second.MachineID != 1 || w.of(second) != 4001 {
			t.Errorf("%+v, then %+v", first, second)
		}
		if st := g.Stats(); st.ClockForward != 1 || st.ActiveLeases != 1 || w.told()[kazahana.EventClockForward] != 1 {
			t.Errorf("%+v", st)
		}
	})
}

// A process that slept through the end of its lease gets another one before it makes an ID.
func TestSuspendedBeyondTheLease(t *testing.T) {
	bubble(t, func(w *world) {
		w.table.now = w.clock.Wall
		w.table.latency = 30 * time.Millisecond
		g := w.generator(w.table, kazahana.Options{})
		w.next(g)
		w.clock.step(8 * time.Hour)
		w.sleepUntil(1500 * time.Millisecond)
		p := w.next(g)
		if p.Fallback || w.of(p) != (8*time.Hour).Milliseconds()+1530 || w.at() != 1530 {
			t.Errorf("%+v at %d ms", p, w.at())
		}
	})
}

func TestLeasesThatCannotBeUsed(t *testing.T) {
	for _, c := range []struct {
		name  string
		l     kazahana.Lease
		wrong string
	}{
		{"no layout", kazahana.Lease{ID: 1, Created: 0, Expired: 1}, "bitReserve"},
		{"layout too wide", lease(1, 0, 1000, func(l *kazahana.Lease) { l.BitSeq++ }), "must be 64"},
		{"machine ID negative", lease(-1, 0, 1000), "id: must be from 0 to 8191"},
		{"machine ID of fallback", lease(8192, 0, 1000), "id: must be from 0 to 8191"},
		{"empty", lease(1, 100, 100), "the interval is empty"},
		{"backward", lease(1, 100, 50), "the interval is empty"},
		{"before the epoch", lease(1, 0, 1000, func(l *kazahana.Lease) { l.Created = l.CustomEpoch - 1 }),
			"does not fit into an ID"},
		{"behind the end of time", lease(1, 0, 1000, func(l *kazahana.Lease) {
			l.Created, l.Expired = l.End().UnixMilli(), l.End().UnixMilli()+1
		}), "does not fit into an ID"},
		{"of the future", lease(1, 5001, 9000), "the local clock is behind the provider's"},
		{"of the past", lease(1, -5001, 9000), "the local clock is ahead of the provider's"},
		{"over", lease(1, -1000, 0), "it ended 0 ms ago"},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, func(w *world) {
				g := w.generator(&script{grant: func(int) ([]kazahana.Lease, error) {
					return []kazahana.Lease{c.l}, nil
				}}, kazahana.Options{DisableFallback: true})
				_, err := g.NextID(w.Context())
				if _, ok := errors.AsType[*kazahana.LeaseAcquisitionError](err); !ok || !strings.Contains(err.Error(), c.wrong) {
					t.Errorf("%v, want %q", err, c.wrong)
				}
				if st := g.Stats(); st.LeasesRejected != 1 || st.AcquireFailures != 1 ||
					w.told()[kazahana.EventLeaseRejected] != 1 {
					t.Errorf("%+v", st)
				}
				if strings.Contains(fmt.Sprint(err, w.heard()), "hush") {
					t.Error("the secret is told")
				}
			})
		})
	}
}

// Leases that do not go with those held are rejected, and released; the others stay in use.
func TestLeasesThatDoNotGoTogether(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*kazahana.Lease)
		wrong  string
		epochs uint64
	}{
		{"another epoch", func(l *kazahana.Lease) { l.CustomEpoch += 1000 }, "another epoch", 1},
		{"another width of the timestamp", func(l *kazahana.Lease) { l.BitTs, l.BitID = 42, 13 }, "bitTs", 0},
		{"another reserve", func(l *kazahana.Lease) { l.BitReserve, l.BitID = 2, 13 }, "bitReserve", 0},
		{"the same machine ID", func(l *kazahana.Lease) { l.ID = 0 }, "the same IDs", 0},
		{"a run that holds it", func(l *kazahana.Lease) { l.ID = 0; seq(9)(l) }, "the same IDs", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, func(w *world) {
				g := w.generator(w.table, kazahana.Options{MaxThroughputPerMs: 300, ServiceID: "s"})
				w.next(g) // machine IDs 0 and 1
				w.table.set(func(t *table) { t.alter = c.change })
				w.sleepUntil(571 * time.Second)
				synctest.Wait()
				st := g.Stats()
				if st.LeasesRejected == 0 || st.EpochMismatches != c.epochs*st.LeasesRejected || st.ActiveLeases != 2 {
					t.Errorf("%+v", st)
				}
				if got := w.table.released(); len(got) != int(st.LeasesRejected) || got[0].ServiceID != "s" {
					t.Errorf("%d refused, released: %+v", st.LeasesRejected, got)
				}
				found := false
				for _, e := range w.heard() {
					found = found || e.Kind == kazahana.EventLeaseRejected && strings.Contains(e.Err.Error(), c.wrong)
				}
				if !found {
					t.Errorf("no event with %q in %v", c.wrong, w.heard())
				}
				if p := w.next(g); p.Fallback || p.MachineID != 0 {
					t.Errorf("%+v", p)
				}
			})
		})
	}
}

// A response that comes twice, as from a cache in between, holds leases that are in use: they are rejected, and not
// released, for that would give others what this generator still stamps.
func TestLeaseInUseIsNotGivenBack(t *testing.T) {
	for _, c := range []struct {
		name    string
		repeats time.Duration // when the second request comes
		from    int64         // when the lease began, in milliseconds
	}{
		{"at once", time.Second, 0},
		{"long after it was granted", 570 * time.Second, 0},
		{"before it begins", time.Second, 4000},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, func(w *world) {
				need := int64(256)
				if c.repeats == time.Second {
					need = 512 // there is one lease too few, so another attempt follows
				}
				p := &replay{script: script{grant: func(int) ([]kazahana.Lease, error) {
					return []kazahana.Lease{lease(7, c.from, 600_000)}, nil
				}}}
				g := w.generator(p, kazahana.Options{MaxThroughputPerMs: need, DisableFallback: true})
				w.next(g)
				time.Sleep(c.repeats + 10*time.Second)
				if st := g.Stats(); st.LeasesRejected == 0 || st.ActiveLeases != 1 {
					t.Fatalf("%+v", st)
				}
				if got := p.released(); len(got) != 0 {
					t.Errorf("in use, and released: %+v", got)
				}
				if err := g.Close(w.Context()); err != nil {
					t.Error(err)
				}
				if got := p.released(); len(got) != 1 || got[0].ID != 7 {
					t.Errorf("closing released %+v", got)
				}
			})
		})
	}
}

// The same lease twice in one response is one lease.
func TestLeaseGrantedTwiceAtOnce(t *testing.T) {
	bubble(t, func(w *world) {
		p := &replay{script: script{grant: func(int) ([]kazahana.Lease, error) {
			return []kazahana.Lease{lease(7, 0, 600_000), lease(7, 0, 600_000)}, nil
		}}}
		g := w.generator(p, kazahana.Options{})
		w.next(g)
		synctest.Wait()
		if st := g.Stats(); st.LeasesRejected != 1 || st.ActiveLeases != 1 || len(p.released()) != 0 {
			t.Errorf("%+v, released: %+v", st, p.released())
		}
	})
}

// replay is a script that remembers what was released.
type replay struct {
	script
	back []kazahana.ReleaseOptions
}

func (r *replay) Release(_ context.Context, o kazahana.ReleaseOptions) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.back = append(r.back, o)
	return nil
}

func (r *replay) released() []kazahana.ReleaseOptions {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.back)
}

// The first lease tells the epoch, unless IDs are out that were made with another one.
func TestEpochOfTheFirstLease(t *testing.T) {
	unix := func(l *kazahana.Lease) { l.CustomEpoch, l.BitTs, l.BitID = 0, 42, 13 }
	bubble(t, func(w *world) {
		w.table.alter = unix
		g := w.generator(w.table, kazahana.Options{DisableFallback: true})
		if p := w.next(g); w.of(p) != 0 || g.Layout().CustomEpoch != 0 || g.Layout().BitTs != 42 {
			t.Errorf("%+v with %+v", p, g.Layout())
		}
	})
	bubble(t, func(w *world) {
		w.table.away, w.table.alter = true, unix
		g := w.generator(w.table, kazahana.Options{})
		first := w.next(g)
		w.table.set(func(t *table) { t.away = false })
		time.Sleep(10 * time.Second)
		second := w.next(g)
		if st := g.Stats(); !first.Fallback || !second.Fallback || st.EpochMismatches == 0 || st.ActiveLeases != 0 {
			t.Errorf("%+v, then %+v: %+v", first, second, st)
		}
	})
	// With the same widths an earlier epoch makes larger IDs than the fallback IDs before; a later one would make smaller
	// ones.
	for name, c := range map[string]struct {
		shift    int64
		accepted bool
	}{"earlier": {-1000, true}, "later": {1000, false}} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(w *world) {
				var log lockedLog
				w.table.away, w.table.alter = true, func(l *kazahana.Lease) { l.CustomEpoch += c.shift }
				g := w.generator(w.table, kazahana.Options{MaxThroughputPerMs: 300, Log: slog.New(slog.NewTextHandler(&log, nil))})
				last := kazahana.ID(-1)
				leased := 0
				for i := range 1000 {
					id, err := g.NextID(w.Context())
					if err != nil || id <= last {
						t.Fatalf("%d after %d: %v", id, last, err)
					}
					last = id
					if p := g.Layout().Decode(id); !p.Fallback {
						leased++
						if w.of(p) != w.at() {
							t.Fatalf("at %d ms: %+v", w.at(), p)
						}
					}
					if i == 100 {
						w.table.set(func(t *table) { t.away = false })
					}
					time.Sleep(10 * time.Millisecond)
				}
				st := g.Stats()
				if c.accepted && (leased == 0 || st.EpochMismatches != 1 || st.LeasesRejected != 0 || st.ActiveLeases != 2 ||
					w.told()[kazahana.EventEpochChanged] != 1 || strings.Count(log.String(), "set Options.DefaultEpoch") != 1) {
					t.Errorf("%d under leases: %+v, told %v\n%s", leased, st, w.told(), log.String())
				}
				if !c.accepted && (leased != 0 || st.EpochMismatches == 0 || st.LeasesRejected != st.EpochMismatches ||
					st.ActiveLeases != 0 ||
					!strings.Contains(log.String(), "another epoch")) {
					t.Errorf("%d under leases: %+v\n%s", leased, st, log.String())
				}
				// After IDs under a lease each other epoch is rejected.
				w.table.set(func(t *table) { t.alter = func(l *kazahana.Lease) { l.CustomEpoch -= 5000 } })
				if !c.accepted {
					return
				}
				w.sleepUntil(10 * time.Minute)
				if st := g.Stats(); st.LeasesRejected == 0 || st.EpochMismatches != st.LeasesRejected+1 {
					t.Errorf("%+v", st)
				}
			})
		})
	}
	bubble(t, func(w *world) {
		w.table.away, w.table.alter = true, unix
		g := w.generator(w.table, kazahana.Options{DefaultEpoch: time.Unix(0, 0), BitTs: 42})
		first := w.next(g)
		w.table.set(func(t *table) { t.away = false })
		time.Sleep(10 * time.Second)
		second := w.next(g)
		if !first.Fallback || second.Fallback || w.of(first) != 0 || w.of(second) != 10_000 {
			t.Errorf("%+v, then %+v", first, second)
		}
	})
}

// A lease may begin a bit later than the local clock says, if that is behind: a bit is waited for, more is bridged.
func TestLeaseThatBeginsLater(t *testing.T) {
	for _, c := range []struct {
		name   string
		strict bool
		ahead  int64
		want   []int64 // stamps of two IDs 200 ms apart
		leased []bool
	}{
		{"a bit", false, 100, []int64{100, 300}, []bool{true, true}},
		{"more", false, 150, []int64{0, 200}, []bool{false, true}},
		{"more, without fallback", true, 4000, []int64{4000, 4200}, []bool{true, true}},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, func(w *world) {
				g := w.generator(&script{grant: func(int) ([]kazahana.Lease, error) {
					return []kazahana.Lease{lease(0, c.ahead, 60_000)}, nil
				}}, kazahana.Options{DisableFallback: c.strict, MaxBackwardMs: new(int64(0))})
				for i := range c.want {
					if p := w.next(g); w.of(p) != c.want[i] || p.Fallback == c.leased[i] {
						t.Errorf("ID %d: %+v", i, p)
					}
					time.Sleep(200 * time.Millisecond)
				}
			})
		})
	}
}

// A clock that is set back behind the beginning of an unused lease is like one behind the last ID.
func TestClockBehindTheLease(t *testing.T) {
	bubble(t, func(w *world) {
		g := w.generator(w.table, kazahana.Options{})
		synctest.Wait()
		w.clock.step(-time.Minute)
		w.sleepUntil(2 * time.Second)
		_, err := g.NextID(w.Context())
		if e, ok := errors.AsType[*kazahana.ClockBackwardError](err); !ok || e.BackwardMs != 58_000 || e.LimitMs != 5000 {
			t.Errorf("%v", err)
		}
	})
}

// A lease that is nearly over when it arrives must not lead to one attempt after the other.
func TestShortLeasesMakeNoBusyLoop(t *testing.T) {
	bubble(t, func(w *world) {
		p := &script{grant: func(try int) ([]kazahana.Lease, error) {
			return []kazahana.Lease{lease(int64(try), w.at()-990, w.at()+10)}, nil
		}}
		w.generator(p, kazahana.Options{})
		time.Sleep(10 * time.Second)
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.tries < 50 || p.tries > 101 {
			t.Errorf("%d attempts within ten seconds, want about one in 100 ms", p.tries)
		}
	})
}

func TestBurstWindow(t *testing.T) {
	bubble(t, func(w *world) {
		g := w.generator(w.table, kazahana.Options{BurstWindow: 8 * time.Millisecond})
		if p := w.next(g); w.of(p) != 0 {
			t.Errorf("no ID is stamped before its lease: %+v", p)
		}
		w.sleepUntil(100 * time.Millisecond)
		for i := range int64(9 * 256) {
			if p := w.next(g); w.of(p) != 92+i/256 || w.at() != 100 {
				t.Fatalf("ID %d at %d ms: %+v", i, w.at(), p)
			}
		}
		if p := w.next(g); w.of(p) != 101 || w.at() != 101 {
			t.Errorf("the window is used up: %+v at %d ms", p, w.at())
		}
	})
}

func TestTimesThatDoNotFit(t *testing.T) {
	for _, c := range []struct {
		name string
		off  time.Duration
	}{
		{"before the epoch", time.UnixMilli(kazahana.DefaultEpoch).Sub(origin) - time.Millisecond},
		{"at the end", kazahana.DefaultLayout().End().Sub(origin)},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, func(w *world) {
				w.clock.step(c.off)
				g := w.generator(nil, kazahana.Options{})
				if _, err := g.NextID(w.Context()); !errors.Is(err, kazahana.ErrTimeRange) {
					t.Errorf("%v", err)
				}
			})
		})
	}
	bubble(t, func(w *world) {
		w.clock.step(kazahana.DefaultLayout().End().Sub(origin) - time.Millisecond)
		g := w.generator(nil, kazahana.Options{MaxThroughputPerMs: 1})
		id, err := g.NextID(w.Context())
		if err != nil || id < 0 || !g.Layout().Decode(id).Time.Equal(g.Layout().End().Add(-time.Millisecond)) {
			t.Errorf("the last millisecond: %d %v", id, err)
		}
		if _, err := g.NextID(w.Context()); !errors.Is(err, kazahana.ErrTimeRange) {
			t.Errorf("after it: %v", err)
		}
	})
}

func TestCloseGivesLeasesBack(t *testing.T) {
	bubble(t, func(w *world) {
		g := w.generator(w.table, kazahana.Options{MaxThroughputPerMs: 2560, ServiceID: "s"})
		w.next(g)
		w.sleepUntil(time.Second)
		if err := g.Close(w.Context()); err != nil {
			t.Fatal(err)
		}
		if _, err := g.NextID(w.Context()); !errors.Is(err, kazahana.ErrClosed) {
			t.Errorf("closed: %v", err)
		}
		got := w.table.released()
		slices.SortFunc(got, func(a, b kazahana.ReleaseOptions) int { return int(a.ID - b.ID) })
		if len(got) != 10 {
			t.Fatalf("%d leases were released", len(got))
		}
		for i, o := range got {
			if o.ID != int64(i) || o.ServiceID != "s" || o.Timestamp != origin.UnixMilli()+1000 ||
				w.table.units[i].notBefore != o.Timestamp+1 {
				t.Errorf("%+v leaves %+v", o, w.table.units[i])
			}
		}
		if st := g.Stats(); st.ActiveLeases != 0 || st.IDs != 1 || w.told()[kazahana.EventReleased] != 10 {
			t.Errorf("%+v", st)
		}
		if err := g.Close(w.Context()); err != nil || len(w.table.released()) != 10 {
			t.Errorf("a second time: %v", err)
		}
	})
}

// The signed time is not before the last stamp, also where the clock was set back behind it.
func TestCloseSignsTheLastStamp(t *testing.T) {
	bubble(t, func(w *world) {
		g := w.generator(w.table, kazahana.Options{})
		w.sleepUntil(5 * time.Second)
		last := w.next(g)
		w.clock.step(-3 * time.Second)
		w.sleepUntil(6500 * time.Millisecond)
		w.next(g)
		if err := g.Close(w.Context()); err != nil {
			t.Fatal(err)
		}
		if got := w.table.released(); len(got) != 1 || got[0].Timestamp != last.Time.UnixMilli() {
			t.Errorf("signed %+v, last stamp %d", got, last.Time.UnixMilli())
		}
	})
}

// A lease that has not begun by the local clock may have followed another one in its last millisecond. Releasing it
// unused must not let a third one begin before it.
func TestCloseDoesNotReachBackBehindTheLease(t *testing.T) {
	bubble(t, func(w *world) {
		w.table.units = w.table.units[:1]
		first := w.generator(w.table, kazahana.Options{})
		w.clock.step(3 * time.Second)
		w.sleepUntil(1500 * time.Millisecond)
		last := w.next(first)
		if err := first.Close(w.Context()); err != nil {
			t.Fatal(err)
		}
		w.clock.step(-3 * time.Second)
		second := w.generator(w.table, kazahana.Options{DisableFallback: true})
		synctest.Wait()
		if err := second.Close(w.Context()); err != nil {
			t.Fatal(err)
		}
		third := w.generator(w.table, kazahana.Options{DisableFallback: true})
		if p := w.next(third); p.Time.Compare(last.Time) <= 0 {
			t.Errorf("%+v, then %+v", last, p)
		}
	})
}

func TestCloseIsBounded(t *testing.T) {
	bubble(t, func(w *world) {
		g := w.generator(w.table, kazahana.Options{})
		w.next(g)
		w.table.set(func(t *table) { t.latency = time.Hour })
		ctx, cancel := context.WithTimeout(w.Context(), 2*time.Second)
		defer cancel()
		err := g.Close(ctx)
		if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "release machine ID 0") ||
			w.at() != 2000 {
			t.Errorf("%v at %d ms", err, w.at())
		}
		if w.told()[kazahana.EventReleaseFailed] != 1 {
			t.Errorf("told %v", w.told())
		}
	})
}

// deaf is a provider that answers in its own time, whatever the context says.
type deaf struct{ *table }

func (d deaf) Acquire(_ context.Context, o kazahana.AcquireOptions) (kazahana.AcquireResponse, error) {
	return d.table.Acquire(context.Background(), o)
}

// Leases that arrive while the generator is closed are released, too, and callers that wait for them learn that it is
// closed.
func TestCloseDuringAnAcquire(t *testing.T) {
	bubble(t, func(w *world) {
		w.table.latency = time.Second
		g := w.generator(deaf{w.table}, kazahana.Options{})
		waiting := make(chan error)
		go func() {
			_, err := g.NextID(w.Context())
			waiting <- err
		}()
		time.Sleep(500 * time.Millisecond)
		closing := make(chan error)
		go func() { closing <- g.Close(w.Context()) }()
		if err := <-waiting; !errors.Is(err, kazahana.ErrClosed) {
			t.Errorf("the waiting call: %v", err)
		}
		if err := <-closing; err != nil || len(w.table.released()) != 1 || w.at() != 2000 {
			t.Errorf("%v at %d ms, %d released", err, w.at(), len(w.table.released()))
		}
	})
	bubble(t, func(w *world) {
		w.table.latency = 3 * time.Second
		g := w.generator(deaf{w.table}, kazahana.Options{})
		ctx, cancel := context.WithTimeout(w.Context(), time.Second)
		defer cancel()
		synctest.Wait()
		if err := g.Close(ctx); !errors.Is(err, context.DeadlineExceeded) || w.at() != 1000 {
			t.Errorf("%v at %d ms", err, w.at())
		}
		time.Sleep(10 * time.Second) // the goroutine of the attempt ends by itself
	})
}

func TestProviderWithoutLeases(t *testing.T) {
	bubble(t, func(w *world) {
		g := w.generator(&script{grant: func(int) ([]kazahana.Lease, error) { return nil, nil }},
			kazahana.Options{DisableFallback: true})
		if _, err := g.NextID(w.Context()); err == nil || !strings.Contains(err.Error(), "granted no lease") {
			t.Errorf("%v", err)
		}
	})
}

func TestSecretsStayOut(t *testing.T) {
	r := kazahana.AcquireResponse{Leases: []kazahana.Lease{lease(7, 0, 1000)}}
	for _, format := range []string{"%v", "%+v", "%#v", "%s"} {
		if s := fmt.Sprintf(format, r); strings.Contains(s, "hush") || !strings.Contains(s, "machine ID 7") {
			t.Errorf("%s: %s", format, s)
		}
	}
	if s := lease(7, 0, 1).LogValue().String(); strings.Contains(s, "hush") {
		t.Error(s)
	}
}
