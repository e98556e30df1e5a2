package expr

import (
	"errors"

	"github.com/leasehold-dev/leasehold/emulator/dynamodbtest/internal/attr"
)

// action is one change of an update: SET path = operand, REMOVE path, ADD path operand, DELETE path operand.
type action struct {
	verb    string
	path    *Path
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
//	section = SET set {, set} | REMOVE path {, path} | ADD path side {, …} | DELETE path side {, …}
//	set     = path = sum
//	sum     = side [+ side | - side]
//	side    = (sum) | path | :value | function(side, …)
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
	for _, verb := range []string{"SET", "REMOVE", "ADD", "DELETE"} {
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
	return section{}, p.fail()
}

func (p *parser) action(verb string) (*action, error) {
	path, err := p.path()
	if err != nil {
		return nil, err
	}
	p.operators++
	a := &action{verb: verb, path: path}
	switch verb {
	case "SET":
		if err := p.expect("="); err != nil {
			return nil, err
		}
		a.operand, err = p.sum()
	case "ADD", "DELETE":
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
	op := p.peek()
	if !op.is("+") && !op.is("-") {
		return left, nil
	}
	p.at++
	p.operators++
	right, err := p.term()
	if err != nil {
		return nil, err
	}
	return &arithmetic{op.text, left, right}, nil
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
	paths   []*Path
}

var updateFunctions = map[string]int{"if_not_exists": 2, "list_append": 2}

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
			b.apart(u.paths, a.path)
			u.actions = append(u.actions, a)
			u.paths = append(u.paths, a.path)
		}
	}
	if err := b.err(); err != nil {
		return nil, err
	}
	return u, nil
}

// Paths are the document paths that the update changes.
func (u *Update) Paths() []*Path { return u.paths }

// Literal returns the value that the update sets a top-level attribute to when that is written out in the request, or
// nil.
func (u *Update) Literal(name string) attr.Value {
	for _, a := range u.actions {
		if p, ok := a.operand.(*placeholder); ok && a.verb != "DELETE" && !a.path.Nested() && a.path.Root() == name {
			return p.value
		}
	}
	return nil
}

func (b *binder) action(a *action) {
	b.path(a.path)
	if a.operand != nil {
		b.operand(a.operand)
	}
	t := literal(a.operand)
	switch {
	case t == "" || a.verb == "SET" || t == attr.SS || t == attr.NS || t == attr.BS || a.verb == "ADD" && t == attr.N:
	default:
		b.complainf(badType, "Incorrect operand type for operator or function; operator: %s, operand type: %s",
			a.verb, longNames[t])
	}
}

var longNames = map[attr.Type]string{attr.S: "STRING", attr.N: "NUMBER", attr.B: "BINARY", attr.NULL: "NULL",
	attr.BOOL: "BOOLEAN", attr.L: "LIST", attr.M: "MAP"}

// operand binds the right side of a SET.
func (b *binder) operand(n node) {
	switch n := n.(type) {
	case *Path:
		b.path(n)
	case *placeholder:
		b.value(n)
	case *arithmetic:
		for _, side := range []node{n.left, n.right} {
			b.operand(side)
			if t := literal(side); t != "" && t != attr.N {
				b.wrongType(n.op, t)
			}
		}
	case *call:
		for _, arg := range n.args {
			b.operand(arg)
		}
		if !b.arity(n) {
			return
		}
		if n.name == "if_not_exists" {
			b.needsPath(n.name, n.args[0])
			return
		}
		for _, arg := range n.args {
			if t := literal(arg); t != "" && t != attr.L {
				b.wrongType(n.name, t)
			}
		}
	}
}

// apart complains when a path changes what an earlier path changes, or treats as a map what an earlier one treats as a
// list.
func (b *binder) apart(earlier []*Path, p *Path) {
	for _, e := range earlier {
		relation := "overlap"
		for i := range min(len(e.Elems), len(p.Elems)) {
			x, y := e.Elems[i], p.Elems[i]
			if (x.Name == "") != (y.Name == "") {
				relation = "conflict"
				break
			}
			if x != y {
				relation = ""
				break
			}
		}
		if relation != "" {
			b.complainf(overlap, "Two document paths %s with each other; must remove or rewrite one of these paths; "+
				"path one: %s, path two: %s", relation, e, p)
		}
	}
}

func badOperand() error {
	return errors.New("An operand in the update expression has an incorrect data type")
}
