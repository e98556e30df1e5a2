package suite

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/lock"
)

// TestModes is [TestLocks] for locks with several holders, a line and policies.
func TestModes(t *testing.T) {
	modesProof.onMemory(t)
	t.Run("between two writes", func(t *testing.T) {
		clock := NewClock()
		store := docstore.NewMemory(&docstore.MemoryOptions{Now: clock.Now})
		if err := modesBetween(t.Context(), store, clock); err != nil {
			t.Error(err)
		}
	})
}

// TestModesOracle holds the oracle itself against what must never be: whatever it permits, callers never hold more
// leases than the lock has room for, and their tokens rise. It also shows that programs reach what they are for.
func TestModesOracle(t *testing.T) {
	reached := map[string]int{}
	for seed := range 400 {
		random := rand.New(rand.NewPCG(uint64(seed), 0))
		clock := NewClock()
		run := &modesRun{clock: clock, keys: map[string]*modesKey{}}
		for i, s := range modesPrograms.Example(seed) {
			if clock.Advance(s.Wait); s.Do == "remove" {
				continue
			}
			c, ok := run.command(i, s)
			if !ok {
				continue
			}
			k, at := run.of(c.key), momentOf(clock.Now())
			l := k.locks[0]
			if l.token == 0 {
				l.token = 1000
			}
			results := l.step(c, at, at)
			x := results[random.IntN(len(results))]
			k.locks = []modesLock{x.after}
			o := lock.Outcome{Code: lock.Code(x.answer.codes), Replayed: x.answer.replayed == 1, At: clock.Now()}
			if g := x.answer.lease; g != nil {
				o.Lease.Token, o.Lease.Permit, o.Lease.Owner, o.Lease.LeaseID = g.token, g.permit, g.by.owner, g.by.lease
				o.Lease.AcquiredAt, o.Lease.ExpiresAt = timeOf(g.acquired), timeOf(g.expires)
				if g.handed {
					reached["handed over"]++
				}
			}
			if err := k.tally.saw(c, o, at); err != nil {
				t.Fatalf("program %d, step %d %+v: %v", seed, i, c, err)
			}
			reached[c.do+" "+x.answer.codes]++
			reached[fmt.Sprint("in line: ", len(x.after.waiting))]++
			reached[fmt.Sprint("holders: ", len(x.after.holders))]++
			if n := len(x.after.past); n > 0 {
				reached[x.after.past[n-1].ended]++
			}
			if slices.ContainsFunc(x.after.waiting, func(p modesPlace) bool { return p.until <= at }) {
				reached["a place that is over"]++
			}
		}
	}
	t.Log(reached)
	for _, want := range []string{
		"handed over", "in line: 3", "holders: 3", "released", "expired", "forced", "replaced", "acquire LOCK_QUEUE_FULL",
		"acquire LOCK_MODE_DIFFERS",
		"acquire LOCK_DELAYED", "acquire REQUEST_ID_REUSED", "a place that is over", "give up OK",
		"give up REQUEST_ID_REUSED",
	} {
		if reached[want] == 0 {
			t.Errorf("no program reached %q", want)
		}
	}
}
