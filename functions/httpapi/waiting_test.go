package httpapi_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leasehold-dev/leasehold/functions/httpapi"
	"github.com/leasehold-dev/leasehold/repo/docstore"
)

// slow is a store whose requests take a while; it signals nothing, and counts.
type slow struct {
	docstore.Store
	gets, writes *atomic.Int64
	now, most    *atomic.Int64 // writes that are under way, and the most of them
	took         time.Duration
}

func (s slow) Get(ctx context.Context, keys ...docstore.Key) (docstore.Snapshot, error) {
	s.gets.Add(1)
	return s.Store.Get(ctx, keys...)
}

func (s slow) Write(ctx context.Context, writes ...docstore.Write) (docstore.Result, error) {
	s.writes.Add(1)
	for n := s.now.Add(1); ; {
		if most := s.most.Load(); n <= most || s.most.CompareAndSwap(most, n) {
			break
		}
	}
	defer s.now.Add(-1)
	select {
	case <-time.After(s.took):
	case <-ctx.Done():
		return docstore.Result{}, ctx.Err()
	}
	return s.Store.Write(ctx, writes...)
}

// TestAcquireWaits: a request with wait_seconds responds when it has the lock, when it has waited long enough, when the
// server stops, when its platform would end it, or its caller leaves; it takes a slot only while it works; and no more
// wait than may.
func TestAcquireWaits(t *testing.T) {
	const path = "/v1/tenants/acme/locks/deploy"
	type server struct {
		slow
		call func(ctx context.Context, target, body string) (*httptest.ResponseRecorder, map[string]any)
	}
	serve := func(t *testing.T, took time.Duration, o *httpapi.Options) server {
		t.Helper()
		s := server{slow: slow{docstore.NewMemory(nil), new(atomic.Int64), new(atomic.Int64), new(atomic.Int64),
			new(atomic.Int64), took}}
		h := httpapi.New(s.slow, httpapi.Development{}, o)
		s.call = func(ctx context.Context, target, body string) (*httptest.ResponseRecorder, map[string]any) {
			w := httptest.NewRecorder()
			h.ServeHTTP(w, httptest.NewRequestWithContext(ctx, http.MethodPost, "http://127.0.0.1:8080"+target,
				strings.NewReader(body)))
			var all map[string]any
			_ = json.Unmarshal(w.Body.Bytes(), &all)
			return w, all
		}
		return s
	}
	acquire := func(owner string, wait int) string {
		return fmt.Sprintf(`{"request_id":"by-%[1]s","owner_id":%[1]q,"ttl_seconds":60,"wait_seconds":%[2]d}`, owner, wait)
	}
	bubble := func(name string, test func(*testing.T)) {
		t.Run(name, func(t *testing.T) { synctest.Test(t, test) })
	}
	bubble("released", func(t *testing.T) {
		s := serve(t, 0, nil)
		_, first := s.call(t.Context(), path+"/acquire", acquire("ann", 20))
		if first["fencing_token"] == nil || first["waited_ms"] != nil {
			t.Fatalf("a lock that is free: %v", first)
		}
		done := make(chan map[string]any)
		go func() { _, a := s.call(t.Context(), path+"/acquire", acquire("bob", 20)); done <- a }()
		time.Sleep(time.Second)
		token, _ := first["fencing_token"].(float64)
		if w, _ := s.call(t.Context(), path+"/release",
			fmt.Sprintf(`{"request_id":"r","owner_id":"ann","fencing_token":%.0f}`, token)); w.Code != 200 {
			t.Fatalf("%d %s", w.Code, w.Body)
		}
		if a := <-done; a["fencing_token"] != token+1 || a["waited_ms"] != 1000. || a["remaining_ms"] != 60000. {
			t.Errorf("%v", a)
		}
	})
	bubble("held", func(t *testing.T) {
		s := serve(t, 0, nil)
		s.call(t.Context(), path+"/acquire", acquire("ann", 0))
		begin := time.Now()
		w, a := s.call(t.Context(), path+"/acquire", acquire("bob", 7))
		if took := time.Since(begin); w.Code != 409 || a["code"] != "LOCK_HELD" || a["owner_id"] != "ann" ||
			a["retry_after_ms"] != 53000. || took != 7*time.Second {
			t.Errorf("after %v: %d %s", took, w.Code, w.Body)
		}
		begin = time.Now()
		if w, _ := s.call(t.Context(), path+"/acquire", acquire("carl", 0)); w.Code != 409 || time.Since(begin) != 0 {
			t.Errorf("%d %s", w.Code, w.Body)
		}
		for _, wait := range []int{21, -1} {
			if w, a := s.call(t.Context(), path+"/acquire", acquire("dora", wait)); w.Code != 400 ||
				a["field"] != "wait_seconds" || time.Since(begin) != 0 {
				t.Errorf("wait_seconds %d: %d %s", wait, w.Code, w.Body)
			}
		}
	})
	bubble("the server stops", func(t *testing.T) {
		stop := make(chan struct{})
		s := serve(t, 0, &httpapi.Options{Stop: stop})
		s.call(t.Context(), path+"/acquire", acquire("ann", 0))
		begin := time.Now()
		time.AfterFunc(3*time.Second, func() { close(stop) })
		w, a := s.call(t.Context(), path+"/acquire", acquire("bob", 20))
		if took := time.Since(begin); w.Code != 409 || a["code"] != "LOCK_HELD" || took != 3*time.Second ||
			a["retry_after_ms"] != 1. || w.Header().Get("Retry-After") != "1" {
			t.Errorf("after %v: %d %s", took, w.Code, w.Body)
		}
	})
	bubble("the platform and the caller", func(t *testing.T) {
		var log bytes.Buffer
		s := serve(t, 0, &httpapi.Options{Log: slog.New(slog.NewTextHandler(&log, nil))})
		s.call(t.Context(), path+"/acquire", acquire("ann", 0))
		for deadline, want := range map[time.Duration]time.Duration{15 * time.Second: 5 * time.Second, 8 * time.Second: 0} {
			ctx, cancel := context.WithTimeout(t.Context(), deadline)
			begin := time.Now()
			w, a := s.call(ctx, path+"/acquire", acquire("bob", 20))
			cancel()
			if took := time.Since(begin); w.Code != 409 || a["code"] != "LOCK_HELD" || took != want {
				t.Errorf("a platform that ends requests after %v: %v: %d %s", deadline, took, w.Code, w.Body)
			}
		}
		gone, leave := context.WithCancel(t.Context())
		begin := time.Now()
		time.AfterFunc(2*time.Second, leave)
		s.call(gone, path+"/acquire", acquire("bob", 20))
		if took := time.Since(begin); took != 2*time.Second {
			t.Errorf("a caller that left was kept for %v", took)
		}
		if strings.Contains(log.String(), "level=ERROR") || !strings.Contains(log.String(), "context canceled") {
			t.Errorf("a caller that left is no fault of the server, and this is its log:\n%s", &log)
		}
		synctest.Wait()
		gets := s.gets.Load()
		time.Sleep(time.Minute)
		if s.gets.Load() != gets {
			t.Errorf("%d reads while no request waits", s.gets.Load()-gets)
		}
	})
	bubble("slots and bounds", func(t *testing.T) {
		const most = 256
		s := serve(t, 10*time.Millisecond, &httpapi.Options{Limits: httpapi.Limits{Concurrent: 10}}) // eight of a tenant
		s.call(t.Context(), path+"/acquire", acquire("ann", 0))
		codes := make(chan string, most)
		for n := range most {
			go func() {
				_, a := s.call(t.Context(), path+"/acquire", acquire(fmt.Sprint("w", n), 20))
				code, _ := a["code"].(string)
				codes <- code
			}()
			if n%16 == 15 {
				time.Sleep(100 * time.Millisecond) // eight are worked on, and as many may wait for that
			}
		}
		time.Sleep(time.Second)
		if n := s.most.Load(); n != 8 {
			t.Errorf("%d were worked on at once, and 8 may be", n)
		}
		gets, writes := s.gets.Load(), s.writes.Load()
		if writes != most+1 {
			t.Errorf("%d writes by %d requests", writes, most+1)
		}
		begin := time.Now()
		if w, a := s.call(t.Context(), path+"/acquire", acquire("more", 20)); w.Code != 409 || a["code"] != "LOCK_HELD" ||
			a["retry_after_ms"] == nil {
			t.Errorf("one more: %d %s", w.Code, w.Body)
		}
		if took := time.Since(begin); took > 10*time.Millisecond {
			t.Errorf("one more is refused after %v", took)
		}
		// Those who wait take no slot: others of the tenant work, and those of other tenants can wait.
		if w, a := s.call(t.Context(), path+"/acquire", acquire("now", 0)); w.Code != 409 || a["code"] != "LOCK_HELD" {
			t.Errorf("without waiting: %d %s", w.Code, w.Body)
		}
		if w, _ := s.call(t.Context(), "/v1/tenants/rival/locks/deploy/acquire", acquire("rival", 20)); w.Code != 200 {
			t.Errorf("another tenant: %d %s", w.Code, w.Body)
		}
		time.Sleep(10 * time.Second)
		if more := s.gets.Load() - gets; more > 24 || s.writes.Load() != writes+3 {
			t.Errorf("%d reads and %d writes in ten seconds, while %d wait", more, s.writes.Load()-writes-3, most)
		}
		for range most {
			if code := <-codes; code != "LOCK_HELD" {
				t.Errorf("%q", code)
			}
		}
		if w, a := s.call(t.Context(), path+"/acquire", acquire("later", 1)); w.Code != 409 || a["code"] != "LOCK_HELD" {
			t.Errorf("later: %d %s", w.Code, w.Body)
		}
	})
	bubble("a step has its own time limit", func(t *testing.T) {
		s := serve(t, time.Minute, nil) // a store that hangs
		begin := time.Now()
		for _, wait := range []int{0, 20} {
			if w, a := s.call(t.Context(), path+"/acquire", acquire("ann", wait)); w.Code != 504 ||
				a["code"] != "DEADLINE_EXCEEDED" {
				t.Errorf("%d %s", w.Code, w.Body)
			}
		}
		if took := time.Since(begin); took != 2*httpapi.DefaultTimeout {
			t.Errorf("%v", took)
		}
	})
}

// TestAFreeKeyWhileManyWait: how many requests wait for other keys does not matter to one that need not wait. Those
// that find no room to wait are refused as those that do not wait: with LOCK_HELD, and when to come again.
func TestAFreeKeyWhileManyWait(t *testing.T) {
	const keys = 32
	for _, c := range []struct{ tenants, each, waiting int }{
		{1, 255, 255},
		{1, 256, 256},
		{1, 257, 256},
		{1, 2560, 256},
		{4, 256, 1024},
		{5, 256, 1024},
		{10, 256, 1024},
	} {
		t.Run(fmt.Sprintf("%d tenants, each with %d", c.tenants, c.each), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := httpapi.New(docstore.NewMemory(nil), httpapi.Development{}, nil)
				call := func(tenant, key, owner string, wait int) (*httptest.ResponseRecorder, map[string]any) {
					w, body := httptest.NewRecorder(),
						fmt.Sprintf(`{"request_id":"by-%[1]s","owner_id":%[1]q,"ttl_seconds":60,"wait_seconds":%[2]d}`, owner, wait)
					target := "http://127.0.0.1:8080/v1/tenants/" + tenant + "/locks/" + key + "/acquire"
					h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodPost, target, strings.NewReader(body)))
					var all map[string]any
					_ = json.Unmarshal(w.Body.Bytes(), &all)
					return w, all
				}
				begin := time.Now()
				var waiting, refused atomic.Int64
				var all sync.WaitGroup
				for tenant := range c.tenants {
					name := fmt.Sprint("t", tenant)
					for key := range keys {
						if w, _ := call(name, fmt.Sprint("k", key), "ann", 20); w.Code != 200 {
							t.Fatalf("%d %s", w.Code, w.Body)
						}
					}
					for n := range c.each {
						all.Go(func() {
							w, a := call(name, fmt.Sprint("k", n%keys), fmt.Sprint("w", n), 20)
							if w.Code != 409 || a["code"] != "LOCK_HELD" || a["retry_after_ms"] == nil || a["owner_id"] != "ann" {
								t.Errorf("%d %s", w.Code, w.Body)
							}
							if time.Since(begin) == 0 {
								refused.Add(1)
							} else {
								waiting.Add(1)
							}
						})
						if n%128 == 127 {
							synctest.Wait() // as many are worked on at once as may be
						}
					}
				}
				synctest.Wait()
				for tenant := range c.tenants {
					if w, a := call(fmt.Sprint("t", tenant), "free", "bob", 20); w.Code != 200 || a["fencing_token"] == nil ||
						time.Since(begin) != 0 {
						t.Errorf("a free key of tenant %d, after %v: %d %s", tenant, time.Since(begin), w.Code, w.Body)
					}
				}
				all.Wait()
				if waiting.Load() != int64(c.waiting) || refused.Load() != int64(c.tenants*c.each-c.waiting) {
					t.Errorf("%d waited and %d were refused at once, want %d and the rest", waiting.Load(), refused.Load(), c.waiting)
				}
			})
		})
	}
}
