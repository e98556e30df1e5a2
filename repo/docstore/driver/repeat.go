package driver

import (
	"slices"

	"github.com/leasehold-dev/leasehold/repo/docstore"
)

// Truth is what can be said of a condition when not all fields are known.
type Truth int

// What can be said.
const (
	Maybe Truth = iota
	No
	Yes
)

// TruthOf is the truth of what is known.
func TruthOf(holds bool) Truth {
	if holds {
		return Yes
	}
	return No
}

func (t Truth) not() Truth {
	switch t {
	case Yes:
		return No
	case No:
		return Yes
	default:
		return Maybe
	}
}

// Known says what is known of a condition on one field when a write arrives again: after is a document with the value
// that the write gave it, as the write names it, or without the field. negated says that the condition is inside a Not.
type Known func(c docstore.Cond, after docstore.Doc, negated bool) Truth

// RejectsRepeat reports whether a write, once applied, certainly fails its own condition when it arrives again before
// another caller changes the document: then it is safe to send it again when its response was lost. The condition of a
// Delete never holds where there is no document.
func RejectsRepeat(w docstore.Write, known Known) bool {
	return w.Delete || w.If != nil && known.after(w, w.If, false) == No
}

// after evaluates a condition on the document that the write leaves, of which only the fields that it changes are
// known.
func (k Known) after(w docstore.Write, c docstore.Cond, negated bool) Truth {
	switch c := c.(type) {
	case docstore.Absent:
		return No
	case docstore.Has:
		return k.field(w, c.Field, c, negated)
	case docstore.Eq:
		return k.field(w, c.Field, c, negated)
	case docstore.LE:
		return k.field(w, c.Field, c, negated)
	case docstore.Any:
		t := No
		for _, part := range c {
			switch k.after(w, part, negated) {
			case Yes:
				return Yes
			case Maybe:
				t = Maybe
			case No:
			}
		}
		return t
	case docstore.All:
		t := Yes
		for _, part := range c {
			switch k.after(w, part, negated) {
			case No:
				return No
			case Maybe:
				t = Maybe
			case Yes:
			}
		}
		return t
	case docstore.Not:
		return k.after(w, c.Cond, !negated).not()
	default:
		return Maybe
	}
}

// field evaluates a condition on one field.
func (k Known) field(w docstore.Write, name string, c docstore.Cond, negated bool) Truth {
	v, set := w.Set[name]
	if _, copied := v.(docstore.Before); copied { // some text, nothing more is known
		return fieldOf(c, isText)
	}
	if _, added := w.Add[name]; added { // some number
		return fieldOf(c, func(v docstore.Value) bool { _, number := v.(docstore.Int); return number })
	}
	if set {
		return k(c, docstore.Doc{name: v}, negated)
	}
	if slices.Contains(w.Unset, name) {
		return k(c, docstore.Doc{}, negated)
	}
	return Maybe
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
func fieldOf(c docstore.Cond, sameType func(docstore.Value) bool) Truth {
	var compared docstore.Value
	switch c := c.(type) {
	case docstore.Has:
		return Yes
	case docstore.Eq:
		compared = c.Value
	case docstore.LE:
		compared = c.Value
	}
	if sameType(compared) {
		return Maybe
	}
	return No
}
