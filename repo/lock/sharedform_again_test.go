package lock

import (
	"testing"
	"time"

	"github.com/leasehold-dev/leasehold/repo/rule"
)

// TestAWriteOfAnEarlierLine: a line ends, and another one forms while the lock has the same token. A command that was
// decided on the first line does not apply to the second: those who left it do not come back, and those who wait now
// keep their places.
func TestAWriteOfAnEarlierLine(t *testing.T) {
	s := newStage(t)
	s.granted(try("ann", Exclusive), 1, 1)
	s.waits(wait("bob", Exclusive), 1, 2)
	writes := 0
	s.before = func() {
		if writes++; writes != 2 { // between the two requests of the release
			return
		}
		s.before = nil
		s.gets(leave("bob"), OK, 2)
		s.plain(Active)
		s.waits(wait("eve", Exclusive), 1, 2)
	}
	if o := s.send(give("ann", 1)); o.Code != OK {
		t.Fatalf("got %+v", o)
	}
	s.granted(wait("eve", Exclusive), 2, 2)
	s.plain(Active)
}

// TestARateWhoseTimesAreNotInOrder: callers that know the store's time within other margins, and clocks that step back
// by no more than that, write grants whose times are not in the order of their tokens. A grant counts as long as it is in the window, and no
// request gets the token of another.
func TestARateWhoseTimesAreNotInOrder(t *testing.T) {
	s := newStage(t)
	rate := func(owner string) Acquire {
		c := try(owner, Rate)
		c.Limit, c.WindowSeconds = 3, 60
		return c
	}
	s.pass(time.Second)
	first := s.gets(rate("ann"), OK, 1).Lease.Token
	s.pass(-time.Second)
	s.gets(rate("bob"), OK, 2)
	s.pass(500 * time.Millisecond)
	s.gets(rate("eve"), OK, 2)
	if o := s.gets(rate("kim"), Held, 1); o.RetryAfter != 59500*time.Millisecond {
		t.Fatalf("got %+v", o)
	}
	s.pass(59700 * time.Millisecond) // the grant of bob has left the window, and the earlier one of ann has not
	s.gets(rate("kim"), OK, 2)
	s.gets(rate("ann"), RequestIDReused, 1)
	for i, owner := range []string{"eve", "kim"} {
		if o := s.gets(rate(owner), OK, 1); !o.Replayed || o.Lease.Token != first+2+int64(i) {
			t.Fatalf("%s: got %+v", owner, o)
		}
	}
	s.gets(rate("lee"), Held, 1)   // ann, eve and kim count
	s.pass(300 * time.Millisecond) // and eve no more
	s.gets(rate("lee"), OK, 2)
	s.gets(rate("zoe"), Held, 1)
	s.pass(500 * time.Millisecond) // ann has left the window, too
	s.gets(rate("zoe"), OK, 2)
	s.gets(rate("joe"), Held, 1)
	s.pass(time.Hour)
	s.granted(try("joe", Exclusive), 1_000_000+7, 2)
	s.plain(Active)
}

// TestALateGrantOfARateIsNotForgotten: the latest grant has left the window, and one before it has not.
func TestALateGrantOfARateIsNotForgotten(t *testing.T) {
	s := newStage(t)
	s.pass(time.Second)
	s.gets(try("ann", Rate), OK, 1)
	s.pass(-time.Second)
	s.gets(try("bob", Rate), OK, 2)
	s.pass(10500 * time.Millisecond)
	s.gets(try("lee", Exclusive), ModeDiffers, 1) // that of ann lasts until 11 s
	s.gets(try("eve", Rate), OK, 2)
	s.gets(try("kim", Rate), Held, 1)
	s.pass(500 * time.Millisecond)
	s.gets(try("kim", Rate), OK, 2)
}

// TestReplaceOfALeaseThatExpires: a lease with a lock delay expires between the two requests of an acquire that would
// replace it. Then the delay lasts, as it does for those who ask later.
func TestReplaceOfALeaseThatExpires(t *testing.T) {
	for _, fair := range []bool{false, true} {
		s := newStage(t)
		ann, bob := try("ann", Exclusive), try("bob", Exclusive)
		ann.Replace, ann.LockDelaySeconds, bob.Replace, bob.Fair = true, 30, true, fair
		s.granted(ann, 1, 1)
		s.pass(time.Minute - time.Millisecond)
		writes := 0
		s.before = func() {
			if writes++; writes == 2 {
				s.pass(time.Millisecond)
			}
		}
		if o := s.send(bob); o.Code != Delayed || o.RetryAfter != 30*time.Second {
			t.Fatalf("fair %v: got %+v", fair, o)
		}
	}
}

// TestReplaceOfALeaseOfTheSameWrite: the acquire that would replace is the first command after the end of a lease, so
// that its write also hands the lock over to the one in line.
func TestReplaceOfALeaseOfTheSameWrite(t *testing.T) {
	s := newStage(t)
	s.granted(try("ann", Shared), 1, 1)
	s.pass(50 * time.Second)
	bob, eve := wait("bob", Exclusive), try("eve", Exclusive)
	bob.Replace, eve.Replace = true, true
	s.waits(bob, 1, 2)
	s.pass(10 * time.Second)
	s.granted(eve, 3, 2)
	s.gets(bob, RequestIDReused, 1)
	s.plain(Active)
}

// TestWhenSomethingEndsNext: a request that waits looks again when the first of leases and places ends, in whatever
// order they are.
func TestWhenSomethingEndsNext(t *testing.T) {
	s := newStage(t)
	ann, bob := try("ann", Permits), try("bob", Permits)
	ann.TTLSeconds, bob.TTLSeconds = 90, 60
	s.granted(ann, 1, 1)
	s.granted(bob, 2, 2)
	s.waits(wait("eve", Permits), 1, 2)
	s.pass(time.Second)
	for _, c := range []struct {
		after, want time.Duration
	}{
		{0, 29 * time.Second}, // the place ends: it was taken for 30 s
		{29 * time.Second, 0}, // to be sent again: its place has ended
	} {
		st, err := subject.State(s.document())
		if err != nil {
			t.Fatal(err)
		}
		at := s.now.Add(c.after)
		again, next := wait("eve", Permits).ready(st, rule.When{At: at})
		if c.want == 0 && !again || c.want != 0 && (again || !next.Equal(at.Add(c.want))) {
			t.Errorf("after %v: again %v, next %v", c.after, again, next.Sub(at))
		}
	}
}
