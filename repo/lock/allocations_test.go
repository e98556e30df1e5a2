//go:build !race

// Under the race detector pools forget a part of what they are given, by chance: allocations cannot be counted there.

package lock_test

import (
	"testing"

	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/lock"
)

// TestAllocationsOfACycle: what an acquire and a release allocate together, on the store in memory, which copies the
// document twice for each. They were 249 when each of them hashed its request and made its conditions and field names
// several times; 13 are for asking whether the request was given up.
func TestAllocationsOfACycle(t *testing.T) {
	const most = 128
	locks := lock.New(docstore.NewMemory(nil), nil)
	id := lock.ID{Tenant: "acme", Key: "deploy-prod"}
	requests := [...]string{"r1", "r2", "r3", "r4", "r5", "r6", "r7"} // more than a lock remembers
	i := 0
	got := testing.AllocsPerRun(200, func() {
		i++
		o, err := locks.Acquire(t.Context(), lock.Acquire{ID: id, Owner: "ann", RequestID: requests[i%len(requests)],
			TTLSeconds: 60})
		if err != nil || o.Code != lock.OK {
			t.Fatal(o, err)
		}
		o, err = locks.Release(t.Context(), lock.Release{ID: id, Owner: "ann", RequestID: "e1", Token: o.Lease.Token})
		if err != nil || o.Code != lock.OK {
			t.Fatal(o, err)
		}
	})
	t.Logf("%v allocations", got)
	if got > most {
		t.Errorf("%v allocations, %d at most", got, most)
	}
}
