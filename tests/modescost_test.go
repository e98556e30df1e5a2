package tests

import (
	"fmt"
	"testing"
	"time"

	"github.com/leasehold-dev/leasehold/proof/suite"
	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/lock"
)

// TestCostsOfModes: the writes of each command, applied or refused, which docs/guides/stores.md shows; none of them
// reads. The exclusive lock of those who do not wait in line costs one, whatever its policies.
func TestCostsOfModes(t *testing.T) {
	t.Parallel()
	clock := suite.NewClock()
	store := &counted{Store: docstore.NewMemory(&docstore.MemoryOptions{Now: clock.Now})}
	locks := lock.New(store, nil)
	requests := 0
	var last lock.Outcome
	acquire := func(key string, with lock.Acquire) func() (lock.Outcome, error) {
		requests++
		with.ID, with.Owner = lock.ID{Tenant: "acme", Key: key}, "ann"
		if with.RequestID == "" {
			with.RequestID = fmt.Sprint("r", requests)
		}
		if with.Mode != lock.Rate {
			with.TTLSeconds = 30
		}
		return func() (lock.Outcome, error) { return locks.Acquire(t.Context(), with) }
	}
	renew := func(key string) func() (lock.Outcome, error) {
		return func() (lock.Outcome, error) {
			return locks.Renew(t.Context(), lock.Renew{ID: lock.ID{Tenant: "acme", Key: key}, Owner: "ann", RequestID: "n",
				Token: last.Lease.Token, TTLSeconds: 30})
		}
	}
	release := func(key string) func() (lock.Outcome, error) {
		return func() (lock.Outcome, error) {
			return locks.Release(t.Context(), lock.Release{ID: lock.ID{Tenant: "acme", Key: key}, Owner: "ann", RequestID: "e",
				Token: last.Lease.Token})
		}
	}
	after := func(d time.Duration, next func() (lock.Outcome, error)) func() (lock.Outcome, error) {
		return func() (lock.Outcome, error) {
			clock.Advance(d)
			return next()
		}
	}
	plain, shared := lock.Acquire{}, lock.Acquire{Mode: lock.Shared}
	permits, rate := lock.Acquire{Mode: lock.Permits, Limit: 2}, lock.Acquire{Mode: lock.Rate, Limit: 2, WindowSeconds: 60}
	replace, delayed := lock.Acquire{Replace: true}, lock.Acquire{LockDelaySeconds: 15}
	fair, again := lock.Acquire{Fair: true}, lock.Acquire{Fair: true, RequestID: "again"}
	for _, c := range []struct {
		what   string
		run    func() (lock.Outcome, error)
		code   lock.Code
		writes int64
	}{
		{"exclusive, free", acquire("plain", plain), lock.OK, 1},
		{"exclusive, held", acquire("plain", plain), lock.Held, 1},
		{"exclusive, held, fair", acquire("plain", fair), lock.Held, 1},
		{"shared, of an exclusive lock that is held", acquire("plain", shared), lock.Held, 1},
		{"permits, of an exclusive lock that is held", acquire("plain", permits), lock.ModeDiffers, 1},

		{"fair, free", acquire("fair", again), lock.OK, 1},
		{"fair, the same request", acquire("fair", again), lock.OK, 1},
		{"fair, renewal", renew("fair"), lock.OK, 1},
		{"fair, release", release("fair"), lock.OK, 1},
		{"fair, after a release", acquire("fair", fair), lock.OK, 1},

		{"replace, free", acquire("replace", replace), lock.OK, 1},
		{"replace, held", acquire("replace", replace), lock.OK, 1},
		{"replace, renewal", renew("replace"), lock.OK, 1},
		{"replace, release", release("replace"), lock.OK, 1},

		{"lock delay, free", acquire("delay", delayed), lock.OK, 1},
		{"lock delay, renewal", renew("delay"), lock.OK, 1},
		{"lock delay, closed", after(31*time.Second, acquire("delay", plain)), lock.Delayed, 1},
		{"lock delay, over", after(15*time.Second, acquire("delay", delayed)), lock.OK, 2},
		{"lock delay, release", release("delay"), lock.OK, 1},

		{"shared, the first", acquire("shared", shared), lock.OK, 1},
		{"shared, the second", acquire("shared", shared), lock.OK, 2},
		{"shared, a writer", acquire("shared", plain), lock.Held, 1},
		{"shared, renewal", renew("shared"), lock.OK, 2},
		{"shared, release", release("shared"), lock.OK, 2},

		{"permits, the first", acquire("permits", permits), lock.OK, 1},
		{"permits, the second", acquire("permits", permits), lock.OK, 2},
		{"permits, all held", acquire("permits", permits), lock.Held, 1},
		{"permits, renewal", renew("permits"), lock.OK, 2},
		{"permits, release", release("permits"), lock.OK, 2},

		{"rate, the first", acquire("rate", rate), lock.OK, 1},
		{"rate, the second", acquire("rate", rate), lock.OK, 2},
		{"rate, over the limit", acquire("rate", rate), lock.Held, 1},
		{"rate, a renewal", renew("rate"), lock.ModeDiffers, 1},
	} {
		store.reset()
		o, err := c.run()
		if err != nil || o.Code != c.code {
			t.Errorf("%s: %+v, %v", c.what, o, err)
		}
		if gets, writes, lists := store.reset(); writes != c.writes || gets+lists > 0 {
			t.Errorf("%s: %d reads, %d writes and %d lists, want %d writes", c.what, gets, writes, lists, c.writes)
		}
		if o.Code == lock.OK {
			last = o
		}
	}
}
