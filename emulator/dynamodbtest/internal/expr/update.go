package expr

import (
	"slices"

	"github.com/leasehold-dev/leasehold/emulator/dynamodbtest/internal/attr"
)

// action is one change of an update: SET a = operand, REMOVE a, ADD a operand.
type action struct {
	verb    string
	target  *attribute
	operand node // nil for REMOVE
}

// section is one clause of an update with its actions.
type section struct {
	verb    string
	actions []*action
}

// parseUpdate parses an update.
//
//	update  = section {section}
//	section = SET set {, set} | REMOVE attribute {, attribute} | ADD attribute :value {, …}
//	set     = attribute = sum
//	sum     = side [+ side]
//	side    = (sum) | attribute | :value | function(side, …)
func parseUpdate(src string) ([]section, error) {
	p, err := newParser(src)
	if err != nil {
		return nil, err
	}
	var sections []section
	for {
		s, err := p.section()
		if err != nil {
			return nil, err
		}
		sections = append(sections, s)
		if p.peek().kind == end {
			return sections, p.finish()
		}
	}
}

func (p *parser) section() (section, error) {
	for _, verb := range []string{"SET", "REMOVE", "ADD"} {
		if !p.accept(verb) {
			continue
		}
		s := section{verb: verb}
		for {
			a, err := p.action(verb)
			if err != nil {
				return s, err
			}
			s.actions = append(s.actions, a)
			if !p.accept(",") {
				return s, nil
			}
		}
	}
	if p.peek().is("DELETE") {
		return section{}, unsupported("DELETE in an UpdateExpression")
	}
	return section{}, p.fail()
}

func (p *parser) action(verb string) (*action, error) {
	target, err := p.attribute()
	if err != nil {
		return nil, err
	}
	p.operators++
	a := &action{verb: verb, target: target}
	switch verb {
	case "SET":
		if err := p.expect("="); err != nil {
			return nil, err
		}
		a.operand, err = p.sum()
	case "ADD":
		if p.peek().kind != value {
			return nil, p.fail()
		}
		a.operand = &placeholder{name: p.next().text}
	}
	return a, err
}

func (p *parser) sum() (node, error) {
	left, err := p.term()
	if err != nil {
		return nil, err
	}
	if p.peek().is("-") {
		return nil, unsupported("differences in an UpdateExpression")
	}
	if !p.accept("+") {
		return left, nil
	}
	p.operators++
	right, err := p.term()
	if err != nil {
		return nil, err
	}
	return &sum{left, right}, nil
}

func (p *parser) term() (node, error) {
	if p.peek().is("(") {
		return p.group(p.sum)
	}
	return p.primary(p.term)
}

// Update is a bound update.
type Update struct {
	actions []*action
	names   []string // of the attributes that are changed
}

var updateFunctions = map[string]int{"if_not_exists": 2}

// Update parses and binds an update. The error is the service's text without the name of the parameter.
func (e *Env) Update(src string) (*Update, error) {
	sections, err := parseUpdate(src)
	if err != nil {
		return nil, err
	}
	b := &binder{env: e, function: updateFunctions}
	u := &Update{}
	seen := map[string]bool{}
	for _, s := range sections {
		if seen[s.verb] {
			b.complainf(badSection, "The %q section can only be used once in an update expression;", s.verb)
		}
		seen[s.verb] = true
		for _, a := range s.actions {
			b.action(a)
			if name := a.target.name; slices.Contains(u.names, name) {
				b.complainf(overlap, "Two document paths overlap with each other; must remove or rewrite one of these paths; "+
					"path one: [%[1]s], path two: [%[1]s]", name)
			}
			u.actions = append(u.actions, a)
			u.names = append(u.names, a.target.name)
		}
	}
	if err := b.err(); err != nil {
		return nil, err
	}
	return u, nil
}

// Names are the attributes that the update changes.
func (u *Update) Names() []string { return u.names }

// Literal returns the value that the update sets an attribute to when that is written out in the request, or
// nil.
func (u *Update) Literal(name string) attr.Value {
	for _, a := range u.actions {
		if p, ok := a.operand.(*placeholder); ok && a.target.name == name {
			return p.value
		}
	}
	return nil
}

func (b *binder) action(a *action) {
	b.attribute(a.target)
	if a.operand != nil {
		b.operand(a.operand)
	}
	if t := literal(a.operand); a.verb == "ADD" && t != "" && t != attr.N {
		b.complainf(badType, "Incorrect operand type for operator or function; operator: ADD, operand type: %s", longNames[t])
	}
}

var longNames = map[attr.Type]string{
	attr.S: "STRING", attr.B: "BINARY", attr.NULL: "NULL", attr.BOOL: "BOOLEAN", attr.L: "LIST", attr.M: "MAP",
}

// operand binds the right side of a SET.
func (b *binder) operand(n node) {
	switch n := n.(type) {
	case *attribute:
		b.attribute(n)
	case *placeholder:
		b.value(n)
	case *sum:
		for _, side := range []node{n.left, n.right} {
			b.operand(side)
			if t := literal(side); t != "" && t != attr.N {
				b.wrongType("+", t)
			}
		}
	case *call:
		for _, arg := range n.args {
			b.operand(arg)
		}
		if b.arity(n) {
			b.needsAttribute(n.name, n.args[0])
		}
	}
}
