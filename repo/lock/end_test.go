package lock

import (
	"fmt"
	"testing"
	"time"

	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/rule"
)

// TestEndOfAnAcquire: in every mode, and in whatever form the lock is, an acquire has its effect at its end and not a
// millisecond later, nor when its end is further away than it may be; and a later delivery of one that had its effect
// returns that.
func TestEndOfAnAcquire(t *testing.T) {
	id := ID{Tenant: "acme", Key: "deploy"}
	modes := map[string]Acquire{
		"exclusive": {TTLSeconds: 30}, "fair": {TTLSeconds: 30, WaitSeconds: 20, Fair: true},
		"shared": {TTLSeconds: 30, Mode: Shared}, "permits": {TTLSeconds: 30, Mode: Permits, Limit: 3},
		"rate": {Mode: Rate, Limit: 3, WindowSeconds: 60}, "replace": {TTLSeconds: 30, Replace: true},
	}
	for name, c := range modes {
		for _, before := range []string{"no lock", "one that is free", "one in shared form"} {
			t.Run(name+" of "+before, func(t *testing.T) {
				found := docstore.Doc(nil)
				at := epoch
				step := func(c Acquire, margin time.Duration) (after docstore.Doc, o Outcome) {
					t.Helper()
					after, o, err := rule.Step[State, Outcome](c, found, rule.When{At: at, Margin: margin})
					if err != nil {
						t.Fatal(err)
					}
					return after, o
				}
				earlier := Acquire{ID: id, Owner: "alice", RequestID: "r0", LeaseID: "l0", TTLSeconds: 1}
				switch before {
				case "one that is free":
					found, _ = step(earlier, 0)
				case "one in shared form":
					earlier.Mode = Shared
					found, _ = step(earlier, 0)
				}
				at = at.Add(time.Minute)
				c := c
				c.ID, c.Owner, c.RequestID, c.LeaseID = id, "bob", "r1", "l1"
				for _, try := range []struct {
					end, margin time.Duration // from the time
					want        Code
				}{
					{-10 * time.Hour, 0, TooLate}, {-time.Millisecond, 0, TooLate}, {0, 0, OK}, {time.Millisecond, 0, OK},
					{0, time.Millisecond, TooLate}, {time.Second, time.Second, OK}, {docstore.MaxAhead, 0, OK},
					{docstore.MaxAhead + time.Millisecond, 0, TooFar}, {10 * docstore.MaxAhead, 0, TooFar},
					{docstore.MaxAhead + time.Millisecond, time.Second, OK},
				} {
					c.NotAfter = at.Add(try.end)
					after, o := step(c, try.margin)
					if o.Code != try.want {
						t.Fatalf("%v to the end, margin %v: %s %s, want %s", try.end, try.margin, o.Code, o.Detail, try.want)
					}
					if o.Code != OK && fmt.Sprint(after) != fmt.Sprint(found) {
						t.Errorf("%v to the end: changed to %v", try.end, after)
					}
				}
				c.NotAfter = at
				var first Outcome
				found, first = step(c, 0)
				at = at.Add(5 * time.Second)
				if _, o := step(c, 0); o.Code != OK || !o.Replayed || o.Lease.Token != first.Lease.Token {
					t.Errorf("a later delivery: %+v, want the lease with token %d", o, first.Lease.Token)
				}
			})
		}
	}
}

// TestPlaceEndsWithTheRequest: a place in line does not outlast the end of its request.
func TestPlaceEndsWithTheRequest(t *testing.T) {
	id := ID{Tenant: "acme", Key: "deploy"}
	found, at := docstore.Doc(nil), epoch
	send := func(c Acquire) Outcome {
		t.Helper()
		c.ID, c.LeaseID, c.Fair, c.TTLSeconds = id, c.RequestID, true, 30
		after, o, err := rule.Step[State, Outcome](c, found, rule.When{At: at})
		if err != nil {
			t.Fatal(err)
		}
		found = after
		return o
	}
	send(Acquire{Owner: "alice", RequestID: "r0"})
	c := Acquire{Owner: "bob", RequestID: "r1", WaitSeconds: 20}
	c.NotAfter = at.Add(4 * time.Second)
	if o := send(c); o.Code != Held || o.Position != 1 {
		t.Fatalf("%+v, want a place in line", o)
	}
	at = at.Add(4 * time.Second)
	if o := send(Acquire{Owner: "carol", RequestID: "r2", WaitSeconds: 20}); o.Position != 1 {
		t.Errorf("at the end of the first: %+v, want its place", o)
	}
}
