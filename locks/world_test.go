package locks_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leasehold-dev/leasehold/client"
	"github.com/leasehold-dev/leasehold/contracts"
	"github.com/leasehold-dev/leasehold/functions/direct"
	"github.com/leasehold-dev/leasehold/functions/httpapi"
	"github.com/leasehold-dev/leasehold/locks"
	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/lock"
)

// handler is a server without a network, so that it can be in a bubble of synctest.
type handler struct{ http.Handler }

func (h handler) RoundTrip(r *http.Request) (*http.Response, error) {
	done := make(chan *http.Response, 1)
	go func() {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		done <- w.Result()
	}()
	select {
	case w := <-done:
		return w, nil
	case <-r.Context().Done():
		return nil, r.Context().Err()
	}
}

// world is a provider in a bubble, with what was asked of it, and faults to inject.
type world struct {
	locks.Provider
	t     *testing.T
	begin time.Time
	store docstore.Store

	mu     sync.Mutex
	calls  []call
	counts map[string]int // by name and key
	events []locks.Event

	// fault is called before each call. A fault that is not nil is returned in place of the result.
	fault func(ctx context.Context, c call) fault
}

// call is a request that arrived.
type call struct {
	name    string
	at      time.Duration // since the beginning
	n       int           // how many of that name, and of that key, came before
	key     string
	request string // its request_id
	token   int64
	expires string // of a renewal
}

// fault is what becomes of a request.
type fault struct {
	err     error
	applied bool // the request is carried out, and the response lost
}

// inWorlds runs a test in bubbles of synctest, in which sleeping takes exactly as long as it says and no time at all:
// over HTTP and on a store.
func inWorlds(t *testing.T, test func(*world)) {
	t.Helper()
	for name, open := range map[string]func(docstore.Store) (locks.Provider, error){
		"over HTTP": func(s docstore.Store) (locks.Provider, error) {
			c, err := client.New("http://127.0.0.1", &client.Options{
				HTTP: &http.Client{Transport: handler{httpapi.New(s, httpapi.Development{}, nil)}},
			})
			if err != nil {
				return nil, err
			}
			return c.LockAPI().For("acme"), nil
		},
		"on a store": func(s docstore.Store) (locks.Provider, error) { return direct.Locks(lock.New(s, nil), "acme"), nil },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := &world{t: t, begin: time.Now(), store: docstore.NewMemory(nil), counts: map[string]int{}}
				var err error
				if w.Provider, err = open(w.store); err != nil {
					t.Fatal(err)
				}
				test(w)
				time.Sleep(2 * time.Minute) // what is under way in the background ends by itself
			})
		})
	}
}

// client is a client of the world, whose events are collected.
func (w *world) client(o *locks.Options) *locks.Client {
	w.t.Helper()
	own := locks.Options{}
	if o != nil {
		own = *o
	}
	if own.Observe == nil {
		own.Observe = w.observe
	}
	c, err := locks.New(w, &own)
	if err != nil {
		w.t.Fatal(err)
	}
	return c
}

func (w *world) observe(e locks.Event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.events = append(w.events, e)
}

// whats are the events so far, without those of waiting.
func (w *world) whats() (all []string) {
	synctest.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, e := range w.events {
		if e.What != locks.Waiting {
			all = append(all, e.What)
		}
	}
	return all
}

// names are the calls so far.
func (w *world) names() (all []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range w.calls {
		all = append(all, c.name)
	}
	return all
}

// of are the calls of a name.
func (w *world) of(name string) (all []call) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range w.calls {
		if c.name == name {
			all = append(all, c)
		}
	}
	return all
}

// renewals are when renewals arrived.
func (w *world) renewals() (all []time.Duration) {
	for _, c := range w.of("renew") {
		all = append(all, c.at)
	}
	return all
}

// holder is who holds a key, "" if no one does.
func (w *world) holder(key string) string {
	w.t.Helper()
	l, err := w.Get(context.Background(), key)
	switch {
	case errors.Is(err, contracts.CodeNotFound):
		return ""
	case err != nil:
		w.t.Fatal(err)
	case l.State != contracts.StateActive:
		return ""
	}
	return l.OwnerID
}

// meets sets what becomes of calls from now on, also while others are under way.
func (w *world) meets(f func(context.Context, call) fault) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.fault = f
}

func (w *world) arrive(ctx context.Context, c call) fault {
	w.mu.Lock()
	c.at = time.Since(w.begin)
	c.n = w.counts[c.name+" "+c.key]
	w.counts[c.name+" "+c.key]++
	w.calls = append(w.calls, c)
	f := w.fault
	w.mu.Unlock()
	if f == nil {
		return fault{}
	}
	return f(ctx, c)
}

func arrived[T any](ctx context.Context, w *world, c call, do func() (T, error)) (T, error) {
	var none T
	f := w.arrive(ctx, c)
	if f.err == nil {
		return do()
	}
	if f.applied {
		_, _ = do()
	}
	return none, f.err
}

func (w *world) Acquire(ctx context.Context, key string, r contracts.AcquireRequest) (contracts.Lease, error) {
	name := "acquire"
	if r.GiveUp {
		name = "give up"
	}
	return arrived(ctx, w, call{name: name, key: key, request: r.RequestID}, func() (contracts.Lease, error) {
		return w.Provider.Acquire(ctx, key, r)
	})
}

func (w *world) Renew(ctx context.Context, key string, r contracts.RenewRequest) (contracts.Lease, error) {
	return arrived(ctx, w, call{name: "renew", key: key, request: r.RequestID, token: r.FencingToken,
		expires: r.ExpiresAt}, func() (contracts.Lease, error) {
		return w.Provider.Renew(ctx, key, r)
	})
}

func (w *world) Release(ctx context.Context, key string, r contracts.ReleaseRequest) (contracts.EndedLease, error) {
	return arrived(ctx, w, call{name: "release", key: key, request: r.RequestID, token: r.FencingToken},
		func() (contracts.EndedLease, error) {
			return w.Provider.Release(ctx, key, r)
		})
}

// hang is a fault: no response until the caller gives up.
func hang(ctx context.Context) fault {
	<-ctx.Done()
	return fault{err: ctx.Err()}
}

var errNetwork = errors.New("connection reset by peer")

// s are seconds.
func s(seconds ...float64) (d []time.Duration) {
	for _, n := range seconds {
		d = append(d, time.Duration(n*float64(time.Second)))
	}
	return d
}

func want[T any](t *testing.T, what string, got, want T) {
	t.Helper()
	if g, w := fmt.Sprintf("%+v", got), fmt.Sprintf("%+v", want); g != w {
		t.Errorf("%s: got %s, want %s", what, g, w)
	}
}

// wantErr checks what an error is.
func wantErr(t *testing.T, what string, err error, targets ...error) {
	t.Helper()
	for _, target := range targets {
		if !errors.Is(err, target) {
			t.Errorf("%s: got %v, want %v", what, err, target)
		}
	}
}
