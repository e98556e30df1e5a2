// Package attr holds DynamoDB's attribute values: the ten types, their JSON form, their order, equality and size.
//
// Values are immutable once made. A caller that changes an item builds new maps and lists along the changed path and shares
// the rest, so an old version of an item can be kept or returned without copying it.
package attr

import "slices"

// Type is the descriptor of a value's type, as it stands in JSON.
type Type string

// The ten types.
const (
	S    Type = "S"
	N    Type = "N"
	B    Type = "B"
	BOOL Type = "BOOL"
	NULL Type = "NULL"
	M    Type = "M"
	L    Type = "L"
	SS   Type = "SS"
	NS   Type = "NS"
	BS   Type = "BS"
)

// Value is one attribute value: [String], [Number], [Binary], [Bool], [Null], [Map], [List], [StringSet], [NumberSet]
// or [BinarySet]. A nil Value means an attribute that is not there.
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

	// StringSet is a set of texts. Sets hold different values, at least one, in no particular order.
	StringSet []String
	// NumberSet is a set of numbers.
	NumberSet []Number
	// BinarySet is a set of binaries.
	BinarySet []Binary
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

// Type returns SS.
func (StringSet) Type() Type { return SS }

// Type returns NS.
func (NumberSet) Type() Type { return NS }

// Type returns BS.
func (BinarySet) Type() Type { return BS }

// Equal reports whether two values are of one type and equal: numbers by size, sets without regard to order, documents
// member by member. A nil value equals nothing.
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
	case StringSet:
		return sameSet(a, b.(StringSet))
	case NumberSet:
		return sameSet(a, b.(NumberSet))
	case BinarySet:
		return sameSet(a, b.(BinarySet))
	default:
		return a == b
	}
}

func sameSet[E comparable](a, b []E) bool {
	if len(a) != len(b) {
		return false
	}
	for _, v := range a {
		if !slices.Contains(b, v) {
			return false
		}
	}
	return true
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

// Union returns the set a with the members of b that it lacks. Both are of one set type.
func Union(a, b Value) Value {
	switch a := a.(type) {
	case StringSet:
		return StringSet(union(a, b.(StringSet)))
	case NumberSet:
		return NumberSet(union(a, b.(NumberSet)))
	default:
		return BinarySet(union(a.(BinarySet), b.(BinarySet)))
	}
}

// Minus returns the set a without the members of b, or nil when nothing is left: an empty set is no value. Both are of
// one set type.
func Minus(a, b Value) Value {
	switch a := a.(type) {
	case StringSet:
		if left := minus(a, b.(StringSet)); len(left) > 0 {
			return StringSet(left)
		}
	case NumberSet:
		if left := minus(a, b.(NumberSet)); len(left) > 0 {
			return NumberSet(left)
		}
	case BinarySet:
		if left := minus(a, b.(BinarySet)); len(left) > 0 {
			return BinarySet(left)
		}
	}
	return nil
}

func union[E comparable](a, b []E) []E {
	out := slices.Clone(a)
	for _, v := range b {
		if !slices.Contains(out, v) {
			out = append(out, v)
		}
	}
	return out
}

func minus[E comparable](a, b []E) []E {
	var out []E
	for _, v := range a {
		if !slices.Contains(b, v) {
			out = append(out, v)
		}
	}
	return out
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

func (v StringSet) size() int { return sumSizes(v) }
func (v NumberSet) size() int { return sumSizes(v) }
func (v BinarySet) size() int { return sumSizes(v) }

func sumSizes[E Value](set []E) int {
	n := 0
	for _, e := range set {
		n += e.size()
	}
	return n
}
