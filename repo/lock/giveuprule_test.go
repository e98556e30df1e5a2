package lock

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/rule"
)

// giveUp is the command that gives a request up.
func giveUp(c Acquire) GiveUp { return GiveUp{Acquire: c} }

// document is the document of the lock.
func (s *stage) document() docstore.Doc {
	s.Helper()
	r, err := s.store.Get(s.Context(), subject.key())
	if err != nil {
		s.Fatal(err)
	}
	return r.Docs[0]
}

// hasNothing fails the test if an owner has a lease or a place in line, and unless a copy of its request, whether it
// waits or not, obtains nothing and changes nothing: now, and after several others have had the lock.
func (s *stage) hasNothing(c Acquire) {
	s.Helper()
	for other := range 6 {
		st := s.status()
		of := func(h Holder) bool { return h.Owner == c.Owner }
		if st.Phase == Active && st.Owner == c.Owner && c.Mode != Rate || slices.ContainsFunc(st.Holders, of) ||
			slices.ContainsFunc(st.Waiting, func(w Waiter) bool { return w.Owner == c.Owner }) {
			s.Fatalf("it has something: %+v", st)
		}
		found := s.document()
		for _, seconds := range []int64{0, 20} {
			again := c
			again.WaitSeconds = seconds
			s.gets(again, RequestIDReused, 1)
			if s.gets(inLine{again}, RequestIDReused, 1); !s.document().Equal(found) {
				s.Fatalf("a copy wrote: %v, then %v", found, s.document())
			}
		}
		s.pass(2 * time.Hour)
		next := try(fmt.Sprint("next ", other), Exclusive)
		if o := s.send(next); o.Code != OK {
			s.Fatalf("another acquire: %+v", o)
		}
	}
}

// TestGiveUp: whatever a request has, in each mode and form, it has nothing after it was given up, and obtains nothing
// later. One write where it has nothing in plain form, two otherwise; one for each repetition, which changes nothing.
func TestGiveUp(t *testing.T) {
	asks := map[string]Acquire{
		"exclusive": try("bob", Exclusive), "fair": wait("bob", Exclusive), "shared": wait("bob", Shared),
		"permits": wait("bob", Permits).put(func(c *Acquire) { c.Limit = 1 }),
		"rate":    wait("bob", Rate).put(func(c *Acquire) { c.Limit = 1 }),
		"replace": try("bob", Exclusive).put(withReplace), "delay": try("bob", Exclusive).put(withDelay),
		"one of a set": try("bob", Exclusive).put(func(c *Acquire) { c.set = "deploy\nmigrate" }),
	}
	// like is another request in a mode that can be beside bob's.
	like := func(c Acquire, owner string) Acquire {
		other := try(owner, c.Mode)
		other.Limit, other.WindowSeconds = c.Limit, c.WindowSeconds
		return other
	}
	waits := func(c Acquire) bool { return c.queues() }
	for name, bob := range asks {
		for _, has := range []struct {
			what  string
			of    func(Acquire) bool
			build func(s *stage)
			cost  int
		}{
			{"nothing, no record", nil, func(*stage) {}, 2},
			{"nothing, a free lock", nil, func(s *stage) {
				s.gets(try("ann", Exclusive), OK, 1)
				s.gets(give("ann", 1), OK, 1)
			}, 1},
			{"nothing, a lock that is held", nil, func(s *stage) { s.gets(try("ann", Exclusive), OK, 1) }, 1},
			{"nothing, a lock whose lease has expired", nil, func(s *stage) {
				s.gets(try("ann", Exclusive), OK, 1)
				s.pass(time.Hour)
			}, 1},
			{"nothing, shared form", nil, func(s *stage) { s.gets(try("ann", Shared), OK, 1) }, 2},
			{"a lease", nil, func(s *stage) { s.gets(bob, OK, 1) }, 2},
			{"a lease that was renewed", func(c Acquire) bool { return c.Mode != Rate }, func(s *stage) {
				token := s.gets(bob, OK, 1).Lease.Token
				s.pass(50 * time.Second)
				s.send(Renew{ID: subject, Owner: "bob", Token: token, RequestID: "n", TTLSeconds: 60})
				s.pass(50 * time.Second)
			}, 2},
			{"a lease beside a line", func(c Acquire) bool { return c.Mode != Rate }, func(s *stage) {
				s.gets(bob, OK, 1)
				other := like(bob, "ann")
				if bob.Mode == Shared {
					other = try("ann", Exclusive)
				}
				other.WaitSeconds, other.Fair = 20, true
				s.waits(other, 1, 2)
			}, 2},
			{"a lease that has expired", func(c Acquire) bool { return c.Mode != Rate }, func(s *stage) {
				s.gets(bob, OK, 1)
				s.pass(2 * time.Hour)
			}, 2},
			{"a lease that was ended by force", func(c Acquire) bool { return c.Mode != Rate }, func(s *stage) {
				s.gets(bob, OK, 1)
				s.send(force("f"))
			}, 2},
			{"a lease that others have followed", nil, func(s *stage) {
				s.gets(bob, OK, 1)
				s.pass(2 * time.Hour)
				s.send(try("ann", Exclusive))
			}, 2},
			{"a place in line", waits, func(s *stage) {
				other := like(bob, "ann")
				if bob.Mode == Shared {
					other = try("ann", Exclusive)
				}
				s.gets(other, OK, 1)
				s.waits(bob, 1, 2)
			}, 2},
			{"what it was handed over", func(c Acquire) bool { return waits(c) && c.Mode != Rate }, func(s *stage) {
				other := like(bob, "ann")
				if bob.Mode == Shared {
					other = try("ann", Exclusive)
				}
				s.gets(other, OK, 1)
				s.waits(bob, 1, 2)
				s.send(give("ann", 1))
				if st := s.status(); st.Owner != "bob" || st.Phase != Active {
					s.Fatalf("got %+v", st)
				}
			}, 2},
		} {
			if has.of != nil && !has.of(bob) {
				continue
			}
			t.Run(name+" that has "+has.what, func(t *testing.T) {
				s := newStage(t)
				has.build(s)
				if o := s.gets(giveUp(bob), OK, has.cost); o.Replayed {
					t.Errorf("got %+v", o)
				}
				found := s.document()
				s.pass(time.Second)
				if o := s.gets(giveUp(bob), OK, 1); !o.Replayed || !s.document().Equal(found) {
					t.Errorf("again: %+v", o)
				}
				other := bob
				other.Metadata = map[string]string{"other": "parameters"}
				if s.gets(giveUp(other), RequestIDReused, 1); !s.document().Equal(found) {
					t.Errorf("with other parameters it changed the lock")
				}
				s.hasNothing(bob)
			})
		}
	}
}

// TestGiveUpOfAnother: the lease, the place, the grant and the reservation of a request with the same request_id and
// other parameters stay, also when it is only remembered; and of one of another owner, whatever its request_id.
func TestGiveUpOfAnother(t *testing.T) {
	behind := func(s *stage) { s.gets(try("ann", Exclusive), OK, 1) }
	for name, has := range map[string]struct {
		build func(s *stage)
		sends command
	}{
		"a lease":       {nil, try("bob", Exclusive)},
		"a reader":      {nil, try("bob", Shared)},
		"a grant":       {nil, try("bob", Rate)},
		"a place":       {behind, wait("bob", Exclusive)},
		"a reservation": {behind, reserve{acquire: try("bob", Exclusive).put(func(c *Acquire) { c.set = "several" })}},
		"been given up": {behind, giveUp(try("bob", Exclusive))},
		"a lease that was followed": {func(s *stage) {
			s.gets(try("bob", Exclusive), OK, 1)
			s.pass(time.Hour)
		}, try("ann", Exclusive)},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t)
			if has.build != nil {
				has.build(s)
			}
			s.send(has.sends)
			found := s.document()
			other := try("bob", Exclusive)
			other.TTLSeconds = 61
			s.gets(giveUp(other), RequestIDReused, 1)
			if !s.document().Equal(found) {
				t.Errorf("other parameters: %v became %v", found, s.document())
			}
			eve := try("eve", Exclusive)
			eve.RequestID = "r-bob"
			before := s.status()
			if s.send(giveUp(eve)); fmt.Sprint(s.status()) != fmt.Sprint(before) {
				t.Errorf("another owner: %+v became %+v", before, s.status())
			}
		})
	}
}

// TestGiveUpLeavesTheHolder: to give up what waits changes nothing for the holder in plain form: its replays, its
// renewals and its release. And the acquires that are remembered are.
func TestGiveUpLeavesTheHolder(t *testing.T) {
	s := newStage(t)
	ann := s.granted(try("ann", Exclusive).put(withDelay), 1, 1)
	for i := range 6 {
		s.gets(giveUp(try(fmt.Sprint("bob ", i), Exclusive)), OK, 1)
	}
	if o := s.gets(try("ann", Exclusive).put(withDelay), OK, 1); !o.Replayed || o.Lease.Token != ann.Lease.Token {
		t.Errorf("got %+v", o)
	}
	s.pass(30 * time.Second)
	s.gets(extend("ann", 1, "n1"), OK, 1)
	if o := s.gets(extend("ann", 1, "n1"), OK, 1); !o.Replayed {
		t.Errorf("got %+v", o)
	}
	// As many are remembered as of each kind of request; the others are new ones.
	for i := range 6 {
		want := RequestIDReused
		if i < 6-RememberedRequests {
			want = Held
		}
		s.gets(try(fmt.Sprint("bob ", i), Exclusive), want, 1)
	}
	s.gets(give("ann", 1), OK, 1)
	s.granted(try("eve", Exclusive), 2, 1)
}

// TestGiveUpWithoutARecord: what it makes is no lock. It is removed an hour later; that of a lock with a record is not
// sooner than it would be.
func TestGiveUpWithoutARecord(t *testing.T) {
	s := newStage(t)
	prune := func(want int) {
		t.Helper()
		if n, err := s.store.(docstore.Pruner).Prune(t.Context(), 10); err != nil || n != want {
			t.Errorf("%d documents are removed, error %v, want %d", n, err, want)
		}
	}
	s.gets(giveUp(try("bob", Exclusive)), OK, 2)
	if st := s.status(); st.Phase != None || st.Owner != "" || len(st.History) > 0 {
		t.Errorf("got %+v", st)
	}
	for f := range s.document() {
		if !slices.Contains(givenUps[:], f) && !slices.Contains(givenUpEnds[:], f) && f != fForgotten {
			t.Errorf("it has %v", s.document())
		}
	}
	s.pass(59 * time.Minute)
	s.gets(giveUp(try("eve", Exclusive)), OK, 2)
	s.pass(59 * time.Minute)
	prune(0)
	s.gets(try("bob", Exclusive), RequestIDReused, 1)
	s.gets(force("f"), NotHeld, 1)
	s.gets(extend("bob", 1, "n"), LeaseLost, 1)
	s.pass(time.Minute)
	prune(1)
	s.pass(time.Second)
	now := s.now
	s.gets(giveUp(try("bob", Exclusive)), OK, 2)
	if o := s.gets(try("ann", Exclusive), OK, 1); o.Lease.Token != now.UnixMicro()+1 {
		t.Errorf("the next acquire: %+v, want the token of the time", o)
	}
	s.gets(giveUp(try("eve", Exclusive)), OK, 1)
	s.pass(24 * time.Hour)
	prune(0)
}

// TestGiveUpOpensTheLock: what is given up leaves no lock delay, and its lock is handed over.
func TestGiveUpOpensTheLock(t *testing.T) {
	s := newStage(t)
	bob := try("bob", Exclusive).put(withDelay)
	s.granted(bob, 1, 1)
	s.gets(giveUp(bob), OK, 2)
	s.plain(Released)
	if s.document()[released(token(1))] != nil {
		t.Errorf("it remembers a release: %v", s.document())
	}
	s.gets(Release{ID: subject, Owner: "bob", Token: token(1), RequestID: "r-bob"}, LeaseReleased, 1)
	s.granted(try("ann", Exclusive), 2, 1)

	s = newStage(t)
	s.granted(bob, 1, 1)
	s.waits(wait("ann", Exclusive), 1, 2)
	s.waits(wait("eve", Exclusive), 2, 2)
	if o := s.gets(giveUp(bob), OK, 2); o.Lease.Token != token(1) || o.Lease.Phase != Released {
		t.Errorf("got %+v", o)
	}
	s.granted(wait("ann", Exclusive), 2, 2)
	if o := s.gets(giveUp(wait("eve", Exclusive)), OK, 2); o.Lease.Token != 0 {
		t.Errorf("got %+v", o)
	}
	s.plain(Active)
	if h := s.status().History; len(h) != 1 || h[0].Ended != EndedReleased || h[0].Owner != "bob" {
		t.Errorf("got %+v", h)
	}
}

// TestGiveUpOfARate: the grant stays spent.
func TestGiveUpOfARate(t *testing.T) {
	s := newStage(t)
	one := func(owner string) Acquire { return try(owner, Rate).put(func(c *Acquire) { c.Limit = 1 }) }
	s.gets(one("bob"), OK, 1)
	s.gets(giveUp(one("bob")), OK, 2)
	s.gets(one("bob"), RequestIDReused, 1)
	if o := s.gets(one("ann"), Held, 1); o.RetryAfter != 10*time.Second {
		t.Errorf("got %+v", o)
	}
	s.pass(10 * time.Second)
	s.gets(one("ann"), OK, 2)

	// It is known for longer than among the acquires.
	many := func(owner string) Acquire { return try(owner, Rate).put(func(c *Acquire) { c.Limit = 10 }) }
	s = newStage(t)
	for i := range 6 {
		s.send(many(fmt.Sprint("o", i)))
	}
	other := many("o0")
	other.Metadata = map[string]string{"other": "parameters"}
	s.gets(giveUp(other), RequestIDReused, 1)
}

// TestGiveUpDropsTheReservation: others have the lock that was kept for a set.
func TestGiveUpDropsTheReservation(t *testing.T) {
	s := newStage(t)
	s.granted(try("ann", Exclusive), 1, 1)
	s.reserves()
	s.gets(reserve{acquire: dee, turn: true}, OK, 2)
	s.gets(give("ann", 1), OK, 2)
	s.gets(try("eve", Exclusive), Held, 1)
	s.gets(giveUp(dee), OK, 2)
	s.plain(Released)
	s.granted(try("eve", Exclusive), 2, 1)
	s.gets(reserve{acquire: dee}, Held, 1)
	s.waits(wait("kim", Exclusive), 1, 2)
	if s.gets(reserve{acquire: dee}, Held, 1); s.document()[fReserved] != nil {
		t.Errorf("it is reserved again: %v", s.document())
	}
}

// TestReservationEndsWithTheRequest: neither a reservation nor a turn outlasts the end of its request; sent again with
// a later end, the request has them on.
func TestReservationEndsWithTheRequest(t *testing.T) {
	until := func(d time.Duration) reserve {
		r := reserve{acquire: dee}
		r.NotAfter = epoch.Add(d)
		r.acquire.End = r.End
		return r
	}
	turn := func(r reserve) reserve {
		r.turn = true
		return r
	}
	s := newStage(t)
	s.granted(try("ann", Exclusive), 1, 1)
	s.gets(until(4*time.Second), OK, 2)
	s.gets(turn(until(4*time.Second)), OK, 2)
	s.gets(give("ann", 1), OK, 2)
	if o := s.gets(try("eve", Exclusive), Held, 1); o.RetryAfter != 4*time.Second {
		t.Errorf("got %+v", o)
	}
	s.pass(time.Second)
	s.gets(until(9*time.Second), OK, 2)
	if o := s.gets(try("eve", Exclusive), Held, 1); o.RetryAfter != 8*time.Second {
		t.Errorf("sent again: %+v", o)
	}
	if st := s.status(); !st.FreeAt.Equal(epoch.Add(9 * time.Second)) {
		t.Errorf("got %+v", st)
	}
	s.pass(8 * time.Second)
	s.granted(try("eve", Exclusive), 2, 2)

	s = newStage(t)
	s.granted(try("ann", Exclusive), 1, 1)
	s.pass(5 * time.Second)
	found := s.document()
	if s.send(until(4 * time.Second)); !s.document().Equal(found) {
		t.Errorf("one that comes too late reserved the lock: %v", s.document())
	}
}

// TestGiveUpBetweenTwoWrites: a request that is given up between its two writes obtains nothing by the second, neither
// a place nor a lease nor a reservation; and one that obtains a lease between those of its give-up loses it.
func TestGiveUpBetweenTwoWrites(t *testing.T) {
	between := func(s *stage, n int, do func()) {
		writes := 0
		s.before = func() {
			if writes++; writes == n {
				s.before = nil
				do()
			}
		}
	}
	delayed := func(s *stage) {
		s.granted(try("ann", Exclusive).put(withDelay), 1, 1)
		s.pass(90 * time.Second)
	}
	for name, c := range map[string]struct {
		build func(s *stage)
		late  command
	}{
		"a place in line": {func(s *stage) { s.granted(try("ann", Exclusive), 1, 1) }, wait("bob", Exclusive)},
		"a lease": {func(s *stage) {
			s.granted(try("ann", Exclusive), 1, 1)
			s.gets(give("ann", 1), OK, 1)
		}, try("bob", Shared)},
		"a lease in shared form":         {func(s *stage) { s.gets(try("ann", Shared), OK, 1) }, try("bob", Shared)},
		"a place in line in shared form": {func(s *stage) { s.gets(try("ann", Shared), OK, 1) }, wait("bob", Exclusive)},
		"a lease after a delay":          {delayed, try("bob", Exclusive)},
		"a reservation": {func(s *stage) { s.granted(try("ann", Exclusive), 1, 1) },
			reserve{acquire: try("bob", Exclusive)}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t)
			c.build(s)
			bob, is := c.late.(Acquire)
			if !is {
				bob = c.late.(reserve).acquire
			}
			between(s, 2, func() { s.send(giveUp(bob)) })
			if o := s.send(c.late); o.Code != RequestIDReused && is || s.document()[fReserved] != nil {
				t.Errorf("got %+v, %v", o, s.document())
			}
			s.hasNothing(bob)
		})
	}
	for name, build := range map[string]func(s *stage){
		"no record": func(*stage) {},
		"plain":     func(s *stage) { s.gets(try("bob", Exclusive), OK, 1); s.pass(time.Hour) },
	} {
		t.Run("of the give-up, "+name, func(t *testing.T) {
			s := newStage(t)
			build(s)
			late := try("bob", Exclusive)
			late.RequestID = "late"
			if name == "plain" {
				late.RequestID = "r-bob"
			}
			between(s, 2, func() {
				if name == "plain" { // another lease is in between: the register of acquires is another
					s.gets(try("ann", Exclusive), OK, 1)
					return
				}
				s.gets(late, OK, 1)
			})
			if o := s.send(giveUp(late)); o.Code != OK {
				t.Errorf("got %+v", o)
			}
			s.hasNothing(late)
		})
	}
}

// TestALeaseThatMayHaveEnded: where the store's time is known within a margin only, what was given up is neither
// returned to a copy nor claimed within it.
func TestALeaseThatMayHaveEnded(t *testing.T) {
	for _, mode := range []Mode{Exclusive, Shared} {
		bob := try("bob", mode)
		var found docstore.Doc
		step := func(c rule.Command[State, Outcome], at time.Duration) Outcome {
			t.Helper()
			after, o, err := rule.Step(c, found, rule.When{At: epoch.Add(at), Margin: time.Second})
			if err != nil {
				t.Fatal(err)
			}
			found = after
			return o
		}
		step(bob, 0)
		if o := step(giveUp(bob), 59500*time.Millisecond); o.Code != OK {
			t.Errorf("%q: %+v", mode, o)
		}
		if o := step(bob, 59*time.Second); o.Code != RequestIDReused {
			t.Errorf("%q: a copy: %+v", mode, o)
		}
	}
}
