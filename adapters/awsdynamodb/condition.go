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

// fixed is a condition whose times are resolved.
type fixed struct {
	docstore.Cond

	// margin is the distance to Now of the instant by which a rejection is explained: 0 unless the condition asks
	// whether a time has passed.
	margin time.Duration
}

// fix resolves the times of a condition; nil is the condition that always holds.
func (m instants) fix(c docstore.Cond) fixed {
	if c == nil {
		return fixed{Cond: docstore.All{}}
	}
	f := fixed{}
	f.Cond = m.resolve(c, false, &f.margin)
	return f
}

// resolve replaces times by texts. "Has this time passed?", an LE with a time, is asked with the margin, unless a Not
// around it makes it "has this time not passed yet?".
func (m instants) resolve(c docstore.Cond, negated bool, margin *time.Duration) docstore.Cond {
	each := func(cs []docstore.Cond) []docstore.Cond {
		out := make([]docstore.Cond, len(cs))
		for i, c := range cs {
			out[i] = m.resolve(c, negated, margin)
		}
		return out
	}
	switch c := c.(type) {
	case docstore.Eq:
		c.Value = driver.Resolve(c.Value, m.now)
		return c
	case docstore.LE:
		now := m.now
		if _, timed := c.Value.(docstore.Instant); timed && !negated {
			now, *margin = m.now.Add(-m.margin), m.margin
		}
		c.Value = driver.Resolve(c.Value, now)
		return c
	case docstore.Any:
		return docstore.Any(each(c))
	case docstore.All:
		return docstore.All(each(c))
	case docstore.Not:
		return docstore.Not{Cond: m.resolve(c.Cond, !negated, margin)}
	default:
		return c
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
// another caller changes the document: then it is safe to send it again. The times of the write and of
// the condition must have been resolved. The condition of a Delete never holds where there is no document.
func rejectsRepeat(w docstore.Write, c docstore.Cond) bool { return w.Delete || after(w, c) == no }

// after evaluates a condition on the document that the write leaves, of which only the fields that it changes are
// known.
func after(w docstore.Write, c docstore.Cond) truth {
	switch c := c.(type) {
	case docstore.Absent:
		return no
	case docstore.Has:
		return field(w, c.Field, c)
	case docstore.Eq:
		return field(w, c.Field, c)
	case docstore.LE:
		return field(w, c.Field, c)
	case docstore.Any:
		t := no
		for _, part := range c {
			switch after(w, part) {
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
			switch after(w, part) {
			case no:
				return no
			case maybe:
				t = maybe
			case yes:
			}
		}
		return t
	case docstore.Not:
		return after(w, c.Cond).not()
	default:
		return maybe
	}
}

// field evaluates a condition on one field.
func field(w docstore.Write, name string, c docstore.Cond) truth {
	v, set := w.Set[name]
	if _, copied := v.(docstore.Before); copied { // some text, nothing more is known
		return fieldOf(c, func(v docstore.Value) bool { _, text := v.(docstore.String); return text })
	}
	if _, added := w.Add[name]; added { // some number
		return fieldOf(c, func(v docstore.Value) bool { _, number := v.(docstore.Int); return number })
	}
	if set {
		return truthOf(c.Holds(docstore.Doc{name: v}, time.Time{}))
	}
	if slices.Contains(w.Unset, name) {
		return truthOf(c.Holds(docstore.Doc{}, time.Time{}))
	}
	return maybe
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
