package lock_test

import (
	"testing"
	"time"

	"github.com/leasehold-dev/leasehold/proof/suite"
	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/lock"
)

// TestAWriteIsKeptForAllThatLasts: a document stays for the retention after the last of its leases, lock delays, places
// and grants.
func TestAWriteIsKeptForAllThatLasts(t *testing.T) {
	const retention = time.Hour
	first := func(c lock.Acquire) lock.Acquire {
		c.ID, c.Owner, c.RequestID = lock.ID{Tenant: "acme", Key: "k"}, "ann", "a1"
		return c
	}
	fair := lock.Acquire{TTLSeconds: 5, Fair: true}
	replacing := lock.Acquire{TTLSeconds: 5, Fair: true, Replace: true} // which does not join without a look
	for name, c := range map[string]struct {
		commands []lock.Acquire
		want     time.Duration
	}{
		"lease": {[]lock.Acquire{first(lock.Acquire{TTLSeconds: 5})}, 5 * time.Second},
		"lock delay": {[]lock.Acquire{first(lock.Acquire{TTLSeconds: 5, LockDelaySeconds: 3600})},
			time.Hour + 5*time.Second},
		"permit": {[]lock.Acquire{first(lock.Acquire{TTLSeconds: 5, Mode: lock.Permits, Limit: 2})}, 5 * time.Second},
		"permit, delay": {
			[]lock.Acquire{first(lock.Acquire{TTLSeconds: 5, Mode: lock.Permits, Limit: 2, LockDelaySeconds: 7})},
			12 * time.Second},
		"rate": {[]lock.Acquire{first(lock.Acquire{Mode: lock.Rate, Limit: 2, WindowSeconds: 3600})}, time.Hour},
		"line": {[]lock.Acquire{first(fair), place(replacing)}, 20*time.Second + lock.PlaceTime},
	} {
		t.Run(name, func(t *testing.T) {
			clock := suite.NewClockAt(epoch)
			var keep time.Duration
			store := &keeps{docstore.NewMemory(&docstore.MemoryOptions{Now: clock.Now}), &keep}
			locks := lock.New(store, &lock.Options{Now: clock.Now, Retention: retention})
			for _, a := range c.commands {
				if _, err := locks.LineUp(t.Context(), a); err != nil {
					t.Fatal(err)
				}
			}
			if keep != c.want+retention {
				t.Errorf("kept for %v, want %v", keep, c.want+retention)
			}
		})
	}
}

// place is an acquire of another owner, who waits.
func place(c lock.Acquire) lock.Acquire {
	c.ID, c.Owner, c.RequestID, c.WaitSeconds = lock.ID{Tenant: "acme", Key: "k"}, "bob", "b1", 20
	return c
}
