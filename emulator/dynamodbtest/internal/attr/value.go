// Package attr holds DynamoDB's attribute values, but for sets: the types, their JSON form, their order, equality and
// size.
//
// Values are immutable once made. A caller that changes an item builds new maps and lists along the changed path and
// shares the rest, so an old version of an item can be kept or returned without copying it.
package attr

import "slices"

// Type is the descriptor of a value's type, as it stands in JSON.
type Type string

// The types.
const (
	S    Type = "S"
	N    Type = "N"
	B    Type = "B"
	BOOL Type = "BOOL"
	NULL Type = "NULL"
	M    Type = "M"
	L    Type = "L"
)

// Value is one attribute value: [String], [Number], [Binary], [Bool], [Null], [Map] or [List].
// A nil Value means an attribute that is not there.
type Value interface {
	Type() Type
	size() int
}

type (
	// String is text in UTF-8.
	String string

	// Binary is a run of bytes, held in a string because values do not change.
	Binary string

	// Bool is true or false.
	Bool bool

	// Null is the one value of type NULL.
	Null struct{}

	// Map is a document; an item is a Map.
	Map map[string]Value

	// List is a sequence of values of any types.
	List []Value
)

// Type returns S.
func (String) Type() Type { return S }

// Type returns N.
func (Number) Type() Type { return N }

// Type returns B.
func (Binary) Type() Type { return B }

// Type returns BOOL.
func (Bool) Type() Type { return BOOL }

// Type returns NULL.
func (Null) Type() Type { return NULL }

// Type returns M.
func (Map) Type() Type { return M }

// Type returns L.
func (List) Type() Type { return L }

// Equal reports whether two values are of one type and equal: numbers by size, documents member by member. A nil value
// equals nothing.
func Equal(a, b Value) bool {
	if a == nil || b == nil || a.Type() != b.Type() {
		return false
	}
	switch a := a.(type) {
	case Map:
		b := b.(Map)
		if len(a) != len(b) {
			return false
		}
		for k, v := range a {
			if !Equal(v, b[k]) {
				return false
			}
		}
		return true
	case List:
		return slices.EqualFunc(a, b.(List), Equal)
	default:
		return a == b
	}
}

// Compare orders two values of the same scalar type S, N or B: text and binary by bytes, numbers by size. It reports
// false when the two have no order.
func Compare(a, b Value) (int, bool) {
	switch a := a.(type) {
	case String:
		if b, ok := b.(String); ok {
			return compareText(string(a), string(b)), true
		}
	case Binary:
		if b, ok := b.(Binary); ok {
			return compareText(string(a), string(b)), true
		}
	case Number:
		if b, ok := b.(Number); ok {
			return a.Cmp(b), true
		}
	}
	return 0, false
}

func compareText(a, b string) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	default:
		return 0
	}
}

// Size is the size of an item in bytes as it counts against the item limit and as capacity is charged: names and values
// in UTF-8, numbers a byte for two digits and one more, documents three bytes and one for each member.
// See "DynamoDB item sizes and formats" in the developer guide.
func Size(item Map) int {
	n := 0
	for name, v := range item {
		n += len(name) + v.size()
	}
	return n
}

func (v String) size() int { return len(v) }
func (v Binary) size() int { return len(v) }
func (Bool) size() int     { return 1 }
func (Null) size() int     { return 1 }

func (v Map) size() int { return 3 + len(v) + Size(v) }

func (v List) size() int {
	n := 3 + len(v)
	for _, e := range v {
		n += e.size()
	}
	return n
}
