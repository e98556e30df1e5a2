package lock_test

import (
	"errors"
	"strconv"
	"testing"
	"time"

	"github.com/leasehold-dev/leasehold/internal/fencing"
	"github.com/leasehold-dev/leasehold/proof/suite"
	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/field"
	"github.com/leasehold-dev/leasehold/repo/lock"
)

// TestFenceRemove: an administrator removes a fence by its highest token, also after a reset; a late delivery removes
// none that has seen another token since, and a repeated one finds nothing to remove.
func TestFenceRemove(t *testing.T) {
	clock := suite.NewClockAt(epoch)
	store := docstore.NewMemory(&docstore.MemoryOptions{Now: clock.Now})
	g := lock.NewGuard(store, &lock.GuardOptions{Now: clock.Now})
	pass := func(token int64) {
		t.Helper()
		o, err := g.Check(t.Context(), lock.Fence{Tenant: "acme", Resource: "db", Lease: fencing.OfLock("db", 0, token)})
		if err != nil || !o.Passed {
			t.Fatalf("token %d: %+v, %v", token, o, err)
		}
	}
	remove := func(highest int64, want lock.FenceRemoveOutcome) {
		t.Helper()
		o, err := g.Remove(t.Context(), lock.FenceRemove{Tenant: "acme", Resource: "db", Highest: highest, By: "root",
			Reason: "the database is gone"})
		if err != nil || o != want {
			t.Errorf("remove at %d: %+v, %v, want %+v", highest, o, err, want)
		}
	}
	pass(9)
	remove(8, lock.FenceRemoveOutcome{Highest: 9})
	remove(9, lock.FenceRemoveOutcome{Removed: true})
	remove(9, lock.FenceRemoveOutcome{Removed: true, Replayed: true})
	s, err := store.Get(t.Context(), docstore.Key{Kind: lock.FenceKind, Tenant: "acme", ID: "db"})
	if err != nil || s.Docs[0] != nil {
		t.Errorf("%v is left, %v", s.Docs[0], err)
	}
	pass(5) // what the fence knew is lost
	remove(9, lock.FenceRemoveOutcome{Highest: 5})
	if o, err := g.Reset(t.Context(), lock.FenceReset{Tenant: "acme", Resource: "db", Highest: 5, By: "root",
		Reason: "a typo"}); err != nil || !o.Reset {
		t.Fatal(o, err)
	}
	remove(9, lock.FenceRemoveOutcome{})
	remove(5, lock.FenceRemoveOutcome{Removed: true})

	for name, c := range map[string]lock.FenceRemove{
		"tenant_id":     {Resource: "db", Highest: 1, By: "root", Reason: "x"},
		"resource":      {Tenant: "acme", Highest: 1, By: "root", Reason: "x"},
		"highest_token": {Tenant: "acme", Resource: "db", By: "root", Reason: "x"},
		"owner_id":      {Tenant: "acme", Resource: "db", Highest: 1, Reason: "x"},
		"reason":        {Tenant: "acme", Resource: "db", Highest: 1, By: "root"},
	} {
		o, err := g.Remove(t.Context(), c)
		if e, ok := errors.AsType[*field.Error](err); !ok || e.Name != name || o != (lock.FenceRemoveOutcome{}) {
			t.Errorf("%s: %+v, %v", name, o, err)
		}
	}
}

// TestFencesOfATenantCanBeUndone: at the bound of fences, the removal of one makes room for one at once.
func TestFencesOfATenantCanBeUndone(t *testing.T) {
	clock := suite.NewClockAt(epoch)
	store := docstore.NewMemory(&docstore.MemoryOptions{Now: clock.Now})
	g := lock.NewGuard(store, &lock.GuardOptions{Now: clock.Now, MaxPerTenant: 3})
	check := func(resource int) bool {
		t.Helper()
		o, err := g.Check(t.Context(), lock.Fence{Tenant: "acme", Resource: strconv.Itoa(resource), Lease: fencing.OfLock("db", 0, 7)})
		if err != nil || o.Passed == o.Limit {
			t.Fatalf("%+v, %v", o, err)
		}
		return o.Passed
	}
	for n := range 30 { // ten times the bound
		if n < 3 {
			if !check(n) {
				t.Fatalf("fence %d is refused", n)
			}
			continue
		}
		if check(n) {
			t.Fatalf("fence %d is beyond the bound", n)
		}
		o, err := g.Remove(t.Context(), lock.FenceRemove{Tenant: "acme", Resource: strconv.Itoa(n - 3), Highest: 7,
			By: "root", Reason: "gone"})
		if err != nil || !o.Removed || o.Replayed {
			t.Fatal(o, err)
		}
		if !check(n) {
			t.Fatalf("there is room for fence %d, and it is refused", n)
		}
		clock.Advance(time.Second)
	}
}
