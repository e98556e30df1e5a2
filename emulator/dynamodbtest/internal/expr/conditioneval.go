package expr

import (
	"strings"

	"github.com/leasehold-dev/leasehold/emulator/dynamodbtest/internal/attr"
)

// Holds evaluates the condition for an item; nil means no item. An operand that is not there makes every
// comparison false, except <>, which is true whenever = is not.
func (c *Condition) Holds(item attr.Map) bool { return holds(c.root, item) }

func holds(n node, item attr.Map) bool {
	switch n := n.(type) {
	case *logical:
		if n.op == "AND" {
			return holds(n.left, item) && holds(n.right, item)
		}
		return holds(n.left, item) || holds(n.right, item)
	case *negation:
		return !holds(n.of, item)
	case *comparison:
		return compare(n.op, resolve(n.left, item), resolve(n.right, item))
	case *between:
		v := resolve(n.operand, item)
		return compare(">=", v, resolve(n.low, item)) && compare("<=", v, resolve(n.high, item))
	case *call:
		return test(n, item)
	default:
		panic("unreachable: parsing accepts no operand as a condition")
	}
}

func test(c *call, item attr.Map) bool {
	v := resolve(c.args[0], item)
	switch c.name {
	case "attribute_exists":
		return v != nil
	case "attribute_not_exists":
		return v == nil
	case "attribute_type":
		return v != nil && attr.String(v.Type()) == resolve(c.args[1], item)
	case "begins_with":
		return beginsWith(v, resolve(c.args[1], item))
	default:
		panic("unreachable: binding knows no other test than " + c.name)
	}
}

// resolve returns the value that an operand means in an item, or nil.
func resolve(n node, item attr.Map) attr.Value {
	switch n := n.(type) {
	case *attribute:
		return n.in(item)
	case *placeholder:
		return n.value
	default:
		panic("unreachable: parsing accepts no condition as an operand")
	}
}

func compare(op string, a, b attr.Value) bool {
	switch op {
	case "=":
		return attr.Equal(a, b)
	case "<>":
		return !attr.Equal(a, b)
	}
	order, ok := attr.Compare(a, b)
	if !ok {
		return false
	}
	switch op {
	case "<":
		return order < 0
	case "<=":
		return order <= 0
	case ">":
		return order > 0
	default:
		return order >= 0
	}
}

func beginsWith(v, prefix attr.Value) bool {
	switch v := v.(type) {
	case attr.String:
		p, ok := prefix.(attr.String)
		return ok && strings.HasPrefix(string(v), string(p))
	case attr.Binary:
		p, ok := prefix.(attr.Binary)
		return ok && strings.HasPrefix(string(v), string(p))
	default:
		return false
	}
}
