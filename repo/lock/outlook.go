package lock

import (
	"sync"
	"time"

	"github.com/leasehold-dev/leasehold/repo/rule"
)

// outlook is what all requests of a process that wait for a lock share: what the next write would make of the document,
// at the time at which that was seen. It is made once for each version of the document, however many wait, so that a
// hand-over costs what the document is long, and each of those who wait looks only for its own place.
type outlook struct {
	state  State
	when   rule.When
	writer int64 // the process

	places map[string]*outlookPlace // of the line that was found, by the identity of the request

	writes    bool      // the next write changes what others have
	nextEnd   time.Time // when something ends next, zero if nothing does
	lastEnded time.Time // when something ended last, zero if nothing did
	turnEnd   time.Time // when the process is passed over that has its turn, see turns
}

// outlookPlace is a place in line.
type outlookPlace struct {
	entry    string // of its request
	ahead    int    // how many are granted the lock before it, about
	together bool   // it is granted the lock with those before it: all are readers
	gone     bool   // it has ended
	listens  bool   // it counts
	reached  bool   // what is free is handed over to it
	granted  bool   // it is, by the next write
	before   int    // how many other processes have places before it
}

// newOutlook is the outlook of a process on a lock in shared form.
func newOutlook(s State, w rule.When, writer int64) *outlook {
	o := &outlook{state: s, when: w, writer: writer, places: make(map[string]*outlookPlace, len(s.shared.line))}
	o.countAhead()
	o.nextEnd, o.lastEnded = s.endsAround(w.At)
	v := s.toShared()
	v.writer = writer
	v.dropExpired(w)
	o.order(v)
	v.grantWaiting(w, "")
	for _, request := range v.granted {
		if p := o.places[rule.Identity(request)]; p != nil {
			p.granted = true
		}
	}
	o.writes, o.turnEnd = v.worthWriting() != nil, v.turns.next
	return o
}

// countAhead notes the places of the line that was found, and how many are before each. Readers at the head are granted
// the lock together.
func (o *outlook) countAhead() {
	places := make([]outlookPlace, len(o.state.shared.line))
	ahead, readers := 0, true
	for i, p := range o.state.shared.line {
		id := rule.Identity(p.request)
		if o.places[id] == nil {
			places[i] = outlookPlace{entry: p.request, ahead: ahead, together: readers && p.mode == Shared, gone: true}
			o.places[id] = &places[i]
		}
		if p.listensAt(o.when.At) {
			ahead++
			readers = readers && p.mode == Shared
		}
	}
}

// order notes what becomes of the places: v has dropped what has ended.
func (o *outlook) order(v *sharedForm) {
	reads := sync.OnceValue(func() time.Duration { return v.readsWithin(o.when) })
	before := map[int64]bool{}
	for _, p := range v.line {
		if q := o.places[rule.Identity(p.request)]; q != nil && q.gone {
			q.gone, q.before = false, len(before)
			q.listens, q.reached = p.listensAt(o.when.At), v.reaches(p, o.when, reads)
		}
		if p.process != o.writer && p.listensAt(o.when.At) {
			before[p.process] = true
		}
	}
}

// placeOf is the place of a request in the line that was found, nil if it has none, or not as this request left it. Who
// is in line has no lease.
func (o *outlook) placeOf(r rule.Request) *outlookPlace {
	p := o.places[r.Identity()]
	givenUp, _ := o.state.GivenUp.Find(r)
	obtained, _ := o.state.Acquires.Find(r)
	if p == nil || givenUp >= 0 || obtained >= 0 {
		return nil
	}
	if _, same := r.Is(p.entry); !same {
		return nil
	}
	return p
}

// ahead is about how many others are granted the lock before a request.
func (o *outlook) ahead(r rule.Request) int {
	if p := o.places[r.Identity()]; p != nil && !p.together {
		return p.ahead
	}
	return 0
}

// readyInLine reports whether sending the request again now may change what it has: the lock, or, while it waits in
// line, that of others. next is when that may be so without anyone's write; zero if it will not. It is for a lock in
// shared form. What is particular to the request, beside its place, is decided as when it is sent.
func (c Acquire) readyInLine(o *outlook) (again bool, next time.Time) {
	r, at := c.request(), o.when.At
	p := o.placeOf(r)
	if p == nil || c.WaitSeconds == 0 || !p.reached {
		if d := c.decide(o.state, o.when); d.code != Held || d.position == 0 {
			return d.after != nil || d.code != Held, o.nextEnd
		}
		if p = o.places[r.Identity()]; p == nil { // not in line yet
			return true, time.Time{}
		}
	}
	// It has lost its place, or has the lock, or others pass over it until it says that it listens.
	if p.gone || p.granted || !c.held.over && !p.listens {
		return true, time.Time{}
	}
	if !o.writes {
		return false, soonest(o.nextEnd, o.turnEnd)
	}
	// The next write clears what has ended and serves those in line: the first one sends it, and the others only if it
	// does not.
	due := at
	if !o.lastEnded.IsZero() {
		due = o.lastEnded.Add(time.Duration(min(p.before, 8)) * stagger)
	}
	if due.After(at) {
		return false, soonest(due, o.turnEnd)
	}
	return true, time.Time{}
}
