package kazahana_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leasehold-dev/leasehold/client"
	"github.com/leasehold-dev/leasehold/kazahana"
)

// lockedLog is a log that one goroutine writes and another reads.
type lockedLog struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *lockedLog) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *lockedLog) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// spend makes n IDs, which must rise.
func (w *world) spend(g *kazahana.Generator, n int) []kazahana.ID {
	w.Helper()
	ids := make([]kazahana.ID, n)
	if err := g.NextIDs(w.Context(), ids); err != nil {
		w.Fatal(err)
	}
	for i := 1; i < n; i++ {
		if ids[i] <= ids[i-1] {
			w.Fatalf("%d after %d", ids[i], ids[i-1])
		}
	}
	return ids
}

// An outage that outlasts the lease: fallback IDs have its machine ID, and a sequence that begins at a random number in
// each millisecond. The lease is kept for that until another one takes its place.
func TestFallbackUnderTheCachedMachineID(t *testing.T) {
	bubble(t, func(w *world) {
		w.table.units = w.table.units[:4]
		for range 3 {
			w.next(w.generator(w.table, kazahana.Options{})) // machine IDs 0 to 2
		}
		g := w.generator(w.table, kazahana.Options{})
		w.next(g)
		w.table.set(func(t *table) { t.away = true })
		w.sleepUntil(time.Hour)
		starts := map[int64]bool{}
		for range 200 {
			p, next := w.next(g), w.next(g)
			if !p.Fallback || p.MachineID != 3 || w.at()-w.of(p) > 4 || w.of(next) == w.of(p) && next.Sequence != p.Sequence+1 {
				t.Fatalf("at %d ms: %+v, then %+v", w.at(), p, next)
			}
			starts[p.Sequence] = true
			time.Sleep(2 * time.Millisecond)
		}
		if len(starts) < 100 || len(starts) > 170 { // 139 on average, deviation 5
			t.Errorf("%d different beginnings of 200 drawn from 256", len(starts))
		}
		if st := g.Stats(); st.ActiveLeases != 0 || st.FallbackIDs != 400 || !st.Fallback {
			t.Errorf("%+v", st)
		}
		// What is left of a millisecond after its beginning: half of the sequence on average.
		begin := w.at()
		w.spend(g, 12_800)
		if took := w.at() - begin; took < 80 || took > 125 {
			t.Errorf("12800 IDs took %d ms, want about 100", took)
		}
		w.table.set(func(t *table) { t.away = false })
		time.Sleep(time.Minute)
		if p := w.next(g); p.Fallback {
			t.Errorf("after the outage: %+v", p)
		}
	})
}

// With several leases all of their machine IDs are used, in their order.
func TestFallbackUnderSeveralCachedMachineIDs(t *testing.T) {
	bubble(t, func(w *world) {
		g := w.generator(&script{grant: func(try int) ([]kazahana.Lease, error) {
			if try > 1 {
				return nil, errOutage
			}
			return []kazahana.Lease{lease(9, 0, 1000), lease(3, 0, 1000, seq(9)), lease(40, 0, 1000, seq(6))}, nil
		}}, kazahana.Options{MaxThroughputPerMs: 800})
		w.next(g)
		w.sleepUntil(2 * time.Second)
		layout := g.Layout()
		seen := map[int64]int{}
		for range 1000 {
			for _, id := range w.spend(g, 200) {
				p := layout.Decode(id)
				node := p.Node - 1<<21
				if !p.Fallback || node < 1536 || node >= 2048 && node < 2304 || node >= 2624 {
					t.Fatalf("%+v", p)
				}
				seen[node]++
			}
		}
		if len(seen) < 800 { // of 832; the first ones are rare
			t.Errorf("%d different numbers", len(seen))
		}
	})
}

// Two processes that were cut off together have machine IDs of their own: no IDs of theirs are equal. Two with one
// cached machine ID, as where one was cut off earlier, begin at different numbers.
func TestFallbackOfSeveralProcesses(t *testing.T) {
	bubble(t, func(w *world) {
		w.table.units = w.table.units[:2]
		first, second := w.generator(w.table, kazahana.Options{}), w.generator(w.table, kazahana.Options{})
		w.next(first)
		w.next(second)
		w.table.set(func(t *table) { t.away = true })
		w.sleepUntil(time.Hour)
		seen := map[kazahana.ID]bool{}
		for range 100 {
			for _, id := range slices.Concat(w.spend(first, 100), w.spend(second, 100)) {
				if seen[id] {
					t.Fatalf("%d is made twice", id)
				}
				seen[id] = true
			}
		}
	})
	bubble(t, func(w *world) {
		var both [2]*kazahana.Generator
		for i := range both {
			both[i] = w.generator(&script{grant: func(try int) ([]kazahana.Lease, error) {
				if try > 1 {
					return nil, errOutage
				}
				return []kazahana.Lease{lease(7, 0, 1000)}, nil
			}}, kazahana.Options{})
			w.next(both[i])
		}
		w.sleepUntil(2 * time.Second)
		equal := 0
		for range 2000 {
			a, b := w.next(both[0]), w.next(both[1])
			if a.Time.Equal(b.Time) && a.Node == b.Node {
				equal++
			}
			time.Sleep(2 * time.Millisecond)
		}
		if equal > 40 { // 8 on average, deviation 3
			t.Errorf("%d of 2000 pairs are equal, want 1 of 256", equal)
		}
	})
}

// A lease that may be shared with a copy of the process is not used for fallback IDs.
func TestFallbackOfAProcessThatMayBeACopy(t *testing.T) {
	bubble(t, func(w *world) {
		g := w.generator(w.table, kazahana.Options{})
		w.next(g)
		w.table.set(func(t *table) { t.away = true })
		w.clock.step(time.Hour)
		w.sleepUntil(2 * time.Second)
		other := 0
		for range 50 {
			p := w.next(g)
			if !p.Fallback {
				t.Fatalf("%+v", p)
			}
			if p.MachineID != 0 {
				other++
			}
			time.Sleep(time.Millisecond)
		}
		if other < 45 { // each is in 8191 of 8192
			t.Errorf("%d of 50 fallback IDs have another machine ID than the lease", other)
		}
	})
}

// While the next lease has not begun, the one that was replaced is still the cached one.
func TestFallbackBeforeTheNextLeaseBegins(t *testing.T) {
	bubble(t, func(w *world) {
		g := w.generator(&script{grant: func(try int) ([]kazahana.Lease, error) {
			switch {
			case try == 1:
				return []kazahana.Lease{lease(7, 0, 1000)}, nil
			case w.at() < 5000:
				return nil, errOutage
			default:
				return []kazahana.Lease{lease(9, w.at()+3000, w.at()+60_000)}, nil
			}
		}}, kazahana.Options{AcquireRetryInterval: 100 * time.Millisecond, AcquireRetryMaxInterval: 100 * time.Millisecond})
		w.next(g)
		for at := time.Second; at < 10*time.Second; at += 100 * time.Millisecond {
			w.sleepUntil(at)
			if p := w.next(g); p.Fallback && p.MachineID != 7 || !p.Fallback && p.MachineID != 9 {
				t.Fatalf("at %d ms: %+v", w.at(), p)
			}
		}
		if g.Stats().Fallback {
			t.Error("the next lease did not begin")
		}
	})
}

// of is a client of a server that sends something else than leases.
func of(t *testing.T, h http.HandlerFunc) kazahana.LeaseProvider {
	t.Helper()
	c, err := client.New("https://id.example.com", &client.Options{HTTP: &http.Client{Transport: direct{h}}})
	if err != nil {
		t.Fatal(err)
	}
	return c.MachineIDs()
}

// A server that sends no lease is an error of the first call, not a reason for fallback IDs: no one would notice them.
func TestWhatIsNoLeaseIsAnError(t *testing.T) {
	problem := func(status int, code string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/problem+json")
			w.WriteHeader(status)
			fmt.Fprintf(w, `{"code":%q,"title":"no","status":%d}`, code, status)
		}
	}
	for name, c := range map[string]struct {
		h      http.HandlerFunc
		config bool
	}{
		"another path":    {http.NotFound, true},
		"a web page":      {func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "<h1>Welcome</h1>") }, true},
		"another service": {func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{"hello":"world"}`) }, true},
		"a redirect": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "/login", http.StatusFound)
		}, true},
		"no token":             {problem(401, "UNAUTHENTICATED"), true},
		"no scope":             {problem(403, "PERMISSION_DENIED"), true},
		"unknown service":      {problem(404, "UNKNOWN_SERVICE"), true},
		"a field":              {problem(400, "INVALID_ARGUMENT"), true},
		"not implemented":      {problem(501, "NOT_CONFIGURED"), true},
		"a store that is away": {problem(503, "UNAVAILABLE"), false},
		"a full namespace":     {problem(503, "MACHINE_IDS_EXHAUSTED"), false},
		"too many":             {problem(429, "MACHINE_ID_LIMIT"), false},
		"a proxy's page": {func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, "Bad Gateway", http.StatusBadGateway)
		}, false},
		"a proxy's limit": {func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, "slow down", http.StatusTooManyRequests)
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(w *world) {
				var log lockedLog
				var wrong atomic.Bool
				wrong.Store(true)
				good := serve(w.table)
				g := w.generator(of(t, func(rw http.ResponseWriter, r *http.Request) {
					if wrong.Load() {
						c.h(rw, r)
					} else {
						good.ServeHTTP(rw, r)
					}
				}), kazahana.Options{Log: slog.New(slog.NewTextHandler(&log, nil))})
				for range 3 {
					id, err := g.NextID(w.Context())
					e, ok := errors.AsType[*kazahana.ConfigurationError](err)
					if ok != c.config || c.config != errors.Is(err, kazahana.ErrConfiguration) ||
						!c.config && (err != nil || !g.Layout().Decode(id).Fallback) {
						t.Fatalf("%v, %v", id, err)
					}
					if c.config && !strings.Contains(e.Error(), "granted no lease: ") {
						t.Error(e)
					}
					time.Sleep(10 * time.Second)
				}
				if got := strings.Count(log.String(), "level=WARN"); got != 1 ||
					!strings.Contains(log.String(), "grants no leases") {
					t.Errorf("%d lines, want one:\n%s", got, log.String())
				}
				wrong.Store(false)
				time.Sleep(2 * time.Minute)
				if p := w.next(g); p.Fallback {
					t.Errorf("%+v", p)
				}
				if got := strings.Count(log.String(), "\n"); got != 2 || !strings.Contains(log.String(), "grants leases again") {
					t.Errorf("%d lines, want two:\n%s", got, log.String())
				}
				// After a first lease it is an outage as others are.
				wrong.Store(true)
				time.Sleep(time.Hour)
				if p := w.next(g); !p.Fallback || p.MachineID != 0 {
					t.Errorf("%+v", p)
				}
			})
		})
	}
}

// The first line says when leases end; a fault of another kind gets a line of its own; a strict generator says that
// there are no IDs.
func TestLinesOfAnOutage(t *testing.T) {
	bubble(t, func(w *world) {
		var log lockedLog
		g := w.generator(w.table, kazahana.Options{ServiceID: "payments", DisableFallback: true,
			Log: slog.New(slog.NewTextHandler(&log, nil))})
		w.next(g)
		synctest.Wait()
		w.table.set(func(t *table) { t.away = true })
		w.sleepUntil(20 * time.Minute)
		if _, err := g.NextID(w.Context()); !errors.Is(err, errOutage) {
			t.Error(err)
		}
		w.table.set(func(t *table) { t.away = false; t.alter = func(l *kazahana.Lease) { l.ID = -1 } })
		w.sleepUntil(25 * time.Minute)
		w.table.set(func(t *table) { t.alter = nil })
		w.sleepUntil(27 * time.Minute)
		w.next(g)
		lines := strings.Split(strings.TrimSpace(log.String()), "\n")
		if len(lines) != 3 || !strings.Contains(lines[0], "service=payments") ||
			!strings.Contains(lines[0], "leased_until=2026-06-01T12:10:00.000Z") ||
			!strings.Contains(lines[0], `then="no IDs"`) || !strings.Contains(lines[1], "rejected: id: must be from 0") ||
			!strings.Contains(lines[2], "grants leases again") || !strings.Contains(lines[2], "fallback_ids=0") {
			t.Errorf("lines:\n%s", log.String())
		}
	})
	bubble(t, func(w *world) {
		var log lockedLog
		var moved atomic.Bool
		g := w.generator(&script{grant: func(int) ([]kazahana.Lease, error) {
			if moved.Load() {
				return nil, kazahana.Misconfigured(errors.New("moved away"))
			}
			return nil, errOutage
		}}, kazahana.Options{Log: slog.New(slog.NewTextHandler(&log, nil))})
		w.next(g)
		time.Sleep(time.Minute)
		moved.Store(true)
		time.Sleep(5 * time.Minute)
		if p := w.next(g); !p.Fallback { // which goes on where it had begun
			t.Errorf("%+v", p)
		}
		if got := log.String(); strings.Count(got, "\n") != 2 || strings.Count(got, "moved away") != 1 {
			t.Errorf("lines:\n%s", got)
		}
	})
}

// hooked is a clock that lets something happen between two reads of a call.
type hooked struct {
	*clock
	during atomic.Pointer[func()]
}

func (h *hooked) Monotonic() time.Duration {
	if during := h.during.Swap(nil); during != nil {
		(*during)()
	}
	return h.clock.Monotonic()
}

// A call is interrupted after it has seen which leases are in force. Meanwhile another lease, with a lower machine ID,
// comes into force, and its first ID is made in the same millisecond. The call must not count on in the leases that it
// saw: the number that it would take belongs to another ID now.
func TestLeasesThatChangeDuringACall(t *testing.T) {
	bubble(t, func(w *world) {
		h := &hooked{clock: w.clock}
		p := &script{grant: func(try int) ([]kazahana.Lease, error) {
			if try == 1 {
				return []kazahana.Lease{lease(9, 0, 60_000)}, nil
			}
			return []kazahana.Lease{lease(2, w.at(), w.at()+60_000)}, nil
		}}
		g, err := kazahana.New(p, &kazahana.Options{MaxThroughputPerMs: 512, AcquireRetryInterval: 100 * time.Millisecond,
			Clock: h})
		if err != nil {
			t.Fatal(err)
		}
		defer g.Close(context.Background())
		var ids []kazahana.ID
		one := func() {
			id, err := g.NextID(w.Context())
			if err != nil {
				t.Fatal(err)
			}
			ids = append(ids, id)
		}
		one()
		during := func() {
			time.Sleep(150 * time.Millisecond)
			synctest.Wait() // the second lease is in force
			one()
		}
		h.during.Store(&during)
		one()
		rest := make([]kazahana.ID, 510)
		if err := g.NextIDs(w.Context(), rest); err != nil {
			t.Fatal(err)
		}
		ids = append(ids, rest...)
		if st := g.Stats(); st.ActiveLeases != 2 || st.IDs != uint64(len(ids)) {
			t.Fatalf("%+v for %d IDs", st, len(ids))
		}
		slices.Sort(ids)
		for i := 1; i < len(ids); i++ {
			if ids[i] == ids[i-1] {
				t.Errorf("%+v is made twice", g.Layout().Decode(ids[i]))
			}
		}
	})
}

// TestIDsDoNotWaitForAProvider: where there is a fallback an ID waits for a second at most, whatever a provider does,
// one that pays no heed to its context among them, not even the first one.
func TestIDsDoNotWaitForAProvider(t *testing.T) {
	for name, hang := range map[string]func(ctx context.Context){
		"until its context ends": func(ctx context.Context) { <-ctx.Done() },
		"for a minute":           func(context.Context) { time.Sleep(time.Minute) },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(w *world) {
				first := w.generator(hanging{w.table, hang}, kazahana.Options{})
				begin := time.Now()
				if p := w.next(first); !p.Fallback || time.Since(begin) > time.Second {
					t.Errorf("the first ID came after %v: %+v", time.Since(begin), p)
				}
				if p := w.next(first); !p.Fallback || time.Since(begin) > time.Second+time.Millisecond {
					t.Errorf("the second ID came after %v: %+v", time.Since(begin), p)
				}
				time.Sleep(time.Hour)
				begin = time.Now()
				if w.next(first); time.Since(begin) > time.Second {
					t.Errorf("the ID after an hour came after %v", time.Since(begin))
				}
			})
		})
	}
}

// hanging is a provider that does not respond.
type hanging struct {
	kazahana.LeaseProvider
	hang func(ctx context.Context)
}

func (h hanging) Acquire(ctx context.Context, _ kazahana.AcquireOptions) (kazahana.AcquireResponse, error) {
	h.hang(ctx)
	return kazahana.AcquireResponse{}, errors.New("no response")
}
