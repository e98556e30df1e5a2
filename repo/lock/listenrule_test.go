package lock

import (
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/leasehold-dev/leasehold/repo/rule"
)

// aSecond is a request in line that waits for a second.
func aSecond(c Acquire) Acquire {
	c.WaitSeconds = 1
	return c
}

// at is a request whose response a process holds, which the store tells of changes.
func (c Acquire) at(process int64) Acquire {
	most := time.Duration(c.WaitSeconds) * time.Second
	c.held = hold{listener: listener{process: process, told: true}, most: most, left: most}
	return c
}

// TestWhoDoesNotListenIsPassedOver: a request that has not come again in time keeps its place, and has its turn when it
// comes; until then others are before it, whether they are in line or not, it does not count among those who wait, and
// the lock is not kept in its mode.
func TestWhoDoesNotListenIsPassedOver(t *testing.T) {
	s := newStage(t)
	s.granted(try("ann", Exclusive), 1, 1)
	s.waits(aSecond(wait("bob", Exclusive)), 1, 2)
	s.waits(wait("eve", Exclusive), 2, 2)
	s.pass(time.Second)
	s.waits(wait("eve", Exclusive), 1, 1)
	s.gets(give("ann", 1), OK, 2)
	s.granted(wait("eve", Exclusive), 2, 2)
	s.waits(wait("bob", Exclusive), 1, 2)
	s.waits(aSecond(wait("zoe", Exclusive)), 2, 2)
	s.gets(give("eve", 2), OK, 2)
	s.granted(wait("bob", Exclusive), 3, 2)
	s.pass(time.Second)
	s.gets(give("bob", 3), OK, 2)
	s.granted(try("lee", Exclusive), 4, 2) // zoe is in line
	s.inLine("zoe")

	only := wait("amy", Exclusive)
	only.MaxWaiting = 1
	s.waits(only, 1, 2)
	for i := range MaxWaiting - 2 {
		s.waits(aSecond(wait(fmt.Sprint("w", i), Exclusive)), int64(i)+2, 2)
	}
	s.pass(time.Second)
	s.waits(wait("kim", Exclusive), 2, 2) // there is room for one
	if s.waits(wait("may", Exclusive), 3, 2); slices.Contains(s.waiting(), "zoe") || len(s.waiting()) != MaxWaiting {
		t.Errorf("in line: %v", s.waiting()) // who has been silent for longest makes room
	}
	s.gets(give("lee", 4), OK, 2)
	for i, owner := range []string{"amy", "kim", "may"} {
		s.granted(wait(owner, Exclusive), int64(i)+5, 2)
		s.gets(give(owner, int64(i)+5), OK, 2)
	}
	s.granted(try("pam", Permits), 8, 2)
	s.inLine()
}

// TestAClaimThatCameLateHasLonger: what is handed over to a request whose response is held is the next one's after half
// a second, and when that request listens again it has twice as long.
func TestAClaimThatCameLateHasLonger(t *testing.T) {
	s := newStage(t)
	bob := wait("bob", Exclusive).at(7)
	s.granted(try("ann", Exclusive), 1, 1)
	s.waits(bob, 1, 2)
	s.gets(give("ann", 1), OK, 2)
	for i, least := range []time.Duration{claimLeast, 2 * claimLeast, 4 * claimLeast} {
		next, token := try(fmt.Sprint("next ", i), Exclusive), int64(2*i+3)
		s.pass(least - time.Millisecond)
		s.gets(next, Held, 1)
		s.pass(time.Millisecond)
		s.granted(next, token, 2)
		s.waits(bob, 1, 2)
		s.gets(give(next.Owner, token), OK, 2)
	}
	s.granted(bob, 8, 2)

	eve := wait("eve", Exclusive).at(7)
	s.waits(eve, 1, 2)
	s.gets(give("bob", 8), OK, 2)
	s.pass(claimLeast)
	s.granted(eve, 10, 2) // no one else came meanwhile
}

// TestAServerThatStoodIsHeardAgain: a process that did not claim is passed over with all of its places by others, until
// one of its requests says that it listens; that of which it did not claim a lease says so itself.
func TestAServerThatStoodIsHeardAgain(t *testing.T) {
	s := newStage(t)
	s.granted(try("ann", Exclusive), 1, 1)
	for i, owner := range []string{"bob", "eve", "carl"} {
		s.waits(wait(owner, Exclusive).at(7), int64(i)+1, 2)
		s.pass(time.Millisecond)
	}
	s.waits(wait("kim", Exclusive).at(8), 4, 2)
	s.gets(give("ann", 1), OK, 2)
	s.pass(claimLeast)
	s.granted(wait("kim", Exclusive).at(8), 3, 2)
	s.inLine("bob", "eve", "carl")
	s.waits(wait("dan", Exclusive).at(8), 1, 2)
	s.waits(wait("eve", Exclusive).at(7), 1, 2)
	s.waits(wait("dan", Exclusive).at(8), 3, 1)
	s.waits(wait("bob", Exclusive).at(7), 1, 2)
	s.gets(give("kim", 3), OK, 2)
	for i, owner := range []string{"bob", "eve", "carl"} {
		s.granted(wait(owner, Exclusive).at(7), int64(i)+4, 2)
		s.gets(give(owner, int64(i)+4), OK, 2)
	}
	s.granted(wait("dan", Exclusive).at(8), 7, 2)
}

// TestTheOneWhoFindsItOutIsNotSilent: a process that finds out that one of its own requests did not claim goes on, and
// one whose request was not held any more when the time was over may be well.
func TestTheOneWhoFindsItOutIsNotSilent(t *testing.T) {
	for name, c := range map[string]struct{ bob, finds Acquire }{
		"its own":              {wait("bob", Exclusive).at(7), wait("eve", Exclusive).at(7)},
		"not held for so long": {aSecond(wait("bob", Exclusive)).at(7), wait("kim", Exclusive).at(8)},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t)
			s.granted(try("ann", Exclusive), 1, 1)
			s.waits(c.bob, 1, 2)
			s.waits(wait("eve", Exclusive).at(7), 2, 2)
			s.waits(wait("kim", Exclusive).at(8), 3, 2)
			s.pass(600 * time.Millisecond)
			s.gets(give("ann", 1), OK, 2)
			s.pass(claimLeast)
			if c.finds.Owner != "eve" {
				s.waits(c.finds, 1, 2)
			}
			s.granted(wait("eve", Exclusive).at(7), 3, 2)
		})
	}
}

// TestWhatASilentServerSaysIsHeard: that a request listens again is written without saying what the document was, so
// that it is not refused because another command came in between; where the request has got something meanwhile, or has
// no place any more, it says nothing.
func TestWhatASilentServerSaysIsHeard(t *testing.T) {
	for name, c := range map[string]struct {
		between  func(s *stage)
		position int64
	}{
		"renewed":     {func(s *stage) { s.send(extend("ann", 1, "n1")) }, 1},
		"given up":    {func(s *stage) { s.send(leave("bob")) }, 0},
		"handed over": {func(s *stage) { s.send(wait("bob", Exclusive).at(7)); s.send(give("ann", 1)) }, 1},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t)
			bob := wait("bob", Exclusive).at(7)
			s.granted(try("ann", Shared), 1, 1)
			s.waits(bob, 1, 2)
			s.pass(20 * time.Second)
			n := 0
			s.before = func() {
				if n++; n == 2 {
					s.before = nil
					c.between(s)
				}
			}
			if o := s.send(bob); o.Code != Held || o.Position != c.position {
				t.Fatalf("got %+v", o)
			}
			switch line := s.waiting(); name {
			case "renewed":
				s.pass(5 * time.Second) // what it said before is over
				if st := s.status(); len(st.Waiting) != 1 {
					t.Errorf("it is not heard: %+v", st)
				}
				s.gets(give("ann", 1), OK, 2)
				s.granted(bob, 2, 2)
			case "handed over":
				s.granted(bob, 2, 2)
			default:
				if len(line) > 0 {
					t.Errorf("in line: %v", line)
				}
			}
		})
	}
}

// rated is a request for a rate of one in three seconds.
func rated(c Acquire) Acquire {
	c.Mode, c.Limit, c.WindowSeconds = Rate, 1, 3
	return c
}

// TestNothingIsSpentForTheSilent: in the line of a rate nothing is handed over to a process that holds a response: it
// takes it by itself, for the time of a claim. Then it is the turn of the next process, and the places of the first are
// passed over until it speaks; it has twice as long the next time. Nothing is spent meanwhile.
func TestNothingIsSpentForTheSilent(t *testing.T) {
	s := newStage(t)
	place := func(owner string, process int64) Acquire { return rated(wait(owner, Rate)).at(process) }
	s.granted(rated(try("ann", Rate)), 1, 1)
	for i, c := range []Acquire{place("bob", 7), place("eve", 7), place("kim", 8), place("dan", 9)} {
		s.waits(c, int64(i)+1, 2)
	}
	s.pass(3*time.Second + claimLeast - time.Millisecond)
	s.waits(place("kim", 8), 3, 2) // its place is moved
	s.waits(place("dan", 9), 4, 2)
	s.gets(rated(try("lee", Rate)), Held, 1)
	s.pass(time.Millisecond)
	s.waits(place("dan", 9), 4, 1) // it is kim's turn
	s.granted(place("kim", 8), 2, 2)
	s.inLine("bob", "eve", "dan")

	s.waits(place("eve", 7), 2, 2) // its process speaks
	s.pass(3*time.Second + 2*claimLeast - time.Millisecond)
	s.waits(place("dan", 9), 3, 2)
	s.pass(time.Millisecond)
	s.granted(place("dan", 9), 3, 2)

	s.waits(place("bob", 7), 1, 2)
	s.pass(3 * time.Second)
	s.granted(place("bob", 7), 4, 2)
	s.pass(3*time.Second + 4*claimLeast)
	s.granted(rated(try("lee", Rate)), 5, 2) // it need not be in line itself
	s.inLine("eve")
}

// TestWhoIsToldToComeAgainHasTime: a response that is held for less than its request asked for says when to come again.
// Its place counts until a second after that, also if that is at once.
func TestWhoIsToldToComeAgainHasTime(t *testing.T) {
	for _, most := range []time.Duration{500 * time.Millisecond, 5 * time.Second, 12 * time.Second, 17 * time.Second} {
		for position := int64(1); position < 5; position++ {
			c := wait("bob", Exclusive)
			c.WaitSeconds = 20
			c.held = hold{listener: listener{process: 7}, most: most, left: most}
			after := c.PollAfter(Outcome{Code: Held, Position: position, RetryAfter: time.Hour}, most)
			if got := c.listensFor(position); after < pollLeast || got < most+after+pollMargin {
				t.Errorf("held for %v, told to come again after %v, place %d counts for %v", most, after, position, got)
			}
		}
	}
}

// TestTheSizeOfAPlace: a place takes as much of the document however long the requests of its process take.
func TestTheSizeOfAPlace(t *testing.T) {
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	size := 0
	for took := time.Duration(0); took < time.Second; took += 500 * time.Microsecond {
		c := wait("bob", Exclusive).at(1<<27 - 1)
		w := rule.When{At: at, Took: took}
		p := c.place(w)
		c.listenAt(&p, 1, w)
		stored := []byte(encodeLine([]place{p}))
		line, ok := decodeLine(stored)
		if size == 0 {
			size = len(stored)
		}
		if !ok || len(line) != 1 || !reflect.DeepEqual(line[0].listener, p.listener) || !line[0].since.Equal(p.since) ||
			!line[0].until.Equal(p.until) || !line[0].listens.Equal(p.listens) {
			t.Fatalf("%v: %+v, %v", took, line, ok)
		}
		if p.took < min(took, claimFar/claimTook) || p.took > took+tookStep || len(stored) != size {
			t.Errorf("%v: %v in %d bytes, not %d", took, p.took, len(stored), size)
		}
	}
}

// TestAServerThatReadsHasItsTurn: what is handed over to a server that the store does not tell of changes waits for as
// long as that may take to read it: an eighth of how long the last lease has lasted, or one before it that it may have
// seen last; between an eighth of a second and a second and a quarter.
func TestAServerThatReadsHasItsTurn(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		ages []time.Duration // since when the leases were granted
		want time.Duration
	}{
		"nothing is known":            {nil, readAtLast},
		"a moment":                    {[]time.Duration{10 * time.Millisecond, time.Hour}, readAtLast - 10*time.Millisecond},
		"two seconds":                 {[]time.Duration{2 * time.Second, time.Hour}, 250 * time.Millisecond},
		"an hour":                     {[]time.Duration{time.Hour}, readAtLast},
		"an hour, then half a second": {[]time.Duration{500 * time.Millisecond, time.Hour}, 750 * time.Millisecond},
		"together":                    {[]time.Duration{2 * time.Second, 2 * time.Second, time.Hour}, 250 * time.Millisecond},
		"by this write":               {[]time.Duration{0, 0, 2 * time.Second}, 250 * time.Millisecond},
		"steps of a quarter of a second": {[]time.Duration{250 * time.Millisecond, 500 * time.Millisecond, 750 * time.Millisecond,
			time.Second, 1250 * time.Millisecond}, 125 * time.Millisecond},
	} {
		v := &sharedForm{}
		for i, age := range c.ages {
			if i%2 == 0 {
				v.past = append(v.past, Past{AcquiredAt: now.Add(-age)})
			} else {
				v.holders = append(v.holders, holder{acquired: now.Add(-age)})
			}
		}
		if got := v.readsWithin(rule.When{At: now}); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}
