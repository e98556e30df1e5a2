package expr

import (
	"errors"
	"maps"

	"github.com/leasehold-dev/leasehold/emulator/dynamodbtest/internal/attr"
)

// Apply returns the item after the update. Every operand is read from the item as it was before, whatever the order of
// the actions. The item itself is not changed. The error is the text of a ValidationException.
func (u *Update) Apply(item attr.Map) (attr.Map, error) {
	after := maps.Clone(item)
	for _, a := range u.actions {
		v, err := a.result(item)
		if err != nil {
			return nil, err
		}
		if v == nil {
			delete(after, a.target.name)
		} else {
			after[a.target.name] = v
		}
	}
	return after, nil
}

// result returns the value that the action leaves; nil removes the attribute.
func (a *action) result(item attr.Map) (attr.Value, error) {
	if a.verb == "REMOVE" {
		return nil, nil //nolint:nilnil // no value is a result
	}
	v, err := evaluate(a.operand, item)
	before := a.target.in(item)
	if err != nil || a.verb == "SET" || before == nil {
		return v, err
	}
	return add(before, v)
}

// evaluate computes the right side of a SET.
func evaluate(n node, item attr.Map) (attr.Value, error) {
	switch n := n.(type) {
	case *placeholder:
		return n.value, nil
	case *attribute:
		if v := n.in(item); v != nil {
			return v, nil
		}
		return nil, errors.New("The provided expression refers to an attribute that does not exist in the item")
	case *sum:
		left, err := evaluate(n.left, item)
		if err != nil {
			return nil, err
		}
		right, err := evaluate(n.right, item)
		if err != nil {
			return nil, err
		}
		return add(left, right)
	case *call: // if_not_exists
		if v := n.args[0].(*attribute).in(item); v != nil {
			return v, nil
		}
		return evaluate(n.args[1], item)
	default:
		panic("unreachable: parsing an update makes no other operand")
	}
}

func add(a, b attr.Value) (attr.Value, error) {
	x, ok := a.(attr.Number)
	y, also := b.(attr.Number)
	if !ok || !also {
		return nil, errors.New("An operand in the update expression has an incorrect data type")
	}
	total, err := x.Add(y)
	if err != nil {
		return nil, err // not a Number, which is a value
	}
	return total, nil
}
