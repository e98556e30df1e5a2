package awsdynamodb

import (
	"slices"
	"time"

	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/docstore/driver"
)

// instants are what [docstore.Now] means in one call.
type instants struct {
	now    time.Time     // what is written, and compared with what has not passed yet
	margin time.Duration // what has passed must have passed by this much
}

// compared is what Now means in a comparison with an instant, see [docstore.Instant.Early].
func (m instants) compared(i docstore.Instant, negated bool) time.Time {
	if i.Early(negated) {
		return m.now.Add(-m.margin)
	}
	return m.now
}

// holds evaluates a condition for the document found as the service does; nil always holds.
func (m instants) holds(c docstore.Cond, found docstore.Doc) bool {
	return c == nil || m.partHolds(c, found, false)
}

func (m instants) partHolds(c docstore.Cond, found docstore.Doc, negated bool) bool {
	switch c := c.(type) {
	case docstore.LE:
		i, _ := c.Value.(docstore.Instant)
		return c.Holds(found, m.compared(i, negated))
	case docstore.Any:
		return slices.ContainsFunc(c, func(part docstore.Cond) bool { return m.partHolds(part, found, negated) })
	case docstore.All:
		return !slices.ContainsFunc(c, func(part docstore.Cond) bool { return !m.partHolds(part, found, negated) })
	case docstore.Not:
		return !m.partHolds(c.Cond, found, !negated)
	default:
		return c.Holds(found, m.now)
	}
}

// distance is that to Now of the instant by which a rejection is explained: 0 unless the condition asks for the
// earliest time.
func (m instants) distance(c docstore.Cond) time.Duration {
	if asksEarliest(c, false) {
		return m.margin
	}
	return 0
}

func asksEarliest(c docstore.Cond, negated bool) bool {
	part := func(part docstore.Cond) bool { return asksEarliest(part, negated) }
	switch c := c.(type) {
	case docstore.LE:
		i, timed := c.Value.(docstore.Instant)
		return timed && i.Early(negated)
	case docstore.Any:
		return slices.ContainsFunc(c, part)
	case docstore.All:
		return slices.ContainsFunc(c, part)
	case docstore.Not:
		return asksEarliest(c.Cond, !negated)
	default:
		return false
	}
}

// rejectsRepeat is [driver.RejectsRepeat] for a write that arrives again as it was, with the same times.
func rejectsRepeat(w docstore.Write, m instants) bool {
	return driver.RejectsRepeat(w, func(c docstore.Cond, after docstore.Doc, negated bool) driver.Truth {
		for f, v := range after {
			after[f] = driver.Resolve(v, m.now)
		}
		return driver.TruthOf(m.partHolds(c, after, negated))
	})
}
