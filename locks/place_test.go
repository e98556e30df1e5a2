package locks_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leasehold-dev/leasehold/client"
	"github.com/leasehold-dev/leasehold/cluster"
	"github.com/leasehold-dev/leasehold/contracts"
	"github.com/leasehold-dev/leasehold/functions/httpapi"
	"github.com/leasehold-dev/leasehold/locks"
	"github.com/leasehold-dev/leasehold/repo/docstore"
)

// fleet is instances over one store that each serve one request at a time, behind something that has no queue: as a
// Lambda function behind its URL.
type fleet struct {
	instances []http.Handler

	mu      sync.Mutex
	busy    []bool
	most    int                        // at once
	sent    map[string]int             // requests, by their callers
	refused map[string]int             // of them
	took    map[string][]time.Duration // the others
}

func newFleet(n int, store docstore.Store, o *httpapi.Options) *fleet {
	f := &fleet{busy: make([]bool, n), sent: map[string]int{}, refused: map[string]int{},
		took: map[string][]time.Duration{}}
	for range n {
		f.instances = append(f.instances, httpapi.New(store, httpapi.Development{}, o))
	}
	return f
}

// serve passes a request on to an instance that is free.
func (f *fleet) serve(caller string, w http.ResponseWriter, r *http.Request) {
	begin := time.Now()
	f.mu.Lock()
	f.sent[caller]++
	i := slices.Index(f.busy, false)
	if i < 0 {
		f.refused[caller]++
		f.mu.Unlock()
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusTooManyRequests)
		_, _ = io.WriteString(w, `{"message":"Rate Exceeded."}`)
		return
	}
	f.busy[i] = true
	at := 0
	for _, b := range f.busy {
		if b {
			at++
		}
	}
	f.most = max(f.most, at)
	f.mu.Unlock()
	f.instances[i].ServeHTTP(w, r)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.busy[i] = false
	f.took[caller] = append(f.took[caller], time.Since(begin))
}

// from is a client of the fleet.
func (f *fleet) from(t *testing.T, caller string) *client.Client {
	t.Helper()
	c, err := client.New("http://127.0.0.1", &client.Options{HTTP: &http.Client{Transport: handler{
		http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { f.serve(caller, w, r) }),
	}}})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func (f *fleet) locks(t *testing.T, caller, tenant, owner string) *locks.Client {
	t.Helper()
	c, err := locks.New(f.from(t, caller).LockAPI().For(tenant), &locks.Options{Owner: owner})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// requests is how many requests a caller has sent.
func (f *fleet) requests(caller string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.sent[caller]
}

// holdsNone are the options of a server that holds no response.
func holdsNone() *httpapi.Options { return &httpapi.Options{MaxWait: -1} }

// inFleet runs a test with instances that hold no response, in a bubble of synctest.
func inFleet(t *testing.T, test func(*testing.T, *fleet)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		test(t, newFleet(4, docstore.NewMemory(nil), holdsNone()))
		time.Sleep(2 * time.Minute) // what is under way in the background ends by itself
	})
}

// TestRequestsOfAWait: with a server that holds no response, who waits for 60 s sends so many requests: the next in
// line 63, one without a line 25 to 42; and none comes after the end of the wait, but for that which gives
// the place up.
func TestRequestsOfAWait(t *testing.T) {
	for name, c := range map[string]struct {
		o           locks.LockOptions
		least, most int
	}{
		// the first does not wait, the second takes a place; one comes just before the end, and one gives the place up
		"in line": {locks.LockOptions{Fair: true}, 2 + 59 + 1 + 1, 2 + 59 + 1 + 1},
		// one every 1.5 to 2.5 s, and one just before the end
		"without a line": {locks.LockOptions{}, 2 + 23, 2 + 39 + 1},
	} {
		t.Run(name, func(t *testing.T) {
			inFleet(t, func(t *testing.T, f *fleet) {
				held, err := f.locks(t, "holder", "acme", "ann").Lock(t.Context(), "deploy", nil)
				if err != nil {
					t.Fatal(err)
				}
				o, begin := c.o, time.Now()
				o.Wait = new(time.Minute)
				_, err = f.locks(t, "waiter", "acme", "bob").Lock(t.Context(), "deploy", &o)
				if took := time.Since(begin); !errors.Is(err, contracts.CodeLockHeld) || took != time.Minute {
					t.Errorf("after %v: %v", took, err)
				}
				time.Sleep(time.Second) // it gives its place up
				n := f.requests("waiter")
				if n < c.least || n > c.most {
					t.Errorf("%d requests in a minute, want %d to %d", n, c.least, c.most)
				}
				time.Sleep(time.Minute)
				if more := f.requests("waiter") - n; more > 0 {
					t.Errorf("%d requests after the wait", more)
				}
				if err := held.Unlock(t.Context()); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// TestHeldLockOfAServerThatHoldsNoResponse: a caller that waits obtains the lock soon after it is free, and a
// line keeps its order, whatever the lock and however short its lease.
func TestHeldLockOfAServerThatHoldsNoResponse(t *testing.T) {
	const waiting = 6
	fair := locks.LockOptions{Fair: true}
	short := locks.LockOptions{Fair: true, TTL: time.Second}
	permits := locks.LockOptions{Permits: 2}
	for name, c := range map[string]struct {
		o     locks.LockOptions
		order bool
		soon  time.Duration // after it is free, or, in line, after the one before
	}{
		"in line":                     {fair, true, 4 * time.Second},
		"in line, with a short lease": {short, true, 2 * time.Second},
		"without a line":              {locks.LockOptions{}, false, 2500 * time.Millisecond},
		"permits":                     {permits, false, 4 * time.Second},
		"a reader after writers":      {locks.LockOptions{Shared: true}, false, 5 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			inFleet(t, func(t *testing.T, f *fleet) {
				var holding []*locks.Lock
				for n := range max(1, c.o.Permits) {
					first := c.o
					first.Shared = false
					l, err := f.locks(t, "holder", "acme", fmt.Sprint("holder-", n)).Lock(t.Context(), "deploy", &first)
					if err != nil {
						t.Fatal(err)
					}
					holding = append(holding, l)
				}
				var mu sync.Mutex
				var order []int
				free := time.Now().Add(47 * time.Second)
				last := free
				var all sync.WaitGroup
				for n := range waiting {
					all.Go(func() {
						l, err := f.locks(t, "waiters", "acme", fmt.Sprint("w-", n)).Lock(t.Context(), "deploy", &c.o)
						if err != nil {
							t.Error(err)
							return
						}
						mu.Lock()
						order = append(order, n)
						if after := time.Since(last); after > c.soon {
							t.Errorf("%d has the lock %v after it was free", n, after)
						}
						mu.Unlock()
						time.Sleep(700 * time.Millisecond)
						mu.Lock()
						last = time.Now()
						mu.Unlock()
						if err := l.Unlock(t.Context()); err != nil {
							t.Error(err)
						}
					})
					time.Sleep(170 * time.Millisecond)
				}
				time.Sleep(time.Until(free))
				for _, l := range holding {
					if err := l.Unlock(t.Context()); err != nil {
						t.Error(err)
					}
				}
				all.Wait()
				if len(order) != waiting || c.order && !slices.IsSorted(order) {
					t.Errorf("the order is %v", order)
				}
			})
		})
	}
}

// TestRateOfAServerThatHoldsNoResponse: those who wait for a rate have all that it allows.
func TestRateOfAServerThatHoldsNoResponse(t *testing.T) {
	inFleet(t, func(t *testing.T, f *fleet) {
		begin := time.Now()
		var all sync.WaitGroup
		for n := range 10 {
			all.Go(func() {
				if _, err := f.locks(t, "takers", "acme", fmt.Sprint("t-", n)).
					Take(t.Context(), "mail", locks.Rate{Limit: 2, Window: 10 * time.Second}, nil); err != nil {
					t.Error(err)
				}
			})
			time.Sleep(10 * time.Millisecond)
		}
		all.Wait()
		if took := time.Since(begin); took < 40*time.Second || took > 46*time.Second {
			t.Errorf("five windows of two take %v", took)
		}
	})
}

// TestSetOfAServerThatHoldsNoResponse: several locks are obtained soon after the last of them is free.
func TestSetOfAServerThatHoldsNoResponse(t *testing.T) {
	inFleet(t, func(t *testing.T, f *fleet) {
		held, err := f.locks(t, "holder", "acme", "ann").Lock(t.Context(), "b", nil)
		if err != nil {
			t.Fatal(err)
		}
		begin := time.Now()
		time.AfterFunc(33*time.Second, func() { _ = held.Unlock(context.Background()) })
		s, err := f.locks(t, "waiter", "acme", "bob").LockAll(t.Context(), []string{"a", "b", "c"}, nil)
		if took := time.Since(begin); err != nil || took > 36*time.Second {
			t.Fatalf("after %v: %v", took, err)
		}
		if err := s.Unlock(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// slowly is a store whose calls take a while.
type slowly struct {
	docstore.Store
	took time.Duration
}

func (s slowly) Get(ctx context.Context, keys ...docstore.Key) (docstore.Snapshot, error) {
	time.Sleep(s.took)
	return s.Store.Get(ctx, keys...)
}

func (s slowly) List(ctx context.Context, q docstore.Query) (docstore.Page, error) {
	time.Sleep(s.took)
	return s.Store.List(ctx, q)
}

func (s slowly) Write(ctx context.Context, writes ...docstore.Write) (docstore.Result, error) {
	time.Sleep(s.took)
	return s.Store.Write(ctx, writes...)
}

// TestAGreedyAndAQuietTenant: four instances that each serve one request at a time. 64 callers of one tenant wait for
// a lock, in line and not, and 16 for events. If no response is held none of the other tenant's requests is refused or
// slower than alone, and all 64 obtain the lock, those in line in their order. If responses are held, nearly all of
// its requests are refused.
func TestAGreedyAndAQuietTenant(t *testing.T) {
	const (
		callers, followers = 64, 16
		looks              = 200 // of the quiet tenant: two requests each
	)
	quiet := func(t *testing.T, f *fleet, caller string) {
		c := f.from(t, caller).LockAPI()
		for n := range looks {
			l, err := c.Acquire(t.Context(), "calm", "job", contracts.AcquireRequest{OwnerID: "quiet", TTLSeconds: 5,
				RequestID: fmt.Sprint("q", n)})
			if err == nil {
				_, err = c.Release(t.Context(), "calm", "job", contracts.ReleaseRequest{OwnerID: "quiet",
					FencingToken: l.FencingToken})
			}
			if err != nil && !strings.Contains(err.Error(), "429") {
				t.Error(err)
			}
			time.Sleep(293 * time.Millisecond)
		}
	}
	for name, o := range map[string]*httpapi.Options{"no response is held": holdsNone(), "responses are held": nil} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFleet(4, slowly{docstore.NewMemory(nil), time.Millisecond}, o)
				quiet(t, f, "alone")
				ctx, cancel := context.WithCancel(t.Context())
				held, err := f.locks(t, "holder", "busy", "holder").Lock(ctx, "deploy", &locks.LockOptions{Fair: true})
				if err != nil {
					t.Fatal(err)
				}
				var had atomic.Int64
				var mu sync.Mutex
				var order []int // of those in line
				var all sync.WaitGroup
				for n := range callers {
					all.Go(func() {
						fair := n%4 != 0
						l, err := f.locks(t, "greedy", "busy", fmt.Sprint("w-", n)).
							Lock(ctx, "deploy", &locks.LockOptions{Fair: fair})
						if err != nil {
							return
						}
						had.Add(1)
						if mu.Lock(); fair {
							order = append(order, n)
						}
						mu.Unlock()
						time.Sleep(300 * time.Millisecond)
						if err := l.Unlock(ctx); err != nil && o != nil {
							t.Error(err)
						}
					})
					time.Sleep(171 * time.Millisecond)
				}
				for range followers {
					all.Go(func() {
						p := f.from(t, "follower").Placements("busy", "games")
						for q := (cluster.EventQuery{Wait: 20 * time.Second}); ctx.Err() == nil; {
							page, err := p.Events(ctx, q)
							if err == nil {
								q.After = page.Next
							}
							select {
							case <-time.After(max(250*time.Millisecond, time.Duration(page.PollAfterMs)*time.Millisecond)):
							case <-ctx.Done():
							}
						}
					})
					time.Sleep(113 * time.Millisecond)
				}
				quiet(t, f, "beside") // while all of them wait
				f.mu.Lock()
				sent, refused := f.sent["beside"], f.refused["beside"]
				alone, beside := p99(f.took["alone"]), p99(f.took["beside"])
				t.Logf("the greedy tenant has sent %d requests, of which %d were refused", f.sent["greedy"], f.refused["greedy"])
				f.mu.Unlock()
				if o == nil {
					if refused < looks/2 {
						t.Errorf("%d of %d requests are refused: the instances are not taken", refused, sent)
					}
					_ = held.Unlock(t.Context())
					cancel()
					all.Wait()
					time.Sleep(2 * time.Minute)
					return
				}
				if refused > 0 || beside > 2*alone {
					t.Errorf("%d of %d requests are refused; p99 %v, alone %v", refused, sent, beside, alone)
				}
				if err := held.Unlock(ctx); err != nil {
					t.Error(err)
				}
				begin := time.Now()
				for had.Load() < callers && time.Since(begin) < 5*time.Minute {
					time.Sleep(time.Second)
				}
				took := time.Since(begin)
				cancel()
				all.Wait()
				if n := had.Load(); n != callers || !slices.IsSorted(order) {
					t.Errorf("%d have had the lock, in the order %v", n, order)
				}
				time.Sleep(2 * time.Minute)
				f.mu.Lock()
				defer f.mu.Unlock()
				t.Logf("all had the lock within %v, and at most %d instances were busy", took, f.most)
			})
		})
	}
}

// p99 is 0 of none.
func p99(all []time.Duration) time.Duration {
	if len(all) == 0 {
		return 0
	}
	slices.Sort(all)
	return all[len(all)*99/100]
}
