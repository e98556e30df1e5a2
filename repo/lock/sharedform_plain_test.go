package lock

import (
	"testing"
	"time"
)

// inPlainForm hands the lock from ann to bob, in line, whose lease is in plain form when he has claimed it.
func (s *stage) inPlainForm(change func(*Acquire)) {
	s.Helper()
	c := wait("bob", Exclusive)
	change(&c)
	s.granted(try("ann", Exclusive), 1, 1)
	s.waits(c, 1, 2)
	s.gets(give("ann", 1), OK, 2)
	s.granted(c, 2, 2)
	s.plain(Active)
}

// TestALeaseThatGoesBackToPlainForm has all that it had in shared form: its lock delay, and the renewals that it
// remembers.
func TestALeaseThatGoesBackToPlainForm(t *testing.T) {
	s := newStage(t)
	s.inPlainForm(func(c *Acquire) { c.LockDelaySeconds = 30 })
	s.pass(time.Minute)
	if o := s.gets(try("eve", Exclusive), Delayed, 1); o.RetryAfter != 30*time.Second {
		t.Errorf("got %+v", o)
	}
	s.pass(30 * time.Second)
	s.granted(try("eve", Exclusive), 3, 2)

	s = newStage(t)
	s.inPlainForm(func(*Acquire) {})
	s.waits(wait("kim", Exclusive), 1, 2)
	s.pass(time.Second)
	first := s.gets(extend("bob", 2, "n1"), OK, 2)
	s.pass(time.Second)
	s.gets(leave("kim"), OK, 2)
	s.plain(Active)
	if again := s.gets(extend("bob", 2, "n1"), OK, 1); !again.Replayed ||
		!again.Lease.ExpiresAt.Equal(first.Lease.ExpiresAt) {
		t.Errorf("first %+v\nthen  %+v", first, again)
	}
}

// TestALeaseThatWasEndedByForceAndItsLineIsEmpty: while its lock delay lasts the lock says who ended it.
func TestALeaseThatWasEndedByForceAndItsLineIsEmpty(t *testing.T) {
	s := newStage(t)
	s.inPlainForm(func(c *Acquire) { c.LockDelaySeconds = 30 })
	s.waits(wait("kim", Exclusive), 1, 2)
	s.gets(ForceRelease{ID: subject, By: "root", Reason: "hang", RequestID: "f"}, OK, 2)
	s.gets(leave("kim"), OK, 2)
	if o := s.gets(extend("bob", 2, "n1"), LeaseReleased, 1); o.Detail != "the lease was ended by root: hang" {
		t.Errorf("bob is told %+v", o)
	}
	if st := s.status(); st.Phase != Released || !st.FreeAt.Equal(s.now.Add(30*time.Second)) {
		t.Errorf("got %+v", st)
	}
	s.gets(try("eve", Exclusive), Delayed, 1)
	s.pass(30 * time.Second)
	s.granted(try("eve", Exclusive), 3, 2)
}

// TestGrantsOfAnotherWindow: a lock whose rate is free takes another window, in which the grants of the one before do
// not count.
func TestGrantsOfAnotherWindow(t *testing.T) {
	s := newStage(t)
	c := try("ann", Rate)
	c.Limit, c.WindowSeconds = 1, 1
	s.granted(c, 1, 1)
	s.pass(2 * time.Second)
	c = try("bob", Rate)
	c.Limit, c.WindowSeconds = 1, 60
	s.granted(c, 2, 2)
	s.pass(time.Second)
	c = try("eve", Rate)
	c.Limit, c.WindowSeconds = 1, 60
	if o := s.gets(c, Held, 1); o.RetryAfter != 59*time.Second {
		t.Errorf("got %+v", o)
	}
}

// TestARefusalClearsPlaces: a place whose time has passed is cleared by the next refusal, once.
func TestARefusalClearsPlaces(t *testing.T) {
	s := newStage(t)
	s.granted(try("ann", Exclusive), 1, 1)
	s.waits(wait("bob", Exclusive), 1, 2)
	s.pass(31 * time.Second)
	s.gets(try("eve", Exclusive), Held, 2)
	s.plain(Active)
	s.gets(try("eve", Exclusive), Held, 1)
}
