package lock

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/leasehold-dev/leasehold/repo/docstore"
)

// howMany are numbers of leases that have ended: a few, around bounds that a pass might have, and as many as there can
// be.
var howMany = []int64{1, 19, 20, 21, 40, 41, 60, 100}

// hold lets n readers hold the lock.
func (s *stage) hold(n, delay int64) {
	s.Helper()
	for i := range n {
		c := try(fmt.Sprint("dead ", i), Shared)
		c.LockDelaySeconds = delay * (1 + i%2) / 2 // of different lengths
		s.gets(c, OK, int(min(i, 1))+1)
	}
}

// TestALineGoesOnOverTheDead: who is the first in line behind any number of holders that died has the lock when it
// comes again.
func TestALineGoesOnOverTheDead(t *testing.T) {
	for _, n := range howMany {
		s := newStage(t)
		s.hold(n, 0)
		s.waits(wait("bob", Exclusive), 1, 2)
		s.waits(wait("eve", Exclusive), 2, 2)
		for range 3 {
			s.pass(20 * time.Second)
			if s.now.Before(epoch.Add(time.Minute)) {
				s.waits(wait("bob", Exclusive), 1, 2)
				s.waits(wait("eve", Exclusive), 2, 2)
			}
		}
		s.granted(wait("bob", Exclusive), n+1, 2)
		s.waits(wait("eve", Exclusive), 1, 2)
	}
}

// TestARefusalClears: a refusal writes what it found to have ended, and what those in line get thereby; once, so that
// the next one costs a request as it always did.
func TestARefusalClears(t *testing.T) {
	for name, refused := range map[string]struct {
		ask  command
		code Code
	}{
		"a writer":     {try("zoe", Exclusive), Held},
		"another mode": {try("zoe", Permits), ModeDiffers},
		"a line that is full": {Acquire{ID: subject, Owner: "zoe", RequestID: "r", LeaseID: "l", TTLSeconds: 1,
			Fair: true, WaitSeconds: 9, MaxWaiting: 1}, QueueFull},
		"a force-release of another lease": {ForceRelease{ID: subject, By: "root", Reason: "x", RequestID: "f",
			LeaseID: "l-dead 0"}, LeaseLost},
	} {
		for _, n := range howMany[:len(howMany)-1] {
			t.Run(fmt.Sprint(name, "/", n), func(t *testing.T) {
				s := newStage(t)
				s.hold(n, 0)
				s.pass(time.Second)
				s.granted(try("ann", Shared), n+1, 2)
				s.waits(wait("bob", Exclusive), 1, 2)
				s.pass(20 * time.Second)
				s.waits(wait("bob", Exclusive), 1, 2)
				s.pass(20 * time.Second)
				s.waits(wait("bob", Exclusive), 1, 2)
				s.pass(10 * time.Second)
				s.waits(wait("bob", Exclusive), 1, 2)
				s.pass(9 * time.Second)
				first := s.gets(refused.ask, refused.code, 2)
				if got := s.leases(); got != 1 {
					t.Fatalf("%d leases are left", got)
				}
				if again := s.gets(refused.ask, refused.code, 1); again.Detail != first.Detail ||
					again.RetryAfter != first.RetryAfter ||
					fmt.Sprint(again.Lease) != fmt.Sprint(first.Lease) {
					t.Fatalf("first %+v\nthen  %+v", first, again)
				}
				s.pass(time.Second)
				s.gets(try("kim", Exclusive), Held, 2) // bob is handed the lock
				s.granted(wait("bob", Exclusive), n+2, 2)
			})
		}
	}
}

// leases is how many leases the document has.
func (s *stage) leases() (n int) {
	s.Helper()
	r, err := s.store.Get(s.Context(), subject.key())
	if err != nil {
		s.Fatal(err)
	}
	for f := range r.Docs[0] {
		if _, ok := numbered(f, "x"); ok {
			n++
		}
	}
	return n
}

// TestAHundredInLineGetTheLockTogether: no bound leaves what is free to the next write.
func TestAHundredInLineGetTheLockTogether(t *testing.T) {
	for name, c := range map[string]struct {
		first Acquire
		mode  func(i int) Acquire
	}{
		"readers": {try("first", Exclusive), func(i int) Acquire { return wait(fmt.Sprint("o", i), Shared) }},
		"a rate": {
			Acquire{ID: subject, Owner: "first", RequestID: "r", LeaseID: "l", Mode: Rate, Limit: 100, WindowSeconds: 1},
			func(i int) Acquire {
				return Acquire{ID: subject, Owner: fmt.Sprint("o", i), RequestID: "r", LeaseID: "l", Mode: Rate, Limit: 100,
					WindowSeconds: 1, WaitSeconds: 20}
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t)
			s.granted(c.first, 1, 1)
			n := int64(1)
			for c.first.Mode == Rate && n < 100 {
				more := c.mode(int(1000 + n))
				n++
				s.granted(more, n, 2)
			}
			for i := range MaxWaiting {
				s.waits(c.mode(i), int64(i)+1, 2)
			}
			if c.first.Mode == Rate {
				s.pass(time.Second)
				s.granted(c.mode(MaxWaiting-1), n+MaxWaiting, 2)
			} else {
				s.gets(Release{ID: subject, Owner: "first", Token: token(1), RequestID: "e"}, OK, 2)
			}
			for i := range MaxWaiting {
				if o := s.send(c.mode(i)); o.Code != OK || o.Lease.Token != token(n+int64(i)+1) {
					t.Fatalf("%d: %+v", i, o)
				}
			}
		})
	}
}

// TestOneConditionForAllThatEnded: of leases with different lock delays the one that closes last is asked about, so
// that the write has one condition for any number of them; those that a refusal has cleared before are not asked about
// again.
func TestOneConditionForAllThatEnded(t *testing.T) {
	for name, cleared := range map[string]bool{"at once": false, "after a refusal": true} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t)
			delays := []int64{0, 300, 20, 0}
			for i, ttl := range []int64{90, 10, 100, 200} {
				c := try(fmt.Sprint("o", i), Shared)
				c.TTLSeconds, c.LockDelaySeconds = ttl, delays[i]
				s.send(c)
			}
			s.pass(310*time.Second - time.Millisecond)
			if cleared {
				s.gets(try("zoe", Exclusive), Delayed, 2) // clears three
				s.gets(try("zoe", Exclusive), Delayed, 1)
			}
			r, err := s.store.Get(t.Context(), subject.key())
			if err != nil {
				t.Fatal(err)
			}
			s.pass(time.Millisecond)
			var sent docstore.Write
			s.store = sending{s.store, func(w docstore.Write) { sent = w }}
			s.granted(try("zoe", Exclusive), 5, 2)
			asked := 0
			all, ok := sent.If.(docstore.All)
			if !ok {
				t.Fatalf("sent %v", sent.If)
			}
			for _, c := range all {
				le, ok := c.(docstore.LE)
				if !ok {
					continue
				}
				if asked++; le.Value != docstore.Value(docstore.Now.Add(-300*time.Second)) ||
					r.Docs[0][le.Field] != docstore.Value(docstore.FormatTime(epoch.Add(10*time.Second))) {
					t.Errorf("asked %+v", le)
				}
			}
			if asked != 1 {
				t.Errorf("%d conditions on times", asked)
			}
		})
	}
}

// sending is a store that shows what is sent to it.
type sending struct {
	docstore.Store

	see func(docstore.Write)
}

func (s sending) Write(ctx context.Context, w ...docstore.Write) (docstore.Result, error) {
	s.see(w[0])
	return s.Store.Write(ctx, w...)
}

// TestAnAdministratorOpensWhatIsClosed: a force-release of a lock that no one holds ends what closes it, a lock delay
// or the grants of a rate, and the lock is obtained at once. One that names a lease ends nothing else, and what was
// ended is not ended twice.
func TestAnAdministratorOpensWhatIsClosed(t *testing.T) {
	closing := func(owner string, mode Mode) Acquire {
		c := try(owner, mode)
		c.LockDelaySeconds = 3600
		return c
	}
	force := func(request, lease string) ForceRelease {
		return ForceRelease{ID: subject, By: "root", Reason: "typed the wrong key", RequestID: request, LeaseID: lease}
	}
	for name, c := range map[string]struct {
		close func(s *stage)
		owner string // whose lease the response shows
	}{
		"a lease that expired": {func(s *stage) {
			s.granted(closing("ann", Exclusive), 1, 1)
			s.pass(time.Minute)
		}, "ann"},
		"a lease that was ended by force": {func(s *stage) {
			s.granted(closing("ann", Exclusive), 1, 1)
			s.gets(force("f0", ""), OK, 1)
		}, "ann"},
		"readers that expired": {func(s *stage) {
			s.granted(closing("ann", Shared), 1, 1)
			s.granted(try("bob", Shared), 2, 2)
			s.granted(closing("eve", Shared), 3, 2)
			s.pass(time.Minute)
		}, "eve"},
		"readers that were ended by force": {func(s *stage) {
			s.hold(25, 3600)
			s.gets(force("f0", ""), OK, 2)
			s.pass(time.Second)
		}, "dead 24"},
		"permits, some expired and some ended": {func(s *stage) {
			ann := closing("ann", Permits)
			s.granted(ann, 1, 1)
			s.granted(closing("bob", Permits), 2, 2)
			s.gets(force("f0", "l-bob"), OK, 2)
			s.pass(time.Minute)
		}, "bob"},
		"a rate": {func(s *stage) {
			for i := range int64(3) {
				c := try(fmt.Sprint("o", i), Rate)
				c.Limit, c.WindowSeconds = 3, MaxWindowSeconds
				s.granted(c, i+1, int(min(i, 1))+1)
				s.pass(time.Second)
			}
		}, "o2"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t)
			c.close(s)
			if o := s.send(try("zoe", Exclusive)); o.Code != Delayed && o.Code != ModeDiffers {
				t.Fatalf("not closed: %+v", o)
			}
			if o := s.send(force("f1", "l-another")); o.Code != NotHeld ||
				o.Detail != "no one holds the lock, and it is closed all the same; a force-release without lease_id opens it" {
				t.Fatalf("got %+v", o)
			}
			o := s.gets(force("f2", ""), OK, 2)
			if o.Lease.Owner != c.owner || o.Lease.Phase != Released || o.Lease.Forced.By != "root" ||
				!o.Lease.ReleasedAt.Equal(s.now) ||
				!o.Lease.FreeAt.IsZero() || o.Lease.AcquiredAt.Before(epoch) {
				t.Fatalf("got %+v", o)
			}
			if o := s.gets(force("f2", ""), OK, 1); !o.Replayed {
				t.Fatalf("got %+v", o)
			}
			if st := s.status(); !st.FreeAt.IsZero() || st.Holders != nil {
				t.Fatalf("got %+v", st)
			}
			if o := s.gets(force("f3", ""), NotHeld, 1); o.Detail != "no one holds the lock" {
				t.Fatalf("got %+v", o)
			}
			s.gets(try("zoe", Exclusive), OK, 1)
			if o := s.send(force("f2", "")); o.Code != OK || !o.Replayed {
				t.Fatalf("got %+v", o)
			}
			if st := s.status(); st.Phase != Active || st.Owner != "zoe" {
				t.Fatalf("a delivery that came late ended a later lease: %+v", st)
			}
		})
	}
}

// TestARateIsForgottenForItsLine: those who wait for a rate have their grants in the write that forgets the earlier
// ones, whose requests obtain nothing any more.
func TestARateIsForgottenForItsLine(t *testing.T) {
	s := newStage(t)
	s.granted(try("ann", Rate), 1, 1)
	s.granted(try("bob", Rate), 2, 2)
	for i, owner := range []string{"eve", "kim", "lee"} {
		s.waits(wait(owner, Rate), int64(i)+1, 2)
	}
	o := s.gets(ForceRelease{ID: subject, By: "root", Reason: "x", RequestID: "f1"}, OK, 2)
	if o.Lease.Owner != "bob" {
		t.Fatalf("got %+v", o)
	}
	for i, owner := range []string{"eve", "kim"} {
		if o := s.gets(wait(owner, Rate), OK, 1); o.Lease.Token != token(int64(i)+3) {
			t.Fatalf("got %+v", o)
		}
	}
	s.waits(wait("lee", Rate), 1, 1)
	s.gets(try("ann", Rate), RequestIDReused, 1)
}

// TestALockDelayIsOpenedWhenItIsSure: on a store that knows the time within a margin only, no lease is taken for
// expired that may last. Until then a force-release ends the lease.
func TestALockDelayIsOpenedWhenItIsSure(t *testing.T) {
	force := ForceRelease{ID: subject, By: "root", Reason: "x", RequestID: "f1"}
	for _, mode := range []Mode{Exclusive, Shared} {
		for _, ended := range []bool{false, true} {
			s := newStage(t)
			s.store = Uncertain{Store: s.store, Margin: time.Second}
			c := try("ann", mode)
			c.LockDelaySeconds = 600
			s.granted(c, 1, 1)
			s.pass(time.Minute + time.Second - time.Millisecond)
			if !ended {
				o := s.send(force)
				if o.Code != OK || o.Lease.Phase != Released {
					t.Errorf("a lease that may last: %+v", o)
				}
				s.gets(try("zoe", Exclusive), Delayed, 1)
				continue
			}
			s.pass(time.Millisecond)
			s.gets(force, OK, 2)
			s.granted(try("zoe", Exclusive), 2, 1)
		}
	}
}
