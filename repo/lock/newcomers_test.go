package lock

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/leasehold-dev/leasehold/repo/docstore"
)

// come is an acquire that waits, and whose response is not held.
func come(owner string, mode Mode) Acquire {
	c := wait(owner, mode)
	c.unheld = true
	return c
}

// newcomer fails the test unless the command is that of a newcomer.
func (s *stage) newcomer(c Acquire) {
	s.Helper()
	if o := s.gets(c, Held, 2); !o.Newcomer || o.Position != 0 || !strings.HasSuffix(o.Detail, secondDelivery) {
		s.Fatalf("%#v: %+v", c, o)
	}
}

// TestAPlaceFromTheSecondDeliveryOn: in all modes that have a line, before those who came after the first delivery.
func TestAPlaceFromTheSecondDeliveryOn(t *testing.T) {
	for _, mode := range []Mode{Exclusive, Shared, Permits, Rate} {
		t.Run(string(mode), func(t *testing.T) {
			s := newStage(t)
			for _, holder := range []string{"ann", "abe"} {
				if hold := try(holder, mode); mode == Permits || mode == Rate {
					s.send(hold)
				} else if holder == "ann" {
					s.send(try(holder, Exclusive))
				}
			}
			s.waits(wait("zoe", mode), 1, 2)
			s.pass(time.Millisecond)
			s.newcomer(come("bob", mode))
			if st := s.status(); len(st.Waiting) != 1 {
				t.Fatalf("got %+v", st.Waiting)
			}
			s.pass(time.Millisecond)
			s.newcomer(come("eve", mode))
			s.pass(time.Millisecond)
			s.waits(wait("kim", mode), 2, 2) // its response is held
			s.pass(time.Second)
			s.waits(come("eve", mode), 2, 2)
			s.waits(wait("lee", mode), 4, 2)
			s.waits(come("bob", mode), 2, 2)
			s.waits(come("eve", mode), 3, 1)
			s.waits(wait("lee", mode), 5, 1)
		})
	}
}

// TestNewcomersAreNotServed: what ends is handed over to those in line only. A newcomer obtains a lock that is free
// when it comes.
func TestNewcomersAreNotServed(t *testing.T) {
	s := newStage(t)
	s.granted(try("ann", Shared), 1, 1)
	for n := range 10 {
		s.newcomer(come(fmt.Sprint("new each time ", n), Exclusive))
	}
	s.waits(come("new each time 3", Exclusive), 1, 2)
	s.gets(give("ann", 1), OK, 2)
	s.granted(come("new each time 3", Exclusive), 2, 2)
	s.newcomer(come("bob", Exclusive))
	s.gets(give("new each time 3", 2), OK, 1)
	s.granted(come("eve", Exclusive), 3, 1)
	s.waits(come("bob", Exclusive), 1, 2)
}

// TestANewcomerIsForgotten: after PlaceTime, and when as many have come after it as a lock remembers.
func TestANewcomerIsForgotten(t *testing.T) {
	s := newStage(t)
	s.granted(try("ann", Shared), 1, 1)
	s.newcomer(come("bob", Exclusive))
	s.pass(PlaceTime)
	s.newcomer(come("bob", Exclusive))
	s.pass(PlaceTime - time.Millisecond)
	s.waits(come("bob", Exclusive), 1, 2)
	for n := range mostNewcomers + 1 {
		s.newcomer(come(strconv.Itoa(n), Exclusive))
	}
	s.newcomer(come("0", Exclusive)) // it takes the place of the next one
	s.newcomer(come("1", Exclusive))
	s.waits(come(strconv.Itoa(mostNewcomers), Exclusive), 2, 2)
	s.waits(come("1", Exclusive), 3, 2)
}

// TestANewcomersRequest is one as any other: it can be given up, and is not another one with its request_id.
func TestANewcomersRequest(t *testing.T) {
	s := newStage(t)
	s.granted(try("ann", Shared), 1, 1)
	s.newcomer(come("bob", Exclusive))
	other := come("bob", Exclusive)
	other.TTLSeconds++
	s.gets(other, RequestIDReused, 1)
	s.gets(GiveUp{Acquire: other}, RequestIDReused, 1)
	s.gets(GiveUp{Acquire: come("bob", Exclusive)}, OK, 2)
	s.gets(come("bob", Exclusive), RequestIDReused, 1)
	short := come("eve", Exclusive)
	short.MaxWaiting = 1
	s.newcomer(short)
	s.waits(wait("kim", Exclusive), 1, 2)
	s.gets(short, QueueFull, 1)
}

// TestANewcomerLeavesThePlainForm as it is, but for what is remembered of it.
func TestANewcomerLeavesThePlainForm(t *testing.T) {
	s := newStage(t)
	s.granted(try("ann", Exclusive), 1, 1)
	s.newcomer(come("bob", Exclusive))
	if st := s.status(); st.Phase != Active || len(st.Holders) != 0 || len(st.Waiting) != 0 || st.Owner != "ann" {
		t.Fatalf("got %+v", st)
	}
	s.gets(extend("ann", 1, "n1"), OK, 1)
	s.gets(give("ann", 1), OK, 1)
	s.granted(come("bob", Exclusive), 2, 1)
	s.waits(wait("eve", Exclusive), 1, 2)
	s.pass(PlaceTime)
	s.gets(give("bob", 2), OK, 2)
	s.granted(wait("eve", Exclusive), 3, 2)
	s.plain(Active)
}

// TestANewcomerLeavesNothing: what has a place or a lease is a newcomer no more.
func TestANewcomerLeavesNothing(t *testing.T) {
	s := newStage(t)
	newcomers := func(want int) {
		t.Helper()
		st, err := subject.State(s.document())
		if err != nil || len(st.newcomers) != want {
			t.Fatalf("%d newcomers, want %d, error %v", len(st.newcomers), want, err)
		}
	}
	s.granted(try("ann", Shared), 1, 1)
	s.newcomer(come("bob", Exclusive))
	newcomers(1)
	s.waits(come("bob", Exclusive), 1, 2)
	newcomers(0)
	s.newcomer(come("eve", Shared))
	newcomers(1)
	s.gets(leave("bob"), OK, 2)
	s.granted(come("eve", Shared), 2, 2)
	newcomers(0)
}

// TestNewcomersThatCannotBeRead: a document with others than the rules wrote is damaged.
func TestNewcomersThatCannotBeRead(t *testing.T) {
	s := newStage(t)
	s.granted(try("ann", Shared), 1, 1)
	s.newcomer(come("bob", Exclusive))
	for name, bad := range map[string]docstore.Value{
		"text": docstore.String("x"), "cut": s.document()[fNewcomers].(docstore.Bytes)[:5], //nolint:forcetypeassert // it is
	} {
		d := s.document()
		d[fNewcomers] = bad
		if _, err := subject.State(d); !errors.Is(err, docstore.ErrDamaged) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
