package expr

import "github.com/leasehold-dev/leasehold/emulator/dynamodbtest/internal/attr"

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
	between struct{ operand, low, high node }
	call    struct { // a function of conditions or of updates
		name string
		args []node
	}
	sum         struct{ left, right node } // left + right, in updates
	placeholder struct {                   // :value
		name  string
		value attr.Value // set by binding
	}
	attribute struct { // name or #name
		text string // as it was written
		name string // set by binding
	}
)

// in returns the attribute's value, or nil.
func (a *attribute) in(item attr.Map) attr.Value { return item[a.name] }

func (*logical) node()     {}
func (*negation) node()    {}
func (*comparison) node()  {}
func (*between) node()     {}
func (*call) node()        {}
func (*sum) node()         {}
func (*placeholder) node() {}
func (*attribute) node()   {}
