package idempotency_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leasehold-dev/leasehold/fence"
	"github.com/leasehold-dev/leasehold/idempotency"
	"github.com/leasehold-dev/leasehold/once"
	"github.com/leasehold-dev/leasehold/repo/docstore"
)

// TestTakeover: a request whose process does not reach the gate any more is carried out by the next one, with a higher
// fencing token, once its lock has expired. The first one then responds with what is stored.
func TestTakeover(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := docstore.NewMemory(nil)
		cut := &severed{Gate: gate(store)}
		var mu sync.Mutex
		var tokens []int64
		handler := func(takes time.Duration) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				lease, ok := fence.From(r.Context())
				token := lease.Token
				if !ok {
					t.Error("no fencing token")
				}
				mu.Lock()
				tokens = append(tokens, token)
				n := len(tokens)
				mu.Unlock()
				time.Sleep(takes)
				fmt.Fprintf(w, "run %d", n)
			})
		}
		slow := middleware(t, cut, &idempotency.Options{Wait: new(time.Duration)}).Wrap(handler(time.Minute))
		next := middleware(t, gate(store), &idempotency.Options{Wait: new(time.Minute)}).Wrap(handler(20 * time.Second))
		var old, later *httptest.ResponseRecorder
		var both sync.WaitGroup
		both.Go(func() { old = post(slow, "k1", "") })
		time.Sleep(time.Second)
		cut.down.Store(true)
		began := time.Now()
		both.Go(func() { later = post(next, "k1", "") })
		time.Sleep(40 * time.Second)
		cut.down.Store(false)
		both.Wait()
		if later.Code != 200 || later.Body.String() != "run 2" || replayed(later) || time.Since(began) > time.Minute {
			t.Errorf("%d %s after %v", later.Code, later.Body, time.Since(began))
		}
		if old.Body.String() != "run 2" || !replayed(old) {
			t.Errorf("the process that lost its lock: %d %s", old.Code, old.Body)
		}
		if len(tokens) != 2 || tokens[1] <= tokens[0] {
			t.Errorf("tokens %v", tokens)
		}
	})
}

// TestLostToAnother: a request lost its lock to one that is under way, or that left no response. It is told just that,
// and its handler does not run again.
func TestLostToAnother(t *testing.T) {
	for code, takes := range map[string]time.Duration{
		"IDEMPOTENT_REQUEST_RUNNING": time.Hour, "IDEMPOTENT_REQUEST_INTERRUPTED": time.Second,
	} {
		synctest.Test(t, func(t *testing.T) {
			var runs atomic.Int64
			store := docstore.NewMemory(nil)
			cut := &severed{Gate: gate(store)}
			time.AfterFunc(time.Second, func() { cut.down.Store(true) })
			time.AfterFunc(50*time.Second, func() { cut.down.Store(false) })
			time.AfterFunc(2*time.Second, func() {
				post(middleware(t, gate(store), &idempotency.Options{Wait: new(time.Minute)}).Wrap(ends(&runs, takes,
					func(_ http.ResponseWriter, r *http.Request) { idempotency.NothingDone(r) })), "k1", "")
			})
			w := post(middleware(t, cut, nil).Wrap(payments(&runs, time.Minute)), "k1", "")
			is(t, code, w, map[bool]int{true: 409, false: 503}[takes == time.Hour], code)
			if runs.Load() != 2 {
				t.Errorf("%s: %d runs", code, runs.Load())
			}
			time.Sleep(2 * time.Hour)
		})
	}
}

// TestExpiredAndNotTaken: a process does not reach the gate for longer than its lock lasts, and no other one takes
// over. The gate accepts what came of the handler, and it does not run again.
func TestExpiredAndNotTaken(t *testing.T) {
	for name, back := range map[string]time.Duration{"before the end": 40 * time.Second, "after it": 47 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			var runs atomic.Int64
			store := docstore.NewMemory(nil)
			cut := &severed{Gate: gate(store)}
			h := middleware(t, cut, nil).Wrap(payments(&runs, 45*time.Second))
			time.AfterFunc(time.Second, func() { cut.down.Store(true) })
			time.AfterFunc(back, func() { cut.down.Store(false) })
			if w := post(h, "k1", "ten"); w.Code != 201 || replayed(w) {
				t.Errorf("%s: %d %s", name, w.Code, w.Body)
			}
			if w := post(middleware(t, gate(store), nil).Wrap(payments(&runs, 0)), "k1", "ten"); w.Code != 201 || !replayed(w) ||
				runs.Load() != 1 {
				t.Errorf("%s: the next: %d %s, %d runs", name, w.Code, w.Body, runs.Load())
			}
		})
	}
}

// TestGateDoesNotComeBack: what a handler did is said also if it cannot be stored: 503 would make the caller repeat it.
func TestGateDoesNotComeBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var runs atomic.Int64
		var warned string
		cut := &severed{Gate: gate(docstore.NewMemory(nil))}
		m := middleware(t, cut, &idempotency.Options{Warn: func(_ *http.Request, err error) { warned = err.Error() }})
		time.AfterFunc(time.Second, func() { cut.down.Store(true) })
		if w := post(m.Wrap(payments(&runs, 45*time.Second)), "k1", "ten"); w.Code != 201 ||
			!strings.Contains(warned, "may run again") {
			t.Errorf("%d %s, %q", w.Code, w.Body, warned)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := m.Shutdown(ctx); !errors.Is(err, once.ErrNotStored) {
			t.Error(err)
		}
	})
}

// TestAwayAndFrozen: a gate that refuses connections is 503 within two seconds, one that does not respond within three,
// for the request that asks and for those that wait for it, however long they would wait for another request. None is
// told that a request is under way.
func TestAwayAndFrozen(t *testing.T) {
	for _, wait := range []*time.Duration{nil, new(time.Duration), new(time.Minute)} {
		for name, c := range map[string]struct {
			gate func(once.Gate) once.Gate
			most time.Duration
		}{
			"away":   {func(g once.Gate) once.Gate { s := &severed{Gate: g}; s.down.Store(true); return s }, 2 * time.Second},
			"frozen": {func(g once.Gate) once.Gate { return &frozen{Gate: g} }, 3 * time.Second},
			"deaf":   {func(g once.Gate) once.Gate { return deaf{g} }, 3 * time.Second},
		} {
			synctest.Test(t, func(t *testing.T) {
				var runs atomic.Int64
				h := middleware(t, c.gate(gate(docstore.NewMemory(nil))), &idempotency.Options{Wait: wait}).Wrap(payments(&runs, 0))
				var all sync.WaitGroup
				for range 8 {
					all.Go(func() {
						began := time.Now()
						is(t, name, post(h, "k1", ""), 503, "IDEMPOTENCY_UNAVAILABLE")
						if took := time.Since(began); took > c.most {
							t.Errorf("%s, wait %v: after %v", name, wait, took)
						}
					})
				}
				all.Wait()
				if runs.Load() != 0 {
					t.Errorf("%s: %d runs", name, runs.Load())
				}
				time.Sleep(time.Minute)
			})
		}
	}
}

// deaf is a gate that does not respond, and does not notice that it is not waited for.
type deaf struct{ once.Gate }

func (deaf) Acquire(context.Context, once.Acquire) (once.Grant, error) {
	time.Sleep(30 * time.Second)
	return once.Grant{}, context.DeadlineExceeded
}

// frozen is a gate whose requests are not responded to.
type frozen struct {
	once.Gate
	carriesOut bool // what it does not respond to
	thawed     atomic.Bool
}

func (f *frozen) Acquire(ctx context.Context, r once.Acquire) (once.Grant, error) {
	if f.thawed.Load() {
		return f.Gate.Acquire(ctx, r)
	}
	if f.carriesOut {
		if _, err := f.Gate.Acquire(ctx, r); err != nil {
			return once.Grant{}, err
		}
	}
	<-ctx.Done()
	return once.Grant{}, ctx.Err()
}

// TestLockedAndThenAway: the gate said that another process has the run, and does not respond any more: then that
// is not known any longer.
func TestLockedAndThenAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var runs atomic.Int64
		store := docstore.NewMemory(nil)
		go post(middleware(t, gate(store), nil).Wrap(payments(&runs, time.Minute)), "k1", "")
		synctest.Wait()
		cut := &severed{Gate: gate(store)}
		h := middleware(t, cut, &idempotency.Options{Wait: new(10 * time.Second)}).Wrap(payments(&runs, 0))
		time.AfterFunc(9500*time.Millisecond, func() { cut.down.Store(true) })
		began := time.Now()
		var both sync.WaitGroup
		for _, after := range []time.Duration{0, 500 * time.Millisecond} { // the second one's time ends while it is away
			both.Go(func() {
				time.Sleep(after)
				is(t, "away", post(h, "k1", ""), 503, "IDEMPOTENCY_UNAVAILABLE")
				if took := time.Since(began); took < 10*time.Second || took > 12*time.Second {
					t.Errorf("after %v", took)
				}
			})
		}
		both.Wait()
		cut.down.Store(false)
		is(t, "back", post(h, "k1", ""), 409, "IDEMPOTENT_REQUEST_RUNNING")
		time.Sleep(time.Minute)
	})
}

// TestTwinOfOneThatAsks: that a request of this process asks the gate does not mean that one is under way.
func TestTwinOfOneThatAsks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var runs atomic.Int64
		slow := &slowly{Gate: gate(docstore.NewMemory(nil)), takes: 1900 * time.Millisecond}
		h := middleware(t, slow, &idempotency.Options{Wait: new(time.Duration)}).Wrap(payments(&runs, time.Second))
		began := time.Now()
		go post(h, "k1", "")
		time.Sleep(time.Second)
		is(t, "once it is", post(h, "k1", ""), 409, "IDEMPOTENT_REQUEST_RUNNING")
		if took := time.Since(began); took != slow.takes {
			t.Errorf("after %v", took)
		}
		time.Sleep(time.Minute)
	})
}

// slowly is a gate that takes its time.
type slowly struct {
	once.Gate
	takes time.Duration
}

func (s *slowly) Acquire(ctx context.Context, r once.Acquire) (once.Grant, error) {
	time.Sleep(s.takes)
	return s.Gate.Acquire(ctx, r)
}

// TestGrantThatComesLate: a run that is granted after its request was responded to is released, and its handler
// does not run.
func TestGrantThatComesLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var runs atomic.Int64
		store := docstore.NewMemory(nil)
		g := &frozen{Gate: gate(store), carriesOut: true}
		h := middleware(t, g, &idempotency.Options{TTL: time.Hour}).Wrap(payments(&runs, 0))
		time.AfterFunc(6*time.Second, func() { g.thawed.Store(true) })
		is(t, "frozen", post(h, "k1", ""), 503, "IDEMPOTENCY_UNAVAILABLE")
		time.Sleep(15 * time.Second)
		if runs.Load() != 0 {
			t.Errorf("%d runs of a request that was responded to", runs.Load())
		}
		if w := post(h, "k1", ""); w.Code != 201 || replayed(w) {
			t.Errorf("%d %s", w.Code, w.Body)
		}
	})
}

// TestCallerThatAsksHangsUp: those that wait for it ask themselves.
func TestCallerThatAsksHangsUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var runs atomic.Int64
		slow := &slowly{Gate: gate(docstore.NewMemory(nil)), takes: 1900 * time.Millisecond}
		h := middleware(t, slow, nil).Wrap(payments(&runs, time.Second))
		ctx, hangUp := context.WithCancel(t.Context())
		go post(h, "k1", "ten", func(r *http.Request) { *r = *r.WithContext(ctx) })
		time.Sleep(time.Second)
		time.AfterFunc(500*time.Millisecond, hangUp)
		if w := post(h, "k1", "ten"); w.Code != 201 || w.Body.String() != "payment 1 of ten" {
			t.Errorf("%d %s", w.Code, w.Body)
		}
		time.Sleep(time.Minute) // what is under way ends
	})
}
