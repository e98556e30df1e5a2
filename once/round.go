package once

import (
	"crypto/rand"
	"fmt"
	"time"

	"github.com/leasehold-dev/leasehold/internal/backoff"
)

// maxAhead is by how much this process's clock may be ahead of the gate's before a run that is not due yet by the
// latter is taken for a mistake of the former.
const maxAhead = 10 * time.Minute

// roundPolls are the waits between two requests for a run of a schedule while an earlier one is at work.
var roundPolls = backoff.Policy{First: time.Second, Max: 30 * time.Second, EqualJitter: true}

// maxTurns is how often a schedule is asked for the run that is due by the gate's clock.
const maxTurns = 8

// choose says which run of the schedule is asked for.
func (r *run) choose(now time.Time) {
	if r.Schedule == nil {
		return
	}
	if r.due, r.next = r.Schedule.Around(now); r.madeUp {
		r.RequestID = rand.Text()
	}
}

// notDue says how long to wait for a run that is not due, or chooses another one, by the gate's clock.
func (r *run) notDue(g Grant) (time.Duration, error) {
	ahead := r.due.Sub(g.Now)
	switch {
	case ahead > 0 && ahead <= maxAhead:
		return ahead, nil
	case r.turns >= maxTurns:
		return 0, fmt.Errorf("Options.Schedule names %v to %v as the run that is due at %v, the gate's time", r.due, r.next,
			g.Now)
	}
	r.turns++
	r.choose(g.Now)
	return 0, nil
}

// behind reports whether a run is at work that was due before the one that is asked for.
func (r *run) behind(g Grant) bool {
	return r.Schedule != nil && g.Due.Before(r.due)
}
