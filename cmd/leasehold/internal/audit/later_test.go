package audit

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/leasehold-dev/leasehold/contracts"
)

// excludes reports whether two leases of a lock cannot last at the same time.
func excludes(one, other Lease) bool {
	exclusive := func(l Lease) bool { return l.Mode == "" || l.Mode == string(contracts.LockModeExclusive) }
	switch {
	case one.Mode == string(contracts.LockModeRate):
		return false
	case one.Mode == string(contracts.LockModePermits) && other.Mode == one.Mode:
		return one.Permit == other.Permit
	default:
		return exclusive(one) || exclusive(other) || one.Mode != other.Mode
	}
}

// TestLater: what is kept of later leases finds the first that excludes one, as a look at all of them does.
func TestLater(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	modes := []string{"", "exclusive", "shared", "shared", "permits", "permits", "permits", "rate", "strange"}
	begun := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	found := 0
	for range 2000 {
		leases := make([]Lease, 1+r.IntN(12))
		for i := range leases {
			leases[i] = Lease{FencingToken: int64(i + 1), Mode: modes[r.IntN(len(modes))]}
			if leases[i].Mode == "permits" {
				leases[i].Permit = 1 + r.Int64N(3)
			}
			if r.IntN(5) > 0 {
				leases[i].from = begun
			}
		}
		var after later
		for i := range slices.Backward(leases) {
			want := slices.IndexFunc(leases[i+1:], func(n Lease) bool { return !n.from.IsZero() && excludes(leases[i], n) })
			got := -1
			if next := after.firstExcludedBy(&leases[i]); next != nil {
				got = int(next.FencingToken) - i - 2
			}
			if got != want {
				t.Fatalf("of %+v the %d. is excluded by %d later, want %d", leases, i+1, got, want)
			}
			if want >= 0 {
				found++
			}
			after.add(&leases[i])
		}
	}
	if found < 2000 {
		t.Errorf("%d of the leases are excluded by a later one: the test asks too little", found)
	}
}
