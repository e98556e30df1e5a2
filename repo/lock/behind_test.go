package lock_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/lock"
)

// older is a store in memory that has come back older: counters go on from least.
type older struct {
	docstore.Store
	least    int64
	rises    bool // with each request
	requests int
}

func (s *older) Write(ctx context.Context, writes ...docstore.Write) (docstore.Result, error) {
	s.requests++
	if s.requests > 1000 {
		return docstore.Result{}, errors.New("it goes on for ever")
	}
	if s.rises {
		s.least = time.Now().Add(time.Duration(s.requests) * time.Minute).UnixMicro()
	}
	keys := make([]docstore.Key, len(writes))
	for i, w := range writes {
		keys[i] = w.Key
	}
	snap, err := s.Get(ctx, keys...)
	if err != nil {
		return docstore.Result{}, err
	}
	holds := true
	for i, w := range writes {
		holds = holds && w.Holds(snap.Docs[i], snap.At)
	}
	for i, w := range writes {
		if behind := w.Behind(s.least, snap.Docs[i]); holds && behind != nil {
			return docstore.Result{}, behind
		}
	}
	return s.Store.Write(ctx, writes...)
}

// TestLocksOfAStoreThatCameBackOlder (LS-INV-002): the next grant of each lock is above what the store may have
// forgotten, in all modes, alone, together with others, and by the one who hands a lock on; whoever holds a lease that
// the store knows of keeps it, and its token.
func TestLocksOfAStoreThatCameBackOlder(t *testing.T) {
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	s := &older{Store: docstore.NewMemory(&docstore.MemoryOptions{Now: func() time.Time { return now }})}
	locks := lock.New(s, nil)
	n := 0
	acquire := func(key, owner string, change func(*lock.Acquire)) lock.Acquire {
		n++
		a := lock.Acquire{ID: lock.ID{Tenant: "acme", Key: key}, Owner: owner, RequestID: fmt.Sprint("r", n), TTLSeconds: 60}
		if change != nil {
			change(&a)
		}
		return a
	}
	granted := func(a lock.Acquire) lock.Lease {
		t.Helper()
		o, err := locks.Acquire(t.Context(), a)
		if err != nil || o.Code != lock.OK {
			t.Fatalf("%s: %s, %v", a.Key, o.Code, err)
		}
		return o.Lease
	}
	permits := func(a *lock.Acquire) { a.Mode, a.Limit = lock.Permits, 3 }
	rate := func(a *lock.Acquire) { a.Mode, a.Limit, a.WindowSeconds, a.TTLSeconds = lock.Rate, 3, 60, 0 }
	release := func(key, owner string, token int64) lock.Code {
		t.Helper()
		n++
		o, err := locks.Release(t.Context(), lock.Release{ID: lock.ID{Tenant: "acme", Key: key}, Owner: owner, Token: token,
			RequestID: fmt.Sprint("r", n)})
		if err != nil {
			t.Fatal(err)
		}
		return o.Code
	}
	free := granted(acquire("free", "ann", nil))
	release("free", "ann", free.Token)
	held := granted(acquire("held", "ann", nil))
	replaced := granted(acquire("replaced", "ann", func(a *lock.Acquire) { a.Replace = true }))
	permit := granted(acquire("permits", "ann", permits))
	once := acquire("rate", "ann", rate)
	granted(once)
	for _, key := range []string{"one", "two"} {
		release(key, "ann", granted(acquire(key, "ann", nil)).Token)
	}
	line := granted(acquire("line", "ann", nil))
	bob := acquire("line", "bob", func(a *lock.Acquire) { a.WaitSeconds, a.Fair = 20, true })
	if o, err := locks.LineUp(t.Context(), bob); err != nil || o.Code != lock.Held {
		t.Fatalf("%s, %v", o.Code, err)
	}
	now = now.Add(time.Second)
	s.least = now.UnixMicro()

	above := func(what string, l lock.Lease, before int64) {
		t.Helper()
		if l.Token <= s.least || l.Token <= before {
			t.Errorf("%s: token %d, and counters go on from %d", what, l.Token, s.least)
		}
	}
	s.requests = 0
	again := granted(acquire("free", "bob", nil))
	above("free", again, free.Token)
	if s.requests != 3 {
		t.Errorf("%d requests: one that is refused, one that raises the token, and the grant", s.requests)
	}
	s.requests = 0
	release("free", "bob", again.Token)
	if next := granted(acquire("free", "cat", nil)); s.requests != 2 || next.Token != again.Token+1 {
		t.Errorf("the next is token %d after %d, %d requests", next.Token, again.Token, s.requests)
	}
	if o, err := locks.Acquire(t.Context(), acquire("held", "bob", nil)); err != nil || o.Code != lock.Held {
		t.Errorf("held: %s, %v", o.Code, err)
	}
	if o, err := locks.Renew(t.Context(), lock.Renew{ID: lock.ID{Tenant: "acme", Key: "held"}, Owner: "ann",
		Token: held.Token, RequestID: "n1", TTLSeconds: 60}); err != nil || o.Code != lock.OK {
		t.Errorf("a lease that is known: %s, %v", o.Code, err)
	}
	if code := release("held", "ann", held.Token); code != lock.OK {
		t.Errorf("a lease that is known: %s", code)
	}
	above("held before", granted(acquire("held", "bob", nil)), held.Token)
	above("replaced", granted(acquire("replaced", "bob", func(a *lock.Acquire) { a.Replace = true })), replaced.Token)

	second := granted(acquire("permits", "bob", permits))
	above("a permit", second, permit.Token)
	above("another permit", granted(acquire("permits", "cat", permits)), second.Token)
	if code := release("permits", "ann", permit.Token); code != lock.OK {
		t.Errorf("a permit that is known: %s", code)
	}
	above("a rate", granted(acquire("rate", "bob", rate)), 0)
	if o, err := locks.Acquire(t.Context(), once); err != nil || o.Code != lock.OK || !o.Replayed {
		t.Errorf("a grant of a rate, again: %s, %v", o.Code, err)
	}

	// The one who releases a lock hands it on to the next in line, as if nothing had happened.
	if code := release("line", "ann", line.Token); code != lock.OK {
		t.Errorf("who is waited for: %s", code)
	}
	above("the next in line", granted(bob), line.Token)

	// Several together: as many that are behind, and one that is new.
	set, err := locks.AcquireSet(t.Context(), lock.AcquireSet{Tenant: "acme", Keys: []string{"one", "two", "new"},
		Owner: "ann", RequestID: "set", TTLSeconds: 60})
	if err != nil || set.Code != lock.OK || len(set.Leases) != 3 {
		t.Fatalf("%+v, %v", set, err)
	}
	for i, l := range set.Leases {
		above(fmt.Sprint("of a set ", i), l, 0)
	}
}

// TestStoreThatIsBehindAllTheTime: a command does not try for ever.
func TestStoreThatIsBehindAllTheTime(t *testing.T) {
	s := &older{Store: docstore.NewMemory(nil)}
	locks := lock.New(s, nil)
	a := lock.Acquire{ID: lock.ID{Tenant: "acme", Key: "k"}, Owner: "ann", RequestID: "r1", TTLSeconds: 60}
	o, err := locks.Acquire(t.Context(), a)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := locks.Release(t.Context(), lock.Release{ID: a.ID, Owner: "ann", Token: o.Lease.Token,
		RequestID: "r1"}); err != nil {
		t.Fatal(err)
	}
	s.rises, s.requests, a.RequestID = true, 0, "r2"
	if _, err := locks.Acquire(t.Context(), a); !errors.Is(err, docstore.ErrUnavailable) ||
		!errors.Is(err, docstore.ErrNotWritten) {
		t.Errorf("%v", err)
	}
	if s.requests < 4 || s.requests > 40 {
		t.Errorf("%d requests", s.requests)
	}
}
