package chaos

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/leasehold-dev/leasehold/proof/prove"
)

// Event is something that happened to a run: of an analysis, or of what else one at a time may have under a token, as
// an activation.
type Event struct {
	Kind    EventKind
	Subject string // the analysis, the identity
	Token   int64  // of the run
	// Granted, Finished: the gate's time, in whole milliseconds; Looked: just before the worker asked whether it still
	// runs; otherwise the worker's
	At     time.Time
	Until  time.Time // Granted and Extended: the lock's end; zero for a run that lasts until the next one is granted
	Owner  string    // Granted; Begun, Looked and Stepped: whose body it is, empty if that is not known
	Passed bool      // Stepped: the resource took it

	Prepares bool // Granted: until it is Activated the owner only prepares itself, and may lose the run unawares
}

// EventKind is what an [Event] was.
type EventKind string

// The events in the life of a run.
const (
	Granted   EventKind = "granted"   // the gate gave the run to a worker
	Activated EventKind = "activated" // its owner has said that it is prepared
	Extended  EventKind = "extended"  // a heartbeat moved the lock's end
	Begun     EventKind = "begun"     // the work's body begins
	Looked    EventKind = "looked"    // the body asked whether it still runs, and was told yes
	Stepped   EventKind = "stepped"   // the body wrote to the resource that compares tokens
	Over      EventKind = "over"      // the body runs no more: it returned, or its process was killed
	Finished  EventKind = "finished"  // the gate took READY or FAILED
)

// Referee keeps what happened and says whether it should have. It knows of the rules nothing but what was promised, and
// is the resource behind them as well: a step of a work passes it with its token, and an old one does not.
type Referee struct {
	mu      sync.Mutex
	events  []Event
	highest map[string]int64 // token that came by, of each subject
}

// NewReferee returns a referee of subjects to which nothing has happened.
func NewReferee() *Referee { return &Referee{highest: map[string]int64{}} }

// Note writes an event down.
func (r *Referee) Note(e Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events = append(r.events, e)
}

// Step is a write of a work to the resource. It passes unless a run with a higher token has been here.
func (r *Referee) Step(e Event) (passed bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	e.Kind, e.Passed = Stepped, e.Token >= r.highest[e.Subject]
	if e.Passed {
		r.highest[e.Subject] = e.Token
	}
	r.events = append(r.events, e)
	return e.Passed
}

// Of are the events of a kind, in the order in which they became known.
func (r *Referee) Of(kind EventKind) []Event {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(r.events), func(e Event) bool { return e.Kind != kind })
}

// tenure is what is known of one run.
type tenure struct {
	prove.Lease // without an end it lasts until the next one is granted

	grants, bodies int
	of             []string  // who the bodies belong to
	over           time.Time // zero: the body's end is unknown, because its process was killed
	looked         []time.Time

	prepares bool
	runs     bool // a body does
	two      bool // they did at once
}

// lease is the run as long as it was one: until its body was over, or its lock; if that has no end, until it was told
// for the last time that it runs. A run without a body never was one.
func (u *tenure) lease() prove.Lease {
	l := u.Lease
	switch {
	case u.bodies == 0 || l.Until == 0 && len(u.looked) == 0:
		l.Until = l.From
	case l.Until == 0:
		l.Until = slices.MaxFunc(u.looked, time.Time.Compare).UnixMilli()
	case !u.over.IsZero():
		l.Until = min(l.Until, u.over.UnixMilli())
	}
	return l
}

// Err joins everything that should not have happened into one error.
func (r *Referee) Err() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	of := map[string][]Event{}
	for _, e := range r.events {
		of[e.Subject] = append(of[e.Subject], e)
	}
	var wrong []error
	for _, a := range slices.Sorted(maps.Keys(of)) {
		for _, err := range judge(of[a]) {
			wrong = append(wrong, fmt.Errorf("%s: %w", a, err))
		}
	}
	return errors.Join(wrong...)
}

// judge looks at the events of one subject. The gate's time is in whole milliseconds, rounded down, and a worker's is
// not: a body that was over within the millisecond of the next grant was over before it, as far as anyone can tell.
func judge(events []Event) (wrong []error) {
	fail := func(format string, args ...any) { wrong = append(wrong, fmt.Errorf(format, args...)) }
	runs, finishes, passed := map[int64]*tenure{}, 0, int64(0)
	for _, e := range events {
		u := runs[e.Token]
		if u == nil {
			u = &tenure{Lease: prove.Lease{Token: e.Token}}
			runs[e.Token] = u
		}
		switch e.Kind {
		case Granted:
			u.grants++
			u.From, u.Holder, u.prepares = e.At.UnixMilli(), e.Owner, e.Prepares
			u.until(e)
		case Activated:
			u.prepares = false
		case Extended:
			u.until(e)
		case Begun:
			u.two = u.two || u.runs
			u.runs, u.bodies, u.of = true, u.bodies+1, append(u.of, e.Owner)
		case Looked:
			if !u.prepares {
				u.looked = append(u.looked, e.At)
			}
		case Stepped:
			if e.Passed && e.Token < passed {
				fail("a step under token %d passed after one under %d", e.Token, passed)
			} else if e.Passed {
				passed = e.Token
			}
		case Over:
			u.over, u.runs = e.At, false
		case Finished:
			u.Last = true
			finishes++
		}
	}
	var leases []prove.Lease
	for _, token := range slices.Sorted(maps.Keys(runs)) {
		u := runs[token]
		if u.grants > 1 || u.grants == 0 && u.bodies > 0 || u.two || u.bodies > 1 && u.Until > 0 {
			fail("token %d was granted %d times, and %d bodies ran under it", u.Token, u.grants, u.bodies)
		}
		for _, owner := range u.of {
			if owner != "" && owner != u.Holder {
				fail("a body of %s ran under token %d, which was granted to %s", owner, u.Token, u.Holder)
			}
		}
		for _, at := range u.looked {
			if u.Until > 0 && at.UnixMilli() >= u.Until {
				fail("the run of token %d was told at %v that it runs, and its lock ended at %d", u.Token, at, u.Until)
			}
		}
		if u.grants > 0 {
			leases = append(leases, u.lease())
		}
	}
	if finishes > 1 {
		fail("finished %d times", finishes)
	}
	for _, v := range []*prove.Violation{prove.TokensRise(leases), prove.OneLease(leases)} {
		if v != nil {
			fail("%v", v)
		}
	}
	return wrong
}

// until moves the end of the lock, if it has one.
func (u *tenure) until(e Event) {
	if !e.Until.IsZero() {
		u.Until = max(u.Until, e.Until.UnixMilli())
	}
}
