package redisstore_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/leasehold-dev/leasehold/adapters/redisstore"
	"github.com/leasehold-dev/leasehold/emulator/redistest"
	"github.com/leasehold-dev/leasehold/repo/docstore"
)

// TestSentTogether: while the connections are busy, requests of many callers wait, and then share one. Each gets its
// own answer, and one whose caller has left meanwhile is not sent.
func TestSentTogether(t *testing.T) {
	redistest.Each(t, nil, func(t *testing.T, server *redistest.Server) {
		const callers = 50
		s := open(t, server, nil)
		add := func(k string) docstore.Write {
			return docstore.Write{Key: key(k), Add: map[string]int64{"n": 1},
				If: docstore.Not{Cond: docstore.Eq{Field: "n", Value: docstore.Int(1)}}}
		}
		for _, k := range []string{"warm", "once"} { // the server knows the script from here on, and refuses one of them
			if _, err := s.Write(t.Context(), add(k)); err != nil {
				t.Fatal(err)
			}
		}
		var busy sync.WaitGroup
		var late []*redistest.Injection
		for i := range redisstore.Flights {
			late = append(late, server.Inject(redistest.Late, "EVALSHA"))
			busy.Go(func() {
				if _, err := s.Write(t.Context(), add(fmt.Sprint("late", i))); !errors.Is(err, docstore.ErrUnavailable) {
					t.Errorf("a write whose connection broke: %v", err) // the proxy drops it
				}
			})
			until(t, late[i].Happened)
		}
		gone, leave := context.WithCancel(t.Context())
		var left, waited sync.WaitGroup
		left.Go(func() {
			if _, err := s.Write(gone, add("gone")); !errors.Is(err, context.Canceled) {
				t.Errorf("the caller that left: %v", err)
			}
		})
		until(t, func() bool { return s.Waiting("acme") == 1 })
		for i := range callers {
			waited.Go(func() {
				k, applied := fmt.Sprint("k", i), true
				if i == 7 {
					k, applied = "once", false
				}
				if r, err := s.Write(t.Context(), add(k)); err != nil || r.Applied != applied ||
					!r.Docs[0].Equal(docstore.Doc{"n": docstore.Int(1)}) {
					t.Errorf("%s: %+v, %v", k, r, err)
				}
			})
		}
		until(t, func() bool { return s.Waiting("acme") == callers+1 })
		leave()
		left.Wait()
		server.ResetCommands()
		for _, l := range late {
			if err := l.Release(t.Context()); err != nil {
				t.Error(err)
			}
		}
		busy.Wait()
		waited.Wait()
		if got := server.Commands()["EVALSHA"]; got != callers {
			t.Errorf("%d requests of %d callers", got, callers)
		}
		snap, err := s.Get(t.Context(), key("gone"), key("late0"))
		if err != nil || snap.Docs[0] != nil || !snap.Docs[1].Equal(docstore.Doc{"n": docstore.Int(1)}) {
			t.Errorf("%v, %v: the request of the caller that left was sent, or the late one was not", snap.Docs, err)
		}
	})
}

// until waits for a condition.
func until(t *testing.T, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !holds(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("that takes too long")
		}
	}
}

// TestLeft: whatever callers leave while their requests are on their way, those that stay are answered, each with its
// own response.
func TestLeft(t *testing.T) {
	redistest.Each(t, nil, func(t *testing.T, server *redistest.Server) {
		const callers, times = 4, 250
		s := open(t, server, nil)
		var all sync.WaitGroup
		for i := range callers {
			all.Go(func() {
				add := docstore.Write{Key: key(fmt.Sprint("stays", i)), Add: map[string]int64{"n": 1}}
				for n := range times {
					if r, err := s.Write(t.Context(), add); err != nil || r.Docs[0]["n"] != docstore.Value(docstore.Int(n+1)) {
						t.Errorf("%d, %d: %+v, %v", i, n, r, err)
					}
				}
			})
			all.Go(func() {
				for n := range times {
					ctx, leave := context.WithCancel(t.Context())
					if n%3 > 0 {
						go leave() // before, while or after it is sent
					}
					if _, err := s.Get(ctx, key("left")); err != nil && !errors.Is(err, context.Canceled) {
						t.Errorf("%d, %d: a caller that left: %v", i, n, err)
					}
					leave()
				}
			})
		}
		all.Wait()
	})
}
