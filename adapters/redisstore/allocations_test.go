//go:build !race

// Under the race detector pools forget a part of what they are given, by chance: allocations cannot be counted there.

package redisstore_test

import (
	"testing"

	"github.com/leasehold-dev/leasehold/adapters/redisstore"
	"github.com/leasehold-dev/leasehold/emulator/redistest"
	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/lock"
)

// TestAllocationsOfAWrite: what the store itself allocates for an acquire, from the write to the arguments of its
// script, and from the values that come back to the document.
func TestAllocationsOfAWrite(t *testing.T) {
	server := redistest.StandIn(t)
	s := open(t, server, nil)
	w := lock.Acquire{ID: lock.ID{Tenant: "acme", Key: "k"}, Owner: "ann", RequestID: "r1", LeaseID: "l",
		TTLSeconds: 60}.Write()
	values := redisstore.Pack(docstore.Int(7), docstore.String(""), docstore.String(""), docstore.String("before"),
		docstore.String(""), docstore.String(""))
	back, err := s.Compiled(w, values)
	if err != nil || back["token"] != docstore.Value(docstore.Int(7)) ||
		back["a2"] != docstore.Value(docstore.String("before")) {
		t.Fatal(back, err)
	}
	got := testing.AllocsPerRun(200, func() {
		if _, err := s.Compiled(w, values); err != nil {
			t.Fatal(err)
		}
	})
	t.Logf("%v allocations", got)
	if got > 12 {
		t.Errorf("%v allocations, 12 at most", got)
	}
}
