package lock_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leasehold-dev/leasehold/internal/fencing"
	"github.com/leasehold-dev/leasehold/proof/suite"
	"github.com/leasehold-dev/leasehold/repo/census"
	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/lock"
)

// listed is a store that counts requests, also those of other goroutines.
type listed struct {
	docstore.Store

	mu            sync.Mutex
	writes, lists int
}

func (s *listed) Write(ctx context.Context, w ...docstore.Write) (docstore.Result, error) {
	s.mu.Lock()
	s.writes++
	s.mu.Unlock()
	return s.Store.Write(ctx, w...)
}

func (s *listed) List(ctx context.Context, q docstore.Query) (docstore.Page, error) {
	s.mu.Lock()
	s.lists++
	s.mu.Unlock()
	return s.Store.List(ctx, q)
}

// cost returns the requests since the last call.
func (s *listed) cost() (writes, lists int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	writes, lists = s.writes, s.lists
	s.writes, s.lists = 0, 0
	return writes, lists
}

// take acquires a lock for a day.
func take(ctx context.Context, l *lock.Locks, key, request string) (lock.Outcome, error) {
	tenant, key, _ := strings.Cut(key, "/")
	return l.Acquire(ctx, lock.Acquire{ID: lock.ID{Tenant: tenant, Key: key}, Owner: "ann", RequestID: request,
		TTLSeconds: 3600})
}

// TestLocksPerTenant walks a tenant up to its bound and beyond, with the requests that each step costs: one for a lock
// that has a record, and where there is no room in hand, one more for a new one and one to the tally.
func TestLocksPerTenant(t *testing.T) {
	clock := suite.NewClock()
	memory := docstore.NewMemory(&docstore.MemoryOptions{Now: clock.Now})
	store := &listed{Store: memory}
	locks := lock.New(store, &lock.Options{Now: clock.Now, MaxPerTenant: 3, Retention: time.Hour})
	tokens := map[string]int64{}
	correct := func() {
		if _, err := census.Correct(t.Context(), store, 0); err != nil {
			t.Fatal(err)
		}
		store.cost()
	}
	for _, step := range []struct {
		name          string
		before        func()
		key, request  string
		want          lock.Code
		writes, lists int
	}{
		{"the first one begins the tally", nil, "acme/a", "r1", lock.OK, 4, 0},
		{"there is room", nil, "acme/b", "r1", lock.OK, 3, 0},
		{"a retry is no other lock", nil, "acme/b", "r1", lock.OK, 1, 0},
		{"nor is one that is held", nil, "acme/b", "r2", lock.Held, 1, 0},
		{"the last place", nil, "acme/c", "r1", lock.OK, 3, 0},
		{"no place", nil, "acme/d", "r1", lock.Limit, 2, 0},
		{"no place, again", nil, "acme/d", "r1", lock.Limit, 1, 0},
		{"what is there is held", nil, "acme/c", "r2", lock.Held, 1, 0},
		{"and retried", nil, "acme/c", "r1", lock.OK, 1, 0},
		{"another tenant", nil, "acmf/d", "r1", lock.OK, 4, 0},
		{"what is free can be taken", func() {
			o, err := locks.Release(t.Context(), lock.Release{ID: lock.ID{Tenant: "acme", Key: "c"}, Owner: "ann",
				Token: tokens["acme/c"], RequestID: "e1"})
			if err != nil || o.Code != lock.OK {
				t.Fatal(o, err)
			}
			store.cost()
		}, "acme/c", "r3", lock.OK, 1, 0},
		{"a free one counts", func() { clock.Advance(90 * time.Minute); correct() }, "acme/d", "r1", lock.Limit, 2, 0},
		{"and is taken again", nil, "acme/a", "r9", lock.OK, 1, 0},
		{"what was removed does not count", func() {
			clock.Advance(time.Hour)
			if n, err := memory.Prune(t.Context(), 10); err != nil || n != 3 { // b and c, and the other tenant's
				t.Fatal(n, err)
			}
			correct()
		}, "acme/d", "r1", lock.OK, 3, 0},
		{"as many as were removed", nil, "acme/e", "r1", lock.OK, 3, 0},
		{"and no more", nil, "acme/f", "r1", lock.Limit, 2, 0},
	} {
		if step.before != nil {
			step.before()
		}
		o, err := take(t.Context(), locks, step.key, step.request)
		if err != nil || o.Code != step.want {
			t.Fatalf("%s: %+v, %v", step.name, o, err)
		}
		if writes, lists := store.cost(); writes != step.writes || lists != step.lists {
			t.Errorf("%s: %d writes and %d lists, want %d and %d", step.name, writes, lists, step.writes, step.lists)
		}
		if o.Code == lock.Limit && (o.RetryAfter <= 0 || o.RetryAfter > 5*time.Minute ||
			!strings.Contains(o.Detail, "3 locks") || !strings.Contains(o.Detail, "1h0m0s")) {
			t.Errorf("%s: %+v", step.name, o)
		}
		tokens[step.key] = o.Lease.Token
	}
	if _, err := take(t.Context(), locks, "/", "r1"); err == nil {
		t.Error("a malformed command was counted, not refused")
	}
}

// TestLocksPerTenantAtOnce: callers that come at once get exactly as many locks as there is room for.
func TestLocksPerTenantAtOnce(t *testing.T) {
	store := docstore.NewMemory(nil)
	locks := lock.New(store, &lock.Options{MaxPerTenant: 5})
	outcomes := make(chan lock.Code, 40)
	for i := range 40 {
		go func() {
			o, err := take(t.Context(), locks, fmt.Sprint("acme/k", i), "r1")
			if err != nil {
				t.Error(err)
			}
			outcomes <- o.Code
		}()
	}
	got := map[lock.Code]int{}
	for range 40 {
		got[<-outcomes]++
	}
	if got[lock.OK] != 5 || got[lock.Limit] != 35 {
		t.Errorf("%v", got)
	}
}

// TestLocksPerTenantOfProcesses: two processes share one tally, whatever each of them has created, and none of them
// reads a lock for it.
func TestLocksPerTenantOfProcesses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &listed{Store: docstore.NewMemory(nil)}
		one, two := lock.New(store, &lock.Options{MaxPerTenant: 4}), lock.New(store, &lock.Options{MaxPerTenant: 4})
		want := func(l *lock.Locks, key string, code lock.Code, writes, lists int) {
			t.Helper()
			o, err := take(t.Context(), l, key, "r1")
			if w, n := store.cost(); err != nil || o.Code != code || w != writes || n != lists {
				t.Errorf("%s: %s, %v with %d writes and %d lists; want %s with %d and %d", key, o.Code, err, w, n,
					code, writes, lists)
			}
		}
		want(one, "acme/a", lock.OK, 4, 0)
		want(two, "acme/b", lock.OK, 3, 0)
		want(one, "acme/c", lock.OK, 3, 0)
		want(two, "acme/d", lock.OK, 3, 0)
		want(two, "acme/e", lock.Limit, 2, 0)
		want(two, "acme/f", lock.Limit, 1, 0) // refused a moment ago
		want(one, "acme/f", lock.Limit, 2, 0)
		want(one, "acme/d", lock.OK, 1, 0) // that of the other process, sent again
	})
}

// TestLocksPerTenantWithAFailingStore: a tally that cannot be asked is an error of the store and creates nothing; a
// write whose outcome is unknown counts.
func TestLocksPerTenantWithAFailingStore(t *testing.T) {
	store := &listed{Store: docstore.NewMemory(nil)}
	away := &noTallies{Store: store, away: true}
	locks := lock.New(away, &lock.Options{MaxPerTenant: 2})
	if o, err := take(t.Context(), locks, "acme/a", "r1"); !errors.Is(err, docstore.ErrUnavailable) {
		t.Fatalf("without a tally: %+v, %v", o, err)
	}
	if _, found, err := locks.Get(t.Context(), lock.ID{Tenant: "acme", Key: "a"}); found || err != nil {
		t.Errorf("a lock was created: %v", err)
	}
	away.away = false
	if o, err := take(t.Context(), locks, "acme/a", "r1"); err != nil || o.Code != lock.OK {
		t.Fatalf("when it can be asked: %+v, %v", o, err)
	}
	away.lose = true
	if o, err := take(t.Context(), locks, "acme/b", "r1"); !errors.Is(err, docstore.ErrUnavailable) {
		t.Fatalf("a lost response: %+v, %v", o, err)
	}
	for _, c := range []struct {
		key  string
		want lock.Code
	}{{"acme/b", lock.OK}, {"acme/c", lock.Limit}} {
		if o, err := take(t.Context(), locks, c.key, "r1"); err != nil || o.Code != c.want {
			t.Errorf("%s: %+v, %v, want %s", c.key, o, err, c.want)
		}
	}
	t.Run("a caller does not wait for ever", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			stuck := &hanging{Store: docstore.NewMemory(nil)}
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			if _, err := take(ctx, lock.New(stuck, &lock.Options{MaxPerTenant: 2}), "acme/a", "r1"); !errors.Is(err,
				context.DeadlineExceeded) {
				t.Errorf("%v", err)
			}
			time.Sleep(time.Minute) // then the question has ended as well
		})
	})
}

// noTallies is a store whose tallies may be away, and which loses the response to the first write that creates a lock.
type noTallies struct {
	docstore.Store

	away, lose bool
}

func (s *noTallies) Write(ctx context.Context, w ...docstore.Write) (docstore.Result, error) {
	if w[0].Key.Kind == census.TallyKind && s.away {
		return docstore.Result{}, docstore.ErrUnavailable
	}
	r, err := s.Store.Write(ctx, w...)
	if r.Applied && w[0].Key.Kind == lock.Kind && s.lose {
		s.lose = false
		return docstore.Result{}, docstore.ErrUnavailable
	}
	return r, err
}

// hanging is a store whose writes of tallies end with their context only.
type hanging struct{ docstore.Store }

func (s hanging) Write(ctx context.Context, w ...docstore.Write) (docstore.Result, error) {
	if w[0].Key.Kind != census.TallyKind {
		return s.Store.Write(ctx, w...)
	}
	<-ctx.Done()
	return docstore.Result{}, ctx.Err()
}

// TestLocksOfManyTenants: a process remembers some thousands of tenants, and the bound holds for one that it has
// forgotten.
func TestLocksOfManyTenants(t *testing.T) {
	clock := suite.NewClock()
	locks := lock.New(docstore.NewMemory(&docstore.MemoryOptions{Now: clock.Now}),
		&lock.Options{Now: clock.Now, MaxPerTenant: 1})
	for i := range 10_002 {
		if i == 10_001 {
			clock.Advance(time.Hour)
		}
		if o, err := take(t.Context(), locks, fmt.Sprint(i, "/a"), "r1"); err != nil || o.Code != lock.OK {
			t.Fatal(i, o, err)
		}
	}
	for _, tenant := range []int{0, 10_001} {
		if o, err := take(t.Context(), locks, fmt.Sprint(tenant, "/b"), "r1"); err != nil || o.Code != lock.Limit {
			t.Errorf("tenant %d: %+v, %v", tenant, o, err)
		}
	}
}

// TestFencesPerTenant: a resource with a fence costs one request, the first token of another one costs two and one to
// the tally, and there are no more than the bound; one that was reset is there.
func TestFencesPerTenant(t *testing.T) {
	clock := suite.NewClock()
	store := &listed{Store: docstore.NewMemory(&docstore.MemoryOptions{Now: clock.Now})}
	guard := lock.NewGuard(store, &lock.GuardOptions{Now: clock.Now, MaxPerTenant: 2})
	type got struct {
		outcome       lock.FenceOutcome
		writes, lists int
	}
	var all []got
	check := func(resource string, token int64) {
		t.Helper()
		o, err := guard.Check(t.Context(), lock.Fence{Tenant: "acme", Resource: resource, Lease: fencing.OfLock("db", 0, token)})
		if err != nil {
			t.Fatal(resource, err)
		}
		writes, lists := store.cost()
		all = append(all, got{o, writes, lists})
	}
	check("a", 7)
	check("b", 7)
	check("b", 8)
	check("b", 7)
	check("c", 7)
	reset := lock.FenceReset{Tenant: "acme", Resource: "b", Highest: 8, By: "root", Reason: "x"}
	if o, err := guard.Reset(t.Context(), reset); err != nil || !o.Reset {
		t.Fatal(o, err)
	}
	store.cost()
	check("b", 1)
	want := []got{
		{lock.FenceOutcome{Passed: true, Highest: 7}, 4, 0},
		{lock.FenceOutcome{Passed: true, Highest: 7}, 3, 0},
		{lock.FenceOutcome{Passed: true, Highest: 8}, 1, 0},
		{lock.FenceOutcome{Highest: 8}, 1, 0},
		{lock.FenceOutcome{Limit: true}, 2, 0},
		{lock.FenceOutcome{Passed: true, Highest: 1}, 1, 0},
	}
	if !slices.Equal(all, want) {
		t.Errorf("got  %+v\nwant %+v", all, want)
	}
}
