package tests

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leasehold-dev/leasehold/adapters/awsdynamodb"
	"github.com/leasehold-dev/leasehold/client"
	"github.com/leasehold-dev/leasehold/emulator/dynamodbtest"
	"github.com/leasehold-dev/leasehold/functions/direct"
	"github.com/leasehold-dev/leasehold/idempotency"
	"github.com/leasehold-dev/leasehold/once"
	"github.com/leasehold-dev/leasehold/repo/analysis"
	"github.com/leasehold-dev/leasehold/repo/runs"
)

// TestIdempotencyOnEveryStore: through a server on each store, 64 requests with one key, sent to four web servers at
// once, are one run and 64 equal responses. Another payload is refused, and a run whose process died is taken over,
// with a higher token.
func TestIdempotencyOnEveryStore(t *testing.T) {
	t.Parallel()
	for name, backend := range backends {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			env, args := backend(t)
			p := serve(t, env, args...)
			c, err := client.New(p.url, nil)
			if err != nil {
				t.Fatal(err)
			}
			var runs atomic.Int64
			payments := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				n := runs.Add(1)
				body, _ := io.ReadAll(r.Body)
				time.Sleep(300 * time.Millisecond)
				w.WriteHeader(http.StatusCreated)
				_, _ = fmt.Fprintf(w, "payment %d: %s", n, body)
			})
			var shops []http.Handler
			for range 4 {
				m, err := idempotency.New(c.Runs("acme"), func(*http.Request) string { return "ann" },
					&idempotency.Options{Name: "payments", Wait: new(time.Minute)})
				if err != nil {
					t.Fatal(err)
				}
				shops = append(shops, m.Wrap(payments))
			}
			pay := func(i int, key, order string) *httptest.ResponseRecorder {
				for { // where the machine takes seconds, the middleware says that nothing was done, and to send it again
					r := httptest.NewRequestWithContext(unhurried(t), http.MethodPost, "/payments", strings.NewReader(order))
					r.Header.Set(idempotency.Header, key)
					w := httptest.NewRecorder()
					shops[i%4].ServeHTTP(w, r)
					if w.Code != http.StatusServiceUnavailable || !strings.Contains(w.Body.String(), "IDEMPOTENCY_UNAVAILABLE") {
						return w
					}
				}
			}
			var all sync.WaitGroup
			got := make([]*httptest.ResponseRecorder, 64)
			for i := range got {
				all.Go(func() { got[i] = pay(i, "k1", "höhe \x00\xff") })
			}
			all.Wait()
			for i, w := range got {
				if w.Code != http.StatusCreated || w.Body.String() != "payment 1: höhe \x00\xff" {
					t.Errorf("%d: %d %q", i, w.Code, w.Body)
				}
			}
			if w := pay(1, "k1", "more"); w.Code != http.StatusUnprocessableEntity || runs.Load() != 1 {
				t.Errorf("another payload: %d %s, %d runs", w.Code, w.Body, runs.Load())
			}

			gate := c.Runs("acme")
			dead, err := gate.Acquire(unhurried(t), once.Acquire{RunID: "r1", Owner: "dies", RequestID: "r1",
				TTL: 2 * time.Second, Fingerprint: "f1"})
			if err != nil || !dead.Acquired {
				t.Fatalf("%+v, %v", dead, err)
			}
			out, err := gate.Run(unhurried(t), "r1", func(_ context.Context, l once.Lock) (string, error) {
				if l.Token <= dead.Lock.Token {
					t.Errorf("token %d after %d", l.Token, dead.Lock.Token)
				}
				return "done", nil
			}, &once.Options{Owner: "lives", Wait: time.Minute, Fingerprint: "f1"})
			if err != nil || out.Status != once.Ready {
				t.Errorf("%+v, %v", out, err)
			}
			if err := gate.Finish(unhurried(t), dead.Lock, once.Result{Result: "late"}); !once.IsLost(err) {
				t.Errorf("a late finish: %v", err)
			}
			out, err = gate.Run(unhurried(t), "r1", func(context.Context, once.Lock) (string, error) { panic("it must not run") },
				&once.Options{Fingerprint: "f1"})
			if err != nil || out.Status != once.AlreadyFinished || out.Result != "done" {
				t.Errorf("%+v, %v", out, err)
			}
		})
	}
}

// TestKeyIsNewWithoutASweep: on a store that removes nothing, and whose time is known between two instants, the key of
// a finished run is a new one once it has certainly been kept for as long as it was to be, by callers whose clocks are
// apart; not before, and within a few seconds.
func TestKeyIsNewWithoutASweep(t *testing.T) {
	t.Parallel()
	for finishes, finisher := range []time.Duration{0, 900 * time.Millisecond, -900 * time.Millisecond} {
		for begins, beginner := range []time.Duration{0, 900 * time.Millisecond, -900 * time.Millisecond} {
			synctest.Test(t, func(t *testing.T) {
				client := dynamoClient("http://dynamodb.local", dynamodbtest.New(nil).RoundTripper())
				on := func(off time.Duration) *runs.Runs {
					return runs.New(openDynamo(t, client, "leasehold", awsdynamodb.Options{
						Now: func() time.Time { return time.Now().Add(off) }}), nil)
				}
				id := runs.ID{Tenant: "acme", ID: "order-7"}
				begin := func(r *runs.Runs, request string) runs.Outcome {
					o, err := r.Begin(unhurried(t), runs.Begin{ID: id, Owner: "ann", RequestID: request, TTLSeconds: 30,
						KeepSeconds: runs.MinKeepSeconds})
					if err != nil {
						t.Fatal(err)
					}
					return o
				}
				holder, other := on(finisher), on(beginner)
				first := begin(holder, "r")
				if o, err := holder.Finish(unhurried(t), runs.Finish{ID: id, Owner: "ann", Token: first.Grant.Token,
					Status: analysis.Ready}); err != nil || o.Code != analysis.OK {
					t.Fatalf("%+v, %v", o, err)
				}
				finished := time.Now()
				time.Sleep(55 * time.Second)
				for n := 0; ; n++ {
					asked := time.Now()
					o := begin(other, fmt.Sprint("r", n))
					if kept := asked.Sub(finished); o.Code == analysis.OK {
						if kept < time.Minute || kept > 66*time.Second || o.Grant.Token != first.Grant.Token+1 {
							t.Errorf("finished by %d, begun by %d: a new run after %v: %+v", finishes, begins, kept, o)
						}
						return
					} else if o.Code != analysis.AlreadyFinished || kept > 66*time.Second {
						t.Fatalf("finished by %d, begun by %d: after %v: %+v", finishes, begins, kept, o)
					}
					time.Sleep(100 * time.Millisecond)
				}
			})
		}
	}
}

// TestRunCostsOnDynamoDB: one request and one unit for each command of a run, although the table has an index for the
// sweep: a run is not in it. A result of 256 KiB takes 257 units when it is stored, and as many each time that a caller
// gets it, as docs/guides/idempotency.md says.
func TestRunCostsOnDynamoDB(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		server := dynamodbtest.New(nil)
		store := openDynamo(t, dynamoClient("http://dynamodb.local", server.RoundTripper()), "leasehold",
			awsdynamodb.Options{Indexes: []string{analysis.ExpiryField}})
		gate := direct.Runs(runs.New(store, nil), "acme", 0)
		fingerprint := strings.Repeat("f", 43)
		var lock once.Lock
		for _, step := range []struct {
			name  string
			units int
			do    func() error
		}{
			{"begin", 1, func() error {
				g, err := gate.Acquire(unhurried(t), once.Acquire{RunID: fingerprint, Owner: "web-3-4711", RequestID: "r1",
					TTL: 30 * time.Second, Fingerprint: fingerprint})
				lock = g.Lock
				return err
			}},
			{"refresh", 1, func() error { _, err := gate.Refresh(unhurried(t), lock, 30*time.Second); return err }},
			{"begin of another", 1, func() error {
				_, err := gate.Acquire(unhurried(t), once.Acquire{RunID: fingerprint, Owner: "web-4-4711", RequestID: "r2",
					TTL: 30 * time.Second, Fingerprint: fingerprint})
				return err
			}},
			{"finish", 1, func() error { return gate.Finish(unhurried(t), lock, once.Result{Result: strings.Repeat("x", 300)}) }},
			{"begin again", 1, func() error {
				g, err := gate.Acquire(unhurried(t), once.Acquire{RunID: fingerprint, Owner: "web-4-4711", RequestID: "r2",
					TTL: 30 * time.Second, Fingerprint: fingerprint})
				if len(g.Result.Result) != 300 {
					t.Errorf("%+v", g)
				}
				return err
			}},
			{"begin of a large one", 1, func() error {
				g, err := gate.Acquire(unhurried(t), once.Acquire{RunID: "large", Owner: "web-3-4711", RequestID: "r1",
					TTL: 30 * time.Second})
				lock = g.Lock
				return err
			}},
			{"its finish", 257, func() error {
				return gate.Finish(unhurried(t), lock, once.Result{Result: strings.Repeat("x", once.MaxResultBytes)})
			}},
			{"its begin again", 257, func() error {
				g, err := gate.Acquire(unhurried(t), once.Acquire{RunID: "large", Owner: "web-4-4711", RequestID: "r2",
					TTL: 30 * time.Second})
				if len(g.Result.Result) != once.MaxResultBytes {
					t.Errorf("%d bytes", len(g.Result.Result))
				}
				return err
			}},
		} {
			server.ResetCounts()
			before := server.Consumed()
			if err := step.do(); err != nil {
				t.Fatal(err)
			}
			after := server.Consumed()
			if got := fmt.Sprintf("%v, %v read and %v write units", server.Requests(), after.Read-before.Read,
				after.Write-before.Write); got != fmt.Sprintf("map[UpdateItem:1], 0 read and %d write units", step.units) {
				t.Errorf("%s: %s", step.name, got)
			}
		}
	})
}
