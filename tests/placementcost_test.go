package tests

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leasehold-dev/leasehold/client"
	"github.com/leasehold-dev/leasehold/cluster"
	"github.com/leasehold-dev/leasehold/functions/direct"
	"github.com/leasehold-dev/leasehold/functions/httpapi"
	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/placement"
)

// counted counts calls of a store, and the documents that lists return.
type counted struct {
	docstore.Store

	gets, writes, lists, listed atomic.Int64
}

// Get implements [docstore.Store].
func (c *counted) Get(ctx context.Context, keys ...docstore.Key) (docstore.Snapshot, error) {
	c.gets.Add(1)
	return c.Store.Get(ctx, keys...)
}

// Write implements [docstore.Store].
func (c *counted) Write(ctx context.Context, writes ...docstore.Write) (docstore.Result, error) {
	c.writes.Add(1)
	return c.Store.Write(ctx, writes...)
}

// List implements [docstore.Store].
func (c *counted) List(ctx context.Context, q docstore.Query) (docstore.Page, error) {
	c.lists.Add(1)
	p, err := c.Store.List(ctx, q)
	c.listed.Add(int64(len(p.Entries)))
	return p, err
}

// reset begins to count anew, and returns what was counted.
func (c *counted) reset() (gets, writes, lists int64) {
	return c.gets.Swap(0), c.writes.Swap(0), c.lists.Swap(0)
}

// inProcess is a server without a network, which counts its requests.
type inProcess struct {
	http.Handler

	requests atomic.Int64
}

// RoundTrip implements [http.RoundTripper].
func (s *inProcess) RoundTrip(r *http.Request) (*http.Response, error) {
	s.requests.Add(1)
	if r.Body == nil {
		r.Body = http.NoBody
	}
	ctx, gone := context.WithCancel(context.WithoutCancel(r.Context())) // a server does not know a client's deadline
	defer context.AfterFunc(r.Context(), gone)()
	defer gone()
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r.WithContext(ctx))
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	return w.Result(), nil
}

// TestCostsOfMembersAndLocators: what members and locators cost in an hour in which nothing happens, and how often the
// event of a claim is read: the figures of docs/guides/placement.md. A member costs its heartbeats and, unless it
// serves only those who come to it, its look at the events.
func TestCostsOfMembersAndLocators(t *testing.T) {
	t.Parallel()
	chat := placement.Cluster{Tenant: "acme", Name: "chat"}
	for _, c := range []struct {
		name      string
		members   int
		locators  int
		serveOnly bool
		http      bool
		gets      int64 // in an hour
		writes    int64
		lists     int64 // at most
		requests  int64 // over HTTP, at most
		again     int64 // how often the two events of one activation are read, at most
	}{
		{"a member on a store", 1, 0, false, false, 0, 1080, 3960, 0, 90},
		{"a member on a store that serves only", 1, 0, true, false, 0, 1080, 0, 0, 0},
		{"a locator on a store", 0, 1, false, false, 1800, 0, 0, 0, 0},
		{"ten members over HTTP", 10, 0, false, true, 0, 10800, 3600 + 10*440, 10800 + 10*450, 130},
		{"a locator over HTTP", 0, 1, false, true, 1800, 0, 0, 1800, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				store := &counted{Store: docstore.NewMemory(nil)}
				server := &inProcess{Handler: httpapi.New(store, httpapi.Development{}, nil)}
				provider := func() cluster.Provider {
					if !c.http {
						return direct.Cluster(placement.New(store, nil), chat)
					}
					s, err := client.New("http://127.0.0.1:8080", &client.Options{HTTP: &http.Client{Transport: server}})
					if err != nil {
						t.Fatal(err)
					}
					return s.Placements(chat.Tenant, chat.Name)
				}
				served := noting(make(chan cluster.Activation, 1))
				for i := range c.members {
					m, err := cluster.NewMember(provider(), fmt.Sprint("m", i), served,
						&cluster.Options{Kinds: []string{"room"}, ServeOnly: c.serveOnly})
					if err != nil {
						t.Fatal(err)
					}
					if err := m.Start(t.Context()); err != nil {
						t.Fatal(err)
					}
					defer m.Stop(context.WithoutCancel(t.Context()))
				}
				for range c.locators {
					l := cluster.NewLocator(provider(), nil)
					if err := l.Start(t.Context()); err != nil {
						t.Fatal(err)
					}
					defer l.Stop()
				}
				time.Sleep(time.Minute + time.Second/2) // until no event is young
				store.reset()
				server.requests.Store(0)
				time.Sleep(time.Hour) // in the bubble: what an hour costs in which nothing happens
				gets, writes, lists := store.reset()
				if gets != c.gets || writes != c.writes || lists > c.lists {
					t.Errorf("%d reads, %d writes and %d lists in an hour, want %d, %d and %d at most", gets, writes, lists, c.gets,
						c.writes, c.lists)
				}
				if got := server.requests.Load(); got > c.requests {
					t.Errorf("%d requests in an hour, want %d at most", got, c.requests)
				}
				if c.again == 0 {
					return
				}
				before := store.listed.Load()
				s := placement.New(store, nil)
				if o, err := s.Claim(t.Context(), placement.Claim{Cluster: chat, Identity: placement.Identity{
					Kind: "room", ID: "lobby"}, RequestID: "c"}); err != nil || o.Code != placement.OK {
					t.Fatalf("%+v, %v", o, err)
				}
				<-served
				time.Sleep(time.Minute) // in the bubble: what a minute costs
				again := store.listed.Load() - before
				t.Logf("the two events of an activation were read %d times", again)
				if again > c.again {
					t.Errorf("want %d at most", c.again)
				}
			})
		})
	}
}
