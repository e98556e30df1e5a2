package httpapi

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// TestTurnsOfTenants: a tenant whose requests wait has one turn, and then the others have theirs. What comes later from
// it waits behind its own.
func TestTurnsOfTenants(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &bound{says: "full", left: 1, share: 1, queue: 8, wait: time.Minute, held: map[string]int64{}}
		if err := b.enter(t.Context(), "noisy", 1); err != nil {
			t.Fatal(err)
		}
		var order []string
		arrive := func(tenant, name string) {
			go func() {
				if err := b.enter(t.Context(), tenant, 1); err != nil {
					t.Errorf("%s: %v", name, err)
					return
				}
				order = append(order, name)
			}()
			synctest.Wait()
		}
		for i := range 3 {
			arrive("noisy", fmt.Sprint("noisy ", i))
		}
		arrive("quiet", "quiet 0")
		arrive("third", "third 0")
		arrive("quiet", "quiet 1")
		for _, tenant := range []string{"noisy", "noisy", "quiet", "third", "noisy", "quiet", "noisy"} { // who has it
			b.leave(tenant, 1)
			synctest.Wait()
		}
		want := []string{"noisy 0", "quiet 0", "third 0", "noisy 1", "quiet 1", "noisy 2"}
		if !slices.Equal(order, want) {
			t.Errorf("got  %v\nwant %v", order, want)
		}
		if b.left != 1 || b.waiting != 0 || len(b.turns) != 0 || len(b.held) != 0 {
			t.Errorf("afterwards: %d left, %d wait, %d turns, %v", b.left, b.waiting, len(b.turns), b.held)
		}
	})
}

// TestWaitersLeave: as many can wait after others have waited as before, of each tenant and of all.
func TestWaitersLeave(t *testing.T) {
	s := &waiters{what: "events"}
	tenant := func(i int) string { return fmt.Sprint("t", i/maxWaitersOfTenant) }
	for round := range 3 {
		for i := range maxWaiters {
			if err := s.enter(tenant(i)); err != nil {
				t.Fatalf("round %d, request %d: %v", round, i, err)
			}
		}
		if err := s.enter("another"); err == nil {
			t.Errorf("round %d: one more than the bound waits", round)
		}
		for i := range maxWaiters {
			s.leave(tenant(i))
		}
		if n := s.count(); n != 0 || len(s.tenants) != 0 {
			t.Fatalf("round %d: %d wait after all have left, of %d tenants", round, n, len(s.tenants))
		}
	}
}
