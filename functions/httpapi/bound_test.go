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

// TestWaiters: so many wait as may, of all, of each tenant and of each subject; another tenant, and another subject of
// the same tenant, have room beside one that has all of its own. Afterwards there is room as before.
func TestWaiters(t *testing.T) {
	for name, c := range map[string]struct {
		most, subjects, tenants         int // how many there are of them
		ofSubject, ofTenant, altogether int // how many have room
	}{
		"one subject has half of its tenant's":         {1024, 1, 1, 128, 128, 128},
		"another one has the other half":               {1024, 2, 1, 128, 256, 256},
		"a third one has none then":                    {1024, 3, 1, 128, 256, 256},
		"four tenants have all":                        {1024, 2, 4, 128, 256, 1024},
		"a fifth one has none then":                    {1024, 2, 5, 128, 256, 1024},
		"as the setting says":                          {64, 3, 2, 8, 16, 32},
		"each has one at the least":                    {2, 1, 3, 1, 1, 2},
		"no bound":                                     {0, 2, 2, 300, 600, 1200},
		"without subjects a tenant has all of its own": {1024, 0, 1, 0, 256, 256},
	} {
		t.Run(name, func(t *testing.T) {
			s := &waiters{what: "events", most: c.most}
			for round := range 2 {
				var entered []waiting
				ofSubject, ofTenant := map[waiting]int{}, map[string]int{}
				for tenant := range c.tenants {
					for subject := range max(1, c.subjects) {
						for range 300 {
							w := waiting{fmt.Sprint("t", tenant), fmt.Sprint("s", subject)}
							if c.subjects == 0 {
								w.subject = ""
							}
							if s.enter(w.tenant, w.subject) == nil {
								entered = append(entered, w)
								ofSubject[w]++
								ofTenant[w.tenant]++
							}
						}
					}
				}
				first := waiting{"t0", "s0"}
				if ofSubject[first] != c.ofSubject || ofTenant["t0"] != c.ofTenant || len(entered) != c.altogether ||
					s.count() != c.altogether {
					t.Fatalf("round %d: %d of the first subject, %d of its tenant, %d altogether", round, ofSubject[first],
						ofTenant["t0"], len(entered))
				}
				for _, w := range entered {
					s.leave(w.tenant, w.subject)
				}
				if n := s.count(); n != 0 || len(s.of) != 0 {
					t.Fatalf("round %d: %d wait after all have left: %v", round, n, s.of)
				}
			}
		})
	}
}
