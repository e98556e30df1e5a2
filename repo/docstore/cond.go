package docstore

import (
	"errors"
	"fmt"
	"time"
)

// Cond is a condition on one document. The language is two-valued and small, so that every store can evaluate it in
// the same step as the write: a comparison with a missing field, or with a value of another type, is false, and Not of
// it is true.
//
//	Absent{}        there is no document
//	Has{F}          the field is there, whatever its type
//	Eq{F, V}        the field is there, of V's type, and equal
//	LE{F, V}        the field is there, of V's type, and less or equal: numbers by size, text by bytes
//	Any{…} All{…}   one of them, all of them (Any{} is false, All{} is true)
//	Not{C}          C does not hold
//
// Adapters translate a condition by a type switch over these seven types.
type Cond interface {
	// Holds evaluates the condition for the document found (nil: none), where [Now] is now.
	Holds(found Doc, now time.Time) bool
	validate(depth int) error
}

type (
	// Absent holds when there is no document.
	Absent struct{}

	// Has holds when the document has the field.
	Has struct{ Field string }

	// Eq holds when the field has the value. [Map], [Bytes] and [Bool] can be compared, an [Instant] is resolved first.
	Eq struct {
		Field string
		Value Value
	}

	// LE holds when the field is less than or equal to the value: [Int] by size, [String] by bytes, an [Instant] after
	// it was resolved.
	LE struct {
		Field string
		Value Value
	}

	// Any holds when one of its conditions holds.
	Any []Cond

	// All holds when all of its conditions hold.
	All []Cond

	// Not holds when its condition does not.
	Not struct{ Cond Cond }
)

// Holds reports whether there is no document.
func (Absent) Holds(found Doc, _ time.Time) bool { return found == nil }

// Holds reports whether the field is there.
func (c Has) Holds(found Doc, _ time.Time) bool {
	_, ok := found[c.Field]
	return ok
}

// Holds reports whether the field is there and equal.
func (c Eq) Holds(found Doc, now time.Time) bool {
	v, ok := found[c.Field]
	return ok && equal(v, resolve(c.Value, now))
}

// Holds reports whether the field is there, of the value's type, and not greater.
func (c LE) Holds(found Doc, now time.Time) bool {
	v, ok := found[c.Field]
	return ok && lessOrEqual(v, resolve(c.Value, now))
}

// Holds reports whether one of the conditions holds.
func (c Any) Holds(found Doc, now time.Time) bool {
	for _, o := range c {
		if o.Holds(found, now) {
			return true
		}
	}
	return false
}

// Holds reports whether all of the conditions hold.
func (c All) Holds(found Doc, now time.Time) bool {
	for _, o := range c {
		if !o.Holds(found, now) {
			return false
		}
	}
	return true
}

// Holds reports whether the condition does not hold.
func (c Not) Holds(found Doc, now time.Time) bool { return !c.Cond.Holds(found, now) }

// maxDepth bounds nesting: rules need four levels, and a translator must not run out of stack.
const maxDepth = 16

var errTooDeep = fmt.Errorf("nested deeper than %d", maxDepth)

func (Absent) validate(int) error { return nil }

func (c Has) validate(int) error { return checkField(c.Field) }

func (c Eq) validate(int) error {
	if err := checkField(c.Field); err != nil {
		return err
	}
	return checkOperand(c.Field, c.Value)
}

func (c LE) validate(int) error {
	if err := checkField(c.Field); err != nil {
		return err
	}
	switch c.Value.(type) {
	case String, Int, Instant:
		return checkOperand(c.Field, c.Value)
	default:
		return fmt.Errorf("field %s: only numbers, text and times are ordered", c.Field)
	}
}

// checkOperand reports whether a field can be compared with v.
func checkOperand(field string, v Value) error {
	if err := checkValue(v); err != nil {
		return fmt.Errorf("field %s: %w", field, err)
	}
	return nil
}

func (c Any) validate(depth int) error { return validateEach(c, depth) }

func (c All) validate(depth int) error { return validateEach(c, depth) }

func (c Not) validate(depth int) error {
	if depth >= maxDepth {
		return errTooDeep
	}
	return checkCond(c.Cond, depth+1)
}

func validateEach(cs []Cond, depth int) error {
	if depth >= maxDepth {
		return errTooDeep
	}
	for _, c := range cs {
		if err := checkCond(c, depth+1); err != nil {
			return err
		}
	}
	return nil
}

// checkCond rejects what an adapter's type switch does not know: nil, and pointers to conditions, which implement the
// interface too.
func checkCond(c Cond, depth int) error {
	switch c.(type) {
	case nil:
		return errors.New("a part is missing (nil)")
	case Absent, Has, Eq, LE, Any, All, Not:
		return c.validate(depth)
	default:
		return fmt.Errorf("%T is not one of the seven conditions", c)
	}
}
