package expr

import (
	"strconv"
	"strings"

	"github.com/leasehold-dev/leasehold/emulator/dynamodb/internal/attr"
)

// A node is anything that can stand inside an expression: a condition or an operand. Its print method writes it back in
// the grammar, with parentheses only where the tree would otherwise be read differently.
type node interface{ print(b *strings.Builder) }

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

// Path is a document path. Its printed form is kept apart from its meaning, which binding fills in.
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

func (p *Path) print(b *strings.Builder) {
	for i, s := range p.steps {
		switch {
		case s.text == "":
			b.WriteString("[" + strconv.Itoa(s.index) + "]")
		case i > 0:
			b.WriteString("." + s.text)
		default:
			b.WriteString(s.text)
		}
	}
}

func (p *placeholder) print(b *strings.Builder) { b.WriteString(p.name) }

func (c *call) print(b *strings.Builder) {
	b.WriteString(c.name + "(")
	printList(b, c.args)
	b.WriteString(")")
}

func (a *arithmetic) print(b *strings.Builder) {
	a.left.print(b)
	b.WriteString(" " + a.op + " ")
	a.right.print(b)
}

func (c *comparison) print(b *strings.Builder) {
	c.left.print(b)
	b.WriteString(" " + c.op + " ")
	c.right.print(b)
}

func (x *between) print(b *strings.Builder) {
	x.operand.print(b)
	b.WriteString(" BETWEEN ")
	x.low.print(b)
	b.WriteString(" AND ")
	x.high.print(b)
}

func (m *membership) print(b *strings.Builder) {
	m.operand.print(b)
	b.WriteString(" IN (")
	printList(b, m.options)
	b.WriteString(")")
}

func (n *negation) print(b *strings.Builder) {
	b.WriteString("NOT ")
	printGrouped(b, n.of, isLogical(n.of, "AND") || isLogical(n.of, "OR"))
}

func (l *logical) print(b *strings.Builder) {
	and := l.op == "AND"
	printGrouped(b, l.left, and && isLogical(l.left, "OR"))
	b.WriteString(" " + l.op + " ")
	// Both operators group to the left.
	printGrouped(b, l.right, isLogical(l.right, "OR") || and && isLogical(l.right, "AND"))
}

func isLogical(n node, op string) bool {
	l, ok := n.(*logical)
	return ok && l.op == op
}

func printGrouped(b *strings.Builder, n node, group bool) {
	if group {
		b.WriteString("(")
	}
	n.print(b)
	if group {
		b.WriteString(")")
	}
}

func printList(b *strings.Builder, nodes []node) {
	for i, n := range nodes {
		if i > 0 {
			b.WriteString(", ")
		}
		n.print(b)
	}
}

func text(n node) string {
	var b strings.Builder
	n.print(&b)
	return b.String()
}
