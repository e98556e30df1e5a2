package suite

import (
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/leasehold-dev/leasehold/kazahana"
	"github.com/leasehold-dev/leasehold/repo/machineid"
)

// sizesOfOneSpace are services of one space of 512 units in four pages, whose leases take 1, 4, 32 and 128 units.
func sizesOfOneSpace() (services []machineid.ServiceConfig) {
	for _, s := range []struct {
		id     string
		bitSeq int
	}{{"1", 8}, {"4", 10}, {"32", 13}, {"128", 15}} {
		c := machineid.DefaultService()
		c.ServiceID, c.BitTs, c.BitID, c.BitSeq = s.id, 45, 18-s.bitSeq, s.bitSeq
		services = append(services, c)
	}
	return services
}

// freeMachineIDs asks what can be had: from any mixture of sizes, releases and leases that ended without one, a lease
// is granted to the one that asks once whenever an aligned group of its units is free; and when the space is used up by
// leases whose holders are dead, the first one that asks after they have ended gets one, also after ten times as many
// as the space has units.
func freeMachineIDs(t *testing.T, s *machineid.Service, clock *Clock, seed uint64) {
	const units = 512
	widths := map[string]int64{"1": 1, "4": 4, "32": 32, "128": 128}
	names := []string{"1", "1", "4", "32", "128"}
	var (
		r     = rand.New(rand.NewPCG(seed, 9))
		until [units]int64 // from when on a unit is free
		held  []kazahana.Lease
	)
	first := func(l kazahana.Lease) (from, width int64) { return l.ID << (l.BitSeq - 8), 1 << (l.BitSeq - 8) }
	room := func(width, now int64) bool {
		for from := int64(0); from < units; from += width {
			free := true
			for unit := from; unit < from+width; unit++ {
				free = free && until[unit] <= now
			}
			if free {
				return true
			}
		}
		return false
	}
	ask := func(name string) {
		t.Helper()
		now := clock.Now().UnixMilli()
		got, err := s.Acquire(t.Context(), kazahana.AcquireOptions{ServiceID: name})
		free := room(widths[name], now)
		var full *kazahana.ExhaustedError
		switch {
		case errors.As(err, &full):
			if free {
				t.Fatalf("seed %d: a lease of %s units is refused, and there is room", seed, name)
			}
			if !room(widths[name], now+full.RetryAfter.Milliseconds()) {
				t.Fatalf("seed %d: there is no room after %v, and a lease of %s units was told to come back then", seed,
					full.RetryAfter, name)
			}
		case err != nil:
			t.Fatal(err)
		default:
			for _, l := range got.Leases {
				from, width := first(l)
				for unit := from; unit < from+width; unit++ {
					if until[unit] > l.Created {
						t.Fatalf("seed %d: unit %d is leased until %d, and again from %d", seed, unit, until[unit], l.Created)
					}
					until[unit] = l.Expired
				}
			}
			held = append(held, got.Leases...)
		}
	}
	for range 120 {
		switch r.IntN(6) {
		case 0:
			clock.Advance(time.Duration(r.IntN(120)) * time.Second)
		case 1:
			if len(held) > 0 { // some holders release, others die
				i := r.IntN(len(held))
				l, now := held[i], clock.Now()
				held = append(held[:i], held[i+1:]...)
				if now.UnixMilli() < l.Expired {
					if err := give(s, l, l.Secret, now); err != nil {
						t.Fatal(err)
					}
					from, width := first(l)
					for unit := from; unit < from+width; unit++ {
						until[unit] = now.UnixMilli() + 1
					}
				}
			}
		default:
			ask(names[r.IntN(len(names))])
		}
	}
	for range 10 { // the space is used up, and all who have it die
		for taken := false; !taken; {
			n := len(held)
			ask("32")
			taken = len(held) == n
		}
		for range units { // what is too small for those
			n := len(held)
			if ask("1"); len(held) == n {
				break
			}
		}
		_, err := s.Acquire(t.Context(), kazahana.AcquireOptions{ServiceID: "1"})
		var full *kazahana.ExhaustedError
		if !errors.As(err, &full) {
			t.Fatalf("seed %d: one more than all: %v", seed, err)
		}
		clock.Advance(full.RetryAfter)
		n := len(held)
		if ask("1"); len(held) == n {
			t.Fatalf("seed %d: the first lease has ended, and the one that asks gets none", seed)
		}
		clock.Advance(machineid.DefaultLeaseDuration * time.Millisecond)
		for _, name := range []string{"128", "32", "4", "1"} {
			n := len(held)
			if ask(name); len(held) == n {
				t.Fatalf("seed %d: all leases have ended, and one of %s units is refused", seed, name)
			}
		}
	}
}
