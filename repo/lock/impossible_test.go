package lock

import (
	"testing"
	"time"

	"github.com/leasehold-dev/leasehold/repo/rule"
)

const day = 24 * time.Hour

// TestImpossibleEndCostsOneWrite: who is refused because of an end that a wrong clock has written counts it anew, in one
// write more. Whoever looks next finds an end like any other, which does not move.
func TestImpossibleEndCostsOneWrite(t *testing.T) {
	for _, mode := range []Mode{Exclusive, Shared} {
		s := newStage(t)
		s.pass(day)
		first := try("ann", mode)
		s.gets(first, OK, 1)
		s.pass(-day)
		o := s.gets(try("bob", Exclusive), Held, 2)
		if want := time.Duration(first.TTLSeconds) * time.Second; o.RetryAfter != want || !o.CountedAnew {
			t.Errorf("%s: the refusal is %+v, want %v", mode, o, want)
		}
		s.pass(time.Second)
		o = s.gets(try("eve", Exclusive), Held, 1)
		if want := time.Duration(first.TTLSeconds-1) * time.Second; o.RetryAfter != want || o.CountedAnew {
			t.Errorf("%s: the next refusal is %+v, want %v", mode, o, want)
		}
	}
}

// TestImpossibleEndInARepeatedResponse: a lease that was granted while the clock was ahead leaves no more than it lasts
// in any later response, whatever its end says, or its holder would work on while another one has the lock.
func TestImpossibleEndInARepeatedResponse(t *testing.T) {
	left := func(o Outcome) time.Duration { return o.Lease.ExpiresAt.Sub(o.At) }
	for _, mode := range []Mode{Exclusive, Shared} {
		s := newStage(t)
		s.pass(day)
		c := try("ann", mode)
		ttl := time.Duration(c.TTLSeconds) * time.Second
		token := s.gets(c, OK, 1).Lease.Token
		s.pass(-day)
		if o := s.send(c); o.Code != OK || !o.Replayed || left(o) > ttl {
			t.Errorf("%q: the acquire again: %v are left of %+v", mode, left(o), o)
		}
		s.pass(day)
		n := Renew{ID: subject, Owner: "ann", Token: token, RequestID: "n", TTLSeconds: c.TTLSeconds}
		if o := s.send(n); o.Code != OK || left(o) != ttl {
			t.Errorf("%q: the renewal: %v are left of %+v", mode, left(o), o)
		}
		s.pass(-day)
		if o := s.send(n); o.Code != OK || !o.Replayed || left(o) > ttl {
			t.Errorf("%q: the renewal again: %v are left of %+v", mode, left(o), o)
		}
	}
}

// TestImpossibleEndIsSentAgain: who waits for a lock does not wait for an end that is impossible.
func TestImpossibleEndIsSentAgain(t *testing.T) {
	for _, c := range []Acquire{try("bob", Exclusive), wait("bob", Exclusive)} {
		s := newStage(t)
		s.pass(day)
		s.gets(try("ann", Exclusive), OK, 1)
		s.pass(-day)
		state, err := subject.State(s.document())
		if err != nil {
			t.Fatal(err)
		}
		if again, next := c.ready(state, rule.When{At: s.now}); !again {
			t.Errorf("%+v waits until %v", c, next)
		}
	}
}

// TestImpossibleTimesOfTheSharedForm: of places, newcomers, reservations and grants, each by how far it can lie ahead.
func TestImpossibleTimesOfTheSharedForm(t *testing.T) {
	const longest = MaxWaitSeconds*time.Second + PlaceTime
	for _, c := range []struct {
		name string
		most time.Duration
		of   func(v *sharedForm) *time.Time
	}{
		{"the end of a place", longest, func(v *sharedForm) *time.Time { return &v.line[0].until }},
		{"the begin of a place", 0, func(v *sharedForm) *time.Time { return &v.line[0].since }},
		{"a newcomer", 0, func(v *sharedForm) *time.Time { return &v.newcomers[0].since }},
		{"a turn", SetTurn, func(v *sharedForm) *time.Time { return &v.reserved.turn }},
		{"the begin of a reservation", SetTurn + setRest, func(v *sharedForm) *time.Time { return &v.reserved.since }},
		{"the end of a reservation", longest, func(v *sharedForm) *time.Time { return &v.reserved.until }},
		{"a grant", 0, func(v *sharedForm) *time.Time { return &v.grants[0].at }},
		{"the latest grant", 0, func(v *sharedForm) *time.Time { return &v.latest.acquired }},
	} {
		for _, off := range []time.Duration{-time.Second, 0, time.Second, time.Second + time.Millisecond, day} {
			v := &sharedForm{window: 60, line: make([]place, 1), newcomers: make([]newcomer, 1), reserved: &reservation{},
				grants: make([]grant, 1), latest: &holder{}}
			*c.of(v) = epoch.Add(c.most + off)
			v.countAnew(rule.When{At: epoch})
			want, anew := epoch.Add(c.most+off), off > rule.EndTolerance
			if anew {
				want = epoch.Add(c.most)
			}
			if got := *c.of(v); !got.Equal(want) || v.anew != anew || v.worthWriting() != nil != anew {
				t.Errorf("%s, %v more than it can: %v, anew %v", c.name, off, got.Sub(epoch), v.anew)
			}
		}
	}
}
