package rates_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"regexp"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/rates"
)

// counting is a store that counts writes, and can be away, slow, or hold up a write.
type counting struct {
	docstore.Store

	writes atomic.Int64
	others atomic.Int64 // Get and List
	away   atomic.Bool
	takes  time.Duration
}

func newStore() *counting { return &counting{Store: docstore.NewMemory(nil)} }

func (s *counting) Write(ctx context.Context, w ...docstore.Write) (docstore.Result, error) {
	s.writes.Add(1)
	time.Sleep(s.takes)
	if s.away.Load() {
		return docstore.Result{}, docstore.ErrUnavailable
	}
	return s.Store.Write(ctx, w...)
}

func (s *counting) Get(ctx context.Context, keys ...docstore.Key) (docstore.Snapshot, error) {
	s.others.Add(1)
	return s.Store.Get(ctx, keys...)
}

func (s *counting) List(ctx context.Context, q docstore.Query) (docstore.Page, error) {
	s.others.Add(1)
	return s.Store.List(ctx, q)
}

// fleet is processes on one store, which is not away.
func fleet(t *testing.T, store docstore.Store, n int, rate float64) []*rates.Rates {
	all := make([]*rates.Rates, n)
	for i := range all {
		all[i] = rates.New(store, rate, time.Now, func(_ context.Context, err error) error {
			t.Errorf("away: %v", err)
			return nil
		})
	}
	return all
}

// load sends requests of a tenant, or of a subject in it, perSecond of them to all processes in turn, for a time of the
// bubble, and returns how many were accepted. Each is sent by itself, so that a process that waits for the store keeps
// none back.
func load(t *testing.T, all []*rates.Rates, tenant, of string, perSecond int, lasts time.Duration) int64 {
	t.Helper()
	var accepted atomic.Int64
	var under sync.WaitGroup
	every, from := time.Second/time.Duration(perSecond), rand.N(len(all))
	for i := range int(lasts / every) {
		under.Go(func() {
			begin := time.Now()
			wait, err := all[(from+i)%len(all)].Take(t.Context(), tenant, of)
			if took := time.Since(begin); took > 5*time.Second {
				t.Errorf("a request waited for %v", took)
			}
			if err != nil {
				t.Error(err)
			}
			if wait == 0 && err == nil {
				accepted.Add(1)
			}
		})
		time.Sleep(every)
	}
	under.Wait()
	return accepted.Load()
}

// TestSumOfAllProcesses (LIM-RATE-1): a caller that asks for twice its rate, or ten times, gets it within a fifth over
// ten seconds, however many processes there are, and however long the store takes. From the beginning it gets two
// seconds' worth more at the most. docs/reference/limits.md has what is measured here, rounded.
func TestSumOfAllProcesses(t *testing.T) {
	t.Parallel()
	documented, err := os.ReadFile("../../docs/reference/limits.md")
	if err != nil {
		t.Fatal(err)
	}
	// By the number of processes: how much of its rate a caller gets, and how many writes that takes.
	type row struct{ least, most, writes float64 }
	table := map[int]row{}
	rows := regexp.MustCompile(`\| (\d+) \| ([\d.]+) to ([\d.]+) \| (\d+) \|`)
	for _, m := range rows.FindAllStringSubmatch(string(documented), -1) {
		var n [4]float64
		for i := range n {
			if n[i], err = strconv.ParseFloat(m[i+1], 64); err != nil {
				t.Fatal(err)
			}
		}
		table[int(n[0])] = row{n[1], n[2], n[3]}
	}
	for _, takes := range []time.Duration{0, 150 * time.Millisecond} {
		for _, n := range []int{1, 8, 64} {
			for _, rate := range []int{1, 10, 100} {
				for _, times := range []int{2, 10} {
					of := map[int]string{2: "tenant", 10: "subject/ann"}[times]
					name := fmt.Sprintf("%d processes, a %s has %d a second and asks for %d times as much, a write takes %v", n, of, rate,
						times, takes)
					synctest.Test(t, func(t *testing.T) {
						store := newStore()
						store.takes = takes
						all := fleet(t, store, n, float64(rate))
						const settles, part = 20, 10
						parts := 1
						if rate == 1 {
							parts = 6 // of ten requests one is a tenth
						}
						lasts := parts * part
						first := load(t, all, "acme", of, times*rate, settles*time.Second)
						if most := int64(rate * (settles + 3)); first > most { // a second for requests that wait for the store
							t.Errorf("%s: %d in the first %d s, %d at most", name, first, settles, most)
						}
						store.writes.Store(0)
						got := int64(0)
						for range parts {
							n := load(t, all, "acme", of, times*rate, part*time.Second)
							if got += n; 5*n < 4*part*int64(rate) || 5*n > 6*part*int64(rate) {
								t.Errorf("%s: %d in %d s", name, n, part)
							}
						}
						share, writes, says := float64(got)/float64(lasts*rate), float64(store.writes.Load())/float64(lasts), table[n]
						share = math.Round(share*100) / 100 // as exactly as the page has it
						if share < says.least || share > says.most || writes > says.writes {
							t.Errorf("%s: %.2f of the rate, %.1f writes a second; docs/reference/limits.md has %+v", name, share, writes, says)
						}
						if says.least < 0.8 || says.most > 1.2 || says.writes > float64(4*n) {
							t.Errorf("docs/reference/limits.md promises %+v for %d processes", says, n)
						}
						t.Logf("%s: %.2f of the rate, %.1f writes a second", name, share, writes)
					})
				}
			}
		}
	}
}

// TestADocumentThatTakesFewWrites: where the writes of a document wait for each other, as they do on Firestore, so that
// takes run into their time limit, the sum of all processes stays near the rate. A process that went on by itself
// would have the whole rate.
func TestADocumentThatTakesFewWrites(t *testing.T) {
	t.Parallel()
	for _, takes := range []time.Duration{500 * time.Millisecond, time.Second} {
		for _, n := range []int{8, 64} {
			synctest.Test(t, func(t *testing.T) {
				const rate, settles, lasts = 10, 20, 40
				s := &oneByOne{Store: docstore.NewMemory(nil), takes: takes, turn: make(chan struct{}, 1)}
				all := make([]*rates.Rates, n)
				for i := range all {
					all[i] = rates.New(s, rate, time.Now, func(context.Context, error) error { return nil })
				}
				load(t, all, "acme", "tenant", 10*rate, settles*time.Second)
				got := float64(load(t, all, "acme", "tenant", 10*rate, lasts*time.Second)) / (lasts * rate)
				if got < 0.5 || got > 1.2 {
					t.Errorf("a write takes %v, %d processes: %.2f of the rate", takes, n, got)
				}
				t.Logf("a write takes %v, %d processes: %.2f of the rate", takes, n, got)
			})
		}
	}
}

// TestASlowStore: where all writes take so long that few takes come in time, and no one has what is free, a caller at
// half of its rate is not refused for that: it is held to the rate in each process.
func TestASlowStore(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		takes     time.Duration
		processes int
	}{{time.Second, 1}, {1900 * time.Millisecond, 1}, {1900 * time.Millisecond, 4}, {2500 * time.Millisecond, 1},
		{2500 * time.Millisecond, 4}} {
		synctest.Test(t, func(t *testing.T) {
			const rate, lasts = 10, 60
			s := newStore()
			s.takes = c.takes
			all := make([]*rates.Rates, c.processes)
			for i := range all {
				all[i] = rates.New(s, rate, time.Now, func(context.Context, error) error { return nil })
			}
			if got := load(t, all, "acme", "tenant", rate/2, lasts*time.Second); got < rate/2*lasts*9/10 {
				t.Errorf("a write takes %v, %d processes: %d of %d accepted", c.takes, c.processes, got, rate/2*lasts)
			}
		})
	}
}

// TestABlackHole: while a store that was fast does not respond, and afterwards, a caller far below its rate is not
// refused: it is held to the rate in the process, or gets the error of the store.
func TestABlackHole(t *testing.T) {
	for _, failed := range []error{nil, docstore.ErrUnavailable} {
		synctest.Test(t, func(t *testing.T) {
			s := &hanging{Store: docstore.NewMemory(nil)}
			r := rates.New(s, 100, time.Now, func(context.Context, error) error { return failed })
			ask := func(lasts time.Duration) (errs int) {
				for begin := time.Now(); time.Since(begin) < lasts; time.Sleep(200 * time.Millisecond) {
					switch wait, err := r.Take(t.Context(), "acme", "tenant"); {
					case err != nil:
						errs++
					case wait > 0:
						t.Errorf("refused for %v", wait)
					}
				}
				return errs
			}
			ask(3 * time.Second)
			s.hangs.Store(true)
			if errs := ask(10 * time.Second); (errs > 0) != (failed != nil) {
				t.Errorf("%d errors, where the store's are to be %v", errs, failed)
			}
			s.hangs.Store(false)
			time.Sleep(2 * time.Second)
			if errs := ask(30 * time.Second); errs > 0 {
				t.Errorf("%d errors afterwards", errs)
			}
		})
	}
}

// hanging is a store that does not respond while it hangs.
type hanging struct {
	docstore.Store

	hangs atomic.Bool
	takes atomic.Int64 // how long the next write takes
}

func (s *hanging) Write(ctx context.Context, w ...docstore.Write) (docstore.Result, error) {
	if s.hangs.Load() {
		<-ctx.Done()
		return docstore.Result{}, ctx.Err()
	}
	time.Sleep(time.Duration(s.takes.Swap(0)))
	return s.Store.Write(ctx, w...)
}

func (s *hanging) Get(ctx context.Context, keys ...docstore.Key) (docstore.Snapshot, error) {
	if s.hangs.Load() {
		<-ctx.Done()
		return docstore.Snapshot{}, ctx.Err()
	}
	return s.Store.Get(ctx, keys...)
}

// TestOneSlowWrite: after one write that took long, beside another process that took the rate and went, a caller is
// refused for a few seconds and not for ten times as long as the write took.
func TestOneSlowWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &hanging{Store: docstore.NewMemory(nil)}
		here, there := fleet(t, s, 1, 10), fleet(t, s.Store, 1, 10)
		load(t, here, "acme", "tenant", 1, time.Second)
		time.Sleep(15 * time.Second)
		s.takes.Store(int64(1900 * time.Millisecond))
		go func() {
			time.Sleep(1850 * time.Millisecond)
			load(t, there, "acme", "tenant", 1000, 60*time.Millisecond)
		}()
		load(t, here, "acme", "tenant", 1000, 60*time.Millisecond)
		time.Sleep(3 * time.Second)
		if got := load(t, here, "acme", "tenant", 5, 10*time.Second); got != 50 {
			t.Errorf("%d of 50 requests at half of the rate", got)
		}
	})
}

// oneByOne is a store that carries out one write at a time, each of which takes so long. One that is refused is a read.
type oneByOne struct {
	docstore.Store

	takes time.Duration
	turn  chan struct{}
}

func (s *oneByOne) Write(ctx context.Context, w ...docstore.Write) (docstore.Result, error) {
	select {
	case s.turn <- struct{}{}:
	case <-ctx.Done():
		return docstore.Result{}, docstore.ErrUnavailable
	}
	defer func() { <-s.turn }()
	r, err := s.Store.Write(ctx, w...)
	if r.Applied {
		time.Sleep(s.takes)
	}
	return r, err
}

// TestFewWritesBelowTheRate (LIM-RATE-2): a slice is ten requests, or what a process needs for a second, and the first
// one of a process is a write more. What is not there is written for no one.
func TestFewWritesBelowTheRate(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		processes, perSecond int
		lasts                time.Duration
		writes               int64
	}{
		{1, 1, 100 * time.Second, 1 + 10},      // ten requests in a slice, which lasts 10 s
		{1, 10, 10 * time.Second, 1 + 10},      // a second and ten requests are the same
		{1, 100, 10 * time.Second, 1 + 2 + 10}, // 10 and 44 until it is known how many come, then a second's worth
		{8, 8, 10 * time.Second, 8 + 8},        // one slice of each
		{64, 32, 20 * time.Second, 64 + 128},   // a request every two seconds: a slice ends after five, and ten seconds
	} {
		synctest.Test(t, func(t *testing.T) {
			store := newStore()
			all := fleet(t, store, c.processes, 1000)
			n := load(t, all, "acme", "tenant", c.perSecond, c.lasts)
			if want := int64(c.perSecond) * int64(c.lasts/time.Second); n != want {
				t.Errorf("%d processes, %d a second: %d of %d accepted", c.processes, c.perSecond, n, want)
			}
			if got := store.writes.Load(); got != c.writes || store.others.Load() != 0 {
				t.Errorf("%d processes, %d a second: %d writes and %d others for %d requests, want %d", c.processes,
					c.perSecond, got, store.others.Load(), n, c.writes)
			}
		})
	}
	store := newStore()
	none := rates.New(store, 0, time.Now, nil)
	if wait, err := none.Take(t.Context(), "acme", "tenant"); none != nil || wait != 0 || err != nil {
		t.Errorf("without a rate: %v %v", wait, err)
	}
	none.Charge("acme", "tenant", 100)
	if n := store.writes.Load(); n != 0 {
		t.Errorf("without a rate: %d writes", n)
	}
}

// TestGreedyAndQuiet: a caller that asks for fifty times its rate costs another one nothing: none of its requests is
// refused, and as many writes are made for it as without the other.
func TestGreedyAndQuiet(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := newStore()
		all := fleet(t, store, 8, 20)
		var greedy sync.WaitGroup
		greedy.Go(func() { load(t, all, "greedy", "tenant", 1000, 20*time.Second) })
		if n := load(t, all, "quiet", "tenant", 10, 20*time.Second); n != 200 {
			t.Errorf("%d of 200 requests of the quiet caller were accepted", n)
		}
		greedy.Wait()
	})
}

// TestFrozen (LIM-RATE-1): a process that was frozen with a slice in hand does not come back with it, by whichever of
// its clocks. What it had in hand is all that is lost.
func TestFrozen(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := newStore()
		all := fleet(t, store, 2, 10)
		if wait, err := all[0].Take(t.Context(), "acme", "tenant"); wait != 0 || err != nil { // nine are left in hand
			t.Fatal(wait, err)
		}
		if n := takeAll(t, all[1]); n != 10 {
			t.Errorf("beside a slice of ten, another process had %d of 20", n)
		}
		time.Sleep(10*time.Second - time.Millisecond) // the slice is there to its end
		writes := store.writes.Load()
		if wait, err := all[0].Take(t.Context(), "acme", "tenant"); wait != 0 || err != nil || store.writes.Load() != writes {
			t.Errorf("before the end of the slice: %v %v, %d writes", wait, err, store.writes.Load()-writes)
		}
		if n := takeAll(t, all[1]); n != 20 {
			t.Errorf("%d at once after ten seconds", n)
		}
		time.Sleep(time.Millisecond)
		if wait, err := all[0].Take(t.Context(), "acme", "tenant"); wait == 0 || err != nil {
			t.Errorf("a slice that has ended was used: %v", err)
		}
	})
	synctest.Test(t, func(t *testing.T) { // the monotonic clock stood still, and the wall clock knows
		store := newStore()
		wall := time.Now().Round(0)
		r := rates.New(store, 10, func() time.Time { return wall }, nil)
		for _, later := range []time.Duration{0, 20 * time.Second} {
			wall = wall.Add(later)
			store.writes.Store(0)
			if wait, err := r.Take(t.Context(), "acme", "tenant"); wait != 0 || err != nil || store.writes.Load() == 0 {
				t.Errorf("after %v: %v %v, %d writes", later, wait, err, store.writes.Load())
			}
		}
	})
}

// takeAll takes requests until there is none, and returns how many.
func takeAll(t *testing.T, r *rates.Rates) (n int) {
	t.Helper()
	for {
		switch wait, err := r.Take(t.Context(), "acme", "tenant"); {
		case err != nil:
			t.Fatal(err)
		case wait > 0:
			return n
		}
		n++
	}
}

// TestManyAtOnce (LIM-RATE-2): callers that come at one moment share the writes, and get what may come at once.
func TestManyAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := newStore()
		store.takes = 5 * time.Millisecond
		r := fleet(t, store, 1, 100)[0]
		var accepted atomic.Int64
		var all sync.WaitGroup
		for range 1000 {
			all.Go(func() {
				if wait, err := r.Take(t.Context(), "acme", "tenant"); err != nil {
					t.Error(err)
				} else if wait == 0 {
					accepted.Add(1)
				}
			})
		}
		all.Wait()
		if n, writes := accepted.Load(), store.writes.Load(); n < 200 || n > 202 || writes > 8 {
			t.Errorf("%d of 200 accepted, by %d writes", n, writes)
		}
	})
	synctest.Test(t, func(t *testing.T) { // one that gives up takes no other with it
		store := newStore()
		store.takes = 100 * time.Millisecond
		r := fleet(t, store, 1, 100)[0]
		ctx, cancel := context.WithCancel(t.Context())
		var all sync.WaitGroup
		all.Go(func() {
			if _, err := r.Take(ctx, "acme", "tenant"); err != context.Canceled { //nolint:errorlint // as it is
				t.Error(err)
			}
		})
		synctest.Wait()
		all.Go(func() {
			if wait, err := r.Take(t.Context(), "acme", "tenant"); wait != 0 || err != nil {
				t.Error(wait, err)
			}
		})
		synctest.Wait()
		cancel()
		all.Wait()
		time.Sleep(time.Second)
	})
}

// TestStoreAway (LIM-RATE-3): while the store is away, each process holds callers to the rate by itself, and asks once
// a second. Or the error is that of their requests. Then it is as before.
func TestStoreAway(t *testing.T) {
	t.Parallel()
	for _, refuse := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			store, told := newStore(), 0
			store.away.Store(true)
			r := rates.New(store, 10, time.Now, func(_ context.Context, err error) error {
				told++
				if refuse {
					return err
				}
				return nil
			})
			accepted, failed := 0, 0
			for range 1000 { // 100 a second
				wait, err := r.Take(t.Context(), "acme", "tenant")
				if errors.Is(err, docstore.ErrUnavailable) {
					failed++
				} else if wait == 0 {
					accepted++
				}
				time.Sleep(10 * time.Millisecond)
			}
			r.Charge("acme", "tenant", 3)
			want := 120 - 1 // ten seconds, and two more that may come at once; at the end less than one is left
			if refuse {
				want = 0
			}
			if accepted < want || accepted > want+1 || refuse != (failed == 1000) || told != 10 ||
				store.writes.Load() != 10 {
				t.Errorf("refuse %v: %d accepted, %d failed, told %d times, %d writes", refuse, accepted, failed, told,
					store.writes.Load())
			}
			store.away.Store(false)
			time.Sleep(time.Second)
			if n := takeAll(t, r); n != 20 {
				t.Errorf("refuse %v: %d of 20 when the store is there again", refuse, n)
			}
		})
	}
	// A name that no store takes is held to the rate in the process: what is asked for with it is refused later.
	r := fleet(t, newStore(), 1, 10)[0]
	n := 0
	for range 100 {
		if wait, err := r.Take(t.Context(), "a\x00b", "tenant"); err == nil && wait == 0 {
			n++
		}
	}
	if n < 20 || n > 30 {
		t.Errorf("%d requests of a name that no store takes", n)
	}
}

// TestCharge: what was carried out beyond the slice in hand is paid for before the next request.
func TestCharge(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := fleet(t, newStore(), 1, 10)[0]
		if wait, err := r.Take(t.Context(), "acme", "tenant"); wait != 0 || err != nil {
			t.Fatal(wait, err)
		}
		r.Charge("acme", "tenant", 11)
		r.Charge("acme", "tenant", 1)
		if n := takeAll(t, r); n != 20-13 {
			t.Errorf("%d are left of 20 after 13", n)
		}
		r.Charge("acme", "tenant", 1000) // as much as may come at once, and no more
		time.Sleep(2500 * time.Millisecond)
		if n := takeAll(t, r); n != 0 {
			t.Errorf("%d of 25 after 20 that are owed, of which 20 could be had", n)
		}
		time.Sleep(4 * time.Second)
		if n := takeAll(t, r); n != 20 {
			t.Errorf("%d of 20 when all is paid", n)
		}
	})
}

// TestChargeIsBounded: whatever is charged, and however often, no more is taken than may come at once: with a slice in
// hand, beside what is owed already, and while the store is away.
func TestChargeIsBounded(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		charges []int
		away    bool
		waits   time.Duration // after the charges
		want    int           // requests then, of the 20 that may come at once
	}{
		"less than is in hand":      {[]int{4}, false, time.Minute, 20},
		"all that may come at once": {[]int{20}, false, time.Minute, 20 - 11}, // 9 of a slice of 10 were in hand
		"more":                      {[]int{1000}, false, time.Minute, 20 - 11},
		"again and again":           {[]int{15, 15, 15}, false, time.Minute, 0},
		"more, and away":            {[]int{1000}, true, time.Second, 9}, // one beyond all
		"less, and away":            {[]int{10}, true, 0, 9},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := newStore()
				r := rates.New(store, 10, time.Now, func(context.Context, error) error { return nil })
				store.away.Store(c.away)
				if wait, err := r.Take(t.Context(), "acme", "tenant"); wait != 0 || err != nil {
					t.Fatal(wait, err)
				}
				for _, n := range c.charges {
					r.Charge("acme", "tenant", n)
				}
				time.Sleep(c.waits)
				if n := takeAll(t, r); n != c.want {
					t.Errorf("%d requests, want %d", n, c.want)
				}
				time.Sleep(time.Minute)
				if n := takeAll(t, r); n != 20 {
					t.Errorf("%d requests when all is paid, want 20", n)
				}
			})
		})
	}
}

// TestATakeLeavesHalf: a process that was asked for much more than the rate takes half of what may come at once for its
// next request. The rest is there for other processes.
func TestATakeLeavesHalf(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		all := fleet(t, newStore(), 2, 10)
		if n := takeAll(t, all[0]); n != 20 {
			t.Fatalf("%d of 20", n)
		}
		for range 200 {
			if wait, err := all[0].Take(t.Context(), "acme", "tenant"); wait <= 0 || err != nil {
				t.Fatal(wait, err)
			}
		}
		time.Sleep(3 * time.Second) // all 20 can be had again
		if wait, err := all[0].Take(t.Context(), "acme", "tenant"); wait != 0 || err != nil {
			t.Fatal(wait, err)
		}
		if n := takeAll(t, all[1]); n != 10 {
			t.Errorf("another process has %d requests, want 10", n)
		}
		if n := takeAll(t, all[0]); n != 10-1 {
			t.Errorf("the first one has %d more, want 9", n)
		}
	})
}

// TestForgetsIdleCallers: when there are as many callers as are remembered, those that have nothing and owe nothing are
// forgotten, and the others keep what they have.
func TestForgetsIdleCallers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := fleet(t, newStore(), 1, 1)[0]
		for i := range rates.MaxShares - 1 {
			if wait, err := r.Take(t.Context(), fmt.Sprint("idle", i), "tenant"); wait != 0 || err != nil {
				t.Fatal(wait, err)
			}
		}
		time.Sleep(time.Hour)
		if n := takeAll(t, r); n != 2 {
			t.Errorf("%d at once", n)
		}
		if n := r.Remembered(); n != rates.MaxShares {
			t.Fatalf("%d callers are remembered", n)
		}
		if wait, err := r.Take(t.Context(), "one more", "tenant"); wait != 0 || err != nil {
			t.Fatal(wait, err)
		}
		if n := r.Remembered(); n != 2 {
			t.Errorf("%d callers are remembered, want those of the two that are not idle", n)
		}
		if wait, err := r.Take(t.Context(), "acme", "tenant"); wait <= 0 || err != nil {
			t.Errorf("the one that had all it may at once: %v %v", wait, err)
		}
	})
}

// TestForgetsNoOneWhoHasSomething: a caller is not idle that owes requests, has some in hand, waits for the store, or
// has lately been held to its rate without one.
func TestForgetsNoOneWhoHasSomething(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := newStore()
		r := rates.New(store, 10, time.Now, func(context.Context, error) error { return nil })
		take := func(tenant string) {
			if wait, err := r.Take(t.Context(), tenant, "tenant"); wait != 0 || err != nil {
				t.Error(tenant, wait, err)
			}
		}
		for i := range rates.MaxShares - 4 {
			take(fmt.Sprint("idle", i))
		}
		time.Sleep(time.Hour)
		r.Charge("owes", "tenant", 15)
		take("in hand")
		store.away.Store(true)
		for range 15 {
			take("without a store")
		}
		time.Sleep(1100 * time.Millisecond) // it may ask again, and has 16 of 20
		store.takes = time.Second
		var waits sync.WaitGroup
		waits.Go(func() { take("waits") })
		synctest.Wait()
		if n := r.Remembered(); n != rates.MaxShares {
			t.Fatalf("%d callers are remembered", n)
		}
		waits.Go(func() { take("one more") })
		synctest.Wait() // both wait: who was forgotten would be there again when the store has answered
		if n := r.Remembered(); n != 5 {
			t.Errorf("%d callers are remembered, want the five that are not idle", n)
		}
		waits.Wait()
	})
}
