package suite

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/lock"
)

// tallied is a store that counts writes, and keeps the power of [docstore.Watcher].
type tallied struct {
	docstore.Store
	writes atomic.Int64
}

// Write implements [docstore.Store].
func (s *tallied) Write(ctx context.Context, writes ...docstore.Write) (docstore.Result, error) {
	s.writes.Add(1)
	return s.Store.Write(ctx, writes...)
}

// Watch implements [docstore.Watcher]. Of a store that is none it says nothing.
func (s *tallied) Watch(ctx context.Context, k docstore.Key) (docstore.Watch, error) {
	if w, ok := s.Store.(docstore.Watcher); ok {
		return w.Watch(ctx, k)
	}
	return docstore.Watch{}, nil
}

// Waiting lets requests of two processes wait for a lock: they write nothing while it is held, and get it in the order
// of their arrival, when it is released and when its lease has expired by the store's time. The clock of the store is
// the test's; the requests wait in real time, and one that has waited for as long as it may is sent again, as clients
// do. It has its place in line then.
func Waiting(t *testing.T, newStore func(*testing.T, func() time.Time) docstore.Store) {
	clock := NewClock()
	s := &tallied{Store: newStore(t, clock.Now)}
	here, there := lock.New(s, nil), lock.New(s, nil)
	id := lock.ID{Tenant: "acme", Key: "waited for"}
	var again atomic.Int64 // requests that were sent again
	waitFor := func(l *lock.Locks, owner string, inLine int) <-chan lock.Outcome {
		t.Helper()
		out := make(chan lock.Outcome, 1)
		go func() {
			c := lock.Acquire{ID: id, Owner: owner, RequestID: "r-" + owner, TTLSeconds: 3600, WaitSeconds: lock.MaxWaitSeconds,
				Fair: true}
			o, err := l.Acquire(t.Context(), c)
			for ; err == nil && o.Code == lock.Held; o, err = l.Acquire(t.Context(), c) {
				again.Add(1)
			}
			if err != nil {
				t.Errorf("%s: %v", owner, err)
			}
			out <- o
		}()
		for deadline := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
			st, _, err := here.Get(t.Context(), id)
			switch {
			case err != nil:
				t.Fatal(err)
			case len(st.Waiting) == inLine:
				return out
			case time.Now().After(deadline):
				t.Fatalf("%s: %d in line, want %d", owner, len(st.Waiting), inLine)
			}
		}
	}
	got := func(name string, c <-chan lock.Outcome, token int64) lock.Lease {
		t.Helper()
		o := <-c
		if o.Code != lock.OK || o.Lease.Owner != name || token != 0 && o.Lease.Token != token ||
			o.Lease.ExpiresAt.Sub(o.At) != time.Hour {
			t.Fatalf("%s, token %d: %+v", name, token, o)
		}
		return o.Lease
	}
	release := func(l lock.Lease) {
		t.Helper()
		o, err := here.Release(t.Context(), lock.Release{ID: id, Owner: l.Owner, Token: l.Token,
			RequestID: fmt.Sprint("e-", l.Token)})
		if err != nil || o.Code != lock.OK {
			t.Fatalf("release: %+v, error %v", o, err)
		}
	}
	first, err := here.Acquire(t.Context(), lock.Acquire{ID: id, Owner: "ann", RequestID: "r-ann", TTLSeconds: 3600})
	if err != nil || first.Code != lock.OK {
		t.Fatalf("%+v, error %v", first, err)
	}
	bob := waitFor(there, "bob", 1)
	carl := waitFor(here, "carl", 2)
	writes, before := s.writes.Load(), again.Load()
	time.Sleep(2500 * time.Millisecond) // some reads
	if n := s.writes.Load() - writes; n != 0 && again.Load() == before {
		t.Errorf("%d writes while the lock is held", n)
	}
	release(first.Lease)
	second := got("bob", bob, first.Lease.Token+1)
	release(second)
	third := got("carl", carl, second.Token+1)
	dora := waitFor(there, "dora", 1)
	clock.Advance(2 * time.Hour) // also beyond her place: she takes the lock when she sees that it is free
	got("dora", dora, third.Token+1)
}
