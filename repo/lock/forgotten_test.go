package lock

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/leasehold-dev/leasehold/repo/docstore"
)

// pushFor is how long a push is of use from when it is asked for.
const pushFor = 10 * time.Minute

// push is a deployment that takes the lock from the one before it.
func (s *stage) push(n int) Acquire {
	return try(fmt.Sprint("push-", n), Exclusive).put(withReplace).put(func(c *Acquire) {
		c.NotAfter, c.TTLSeconds = s.now.Add(pushFor), 3600
	})
}

// pushed is a push that is granted.
func (s *stage) pushed(n int) Acquire {
	s.Helper()
	c := s.push(n)
	if o := s.send(c); o.Code != OK || o.Replayed {
		s.Fatalf("push-%d: %+v", n, o)
	}
	s.pass(time.Second)
	return c
}

// released ends the lease of a push.
func (s *stage) released(c Acquire) {
	s.Helper()
	r := Release{ID: subject, Owner: c.Owner, Token: s.send(c).Lease.Token, RequestID: "e"}
	if o := s.send(r); o.Code != OK {
		s.Fatalf("%+v", o)
	}
}

// overflows are the ways in which pushes before the sixth are forgotten before their end.
var overflows = map[string]func(s *stage, n int) Acquire{
	"given up": func(s *stage, n int) Acquire {
		c := s.push(n)
		s.send(giveUp(c))
		return c
	},
	"given up what they had": func(s *stage, n int) Acquire {
		c := s.pushed(n)
		s.send(giveUp(c))
		return c
	},
	"replaced": func(s *stage, n int) Acquire { return s.pushed(n) },
	"released": func(s *stage, n int) Acquire {
		c := s.pushed(n)
		s.released(c)
		return c
	},
	"with a lock delay": func(s *stage, n int) Acquire {
		c := s.push(n).put(withDelay)
		if o := s.send(c); o.Code != OK {
			s.Fatalf("%+v", o)
		}
		return c
	},
	"given up one after another with shorter ends": func(s *stage, n int) Acquire {
		c := s.push(n).put(func(c *Acquire) { c.NotAfter = c.NotAfter.Add(-time.Duration(n) * time.Minute) })
		s.send(giveUp(c))
		return c
	},
	"replaced with shorter ends": func(s *stage, n int) Acquire {
		c := s.push(n).put(func(c *Acquire) { c.NotAfter = c.NotAfter.Add(-time.Duration(n) * 2 * time.Second) })
		s.send(c) // the last one replaces no one
		return c
	},
	"by others that replace no one": func(s *stage, n int) Acquire {
		c := s.push(n)
		if n > 1 {
			c.Replace = false
		}
		if o := s.send(c); o.Code != OK {
			s.Fatalf("%+v", o)
		}
		s.released(c)
		return c
	},
	"in turn given up and replaced": func(s *stage, n int) Acquire {
		s.send(giveUp(s.push(100 + n)))
		return s.pushed(n)
	},
}

// latestPush is later than all of them, and lasts.
func (s *stage) latestPush() Acquire {
	c := s.push(7)
	c.NotAfter = s.now.Add(pushFor + time.Minute)
	if o := s.send(c); o.Code != OK {
		s.Fatalf("the latest push: %+v", o)
	}
	return c
}

// TestALateCopyReplacesNoOne (LS-ACC-04): push-1 is given up, five later pushes come and go, and five more replace each other. A copy
// of push-1 whose end is still ahead does not end push-11, however often it comes; neither do the others that are
// forgotten. A push that is not a copy replaces as ever.
func TestALateCopyReplacesNoOne(t *testing.T) {
	s := newStage(t)
	first := s.push(1)
	s.send(giveUp(first))
	copies := []Acquire{first}
	for n := 2; n <= 6; n++ {
		s.pass(time.Second)
		c := s.push(n)
		copies = append(copies, c)
		s.send(giveUp(c))
	}
	for n := 7; n <= 11; n++ {
		s.pass(time.Second)
		copies = append(copies, s.pushed(n))
	}
	for _, c := range copies[:10] {
		for range 2 {
			if o := s.send(c); o.Code == OK {
				t.Fatalf("a late copy of %s has replaced push-11: %+v", c.Owner, o)
			}
		}
	}
	if st := s.status(); st.Owner != "push-11" || st.Phase != Active {
		t.Fatalf("the lock has %+v", st)
	}
	if o := s.send(copies[10]); o.Code != OK || !o.Replayed {
		t.Fatalf("push-11 again: %+v", o)
	}
	s.pass(time.Second)
	if o := s.send(s.push(12)); o.Code != OK || o.Replayed {
		t.Fatalf("push-12: %+v", o)
	}
}

// TestWhatIsForgottenReplacesNoOne: however requests were forgotten, and whatever the form of the document, their copies
// replace no one up to their very end, wait as one that does not replace, and take what is free.
func TestWhatIsForgottenReplacesNoOne(t *testing.T) {
	for name, forget := range overflows {
		for form, lastly := range map[string]func(*stage){"plain": func(*stage) {}, "shared": (*stage).reserves} {
			t.Run(name+", "+form, func(t *testing.T) {
				s := newStage(t)
				var copies []Acquire
				for n := range 6 {
					if n > 2 && form == "shared" && s.status().Phase != None {
						s.reserves()
					}
					copies = append(copies, forget(s, n+1))
					s.pass(time.Second)
				}
				latest := s.latestPush()
				lastly(s)
				stays := func(c Acquire) {
					t.Helper()
					if st := s.status(); st.Owner != latest.Owner || st.Phase != Active {
						t.Fatalf("%+v: a copy of %s has ended push-7: %+v", s.now, c.Owner, st)
					}
				}
				for _, c := range copies {
					for _, seconds := range []int64{0, 20, 0} {
						c.WaitSeconds = seconds
						if o := s.send(c); o.Code == OK {
							t.Fatalf("a copy of %s: %+v", c.Owner, o)
						}
						c.Fair = !c.Fair
						o := s.send(c) // with a place in line, and without
						if stays(c); o.Code == OK {
							t.Fatalf("a copy of %s: %+v", c.Owner, o)
						}
					}
				}
				o := s.send(copies[0])
				if o.Code != Held || !strings.Contains(o.Detail, "may be a late copy") || o.Lease.Owner != latest.Owner {
					t.Errorf("a copy is told %+v", o)
				}
				for _, at := range []time.Duration{-time.Millisecond, 0, time.Millisecond} {
					s.now = copies[0].NotAfter.Add(at)
					if o := s.send(copies[0]); at <= 0 && o.Code != Held || at > 0 && o.Code != TooLate {
						t.Errorf("%v after its end: %+v", at, o)
					}
					stays(copies[0])
				}
				s.now = copies[0].NotAfter
				s.released(latest)
				if o := s.send(copies[0]); o.Code != OK {
					t.Errorf("a free lock: %+v", o)
				}
			})
		}
	}
}

// TestAPushReplacesAsEver: however many came before it, a push is granted, and again when it is delivered twice: with one
// request where no other is forgotten before its end, with two otherwise. So is one without an end, and one that finds
// the lock free whatever its end is.
func TestAPushReplacesAsEver(t *testing.T) {
	for name, c := range map[string]struct {
		every time.Duration
		costs func(n int) int
		put   func(*Acquire)
	}{
		"seldom":                {pushFor/4 + time.Millisecond, func(int) int { return 1 }, func(*Acquire) {}},
		"often":                 {time.Second, func(n int) int { return 1 + min(max(n-5, 0), 1) }, func(*Acquire) {}},
		"often, without an end": {time.Second, func(int) int { return 1 }, func(c *Acquire) { c.NotAfter = time.Time{} }},
		"no one is replaced":    {time.Second, func(int) int { return 1 }, func(c *Acquire) { c.Replace, c.TTLSeconds = false, 1 }},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t)
			for n := 1; n <= 20; n++ {
				p := s.push(n).put(c.put)
				s.granted(p, int64(n), c.costs(n))
				if o := s.gets(p, OK, 1); !o.Replayed {
					t.Errorf("push-%d again: %+v", n, o)
				}
				s.pass(c.every)
			}
		})
	}
	t.Run("without an end, after others", func(t *testing.T) {
		s := newStage(t)
		for n := range 8 {
			s.pushed(n)
		}
		s.granted(s.push(9).put(func(c *Acquire) { c.NotAfter = time.Time{} }), 9, 2)
	})
	t.Run("released", func(t *testing.T) {
		s := newStage(t)
		for n := range 8 {
			s.released(s.pushed(n))
		}
		early := s.push(9).put(func(c *Acquire) { c.NotAfter = s.now.Add(time.Second) })
		s.granted(early, 9, 2)
		s.released(early)
		s.granted(try("bob", Exclusive), 10, 2)
		s.gets(Release{ID: subject, Owner: "bob", Token: token(10), RequestID: "e"}, OK, 1)
		s.granted(wait("eve", Exclusive), 11, 2)
	})
}

// TestWhatIsForgottenEnds: a push that ends before one that is forgotten does not replace until that has ended, and then
// does, with one request: no later than its own end reaches, and never longer than an end can be ahead, whatever the
// store's clock has been.
func TestWhatIsForgottenEnds(t *testing.T) {
	build := func(t *testing.T) *stage {
		s := newStage(t)
		for n := range 6 {
			s.pushed(n)
		}
		return s
	}
	short := func(s *stage) Acquire {
		return s.push(9).put(func(c *Acquire) { c.NotAfter = s.now.Add(time.Second) })
	}
	t.Run("time passes", func(t *testing.T) {
		s := build(t)
		s.gets(short(s), Held, 1)
		first := s.push(1)
		first.NotAfter = epoch.Add(pushFor + time.Second) // two are forgotten
		s.now = first.NotAfter
		s.gets(first, Held, 1)
		s.gets(short(s), OK, 2) // it ends later than what is forgotten
		s = build(t)
		s.now = epoch.Add(pushFor + time.Second + time.Millisecond)
		s.gets(short(s), OK, 1)
	})
	t.Run("the clock was a day ahead", func(t *testing.T) {
		s := build(t)
		s.now = epoch.Add(-24 * time.Hour)
		s.gets(short(s), OK, 1)
		for n := range 6 {
			s.pass(pushFor)
			s.gets(s.push(10+n), OK, 1)
		}
	})
	t.Run("an end that a wrong clock has named", func(t *testing.T) {
		s := newStage(t)
		for n := range 6 {
			c := s.push(n)
			c.NotAfter = s.now.Add(48 * time.Hour)
			s.send(giveUp(c))
		}
		s.gets(s.push(9), OK, 1)
		s.gets(s.push(10), OK, 1)
		s.reserves()
		s.gets(s.push(11), OK, 2)
		c := s.push(12)
		c.NotAfter = s.now.Add(48 * time.Hour)
		s.gets(giveUp(c), OK, 2)
		s.gets(s.push(13), OK, 2)
	})
	t.Run("the clock was a day ahead, in shared form", func(t *testing.T) {
		s := build(t)
		s.reserves()
		s.now = epoch.Add(-24 * time.Hour)
		s.gets(short(s), OK, 2)
	})
}

// TestAGiveUpOfALockThatNoOneHad: what is forgotten of a lock without a record keeps no one from it, and is not lost when
// it is acquired for the first time.
func TestAGiveUpOfALockThatNoOneHad(t *testing.T) {
	for name, c := range map[string]Acquire{
		"plain": try("ann", Exclusive), "fair": wait("ann", Exclusive), "shared": try("ann", Shared),
		"permits": try("ann", Permits), "replace": try("ann", Exclusive).put(withReplace),
		"one of a set": try("ann", Exclusive).put(func(c *Acquire) { c.set = "deploy\nmigrate" }),
	} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t)
			first := s.push(1)
			for n := range 6 {
				s.gets(giveUp(s.push(n+1)), OK, 2)
			}
			o := s.send(c)
			if o.Code != OK || s.writes > 2 {
				t.Fatalf("%+v after %d requests", o, s.writes)
			}
			s.send(Release{ID: subject, Owner: "ann", Token: o.Lease.Token, RequestID: "e"})
			s.pass(time.Second)
			s.pushed(7)
			if o := s.send(first); o.Code == OK {
				t.Errorf("a copy has replaced push-7: %+v", o)
			}
		})
	}
}

// TestAGiveUpWithoutAnEnd: its copies may come for as long as a client waits for a response.
func TestAGiveUpWithoutAnEnd(t *testing.T) {
	for name, end := range map[string]time.Time{"none": {}, "one that cannot be stored": time.Date(10000, 1, 1, 0, 0, 0, 0,
		time.UTC)} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t)
			first := s.push(1)
			first.NotAfter = epoch.Add(40 * time.Second)
			for n := range 6 {
				c := s.push(n + 1)
				c.NotAfter = end
				s.send(giveUp(c))
			}
			s.pushed(7)
			s.now = epoch.Add(40 * time.Second)
			s.gets(first, Held, 1)
			s.pass(time.Millisecond)
			first.NotAfter = s.now
			s.gets(first, OK, 1)
		})
	}
}

// TestAPlaceKeepsTheEndOfItsRequest: pushes that waited in line, were handed the lock, and claimed it, late or in time,
// are forgotten with their ends as well.
func TestAPlaceKeepsTheEndOfItsRequest(t *testing.T) {
	for name, late := range map[string]time.Duration{"claimed": 0, "not claimed in time": ClaimTime,
		"asked for again": 5 * time.Second} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t)
			s.granted(try("ann", Exclusive), 1, 1)
			inLine := s.push(1)
			inLine.WaitSeconds, inLine.Fair = 20, true
			s.waits(inLine, 1, 2)
			if name == "asked for again" {
				s.pass(late)
				inLine.NotAfter = inLine.NotAfter.Add(time.Minute)
				s.waits(inLine, 1, 2)
			}
			s.gets(give("ann", 1), OK, 2)
			if name == "not claimed in time" {
				s.pass(late)
				s.granted(try("kim", Exclusive).put(func(c *Acquire) { c.TTLSeconds = 1 }), 3, 2)
				s.pass(time.Second)
			}
			if o := s.send(inLine); o.Code != OK {
				t.Fatalf("it has waited, and gets %+v", o)
			}
			for n := range 4 {
				s.pass(time.Second)
				c := s.push(n + 2)
				c.NotAfter = c.NotAfter.Add(2 * time.Minute)
				if o := s.send(c); o.Code != OK {
					t.Fatalf("%+v", o)
				}
			}
			if o := s.send(inLine); o.Code != Held {
				t.Errorf("a copy of it: %+v", o)
			}
			if st := s.status(); st.Owner != "push-5" {
				t.Errorf("the lock has %+v", st)
			}
		})
	}
}

// TestWhatIsForgottenMeanwhile: a request that is forgotten between what an acquire or a give-up has found and its second
// write is not lost.
func TestWhatIsForgottenMeanwhile(t *testing.T) {
	forgets := func(s *stage, others int) (first Acquire, more []command) {
		first = s.push(1)
		first.NotAfter = epoch.Add(50 * time.Minute)
		s.send(giveUp(first))
		for n := range others {
			s.send(giveUp(s.push(n + 2)))
		}
		return first, []command{giveUp(s.push(5))}
	}
	for name, c := range map[string]struct {
		build func(*stage)
		of    func(*stage) command
		fewer int // are given up after the first
	}{
		"an acquire": {func(s *stage) {
			for n := range 6 {
				s.pushed(10 + n)
			}
		}, func(s *stage) command {
			return s.push(20).put(func(c *Acquire) { c.NotAfter = epoch.Add(55 * time.Minute) })
		}, 0},
		"an acquire that goes to the shared form": {func(s *stage) {
			for n := range 4 {
				s.released(s.pushed(10 + n))
			}
		}, func(*stage) command { return try("bob", Shared) }, 0},
		"another give-up": {func(s *stage) {
			for n := range 6 {
				s.pushed(10 + n)
			}
		}, func(s *stage) command { return giveUp(s.push(30)) }, 0},
		"another give-up, and what is forgotten stays": {func(s *stage) {
			for n := range 6 {
				s.pushed(10 + n)
			}
			s.send(giveUp(s.push(40).put(func(c *Acquire) { c.NotAfter = s.now.Add(time.Minute) })))
		}, func(s *stage) command { return giveUp(s.push(30)) }, 1},
		"a give-up that ends a lease": {func(s *stage) { s.pushed(10) },
			func(s *stage) command { return giveUp(s.push(10)) }, 0},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t)
			c.build(s)
			first, more := forgets(s, 3-c.fewer)
			command := c.of(s)
			s.meanwhile(more...)
			if o := s.send(command); o.Code != OK && o.Position != 1 {
				t.Fatalf("%+v", o)
			}
			if s.before != nil {
				t.Fatal("there was no second write")
			}
			if f := s.document()[fForgotten]; f != docstore.Value(docstore.FormatTime(first.NotAfter)) {
				t.Errorf("the latest end that is forgotten is %v, want %v", f, first.NotAfter)
			}
		})
	}
}
