package expr

import (
	"strings"
	"unicode/utf8"

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
	case *membership:
		v := resolve(n.operand, item)
		for _, o := range n.options {
			if attr.Equal(v, resolve(o, item)) {
				return true
			}
		}
		return false
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
	case "contains":
		return contains(v, resolve(c.args[1], item))
	default:
		panic("unreachable: binding knows no other test than " + c.name)
	}
}

// resolve returns the value that an operand means in an item, or nil.
func resolve(n node, item attr.Map) attr.Value {
	switch n := n.(type) {
	case *Path:
		return n.in(item)
	case *placeholder:
		return n.value
	case *call:
		return size(resolve(n.args[0], item))
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

// contains looks for a part of a text or binary, or for a member of a set or list.
func contains(v, part attr.Value) bool {
	switch v := v.(type) {
	case attr.String:
		p, ok := part.(attr.String)
		return ok && strings.Contains(string(v), string(p))
	case attr.Binary:
		p, ok := part.(attr.Binary)
		return ok && strings.Contains(string(v), string(p))
	case attr.StringSet:
		return member(v, part)
	case attr.NumberSet:
		return member(v, part)
	case attr.BinarySet:
		return member(v, part)
	case attr.List:
		return member(v, part)
	default:
		return false
	}
}

func member[E attr.Value](members []E, v attr.Value) bool {
	for _, m := range members {
		if attr.Equal(m, v) {
			return true
		}
	}
	return false
}

// size is the length of a text in characters, of a binary in bytes, and the number of members otherwise. A value
// without a size is as good as not there.
func size(v attr.Value) attr.Value {
	switch v := v.(type) {
	case attr.String:
		return attr.Int(utf8.RuneCountInString(string(v)))
	case attr.Binary:
		return attr.Int(len(v))
	case attr.StringSet:
		return attr.Int(len(v))
	case attr.NumberSet:
		return attr.Int(len(v))
	case attr.BinarySet:
		return attr.Int(len(v))
	case attr.List:
		return attr.Int(len(v))
	case attr.Map:
		return attr.Int(len(v))
	default:
		return nil
	}
}
