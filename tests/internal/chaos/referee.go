package chaos

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/leasehold-dev/leasehold/internal/prove"
)

// Event is something that happened to a run of an analysis.
type Event struct {
	Kind     EventKind
	Analysis string
	Token    int64 // of the run
	// Granted, Finished: the gate's time, in whole milliseconds; Looked: just before the worker asked whether it still
	// runs; otherwise the worker's
	At    time.Time
	Until time.Time // Granted and Extended: the lock's end
	Owner string    // Granted
}

// EventKind is what an [Event] was.
type EventKind string

// The events in the life of a run.
const (
	Granted  EventKind = "granted"  // the gate gave the run to a worker
	Extended EventKind = "extended" // a heartbeat moved the lock's end
	Begun    EventKind = "begun"    // the work's body begins
	Looked   EventKind = "looked"   // the body asked whether it still runs, and was told yes
	Over     EventKind = "over"     // the body runs no more: it returned, or its process was killed
	Finished EventKind = "finished" // the gate took READY or FAILED
)

// Referee keeps what happened to the analyses and says whether it should have. It knows of the gate nothing but what
// was promised, and is the resource behind it as well: a step of a work passes it with its token, and an old one does
// not.
type Referee struct {
	mu      sync.Mutex
	events  []Event
	highest map[string]int64 // token that came by, of each analysis
}

// NewReferee returns a referee of analyses to which nothing has happened.
func NewReferee() *Referee { return &Referee{highest: map[string]int64{}} }

// Note writes an event down.
func (r *Referee) Note(e Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events = append(r.events, e)
}

// Step is a write of a work to the resource. It passes unless a run with a higher token has been here.
func (r *Referee) Step(analysis string, token int64) (passed bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	passed = token >= r.highest[analysis]
	r.highest[analysis] = max(r.highest[analysis], token)
	return passed
}

// Grants are the runs that were granted, in the order in which that became known.
func (r *Referee) Grants() (grants []Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range r.events {
		if e.Kind == Granted {
			grants = append(grants, e)
		}
	}
	return grants
}

// tenure is what is known of one run. Its lease ends when the run stopped to be one: with its lock, or before that when
// its body was over. A run without a body never was one.
type tenure struct {
	prove.Lease

	grants, bodies int
	over           time.Time // zero: the body's end is unknown, because its process was killed
	looked         []time.Time
}

// Err joins everything that should not have happened into one error.
func (r *Referee) Err() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	of := map[string][]Event{}
	for _, e := range r.events {
		of[e.Analysis] = append(of[e.Analysis], e)
	}
	var wrong []error
	for _, a := range slices.Sorted(maps.Keys(of)) {
		for _, err := range judge(of[a]) {
			wrong = append(wrong, fmt.Errorf("analysis %s: %w", a, err))
		}
	}
	return errors.Join(wrong...)
}

// judge looks at the events of one analysis. The gate's time is in whole milliseconds, rounded down, and a worker's is
// not: a body that was over within the millisecond of the next grant was over before it, as far as anyone can tell.
func judge(events []Event) (wrong []error) {
	fail := func(format string, args ...any) { wrong = append(wrong, fmt.Errorf(format, args...)) }
	runs, finishes := map[int64]*tenure{}, 0
	for _, e := range events {
		u := runs[e.Token]
		if u == nil {
			u = &tenure{Lease: prove.Lease{Token: e.Token, Holder: e.Owner}}
			runs[e.Token] = u
		}
		switch e.Kind {
		case Granted:
			u.grants++
			u.From, u.Until = e.At.UnixMilli(), max(u.Until, e.Until.UnixMilli())
		case Extended:
			u.Until = max(u.Until, e.Until.UnixMilli())
		case Begun:
			u.bodies++
		case Looked:
			u.looked = append(u.looked, e.At)
		case Over:
			u.over = e.At
		case Finished:
			u.Last = true
			finishes++
		}
	}
	var leases []prove.Lease
	for _, u := range runs {
		if u.grants > 1 || u.bodies > u.grants {
			fail("token %d was granted %d times, and %d bodies ran under it", u.Token, u.grants, u.bodies)
		}
		for _, at := range u.looked {
			if at.UnixMilli() >= u.Until {
				fail("the run of token %d was told at %v that it runs, and its lock ended at %d", u.Token, at, u.Until)
			}
		}
		if u.bodies == 0 {
			u.Until = u.From
		} else if !u.over.IsZero() {
			u.Until = min(u.Until, u.over.UnixMilli())
		}
		if u.grants > 0 {
			leases = append(leases, u.Lease)
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
