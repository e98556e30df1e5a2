package expr

import (
	"fmt"
	"slices"
	"strings"

	"github.com/leasehold-dev/leasehold/emulator/dynamodbtest/internal/attr"
)

// Env is what the placeholders of one request means. All expressions of the request are bound to the same Env, so
// that [Env.Unused] can tell which placeholders none of them needed.
type Env struct {
	names      map[string]string
	values     map[string]attr.Value
	usedNames  map[string]bool
	usedValues map[string]bool
}

// NewEnv takes the names behind #placeholders and the values behind :placeholders; either may be nil.
func NewEnv(names map[string]string, values map[string]attr.Value) *Env {
	return &Env{names: names, values: values, usedNames: map[string]bool{}, usedValues: map[string]bool{}}
}

// Unused returns the service's complaint about placeholders that no expression used, or nil.
func (e *Env) Unused() error {
	if left := unused(e.names, e.usedNames); left != "" {
		return fmt.Errorf("Value provided in ExpressionAttributeNames unused in expressions: keys: {%s}", left)
	}
	if left := unused(e.values, e.usedValues); left != "" {
		return fmt.Errorf("Value provided in ExpressionAttributeValues unused in expressions: keys: {%s}", left)
	}
	return nil
}

func unused[V any](given map[string]V, used map[string]bool) string {
	var left []string
	for key := range given {
		if !used[key] {
			left = append(left, key)
		}
	}
	slices.Sort(left)
	return strings.Join(left, ", ")
}

// grade orders the complaints about one expression: the service reports the lowest grade, and of equals the first.
type grade int

const (
	badFunction grade = iota // no such function
	badReserved
	badSection
	undefined // placeholders without a meaning
	overlap
	badCount    // of operands
	notDistinct // an operand compared with itself
	badType
	grades
)

// binder binds one expression and collects complaints, because the service looks at the whole expression before it
// chooses which to report.
type binder struct {
	env      *Env
	first    [grades]error
	function map[string]int // the functions of this kind of expression and how many operands they take
}

func (b *binder) complainf(g grade, format string, args ...any) {
	if b.first[g] == nil {
		b.first[g] = fmt.Errorf(format, args...)
	}
}

func (b *binder) err() error {
	for _, err := range b.first {
		if err != nil {
			return err
		}
	}
	return nil
}

// attribute finds the name behind what was written.
func (b *binder) attribute(a *attribute) {
	a.name = a.text
	if a.text[0] == '#' {
		a.name = b.name(a.text)
	} else if reserved(a.text) {
		b.complainf(badReserved, "Attribute name is a reserved keyword; reserved keyword: %s", a.text)
	}
}

func (b *binder) name(text string) string {
	meaning, ok := b.env.names[text]
	if !ok {
		b.complainf(undefined, "An expression attribute name used in the document path is not defined; "+
			"attribute name: %s", text)
		return text
	}
	b.env.usedNames[text] = true
	return meaning
}

func (b *binder) value(p *placeholder) {
	meaning, ok := b.env.values[p.name]
	if !ok {
		b.complainf(undefined, "An expression attribute value used in expression is not defined; "+
			"attribute value: %s", p.name)
		return
	}
	b.env.usedValues[p.name] = true
	p.value = meaning
}

// arity checks a function's name and the number of its operands.
func (b *binder) arity(c *call) bool {
	want, known := b.function[c.name]
	switch {
	case !known:
		b.complainf(badFunction, "Invalid function name; function: %s", c.name)
		return false
	case want != len(c.args):
		b.complainf(badCount, "Incorrect number of operands for operator or function; "+
			"operator or function: %s, number of operands: %d", c.name, len(c.args))
		return false
	}
	return true
}

// needsAttribute checks that an operand names an attribute.
func (b *binder) needsAttribute(function string, arg node) {
	if _, ok := arg.(*attribute); !ok {
		b.complainf(badType, "Operator or function requires a document path; operator or function: %s", function)
	}
}

// wrongType reports a literal operand of a type that an operator cannot take.
func (b *binder) wrongType(operator string, t attr.Type) {
	b.complainf(badType, "Incorrect operand type for operator or function; operator or function: %s, operand type: %s",
		operator, t)
}

// literal returns the type of an operand that is known before any item is seen, or "".
func literal(n node) attr.Type {
	if p, ok := n.(*placeholder); ok && p.value != nil {
		return p.value.Type()
	}
	return ""
}
