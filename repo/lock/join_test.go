package lock

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/leasehold-dev/leasehold/repo/docstore"
)

// meanwhile sends commands of others after a command has found the document, before its second write arrives.
func (s *stage) meanwhile(cs ...command) {
	n := 0
	s.before = func() {
		if n++; n == 2 {
			s.before = nil
			for _, c := range cs {
				s.send(c)
			}
			s.writes = 2
		}
	}
}

// joined are the fields in which the document has places behind the line.
func (s *stage) joined() (fields []string) {
	d := s.document()
	for _, f := range joined {
		if _, ok := d[f]; ok {
			fields = append(fields, f)
		}
	}
	return fields
}

// waiting are the owners in line.
func (s *stage) waiting() (owners []string) {
	s.Helper()
	r, err := s.store.Get(s.Context(), subject.key())
	if err != nil {
		s.Fatal(err)
	}
	state, err := subject.State(r.Docs[0])
	if err != nil {
		s.Fatal(err)
	}
	for _, p := range state.view().line {
		owners = append(owners, p.owner)
	}
	return owners
}

// inLine fails the test unless those are the owners in line, and the document says how many they are.
func (s *stage) inLine(want ...string) {
	s.Helper()
	n, _ := s.document()[fWaiting].(docstore.Int)
	if got := s.waiting(); !slices.Equal(got, want) || int(n) != len(want) {
		s.Fatalf("%d are in line: %v; want %v", n, got, want)
	}
}

// newLine is a stage with a lease of ann, and bob and eve in line.
func newLine(t *testing.T, mode Mode) *stage {
	t.Helper()
	s := newStage(t)
	s.granted(try("ann", Exclusive), 1, 1)
	s.waits(wait("bob", mode), 1, 2)
	s.waits(wait("eve", mode), 2, 2)
	return s
}

// TestJoinsAChangedLine: a place needs one write after the document was found, whatever others have written meanwhile,
// and the next write takes it over.
func TestJoinsAChangedLine(t *testing.T) {
	for _, mode := range []Mode{Exclusive, Shared} {
		t.Run(string(mode), func(t *testing.T) {
			s := newLine(t, mode)
			s.meanwhile(extend("ann", 1, "n1"), GiveUp{Acquire: wait("bob", mode)})
			s.waits(wait("kim", mode), 2, 2)
			s.inLine("eve", "kim")
			if got := s.joined(); !slices.Equal(got, []string{"j3"}) {
				t.Fatalf("joined in %v", got)
			}
			s.waits(wait("kim", mode), 2, 1)
			s.gets(extend("ann", 1, "n2"), OK, 2)
			s.inLine("eve", "kim")
			if got := s.joined(); len(got) > 0 {
				t.Fatalf("left: %v", got)
			}
		})
	}
}

// TestJoinsInOrder: two that join at once are in line in the order of their writes, whatever each had found.
func TestJoinsInOrder(t *testing.T) {
	s := newLine(t, Exclusive)
	s.meanwhile(wait("kim", Exclusive), wait("lee", Exclusive))
	s.waits(wait("joe", Exclusive), 5, 3) // the field that it would take is not free
	s.meanwhile(extend("ann", 1, "n1"), wait("max", Exclusive))
	s.waits(wait("sue", Exclusive), 7, 2) // behind what was taken over
	s.inLine("bob", "eve", "kim", "lee", "joe", "max", "sue")
}

// TestAsManyAsMayJoin: without a free field the line is written anew.
func TestAsManyAsMayJoin(t *testing.T) {
	s := newLine(t, Exclusive)
	owners := s.waiting()
	for n := range 3 * mostJoined {
		owner := fmt.Sprint("w", n)
		s.waits(wait(owner, Exclusive), int64(n)+3, 2)
		owners = append(owners, owner)
		s.inLine(owners...)
		if got := s.joined(); len(got) > mostJoined {
			t.Fatalf("joined in %v", got)
		}
	}
}

// TestNoneJoinsBehindItself: another delivery has the lock already, with so many others that the lock does not remember
// the request as one of its last acquires. It has no second place, and nothing is granted to it again.
func TestNoneJoinsBehindItself(t *testing.T) {
	for _, mode := range []Mode{Shared, Permits, Rate} {
		t.Run(string(mode), func(t *testing.T) {
			const many = RememberedRequests + 2
			with := func(owner string) Acquire {
				c := wait(owner, mode)
				if mode != Shared {
					c.Limit = many
				}
				if mode == Rate {
					c.WindowSeconds = 1
				}
				return c
			}
			s, own := newStage(t), with("own")
			holders := 1
			if mode == Shared {
				s.send(try("h0", Exclusive))
			} else {
				for holders = range many {
					s.send(with(fmt.Sprint("h", holders)))
				}
				holders++
			}
			s.waits(with("first"), 1, 2)
			n := 0
			s.before = func() {
				if n++; n != 2 {
					return
				}
				s.before = nil
				s.send(own)
				for i := range RememberedRequests {
					s.send(with(fmt.Sprint("w", i)))
				}
				if mode == Rate {
					s.pass(time.Second)
				}
				for i := range holders {
					if mode != Rate {
						s.send(give(fmt.Sprint("h", i), int64(i)+1))
					}
				}
				s.send(with("other")) // which waits
			}
			o := s.send(own)
			if o.Code == Held && o.Position == 1 { // it was handed over, and is to be claimed
				o = s.send(own)
			}
			if o.Code != OK {
				t.Fatalf("got %+v", o)
			}
			if slices.Contains(s.waiting(), "own") {
				t.Errorf("it waits: %v", s.waiting())
			}
		})
	}
}

// TestAJoinThatIsLate: two seconds after the document was found it is decided anew.
func TestAJoinThatIsLate(t *testing.T) {
	for late, requests := range map[time.Duration]int{0: 2, time.Millisecond: 3} {
		s := newLine(t, Exclusive)
		n := 0
		s.before = func() {
			if n++; n == 2 {
				s.pass(2*time.Second + late)
			}
		}
		s.waits(wait("kim", Exclusive), 3, requests)
	}
}

// TestALargePlaceDoesNotJoin: it is written with the line, whose size is known then.
func TestALargePlaceDoesNotJoin(t *testing.T) {
	for size, fields := range map[int]int{7: 3, 8: 0} {
		s := newLine(t, Exclusive)
		c := wait("kim", Exclusive)
		c.Metadata = map[string]string{}
		for i := range size {
			c.Metadata[fmt.Sprint("label", i)] = strings.Repeat("x", MaxMetadataValueBytes)
		}
		s.waits(c, 3, 2)
		if got := s.joined(); len(got) != fields {
			t.Errorf("%d labels: joined in %v", size, got)
		}
	}
}

// TestANewcomerDoesNotJoin: its place is written with the document, which forgets it as a newcomer.
func TestANewcomerDoesNotJoin(t *testing.T) {
	s := newLine(t, Exclusive)
	s.newcomer(come("kim", Exclusive))
	s.waits(come("kim", Exclusive), 3, 2)
	if d := s.document(); d[fNewcomers] != nil || len(s.joined()) > 0 {
		t.Errorf("left: %v", d)
	}
}

// TestNoneJoinsBeyondTheBound: how many may wait is compared when the place is written.
func TestNoneJoinsBeyondTheBound(t *testing.T) {
	for most, position := range map[int64]int64{3: 0, 4: 4} {
		s := newLine(t, Exclusive)
		c := wait("kim", Exclusive)
		c.MaxWaiting = most
		s.meanwhile(wait("lee", Exclusive), extend("ann", 1, "n1"))
		if o := s.send(c); o.Position != position || (o.Code == QueueFull) != (position == 0) {
			t.Errorf("at most %d: %+v", most, o)
		}
	}
}

// TestWhatMayNotJoin: the write is refused where the request is not to have a place, and decided anew.
func TestWhatMayNotJoin(t *testing.T) {
	kim := wait("kim", Exclusive)
	other := kim
	other.TTLSeconds++
	for name, c := range map[string]struct {
		meanwhile []command
		code      Code
		line      []string
	}{
		"given up":          {[]command{GiveUp{Acquire: kim}}, RequestIDReused, []string{"bob", "eve"}},
		"another delivery":  {[]command{kim}, Held, []string{"bob", "eve", "kim"}},
		"one, taken over":   {[]command{kim, extend("ann", 1, "n1")}, Held, []string{"bob", "eve", "kim"}},
		"other parameters":  {[]command{other, extend("ann", 1, "n1")}, RequestIDReused, []string{"bob", "eve", "kim"}},
		"others have gone":  {[]command{leave("bob"), leave("eve")}, Held, []string{"kim"}},
		"all of it is over": {[]command{leave("bob"), leave("eve"), give("ann", 1)}, OK, nil},
		"granted and ended": {[]command{leave("bob"), leave("eve"), kim, give("ann", 1), give("kim", 2),
			wait("joe", Exclusive), wait("sue", Exclusive), wait("max", Exclusive)}, RequestIDReused, []string{"sue", "max"}},
		"another mode": {[]command{leave("bob"), leave("eve"), give("ann", 1), try("joe", Permits), try("sue", Permits),
			wait("max", Permits)}, ModeDiffers, []string{"max"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newLine(t, Exclusive)
			s.meanwhile(c.meanwhile...)
			if o := s.send(kim); o.Code != c.code {
				t.Fatalf("got %+v", o)
			}
			if got := s.waiting(); !slices.Equal(got, c.line) {
				t.Errorf("in line: %v, want %v", got, c.line)
			}
			s.pass(time.Second)
			if o := s.send(kim); o.Code != c.code {
				t.Errorf("sent again: %+v", o)
			}
		})
	}
}

// TestBehindOneWhoJoinedTwice: two deliveries of a request have a place each, of which one counts. The length that the
// document says is not that of its line then, which is written anew.
func TestBehindOneWhoJoinedTwice(t *testing.T) {
	s := newLine(t, Exclusive)
	s.meanwhile(wait("kim", Exclusive), extend("ann", 1, "n1"))
	s.waits(wait("kim", Exclusive), 3, 2)
	if n := s.document()[fWaiting]; n != docstore.Int(4) {
		t.Fatalf("%v are in line", n)
	}
	s.waits(wait("joe", Exclusive), 4, 2)
	s.inLine("bob", "eve", "kim", "joe")
}

// TestNoneJoinsALineOfAnotherLimit: nor of another window, though the mode is the same.
func TestNoneJoinsALineOfAnotherLimit(t *testing.T) {
	for name, other := range map[string]func(*Acquire){
		"limit":  func(c *Acquire) { c.Limit++ },
		"window": func(c *Acquire) { c.WindowSeconds++ },
	} {
		for _, mode := range []Mode{Permits, Rate} {
			if name == "window" && mode == Permits {
				continue
			}
			t.Run(name+" of "+string(mode), func(t *testing.T) {
				s := newStage(t)
				s.granted(try("ann", mode), 1, 1)
				s.granted(try("bob", mode), 2, 2)
				s.waits(wait("eve", mode), 1, 2)
				left := GiveUp{Acquire: wait("eve", mode)}
				next := []command{left, give("ann", 1), give("bob", 2)}
				if mode == Rate {
					next = []command{left, ForceRelease{ID: subject, By: "op", Reason: "test", RequestID: "f"}}
				}
				c := wait("next", mode)
				other(&c)
				for n := range c.Limit + 1 { // the last one waits
					c.Owner, c.RequestID = fmt.Sprint("w", n), fmt.Sprint("r", n)
					next = append(next, c)
				}
				s.meanwhile(next...)
				if o := s.send(wait("kim", mode)); o.Code != ModeDiffers {
					t.Errorf("got %+v", o)
				}
			})
		}
	}
}

// TestOthersSeeWhoJoined: a write that rests on the document without the one who joined is decided anew.
func TestOthersSeeWhoJoined(t *testing.T) {
	s := newLine(t, Exclusive)
	s.meanwhile(wait("kim", Exclusive))
	s.gets(give("ann", 1), OK, 3)
	s.inLine("eve", "kim")
	if got := s.joined(); len(got) > 0 {
		t.Errorf("left: %v", got)
	}
}

// TestBeginsALine: the first place needs one write after the document was found, too, whatever the holder does
// meanwhile. The lease stays as it is in plain form until the next write, which serves the line.
func TestBeginsALine(t *testing.T) {
	for name, c := range map[string]struct {
		meanwhile []command
		held      bool   // the response of the one who waits
		requests  int    // that it takes
		inLine    bool   // it has a place then, and otherwise the lock
		holder    string // by then
		token     int64  // of that
	}{
		"nothing":                     {held: true, requests: 2, inLine: true, holder: "ann", token: 1},
		"renewed":                     {meanwhile: []command{extend("ann", 1, "n1")}, requests: 2, inLine: true, holder: "ann", token: 1},
		"by another":                  {meanwhile: []command{give("ann", 1), try("kim", Exclusive)}, requests: 2, inLine: true, holder: "kim", token: 2},
		"by another, three times":     {meanwhile: []command{give("ann", 1), try("kim", Exclusive), give("kim", 2), try("lee", Exclusive)}, held: true, requests: 2, inLine: true, holder: "lee", token: 3},
		"released":                    {meanwhile: []command{give("ann", 1)}, held: true, requests: 2, inLine: true},
		"released, and not listening": {meanwhile: []command{give("ann", 1)}, requests: 3},
		"in shared form": {meanwhile: []command{wait("max", Exclusive), GiveUp{Acquire: wait("max", Exclusive)}},
			requests: 2, inLine: true, holder: "ann", token: 1},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t)
			s.granted(try("ann", Exclusive), 1, 1)
			s.meanwhile(c.meanwhile...)
			bob := wait("bob", Exclusive)
			if c.held {
				bob = bob.at(1)
			}
			o := s.send(bob)
			if s.writes != c.requests || (o.Code == Held) != c.inLine || o.Code == Held && o.Position != 1 {
				t.Fatalf("%+v after %d requests, want %d", o, s.writes, c.requests)
			}
			if !c.inLine {
				return
			}
			s.inLine("bob")
			if st := s.status(); c.holder != "" && (st.Phase != Active || st.Owner != c.holder || len(st.Holders) != 1) ||
				c.holder == "" && (st.Phase != Released || st.Owner != "ann") {
				t.Fatalf("%+v, want it held by %q", st, c.holder)
			}
			if s.send(try("eve", Exclusive)); c.holder != "" {
				s.gets(give(c.holder, c.token), OK, 2) // to bob
			}
			if o := s.send(bob); o.Code != OK || o.Lease.Owner != "bob" {
				t.Fatalf("then: %+v", o)
			}
			s.plain(Active)
		})
	}
}

// TestBeginsALineOfSeveral: so does the first place of a lock that has several leases and no line.
func TestBeginsALineOfSeveral(t *testing.T) {
	s := newStage(t)
	s.granted(try("ann", Permits), 1, 1)
	s.granted(try("bob", Permits), 2, 2)
	s.meanwhile(extend("ann", 1, "n1"), extend("bob", 2, "n2"))
	s.waits(wait("kim", Permits), 1, 2)
	s.inLine("kim")
	s.gets(give("ann", 1), OK, 2) // to kim
	s.granted(wait("kim", Permits), 3, 2)
}

// TestALineThatBeganIsWellRead: what a document says in whose line the first one has joined is what one in shared form
// says, also after its lease has expired, was ended by force, or has a lock delay.
func TestALineThatBeganIsWellRead(t *testing.T) {
	begin := func(t *testing.T, delay int64) *stage {
		t.Helper()
		s, ann := newStage(t), try("ann", Exclusive)
		ann.LockDelaySeconds = delay
		s.granted(ann, 1, 1)
		s.waits(wait("bob", Exclusive), 1, 2)
		if d := s.document(); d[fState] != docstore.Value(docstore.String(begun)) {
			t.Fatalf("%v", d)
		}
		return s
	}
	t.Run("expired", func(t *testing.T) {
		s := begin(t, 0)
		s.pass(61 * time.Second)
		s.granted(try("eve", Exclusive), 2, 2) // bob's place is over
		if h := s.status().History; len(h) != 1 || h[0].Owner != "ann" || h[0].Ended != EndedExpired {
			t.Fatalf("%+v", h)
		}
	})
	t.Run("lock delay", func(t *testing.T) {
		s := begin(t, 3600)
		s.pass(61 * time.Second)
		s.gets(try("eve", Exclusive), Delayed, 2)
		s.pass(time.Hour)
		s.granted(try("eve", Exclusive), 2, 2)
	})
	t.Run("by force", func(t *testing.T) {
		s := begin(t, 0)
		s.gets(ForceRelease{ID: subject, By: "root", Reason: "hangs", RequestID: "f1"}, OK, 2)
		s.granted(wait("bob", Exclusive), 2, 2)
		s.gets(give("ann", 1), LeaseLost, 1)
	})
	t.Run("leases before", func(t *testing.T) {
		s := newStage(t)
		s.granted(try("kim", Exclusive), 1, 1)
		s.gets(give("kim", 1), OK, 1)
		s.granted(try("ann", Exclusive), 2, 1)
		s.waits(wait("bob", Exclusive), 1, 2)
		if h := s.status().History; len(h) != 1 || h[0].Owner != "kim" {
			t.Fatalf("%+v", h)
		}
		s.gets(give("ann", 2), OK, 2)
		if h := s.status().History; len(h) != 2 || h[0].Owner != "ann" || h[1].Owner != "kim" {
			t.Fatalf("%+v", h)
		}
	})
	t.Run("given up", func(t *testing.T) {
		s := begin(t, 0)
		s.gets(GiveUp{Acquire: wait("bob", Exclusive)}, OK, 2)
		s.plain(Active)
		s.gets(extend("ann", 1, "n1"), OK, 1)
		s.gets(give("ann", 1), OK, 1)
	})
	t.Run("replaced", func(t *testing.T) {
		s, ann := newStage(t), try("ann", Exclusive)
		ann.Replace = true
		s.granted(ann, 1, 1)
		s.waits(wait("bob", Exclusive), 1, 2)
		eve := try("eve", Exclusive)
		eve.Replace = true
		s.gets(eve, Held, 1) // bob is before it
		s.gets(give("ann", 1), OK, 2)
		s.granted(wait("bob", Exclusive), 2, 2)
	})
	t.Run("tokens raised", func(t *testing.T) {
		s := begin(t, 0)
		if r, err := s.store.Write(t.Context(), Raise(subject, s.document(), token(200))); err != nil || !r.Applied {
			t.Fatalf("%+v, %v", r, err)
		}
		if d := s.document(); d["h1"] != nil {
			t.Fatalf("it has its lease twice: %v", d)
		}
		s.gets(give("ann", 1), LeaseLost, 1)
		s.inLine("bob")
		s.pass(61 * time.Second)
		s.granted(try("eve", Exclusive), 201, 2)
	})
	t.Run("token raised, lease kept", func(t *testing.T) {
		s := begin(t, 0)
		if r, err := s.store.Write(t.Context(), subject.Raise(s.document(), token(100))); err != nil || !r.Applied {
			t.Fatalf("%+v, %v", r, err)
		}
		s.inLine("bob")
		s.gets(give("ann", 1), OK, 2)
		s.granted(wait("bob", Exclusive), 101, 2)
	})
	t.Run("damaged", func(t *testing.T) {
		whole := begin(t, 0).document()
		for f := range whole {
			d := whole.Clone()
			d[f] = docstore.Bool(true)
			if _, err := subject.State(d); err == nil && f != fOwnerCut {
				t.Errorf("%s is no text: it was read", f)
			}
		}
		delete(whole, fExpiresAt)
		if _, err := subject.State(whole); err == nil {
			t.Error("without its end it was read")
		}
	})
}
