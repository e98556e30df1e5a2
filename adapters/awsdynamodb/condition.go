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

// truth is what can be said of a condition when not all fields are known.
type truth int

const (
	maybe truth = iota
	no
	yes
)

func truthOf(holds bool) truth {
	if holds {
		return yes
	}
	return no
}

func (t truth) not() truth {
	switch t {
	case yes:
		return no
	case no:
		return yes
	default:
		return maybe
	}
}

// rejectsRepeat reports whether a write, once applied, certainly fails its own condition when it arrives again before
// another caller changes the document: then it is safe to send it again. The condition of a Delete never holds where
// there is no document.
func rejectsRepeat(w docstore.Write, m instants) bool {
	return w.Delete || w.If != nil && m.after(w, w.If, false) == no
}

// after evaluates a condition on the document that the write leaves, of which only the fields that it changes are
// known.
func (m instants) after(w docstore.Write, c docstore.Cond, negated bool) truth {
	switch c := c.(type) {
	case docstore.Absent:
		return no
	case docstore.Has:
		return m.field(w, c.Field, c, negated)
	case docstore.Eq:
		return m.field(w, c.Field, c, negated)
	case docstore.LE:
		return m.field(w, c.Field, c, negated)
	case docstore.Any:
		t := no
		for _, part := range c {
			switch m.after(w, part, negated) {
			case yes:
				return yes
			case maybe:
				t = maybe
			case no:
			}
		}
		return t
	case docstore.All:
		t := yes
		for _, part := range c {
			switch m.after(w, part, negated) {
			case no:
				return no
			case maybe:
				t = maybe
			case yes:
			}
		}
		return t
	case docstore.Not:
		return m.after(w, c.Cond, !negated).not()
	default:
		return maybe
	}
}

// field evaluates a condition on one field.
func (m instants) field(w docstore.Write, name string, c docstore.Cond, negated bool) truth {
	v, set := w.Set[name]
	if _, copied := v.(docstore.Before); copied { // some text, nothing more is known
		return fieldOf(c, isText)
	}
	if _, added := w.Add[name]; added { // some number
		return fieldOf(c, func(v docstore.Value) bool { _, number := v.(docstore.Int); return number })
	}
	if set {
		return truthOf(m.partHolds(c, docstore.Doc{name: driver.Resolve(v, m.now)}, negated))
	}
	if slices.Contains(w.Unset, name) {
		return truthOf(m.partHolds(c, docstore.Doc{}, negated))
	}
	return maybe
}

// isText reports whether a value is stored as text.
func isText(v docstore.Value) bool {
	switch v.(type) {
	case docstore.String, docstore.Instant:
		return true
	default:
		return false
	}
}

// fieldOf evaluates a condition on a field that is there, of which only the type is known: a comparison with a value of
// another type is false.
func fieldOf(c docstore.Cond, sameType func(docstore.Value) bool) truth {
	var compared docstore.Value
	switch c := c.(type) {
	case docstore.Has:
		return yes
	case docstore.Eq:
		compared = c.Value
	case docstore.LE:
		compared = c.Value
	}
	if sameType(compared) {
		return maybe
	}
	return no
}
