// Package bench measures acquire and release of a lock from the rule to the network, layer by layer, in one run:
// compare the lines with each other, not with other machines. It is a module of its own, so that the libraries with
// which it compares are not dependencies of Leasehold.
//
//	go test -C tests/bench -bench . -benchmem
//
// One operation is a cycle: acquire and release of an uncontended lock.
package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/leasehold-dev/leasehold/adapters/sqlitestore"
	"github.com/leasehold-dev/leasehold/client"
	"github.com/leasehold-dev/leasehold/contracts"
	"github.com/leasehold-dev/leasehold/functions/httpapi"
	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/lock"
)

func openSQLite(b *testing.B) docstore.Store {
	b.Helper()
	s, err := sqlitestore.Open(b.Context(), filepath.Join(b.TempDir(), "bench.db"), nil)
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

// spread runs cycles from n goroutines and returns how long that took.
func spread(b *testing.B, n, cycles int, cycle func(client int) error) time.Duration {
	b.Helper()
	var (
		left atomic.Int64
		done sync.WaitGroup
	)
	left.Store(int64(cycles))
	begin := time.Now()
	for c := range n {
		done.Go(func() {
			for left.Add(-1) >= 0 {
				if err := cycle(c); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	done.Wait()
	return time.Since(begin)
}

// clients measures cycles from n goroutines, and reports them per second.
func clients(b *testing.B, n int, cycle func(client int) error) {
	b.Helper()
	b.ReportAllocs()
	b.ResetTimer()
	took := spread(b, n, b.N, cycle)
	b.ReportMetric(float64(b.N)/took.Seconds(), "cycles/s")
}

func id(client int) lock.ID { return lock.ID{Tenant: "acme", Key: fmt.Sprint("k", client)} }

// throughLocks is a cycle through the rule on a store.
func throughLocks(ctx context.Context, locks *lock.Locks) func(int) error {
	return func(c int) error {
		o, err := locks.Acquire(ctx, lock.Acquire{ID: id(c), Owner: "ann", RequestID: client.NewRequestID(), TTLSeconds: 60})
		if err != nil || o.Code != lock.OK {
			return fmt.Errorf("acquire: %s, %w", o.Code, err)
		}
		o, err = locks.Release(ctx, lock.Release{ID: id(c), Owner: "ann", RequestID: "e1", Token: o.Lease.Token})
		if err != nil || o.Code != lock.OK {
			return fmt.Errorf("release: %s, %w", o.Code, err)
		}
		return nil
	}
}

// throughHandler is a cycle through the HTTP handler without a network.
func throughHandler(h http.Handler) func(int) error {
	post := func(c int, verb, body string) (token int64, err error) {
		r := httptest.NewRequest(http.MethodPost, fmt.Sprintf("http://127.0.0.1/v1/tenants/acme/locks/k%d/%s", c, verb),
			strings.NewReader(body))
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		var l contracts.EndedLease
		if w.Code != http.StatusOK {
			return 0, fmt.Errorf("%s: %d %s", verb, w.Code, w.Body)
		}
		err = json.Unmarshal(w.Body.Bytes(), &l)
		return l.FencingToken, err
	}
	return func(c int) error {
		token, err := post(c, "acquire", `{"request_id":"`+client.NewRequestID()+`","owner_id":"ann","ttl_seconds":60}`)
		if err == nil {
			_, err = post(c, "release", fmt.Sprintf(`{"request_id":"e1","owner_id":"ann","fencing_token":%d}`, token))
		}
		return err
	}
}

// throughHTTP is a cycle through the Go client, a socket and the server.
func throughHTTP(ctx context.Context, locks *client.LockAPI) func(int) error {
	return func(c int) error {
		key := id(c).Key
		l, err := locks.Acquire(ctx, "acme", key, contracts.AcquireRequest{OwnerID: "ann", TTLSeconds: 60})
		if err == nil {
			_, err = locks.Release(ctx, "acme", key, contracts.ReleaseRequest{RequestID: "e1", OwnerID: "ann",
				FencingToken: l.FencingToken})
		}
		return err
	}
}

func serve(b *testing.B, s docstore.Store, n int) *client.LockAPI {
	b.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	server := &http.Server{Handler: httpapi.New(s, httpapi.Development{}, nil), ReadHeaderTimeout: time.Minute}
	go func() { _ = server.Serve(l) }()
	b.Cleanup(func() { _ = server.Close() })
	c, err := client.New("http://"+l.Addr().String(), &client.Options{
		Tries: 1, HTTP: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: n}},
	})
	if err != nil {
		b.Fatal(err)
	}
	return c.LockAPI()
}

func BenchmarkRule(b *testing.B) {
	clients(b, 1, throughLocks(b.Context(), lock.New(docstore.NewMemory(nil), nil)))
}

func BenchmarkSQLite(b *testing.B) {
	for _, n := range []int{1, 64} {
		b.Run(fmt.Sprint("clients=", n), func(b *testing.B) {
			clients(b, n, throughLocks(b.Context(), lock.New(openSQLite(b), nil)))
		})
	}
}

// BenchmarkHandler shows what the handler adds: the same cycle through the rule and through the handler, in memory, in
// turns. A cycle is two requests; the difference is reported per request.
func BenchmarkHandler(b *testing.B) {
	direct := throughLocks(b.Context(), lock.New(docstore.NewMemory(nil), nil))
	handler := throughHandler(httpapi.New(docstore.NewMemory(nil), httpapi.Development{}, nil))
	var took [2]time.Duration
	b.ReportAllocs()
	b.ResetTimer()
	for range b.N {
		for i, cycle := range []func(int) error{direct, handler} {
			begin := time.Now()
			if err := cycle(0); err != nil {
				b.Fatal(err)
			}
			took[i] += time.Since(begin)
		}
	}
	perRequest := func(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1000 / float64(2*b.N) }
	b.ReportMetric(perRequest(took[0]), "rule-µs/request")
	b.ReportMetric(perRequest(took[1]-took[0]), "added-µs/request")
}

func BenchmarkHTTP(b *testing.B) {
	for _, store := range []string{"memory", "sqlite"} {
		for _, n := range []int{1, 64} {
			b.Run(fmt.Sprintf("store=%s/clients=%d", store, n), func(b *testing.B) {
				var s docstore.Store = docstore.NewMemory(nil)
				if store == "sqlite" {
					s = openSQLite(b)
				}
				clients(b, n, throughHTTP(b.Context(), serve(b, s, n)))
			})
		}
	}
}

// BenchmarkScaling measures 1 and 64 clients on SQLite side by side and reports how many times the throughput of one
// the 64 have: through the adapter, and through HTTP with clients and server on the same processors.
func BenchmarkScaling(b *testing.B) {
	for _, way := range []string{"adapter", "http"} {
		b.Run(way, func(b *testing.B) {
			s := openSQLite(b)
			cycle := throughLocks(b.Context(), lock.New(s, nil))
			if way == "http" {
				cycle = throughHTTP(b.Context(), serve(b, s, 64))
			}
			var one, many float64
			for range b.N {
				one += 200 / spread(b, 1, 200, cycle).Seconds()
				many += 2000 / spread(b, 64, 2000, cycle).Seconds()
			}
			b.ReportMetric(one/float64(b.N), "cycles/s-1")
			b.ReportMetric(many/float64(b.N), "cycles/s-64")
			b.ReportMetric(many/one, "times")
		})
	}
}

// BenchmarkBody is the part of the handler that is not the rule: decoding and encoding.
func BenchmarkBody(b *testing.B) {
	h := httpapi.New(docstore.NewMemory(nil), httpapi.Development{}, nil)
	// rejected by the rule before the store is asked
	body := []byte(`{"request_id":"r1","owner_id":"ann","ttl_seconds":0}`)
	b.ReportAllocs()
	for b.Loop() {
		r := httptest.NewRequest(http.MethodPost, "http://127.0.0.1/v1/tenants/acme/locks/k/acquire", bytes.NewReader(body))
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code != http.StatusBadRequest {
			b.Fatal(w.Code, w.Body)
		}
	}
}
