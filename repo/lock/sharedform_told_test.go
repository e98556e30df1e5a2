package lock

import (
	"slices"
	"testing"
	"time"
)

// TestARefusalTellsTheFirstEnd: of several leases or lock delays a refusal tells the one that ends first, whatever
// their order. A lease that is held counts with its lock delay: so long the lock stays closed if its holder does
// nothing.
func TestARefusalTellsTheFirstEnd(t *testing.T) {
	s := newStage(t)
	for i, ends := range []int64{30, 10, 20} {
		c := try([]string{"ann", "bob", "cem"}[i], Shared)
		c.TTLSeconds, c.LockDelaySeconds = 30, ends
		s.granted(c, int64(i+1), min(i+1, 2))
	}
	for i, ttl := range []int64{40, 35, 45} {
		c := extend([]string{"ann", "bob", "cem"}[i], int64(i+1), "n")
		c.TTLSeconds = ttl
		s.gets(c, OK, 2)
	}
	if o := s.send(try("eve", Exclusive)); o.Code != Held || o.RetryAfter != 45*time.Second || o.Lease.Owner != "bob" {
		t.Errorf("held: %+v", o)
	}
	for i := range 3 { // they end together, and close the lock for 30, 10 and 20 s
		c := extend([]string{"ann", "bob", "cem"}[i], int64(i+1), "n2")
		c.TTLSeconds = 5
		s.gets(c, OK, 2)
	}
	s.pass(5 * time.Second)
	if o := s.send(try("eve", Exclusive)); o.Code != Delayed || o.RetryAfter != 10*time.Second {
		t.Errorf("closed: %+v", o)
	}
}

// TestARenewalOfOneOfSeveralNamesItsEnd: with another expires_at than that of the lease it changes nothing, be that
// earlier or later.
func TestARenewalOfOneOfSeveralNamesItsEnd(t *testing.T) {
	s := newStage(t)
	s.granted(try("ann", Shared), 1, 1)
	s.granted(try("bob", Shared), 2, 2)
	ends := s.now.Add(60 * time.Second)
	for _, at := range []time.Time{ends.Add(-time.Second), ends.Add(time.Second)} {
		c := extend("ann", 1, "n")
		c.TTLSeconds, c.ExpiresAt = 90, at
		if o := s.gets(c, LeaseChanged, 1); !o.Lease.ExpiresAt.Equal(ends) {
			t.Errorf("%v: %+v", at, o)
		}
	}
	c := extend("ann", 1, "n")
	c.TTLSeconds, c.ExpiresAt = 90, ends
	s.gets(c, OK, 2)
}

// TestAForceReleaseOfSeveralIsToldApart: its request_id with another reason ends nothing, and is no replay.
func TestAForceReleaseOfSeveralIsToldApart(t *testing.T) {
	s := newStage(t)
	for i, owner := range []string{"ann", "bob", "cem"} {
		s.granted(try(owner, Shared), int64(i+1), min(i+1, 2))
	}
	c := ForceRelease{ID: subject, By: "root", Reason: "ann hangs", RequestID: "f", LeaseID: "l-ann"}
	s.gets(c, OK, 2)
	if o := s.gets(c, OK, 1); !o.Replayed {
		t.Errorf("again: %+v", o)
	}
	c.Reason = "another"
	s.gets(c, RequestIDReused, 1)
}

// TestWhatMakesRoomServesTheLine: who leaves the line, renews or claims a lease hands over what that write makes room
// for.
func TestWhatMakesRoomServesTheLine(t *testing.T) {
	// behind lets ann read, bob wait to write, and cem wait behind him to read.
	behind := func(t *testing.T) *stage {
		s := newStage(t)
		s.granted(try("ann", Shared), 1, 1)
		s.waits(wait("bob", Exclusive), 1, 2)
		s.waits(wait("cem", Shared), 2, 2)
		return s
	}
	t.Run("gives up", func(t *testing.T) {
		s := behind(t)
		s.gets(leave("bob"), OK, 2)
		s.holds("ann", "cem")
	})
	t.Run("no longer waits", func(t *testing.T) {
		s := behind(t)
		c := wait("bob", Exclusive)
		c.WaitSeconds = 0
		s.gets(c, Held, 2)
		s.holds("ann", "cem")
	})
	t.Run("renews", func(t *testing.T) {
		s := newStage(t)
		s.granted(try("ann", Permits), 1, 1)
		short := try("bob", Permits)
		short.TTLSeconds = 5
		s.granted(short, 2, 2)
		s.waits(wait("cem", Permits), 1, 2)
		s.pass(5 * time.Second)
		s.gets(extend("ann", 1, "n"), OK, 2)
		s.holds("ann", "cem")
	})
	t.Run("claims", func(t *testing.T) {
		s := newStage(t)
		s.granted(try("ann", Permits), 1, 1)
		short := try("bob", Permits)
		short.TTLSeconds = 5
		s.granted(short, 2, 2)
		s.waits(wait("cem", Permits), 1, 2)
		s.waits(wait("dan", Permits), 2, 2)
		s.gets(give("ann", 1), OK, 2)
		s.pass(5 * time.Second)
		s.gets(wait("cem", Permits), OK, 2)
		s.holds("cem", "dan")
	})
}

// holds fails the test unless these hold the lock; their names are in order.
func (s *stage) holds(owners ...string) {
	s.Helper()
	r, err := s.store.Get(s.Context(), subject.key())
	if err != nil {
		s.Fatal(err)
	}
	state, err := subject.State(r.Docs[0])
	if err != nil {
		s.Fatal(err)
	}
	var got []string
	for _, h := range state.toShared().holders {
		got = append(got, h.owner)
	}
	if slices.Sort(got); !slices.Equal(got, owners) {
		s.Fatalf("%v hold the lock, want %v", got, owners)
	}
}
