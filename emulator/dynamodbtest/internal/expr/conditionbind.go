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
	"contains":             2,
	"size":                 1,
}

var typeNames = []attr.Type{attr.B, attr.NULL, attr.SS, attr.BOOL, attr.L, attr.BS, attr.N, attr.NS, attr.S, attr.M}

// Condition is a bound condition, filter or key condition.
type Condition struct {
	root  node
	paths []*Path
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
	return &Condition{root: root, paths: b.paths}, nil
}

// Paths are the document paths that the condition looks at.
func (c *Condition) Paths() []*Path { return c.paths }

type conditionBinder struct {
	binder
	paths []*Path
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
	case *membership:
		b.operand(n.operand)
		for _, o := range n.options {
			b.operand(o)
		}
	case *call:
		if n.name == "size" {
			b.misuse(n)
		}
		b.call(n)
	}
}

// operand binds a node that stands where a value is asked for: the only function there is size.
func (b *conditionBinder) operand(n node) {
	switch n := n.(type) {
	case *Path:
		b.path(n)
		b.paths = append(b.paths, n)
	case *placeholder:
		b.value(n)
	case *call:
		if _, known := conditionFunctions[n.name]; known && n.name != "size" {
			b.misuse(n)
		}
		b.call(n)
	}
}

func (b *conditionBinder) misuse(c *call) {
	b.complainf(misused, "The function is not allowed to be used this way in an expression; function: %s", c.name)
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
		b.needsPath(c.name, c.args[0])
	case "attribute_type":
		b.typeName(c.args[1])
	case "begins_with":
		for _, arg := range c.args {
			if t := literal(arg); t != "" && t != attr.S && t != attr.B {
				b.wrongType(c.name, t)
			}
		}
	case "size":
		if t := literal(c.args[0]); t == attr.N || t == attr.BOOL || t == attr.NULL {
			b.wrongType(c.name, t)
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

// distinct rejects to compare a path with itself.
func (b *conditionBinder) distinct(operator string, left, right node) {
	l, ok := left.(*Path)
	r, also := right.(*Path)
	if ok && also && slices.Equal(l.Elems, r.Elems) {
		b.complainf(notDistinct, "The first operand must be distinct from the remaining operands for this operator "+
			"or function; operator: %s, first operand: %s", operator, l)
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
	if literal(x.low) == "" || literal(x.high) == "" {
		return
	}
	low, high := x.low.(*placeholder).value, x.high.(*placeholder).value
	var problem string
	switch order, _ := attr.Compare(low, high); {
	case low.Type() != high.Type():
		problem = "same data type for lower and upper bounds"
	case order > 0:
		problem = "upper bound to be greater than or equal to lower bound"
	default:
		return
	}
	b.complainf(badType, "The BETWEEN operator requires %s; lower bound operand: AttributeValue: %s, "+
		"upper bound operand: AttributeValue: %s", problem, attr.Text(low), attr.Text(high))
}

// KeyCondition is what a KeyConditionExpression says about one key attribute.
type KeyCondition struct {
	Name   string
	Op     string // = < <= > >= BETWEEN begins_with
	Values []attr.Value
}

// Matches reports whether the condition holds for a value of the key attribute.
func (k KeyCondition) Matches(v attr.Value) bool {
	switch k.Op {
	case "BETWEEN":
		return compare(">=", v, k.Values[0]) && compare("<=", v, k.Values[1])
	case "begins_with":
		return beginsWith(v, k.Values[0])
	default:
		return compare(k.Op, v, k.Values[0])
	}
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

var mirrored = map[string]string{"=": "=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}

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
	case *membership:
		return badKeyOperator("IN")
	case *comparison:
		return k.comparison(n)
	case *between:
		return k.keyFirst("BETWEEN", n.operand, n.low, n.high)
	case *call:
		if n.name != "begins_with" {
			return badKeyOperator(n.name)
		}
		return k.keyFirst(n.name, n.args...)
	default:
		panic("unreachable: parsing accepts no operand as a condition")
	}
}

func badKeyOperator(op string) error {
	return fmt.Errorf("Invalid operator used in KeyConditionExpression: %s", op)
}

func (k *keyConditions) comparison(c *comparison) error {
	if c.op == "<>" {
		return badKeyOperator("<>")
	}
	if _, ok := c.left.(*Path); ok {
		return k.condition(c.op, c.left, c.right)
	}
	return k.condition(mirrored[c.op], c.right, c.left)
}

func (k *keyConditions) keyFirst(op string, operands ...node) error {
	if _, ok := operands[0].(*Path); !ok {
		return fmt.Errorf("Invalid condition in KeyConditionExpression: "+
			"%s operator must have the key attribute as its first operand", op)
	}
	return k.condition(op, operands[0], operands[1:]...)
}

func (k *keyConditions) condition(op string, key node, operands ...node) error {
	for _, n := range append([]node{key}, operands...) {
		if _, nested := n.(*call); nested {
			return errors.New("KeyConditionExpressions cannot contain nested operations")
		}
	}
	path, ok := key.(*Path)
	if !ok {
		return errors.New("Invalid condition in KeyConditionExpression: No key attribute specified")
	}
	kc := KeyCondition{Name: path.Root(), Op: op}
	for _, n := range operands {
		p, ok := n.(*placeholder)
		if !ok {
			return errors.New("Invalid condition in KeyConditionExpression: " +
				"Multiple attribute names used in one condition")
		}
		kc.Values = append(kc.Values, p.value)
	}
	if path.Nested() {
		return errors.New("KeyConditionExpressions cannot have conditions on nested attributes")
	}
	for _, other := range k.all {
		if other.Name == kc.Name {
			return errors.New("KeyConditionExpressions must only contain one condition per key")
		}
	}
	k.all = append(k.all, kc)
	return nil
}
