package docstore

import (
	"errors"
	"fmt"
	"maps"
	"time"
	"unicode/utf8"
)

// Doc is a document: field names and values. nil means that the document does not exist; an existing document without
// fields is an empty, non-nil Doc. Documents returned by a store belong to the caller.
type Doc map[string]Value

// Value is what a field holds: a [String], [Int], [Bool], [Bytes], [Map] or, read only, an [Opaque]. In a condition or
// a Set an [Instant] is a time that the store resolves; in a Set, a [Before] is the text that a field had.
type Value interface{ value() }

type (
	// String is text, valid UTF-8.
	String string

	// Int is a whole number from -2^53 to 2^53, the range that every JSON reader holds exactly.
	Int int64

	// Bool is true or false.
	Bool bool

	// Bytes is a string of any bytes, up to [MaxBytes], for tables in a form of their own. It can be compared for equality
	// and has no order. It is a Go string and not a slice, so that a store and its callers cannot change each other's:
	// Bytes(b) and []byte(v) copy. Empty bytes are a value, as an empty text is.
	Bytes string

	// Map is a flat table of text to text, for labels that people attach.
	Map map[string]string

	// Opaque is a field of another writer that the port cannot express (a list, a fraction, a nested document). It shows
	// that the field exists, equals nothing and cannot be written; a store keeps it when it patches the document.
	Opaque struct {
		Raw  any       // as the adapter read it
		Null bool      // the field holds null
		Time time.Time // of a store's own type for times (a Firestore timestamp); zero otherwise
	}

	// Instant is the store's time of the write plus an offset. It is stored as a [String], see [FormatTime].
	Instant struct {
		offset time.Duration
		end    uncertain
	}

	// Before is, in a Set, the text that the field of this name had before the write, empty if it was missing. With it one
	// write shifts a register: b takes what was in a, a takes the new text. A field that is not text is [ErrDamaged].
	Before string
)

func (String) value()  {}
func (Int) value()     {}
func (Bool) value()    {}
func (Bytes) value()   {}
func (Map) value()     {}
func (Opaque) value()  {}
func (Instant) value() {}
func (Before) value()  {}

// Now is the instant at which the store evaluates the write. A store without a clock of its own knows it only between
// two instants, and what is written is the later one. A comparison with Now must be certain: "has passed", an [LE], by
// the earlier one, and "has not passed yet", an LE inside a [Not], by the later one. Earliest and Latest name one of the
// two for a comparison, whatever is around it. On a store with a clock, and in a Set, all three are the same.
var (
	Now      = Instant{}
	Earliest = Instant{end: earliest} // Not of an LE with it: not certain to have passed
	Latest   = Instant{end: latest}   // what a Set of Now writes
)

// uncertain is which end of an uncertain time an [Instant] is.
type uncertain byte

const (
	asCertain uncertain = iota
	earliest
	latest
)

// Add returns the instant that lies d after i, which may be negative. d must be whole milliseconds.
func (i Instant) Add(d time.Duration) Instant { return Instant{i.offset + d, i.end} }

// Early reports whether a comparison with the instant is with the earlier end of an uncertain time. negated says
// whether it is inside a Not, or an odd number of them.
func (i Instant) Early(negated bool) bool {
	if i.end == asCertain {
		return !negated
	}
	return i.end == earliest
}

// Offset is the distance from [Now].
func (i Instant) Offset() time.Duration { return i.offset }

// At is the stored form of the instant when the store's time is now.
func (i Instant) At(now time.Time) String { return FormatTime(TruncateMilli(now).Add(i.offset)) }

// resolve returns the value to store for v when the store's time is now: an [Instant] becomes text, a map is copied,
// anything else stays.
func resolve(v Value, now time.Time) Value {
	switch v := v.(type) {
	case Instant:
		return v.At(now)
	default:
		return cloned(v)
	}
}

// Equal reports whether two documents are the same: both absent, or the same fields with equal values. [Opaque] values
// count as equal to one another, because the port does not look into them.
func (d Doc) Equal(e Doc) bool {
	return (d == nil) == (e == nil) && maps.EqualFunc(d, e, func(a, b Value) bool {
		_, ao := a.(Opaque)
		_, bo := b.(Opaque)
		return ao && bo || equal(a, b)
	})
}

// Clone returns a copy that shares nothing with d.
func (d Doc) Clone() Doc {
	c := maps.Clone(d)
	for f, v := range c {
		if m, ok := v.(Map); ok {
			c[f] = cloned(m)
		}
	}
	return c
}

// cloned is a copy of a value; only a map needs one.
func cloned(v Value) Value {
	if m, ok := v.(Map); ok {
		return Map(maps.Clone(map[string]string(m)))
	}
	return v
}

// equal is the meaning of Eq: same type and same value. An Opaque equals nothing.
func equal(a, b Value) bool {
	switch a := a.(type) {
	case String:
		b, ok := b.(String)
		return ok && a == b
	case Int:
		b, ok := b.(Int)
		return ok && a == b
	case Bool:
		b, ok := b.(Bool)
		return ok && a == b
	case Bytes:
		b, ok := b.(Bytes)
		return ok && a == b
	case Map:
		b, ok := b.(Map)
		return ok && maps.Equal(a, b)
	default:
		return false
	}
}

// lessOrEqual is the meaning of LE: numbers by size, text by bytes; other types and mixed types are not ordered.
func lessOrEqual(a, b Value) bool {
	switch a := a.(type) {
	case String:
		b, ok := b.(String)
		return ok && a <= b
	case Int:
		b, ok := b.(Int)
		return ok && a <= b
	default:
		return false
	}
}

// maxOffset bounds an Instant's distance from now: a century, far from the edges of the stored form.
const maxOffset = 100 * 366 * 24 * time.Hour

// checkValue reports whether v can be written or compared with.
func checkValue(v Value) error {
	switch v := v.(type) {
	case nil:
		return errors.New("no value")
	case String:
		if !utf8.ValidString(string(v)) {
			return errors.New("text is not valid UTF-8")
		}
	case Int:
		if v > MaxInt || v < -MaxInt {
			return fmt.Errorf("%d is beyond ±2^53", int64(v))
		}
	case Bytes:
		if len(v) > MaxBytes {
			return fmt.Errorf("%d bytes, %d at most", len(v), MaxBytes)
		}
	case Map:
		for k, t := range v {
			if k == "" {
				return errors.New("a map's key is empty")
			}
			if !utf8.ValidString(k) || !utf8.ValidString(t) {
				return errors.New("a map's text is not valid UTF-8")
			}
		}
	case Instant:
		if v.offset%time.Millisecond != 0 {
			return fmt.Errorf("time offset %v is not whole milliseconds", v.offset)
		}
		if v.offset > maxOffset || v.offset < -maxOffset {
			return fmt.Errorf("time offset %v is beyond a century", v.offset)
		}
	case Bool:
	case Before:
		return errors.New("what a field had before can be set but not compared")
	case Opaque:
		return errors.New("an opaque value can be read but not written or compared")
	default:
		// A pointer to a value passes for the interface, and no store would know it.
		return fmt.Errorf("%T is not one of the types that can be written", v)
	}
	return nil
}

// describe names a value's type for error texts.
func describe(v Value) string {
	switch v.(type) {
	case String:
		return "text"
	case Int:
		return "a whole number"
	case Bool:
		return "a boolean"
	case Bytes:
		return "bytes"
	case Map:
		return "a map"
	default:
		return "something else"
	}
}
