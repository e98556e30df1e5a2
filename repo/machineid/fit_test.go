package machineid_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/leasehold-dev/leasehold/kazahana"
)

// TestSmallLeasesLeaveSpaceForLargeOnes: while small leases take almost half of a space, nearly all of the large leases
// fit that the rest has units for, whether the small ones came once or have come and gone. A small lease costs two
// requests until a quarter is leased, and four at most.
func TestSmallLeasesLeaveSpaceForLargeOnes(t *testing.T) {
	const leased = 4014 // 49 %
	for _, c := range []struct {
		bitSeq int // of the large leases
		churn  int // small leases that are released and leased again before
		least  int // of a hundred large leases that the rest has units for
	}{{9, 0, 98}, {12, 0, 95}, {15, 0, 85}, {12, 6000, 95}, {15, 6000, 85}} {
		t.Run(fmt.Sprint(c.bitSeq, " bits after ", c.churn), func(t *testing.T) {
			s := open(t, config("small", "s", 8), config("large", "s", c.bitSeq))
			r := rand.New(rand.NewPCG(3, 4))
			s.Draw(r.IntN) // others may leave less: of 80 draws, 69 left 31 or 32 of the 32 largest, and the worst 27
			var held []kazahana.Lease
			small := func() {
				held = append(held, s.lease(kazahana.AcquireOptions{ServiceID: "small"})...)
				gets, writes := s.far.Requests()
				if n := len(held); n > 1 && (writes != 1 || gets > 3 || n < 2048 && gets != 1) { // the first sets up the space
					t.Fatalf("small lease %d: %d reads, %d writes", n, gets, writes)
				}
			}
			for len(held) < leased {
				small()
			}
			for range c.churn {
				i := r.IntN(len(held))
				if err := release(s, held[i], s.clock.Now().UnixMilli()-1); err != nil {
					t.Fatal(err)
				}
				held[i] = held[len(held)-1]
				held = held[:len(held)-1]
				s.far.Requests()
				small()
				s.clock.Advance(time.Millisecond)
			}
			fits, room := 0, (8192-leased)>>(c.bitSeq-8)
			for {
				_, err := s.Acquire(t.Context(), kazahana.AcquireOptions{ServiceID: "large"})
				if errors.Is(err, kazahana.ErrExhausted) {
					break
				}
				if err != nil {
					t.Fatal(err)
				}
				fits++
			}
			if t.Logf("%d of %d", fits, room); fits*100 < c.least*room {
				t.Errorf("%d large leases, and there are units for %d", fits, room)
			}
		})
	}
}
