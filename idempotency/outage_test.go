package idempotency_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leasehold-dev/leasehold/idempotency"
	"github.com/leasehold-dev/leasehold/once"
	"github.com/leasehold-dev/leasehold/repo/docstore"
)

// TestOutages: the gate is away for 15 to 300 s, from each step of a payment on: before it, while it is made, when it is
// to be stored. No process dies. The caller sends it again to the same process all the while, and to another one from
// five seconds after the gate is back: the payment is made once.
func TestOutages(t *testing.T) {
	for _, ttl := range []time.Duration{3 * time.Second, 30 * time.Second} {
		for _, away := range []time.Duration{15 * time.Second, 40 * time.Second, 90 * time.Second, 300 * time.Second} {
			for step, from := range map[string]time.Duration{
				"before": 0, "meanwhile": 2 * time.Second, "at the end": 5 * time.Second,
			} {
				t.Run(fmt.Sprintf("%s, %v, ttl %v", step, away, ttl), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						var runs atomic.Int64
						store := docstore.NewMemory(nil)
						cut := &severed{Gate: gate(store)}
						o := &idempotency.Options{TTL: ttl, Warn: func(*http.Request, error) {}}
						here := middleware(t, cut, o)
						pay := payments(&runs, 5*time.Second)
						other := middleware(t, gate(store), o).Wrap(pay)
						time.AfterFunc(from-time.Millisecond, func() { cut.down.Store(true) })
						time.AfterFunc(from+away, func() { cut.down.Store(false) })
						time.Sleep(time.Millisecond)
						if step == "before" {
							time.Sleep(time.Millisecond)
						}
						var asked sync.WaitGroup
						ends := time.Now().Add(from + away + 5*time.Second)
						for time.Now().Before(ends) {
							asked.Go(func() {
								if w := post(here.Wrap(pay), "k1", "ten"); w.Code != 201 && w.Code != 503 && w.Code != 409 {
									t.Errorf("%d %s", w.Code, w.Body)
								}
							})
							time.Sleep(time.Second)
						}
						asked.Wait()
						if w := post(other, "k1", "ten"); w.Code != 201 || w.Body.String() != "payment 1 of ten" || runs.Load() != 1 {
							t.Errorf("%d %s, %d payments", w.Code, w.Body, runs.Load())
						}
						if err := here.Shutdown(t.Context()); err != nil {
							t.Error(err)
						}
					})
				})
			}
		}
	}
}

// TestRetryBeforeTheEndIsStored: what remains. Another process reaches the gate before the first one, when the lock has
// expired: it carries the request out again, and the first one says so.
func TestRetryBeforeTheEndIsStored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var runs atomic.Int64
		var mu sync.Mutex
		var warned []string
		store := docstore.NewMemory(nil)
		cut := &severed{Gate: gate(store)}
		here := middleware(t, cut, &idempotency.Options{Warn: func(_ *http.Request, err error) {
			mu.Lock()
			defer mu.Unlock()
			warned = append(warned, err.Error())
		}})
		time.AfterFunc(time.Second, func() { cut.down.Store(true) })
		if w := post(here.Wrap(payments(&runs, 5*time.Second)), "k1", "ten"); w.Code != 201 || replayed(w) {
			t.Errorf("%d %s", w.Code, w.Body)
		}
		is(t, "another payload", post(here.Wrap(payments(&runs, 0)), "k1", "tens"), 422, "IDEMPOTENCY_KEY_REUSED")
		if w := post(middleware(t, gate(store), nil).Wrap(payments(&runs, 0)), "k1", "ten"); w.Code != 201 || replayed(w) {
			t.Errorf("another process: %d %s", w.Code, w.Body)
		}
		cut.down.Store(false)
		time.Sleep(6 * time.Second)
		if w := post(here.Wrap(payments(&runs, 0)), "k1", "ten"); !replayed(w) || w.Body.String() != "payment 2 of ten" {
			t.Errorf("then: %d %s", w.Code, w.Body)
		}
		mu.Lock()
		defer mu.Unlock()
		if n := len(warned); n == 0 || !strings.Contains(warned[n-1], "another process has carried the request out, too: key \"k1\"") {
			t.Errorf("%q", warned)
		}
	})
}

// TestShutdown: a process that ends says what it could not store, by its key, and nothing if it could.
func TestShutdown(t *testing.T) {
	for _, back := range []time.Duration{10 * time.Second, time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			var runs atomic.Int64
			cut := &severed{Gate: gate(docstore.NewMemory(nil))}
			m := middleware(t, cut, &idempotency.Options{Warn: func(*http.Request, error) {}})
			time.AfterFunc(time.Second, func() { cut.down.Store(true) })
			post(m.Wrap(payments(&runs, 5*time.Second)), "k1", "ten")
			began := time.Now()
			time.AfterFunc(back, func() { cut.down.Store(false) })
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			err := m.Shutdown(ctx)
			switch took := time.Since(began); {
			case back == time.Hour:
				if !errors.Is(err, once.ErrNotStored) || !strings.Contains(err.Error(), `key "k1" of POST /payments, run `) ||
					took != 20*time.Second {
					t.Errorf("%v after %v", err, took)
				}
			case err != nil || took > 16*time.Second:
				t.Errorf("%v after %v", err, took)
			}
			if err := m.Shutdown(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
}
