package httpapi

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// TestTurnsOfTenants: a tenant whose requests wait has one turn, and then the others have theirs; so have its subjects.
// What comes later from one of them waits behind its own.
func TestTurnsOfTenants(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &bound{says: "full", of: shares{whole: 1, tenant: 1, subject: 1}, queue: 9, wait: time.Minute}
		if err := b.enter(t.Context(), party{"noisy", "ann"}, 1); err != nil {
			t.Fatal(err)
		}
		var order []string
		var has party
		arrive := func(p party, name string) {
			go func() {
				if err := b.enter(t.Context(), p, 1); err != nil {
					t.Errorf("%s: %v", name, err)
					return
				}
				order, has = append(order, name), p
			}()
			synctest.Wait()
		}
		ann, bob := party{"noisy", "ann"}, party{"noisy", "bob"}
		for i := range 3 {
			arrive(ann, fmt.Sprint("ann ", i))
		}
		arrive(party{"quiet", ""}, "quiet 0")
		arrive(party{"third", ""}, "third 0")
		arrive(party{"quiet", ""}, "quiet 1")
		arrive(bob, "bob 0")
		arrive(bob, "bob 1")
		has = ann
		for range 9 {
			b.leave(has, 1)
			synctest.Wait()
		}
		want := []string{"ann 0", "quiet 0", "third 0", "bob 0", "quiet 1", "ann 1", "bob 1", "ann 2"}
		if !slices.Equal(order, want) {
			t.Errorf("got  %v\nwant %v", order, want)
		}
		if b.all != 0 || b.waiting != 0 || len(b.turns) != 0 || len(b.held) != 0 {
			t.Errorf("afterwards: %d taken, %d wait, %d turns, %v", b.all, b.waiting, len(b.turns), b.held)
		}
	})
}

// TestQueueIsShared: a queue that one subject has filled has room for another subject of its tenant, and for another
// tenant: its newest requests are rejected, until no one has more than others.
func TestQueueIsShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &bound{says: "full", of: shares{whole: 1, tenant: 1, subject: 1}, queue: 4, wait: time.Minute}
		ann, bob, eve := party{"a", "ann"}, party{"a", "bob"}, party{"e", "eve"}
		_ = b.enter(t.Context(), ann, 1)
		rejected := map[party]int{}
		for _, p := range []party{ann, ann, ann, ann, ann, bob, bob, bob, eve, eve, eve} {
			go func() {
				if b.enter(t.Context(), p, 1) != nil {
					rejected[p]++
				}
			}()
			synctest.Wait()
		}
		// Ann's fifth finds no room. Bob's first and second take that of her fourth and third, his third finds none; Eve's
		// first and second take that of two of the tenant a, her third finds none.
		want := map[party]int{ann: 4, bob: 2, eve: 1}
		if !maps.Equal(rejected, want) {
			t.Errorf("rejected: %v, want %v", rejected, want)
		}
		for range 5 {
			b.mu.Lock()
			var has party
			for p := range b.held {
				if p.subject != "" {
					has = p
				}
			}
			b.mu.Unlock()
			b.leave(has, 1)
			synctest.Wait()
		}
		if b.all != 0 || b.waiting != 0 || len(b.turns) != 0 {
			t.Errorf("afterwards: %d taken, %d wait, %d turns", b.all, b.waiting, len(b.turns))
		}
	})
}

// TestShares: of nothing that callers share one tenant can have the whole, nor one subject more than its tenant; callers
// who are not known have less than any that is; and each can have what one request needs.
func TestShares(t *testing.T) {
	for r := range resources {
		least := shared[r].least
		for _, whole := range []int64{1, 2, 3, 4, 7, 256, 1024, DefaultBodyBytes, DefaultPageBytes} {
			s := r.of(whole)
			if s.tenant < least || s.subject < least || s.strangers < least || s.network < least || s.whole < least {
				t.Errorf("%d of %d: %+v, and a request needs %d", r, whole, s, least)
			}
			if whole < 2*least {
				continue
			}
			if s.tenant > whole-least || s.subject > s.tenant || s.strangers > s.subject || s.network > s.strangers {
				t.Errorf("%d of %d: %+v", r, whole, s)
			}
		}
		b := newBound(r, max(1000, 40*least), 0, 0)
		take := func(p party) (n int64) {
			step := max(1, least/1024) // as fine as it takes
			for b.try(p, step) == nil {
				n += step
			}
			for b.try(p, 1) == nil {
				n++
			}
			return n
		}
		if n := take(party{"acme", "ann"}); n != b.of.subject {
			t.Errorf("%d: a subject takes %d of %+v", r, n, b.of)
		}
		if n := take(party{"acme", "bob"}); n != b.of.tenant-b.of.subject {
			t.Errorf("%d: a second subject takes %d of %+v", r, n, b.of)
		}
		if n := take(stranger("192.0.2.7:1")); n != b.of.network || b.try(stranger("192.0.2.9:2"), 1) == nil {
			t.Errorf("%d: a network takes %d of %+v", r, n, b.of)
		}
		if b.try(party{"quiet", "eve"}, least) != nil {
			t.Errorf("%d: no room for another tenant", r)
		}
	}
}

// TestStrangers: callers that are not known are those of a network.
func TestStrangers(t *testing.T) {
	for remote, want := range map[string]string{
		"192.0.2.7:80": "192.0.2.0/24", "192.0.2.99": "192.0.2.0/24", "[::ffff:192.0.2.7]:80": "192.0.2.0/24",
		"[2001:db8:1:2:3::4%eth0]:80": "2001:db8:1:2::/64", "pipe": "pipe", "": "",
	} {
		if got := stranger(remote); got != (party{strangers, want}) {
			t.Errorf("%q: %q, want %q", remote, got.subject, want)
		}
	}
}

// TestWaiters: so many wait as may, of all, of each tenant and of each subject; another tenant, and another subject of
// the same tenant, have room beside one that has all of its own. Afterwards there is room as before.
func TestWaiters(t *testing.T) {
	for name, c := range map[string]struct {
		most                            int64
		subjects, tenants               int // how many there are of them
		ofSubject, ofTenant, altogether int // how many have room
	}{
		"one subject has half of its tenant's":         {1024, 1, 1, 128, 128, 128},
		"another one has the other half":               {1024, 2, 1, 128, 256, 256},
		"a third one has none then":                    {1024, 3, 1, 128, 256, 256},
		"four tenants have all":                        {1024, 2, 4, 128, 256, 1024},
		"a fifth one has none then":                    {1024, 2, 5, 128, 256, 1024},
		"as the setting says":                          {64, 3, 2, 8, 16, 32},
		"each has one at the least":                    {2, 1, 3, 1, 1, 2},
		"no bound":                                     {noBound, 2, 2, 300, 600, 1200},
		"without subjects a tenant has all of its own": {1024, 0, 1, 0, 256, 256},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBound(eventWaits, c.most, 0, 0)
			for round := range 2 {
				var entered []party
				ofSubject, ofTenant := map[party]int{}, map[string]int{}
				for tenant := range c.tenants {
					for subject := range max(1, c.subjects) {
						for range 300 {
							p := party{fmt.Sprint("t", tenant), fmt.Sprint("s", subject)}
							if c.subjects == 0 {
								p.subject = ""
							}
							if b.try(p, 1) == nil {
								entered = append(entered, p)
								ofSubject[p]++
								ofTenant[p.tenant]++
							}
						}
					}
				}
				first := party{"t0", "s0"}
				if ofSubject[first] != c.ofSubject || ofTenant["t0"] != c.ofTenant || len(entered) != c.altogether ||
					b.count() != c.altogether {
					t.Fatalf("round %d: %d of the first subject, %d of its tenant, %d altogether", round, ofSubject[first],
						ofTenant["t0"], len(entered))
				}
				for _, p := range entered {
					b.leave(p, 1)
				}
				if n := b.count(); n != 0 || len(b.held) != 0 {
					t.Fatalf("round %d: %d wait after all have left: %v", round, n, b.held)
				}
			}
		})
	}
}
