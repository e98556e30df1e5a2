package expr

import (
	"errors"
	"maps"
	"slices"

	"github.com/leasehold-dev/leasehold/emulator/dynamodbtest/internal/attr"
)

// Apply returns the item after the update. Every operand is read from the item as it was before, whatever the order of
// the actions; elements of lists are counted as they were before, too. The item itself is not changed. The error is the
// text of a ValidationException.
func (u *Update) Apply(item attr.Map) (attr.Map, error) {
	root := &change{}
	for _, a := range u.actions {
		at := root
		for _, e := range a.path.Elems {
			at = at.below(e)
		}
		v, err := a.result(a.path.in(item), item)
		if err != nil {
			return nil, err
		}
		at.result = &v
	}
	after, err := root.apply(item)
	if err != nil {
		return nil, err
	}
	return after.(attr.Map), nil
}

// result returns the value that the action leaves at its path; nil removes it.
func (a *action) result(before attr.Value, item attr.Map) (attr.Value, error) {
	if a.verb == "REMOVE" {
		return nil, nil //nolint:nilnil // no value is a result
	}
	v, err := evaluate(a.operand, item)
	if err != nil || a.verb == "SET" {
		return v, err
	}
	switch {
	case before == nil && a.verb == "ADD":
		return v, nil
	case before == nil:
		return nil, nil //nolint:nilnil // no value is a result
	case before.Type() != v.Type():
		return nil, badOperand()
	case a.verb == "DELETE":
		return attr.Minus(before, v), nil
	case v.Type() == attr.N:
		return asValue(before.(attr.Number).Add(v.(attr.Number)))
	default:
		return attr.Union(before, v), nil
	}
}

// evaluate computes the right side of a SET.
func evaluate(n node, item attr.Map) (attr.Value, error) {
	switch n := n.(type) {
	case *placeholder:
		return n.value, nil
	case *Path:
		if v := n.in(item); v != nil {
			return v, nil
		}
		return nil, errors.New("The provided expression refers to an attribute that does not exist in the item")
	case *arithmetic:
		left, right, err := evaluateBoth(n.left, n.right, item)
		if err != nil {
			return nil, err
		}
		x, ok := left.(attr.Number)
		y, also := right.(attr.Number)
		switch {
		case !ok || !also:
			return nil, badOperand()
		case n.op == "+":
			return asValue(x.Add(y))
		default:
			return asValue(x.Sub(y))
		}
	case *call:
		if n.name == "if_not_exists" {
			if v := n.args[0].(*Path).in(item); v != nil {
				return v, nil
			}
			return evaluate(n.args[1], item)
		}
		left, right, err := evaluateBoth(n.args[0], n.args[1], item)
		if err != nil {
			return nil, err
		}
		x, ok := left.(attr.List)
		y, also := right.(attr.List)
		if !ok || !also {
			return nil, badOperand()
		}
		return slices.Concat(x, y), nil
	default:
		panic("unreachable: parsing an update makes no other operand")
	}
}

func evaluateBoth(a, b node, item attr.Map) (attr.Value, attr.Value, error) {
	left, err := evaluate(a, item)
	if err != nil {
		return nil, nil, err
	}
	right, err := evaluate(b, item)
	return left, right, err
}

func asValue(n attr.Number, err error) (attr.Value, error) {
	if err != nil {
		return nil, err
	}
	return n, nil
}

// change is a tree of changes, shaped like the document that they apply to.
type change struct {
	result *attr.Value // of the action that ends here; nil inside it removes
	parts  map[Elem]*change
}

func (c *change) below(e Elem) *change {
	if c.parts == nil {
		c.parts = map[Elem]*change{}
	}
	if c.parts[e] == nil {
		c.parts[e] = &change{}
	}
	return c.parts[e]
}

// apply returns the value after the changes; nil removes it.
func (c *change) apply(v attr.Value) (attr.Value, error) {
	if c.result != nil {
		return *c.result, nil
	}
	switch v := v.(type) {
	case attr.Map:
		return c.applyMap(v)
	case attr.List:
		return c.applyList(v)
	default:
		return nil, errBadPath
	}
}

var errBadPath = errors.New("The document path provided in the update expression is invalid for update")

func (c *change) applyMap(m attr.Map) (attr.Value, error) {
	after := maps.Clone(m)
	for e, part := range c.parts {
		if e.Name == "" {
			return nil, errBadPath
		}
		v, err := part.apply(m[e.Name])
		if err != nil {
			return nil, err
		}
		if v == nil {
			delete(after, e.Name)
		} else {
			after[e.Name] = v
		}
	}
	return after, nil
}

// applyList changes elements by their old index. What is set beyond the end is appended in the order of the indexes.
func (c *change) applyList(l attr.List) (attr.Value, error) {
	after := slices.Clone(l)
	byIndex := slices.SortedFunc(maps.Keys(c.parts), func(a, b Elem) int { return a.Index - b.Index })
	for _, e := range byIndex {
		if e.Name != "" {
			return nil, errBadPath
		}
		var before attr.Value
		if e.Index < len(l) {
			before = l[e.Index]
		}
		v, err := c.parts[e].apply(before)
		switch {
		case err != nil:
			return nil, err
		case e.Index < len(l):
			after[e.Index] = v
		default:
			after = append(after, v)
		}
	}
	return slices.DeleteFunc(after, func(v attr.Value) bool { return v == nil }), nil
}
