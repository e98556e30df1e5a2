package expr

import (
	"errors"
	"fmt"
	"slices"

	"github.com/leasehold-dev/leasehold/emulator/dynamodbtest/internal/attr"
)

var conditionFunctions = map[string]int{
	"attribute_exists":     1,
	"attribute_not_exists": 1,
	"attribute_type":       2,
	"begins_with":          2,
}

var typeNames = []attr.Type{attr.B, attr.NULL, "SS", attr.BOOL, attr.L, "BS", attr.N, "NS", attr.S, attr.M}

// Condition is a bound condition, filter or key condition.
type Condition struct {
	root  node
	names []string
}

// Condition parses and binds a condition or filter. The error is the service's text without the name of the parameter.
func (e *Env) Condition(src string) (*Condition, error) {
	root, err := parseCondition(src)
	if err != nil {
		return nil, err
	}
	b := &conditionBinder{binder: binder{env: e, function: conditionFunctions}}
	b.condition(root)
	if err := b.err(); err != nil {
		return nil, err
	}
	return &Condition{root: root, names: b.names}, nil
}

// Names are the attributes that the condition looks at.
func (c *Condition) Names() []string { return c.names }

type conditionBinder struct {
	binder
	names []string
}

// condition binds a node that stands where true or false is asked for.
func (b *conditionBinder) condition(n node) {
	switch n := n.(type) {
	case *logical:
		b.condition(n.left)
		b.condition(n.right)
	case *negation:
		b.condition(n.of)
	case *comparison:
		b.operand(n.left)
		b.operand(n.right)
		b.distinct(n.op, n.left, n.right)
		b.ordered(n)
	case *between:
		b.operand(n.operand)
		b.operand(n.low)
		b.operand(n.high)
		b.bounds(n)
	case *call:
		b.call(n)
	}
}

// operand binds a node that stands where a value is asked for.
func (b *conditionBinder) operand(n node) {
	switch n := n.(type) {
	case *attribute:
		b.attribute(n)
		b.names = append(b.names, n.name)
	case *placeholder:
		b.value(n)
	}
}

func (b *conditionBinder) call(c *call) {
	for _, arg := range c.args {
		b.operand(arg)
	}
	if !b.arity(c) {
		return
	}
	if len(c.args) == 2 {
		b.distinct(c.name, c.args[0], c.args[1])
	}
	switch c.name {
	case "attribute_exists", "attribute_not_exists":
		b.needsAttribute(c.name, c.args[0])
	case "attribute_type":
		b.typeName(c.args[1])
	case "begins_with":
		for _, arg := range c.args {
			if t := literal(arg); t != "" && t != attr.S && t != attr.B {
				b.wrongType(c.name, t)
			}
		}
	}
}

func (b *conditionBinder) typeName(arg node) {
	p, ok := arg.(*placeholder)
	if !ok {
		b.wrongType("attribute_type", "{NS,SS,L,BS,N,M,B,BOOL,NULL,S}")
		return
	}
	if p.value == nil {
		return // an undefined placeholder was reported already
	}
	name, ok := p.value.(attr.String)
	if !ok {
		b.wrongType("attribute_type", p.value.Type())
		return
	}
	if !slices.Contains(typeNames, attr.Type(name)) {
		b.complainf(badType, "Invalid attribute type name found; type: %s, valid types: {B,NULL,SS,BOOL,L,BS,N,NS,S,M}",
			string(name))
	}
}

// distinct rejects to compare an attribute with itself.
func (b *conditionBinder) distinct(operator string, left, right node) {
	l, ok := left.(*attribute)
	r, also := right.(*attribute)
	if ok && also && l.name == r.name {
		b.complainf(notDistinct, "The first operand must be distinct from the remaining operands for this operator "+
			"or function; operator: %s, first operand: [%s]", operator, l.name)
	}
}

// ordered rejects to order literals of types without an order.
func (b *conditionBinder) ordered(c *comparison) {
	if c.op == "=" || c.op == "<>" {
		return
	}
	for _, side := range []node{c.left, c.right} {
		if t := literal(side); unordered(t) {
			b.complainf(badType, "Incorrect operand type for operator or function; operator: %s, operand type: %s",
				c.op, t)
		}
	}
}

func unordered(t attr.Type) bool { return t != "" && t != attr.S && t != attr.N && t != attr.B }

func (b *conditionBinder) bounds(x *between) {
	for _, n := range []node{x.operand, x.low, x.high} {
		if t := literal(n); unordered(t) {
			b.wrongType("BETWEEN", t)
		}
	}
	low, high := literal(x.low), literal(x.high)
	if low == "" || high == "" {
		return
	}
	order, _ := attr.Compare(x.low.(*placeholder).value, x.high.(*placeholder).value)
	if low != high || order > 0 {
		b.complainf(badType, "The BETWEEN operator requires bounds of one type, the upper one not below the lower one")
	}
}

// KeyCondition is what a KeyConditionExpression says about one key attribute.
type KeyCondition struct {
	Name  string
	Op    string // = < <= > >= begins_with
	Value attr.Value
}

// Matches reports whether the condition holds for a value of the key attribute.
func (k KeyCondition) Matches(v attr.Value) bool {
	if k.Op == "begins_with" {
		return beginsWith(v, k.Value)
	}
	return compare(k.Op, v, k.Value)
}

// KeyConditions parses and binds a KeyConditionExpression: one or more conditions, each on another attribute, all of
// which have to hold. The error is the whole text of the service's.
func (e *Env) KeyConditions(src string) ([]KeyCondition, error) {
	c, err := e.Condition(src)
	if err != nil {
		return nil, fmt.Errorf("Invalid KeyConditionExpression: %w", err)
	}
	k := &keyConditions{}
	if err := k.add(c.root); err != nil {
		return nil, err
	}
	return k.all, nil
}

type keyConditions struct{ all []KeyCondition }

func (k *keyConditions) add(n node) error {
	switch n := n.(type) {
	case *logical:
		if n.op == "OR" {
			return badKeyOperator("OR")
		}
		if err := k.add(n.left); err != nil {
			return err
		}
		return k.add(n.right)
	case *negation:
		return badKeyOperator("NOT")
	case *comparison:
		if n.op == "<>" {
			return badKeyOperator("<>")
		}
		return k.condition(n.op, n.left, n.right)
	case *between:
		return unsupported("BETWEEN in a KeyConditionExpression")
	case *call:
		if n.name != "begins_with" {
			return badKeyOperator(n.name)
		}
		return k.condition(n.name, n.args[0], n.args[1])
	default:
		panic("unreachable: parsing accepts no operand as a condition")
	}
}

func badKeyOperator(op string) error {
	return fmt.Errorf("Invalid operator used in KeyConditionExpression: %s", op)
}

func (k *keyConditions) condition(op string, key, operand node) error {
	a, ok := key.(*attribute)
	p, also := operand.(*placeholder)
	if !ok || !also {
		return unsupported("a condition of a KeyConditionExpression that is not a key attribute and then a :value")
	}
	for _, other := range k.all {
		if other.Name == a.name {
			return errors.New("KeyConditionExpressions must only contain one condition per key")
		}
	}
	k.all = append(k.all, KeyCondition{Name: a.name, Op: op, Value: p.value})
	return nil
}
