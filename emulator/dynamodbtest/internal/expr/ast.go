package expr

import (
	"strconv"
	"strings"

	"github.com/leasehold-dev/leasehold/emulator/dynamodbtest/internal/attr"
)

// A node is anything that can stand inside an expression: a condition or an operand.
type node interface{ node() }

type (
	logical struct { // left AND right, left OR right
		op          string
		left, right node
	}
	negation   struct{ of node }
	comparison struct { // left = right and its five relatives
		op          string
		left, right node
	}
	between    struct{ operand, low, high node }
	membership struct { // operand IN (one, two)
		operand node
		options []node
	}
	call struct { // a function of conditions or of updates
		name string
		args []node
	}
	arithmetic struct { // left + right, left - right, in updates
		op          string
		left, right node
	}
	placeholder struct { // :value
		name  string
		value attr.Value // set by binding
	}
)

// Path is a document path. What was written is kept apart from its meaning, which binding fills in.
type Path struct {
	steps []step
	Elems []Elem // after binding
}

// step is a part of a path as it was written.
type step struct {
	text  string // an attribute name or #placeholder
	index int    // of a list element, when text is empty
}

// Elem is one element of a bound path: a member of a map, or, when Name is empty, an element of a list. A map cannot
// have a member with an empty name in a path: such a name cannot be written.
type Elem struct {
	Name  string
	Index int
}

// Root is the name of the top-level attribute.
func (p *Path) Root() string { return p.Elems[0].Name }

// Nested reports whether the path goes below the top-level attribute.
func (p *Path) Nested() bool { return len(p.Elems) > 1 }

// String writes the path the way the service quotes paths in messages: [a, b, [0]].
func (p *Path) String() string {
	parts := make([]string, len(p.Elems))
	for i, e := range p.Elems {
		parts[i] = e.Name
		if e.Name == "" {
			parts[i] = "[" + strconv.Itoa(e.Index) + "]"
		}
	}
	return "[" + strings.Join(parts, ", ") + "]"
}

// in returns the value at the path, or nil.
func (p *Path) in(item attr.Map) attr.Value {
	var v attr.Value = item
	for _, e := range p.Elems {
		switch in := v.(type) {
		case attr.Map:
			if e.Name == "" {
				return nil
			}
			v = in[e.Name]
		case attr.List:
			if e.Name != "" || e.Index >= len(in) {
				return nil
			}
			v = in[e.Index]
		default:
			return nil
		}
	}
	return v
}

func (*logical) node()     {}
func (*negation) node()    {}
func (*comparison) node()  {}
func (*between) node()     {}
func (*membership) node()  {}
func (*call) node()        {}
func (*arithmetic) node()  {}
func (*placeholder) node() {}
func (*Path) node()        {}
