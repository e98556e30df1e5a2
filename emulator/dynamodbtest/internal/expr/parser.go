package expr

import (
	"errors"
	"fmt"
	"slices"
)

// Limits of one expression.
const (
	maxLength    = 4096 // bytes of source
	maxOperators = 300  // comparators, logical operators, functions and updates
)

var (
	errEmpty     = errors.New("The expression can not be empty;")
	errRedundant = errors.New("The expression has redundant parentheses;")
)

// lacking are the service's functions that this package does not have.
var lacking = []string{"contains", "size", "list_append"}

func unsupported(what string) error {
	return errors.New("emulator/dynamodbtest does not support " + what)
}

// parser walks the tokens of one expression. Each rule of the grammar is a method that consumes what it recognises; the
// first token out of place is the syntax error.
type parser struct {
	src       string
	tokens    []token
	at        int
	operators int
	redundant bool // a pair of parentheses directly inside another
}

func newParser(src string) (*parser, error) {
	if len(src) > maxLength {
		return nil, fmt.Errorf("Expression size has exceeded the maximum allowed size; expression size: %d", len(src))
	}
	p := &parser{src: src, tokens: lex(src)}
	if src == "" {
		return nil, errEmpty
	}
	return p, nil
}

func (p *parser) peek() token { return p.tokens[p.at] }

func (p *parser) next() token {
	t := p.tokens[p.at]
	if t.kind != end {
		p.at++
	}
	return t
}

func (p *parser) fail() error { return syntaxError(p.src, p.tokens, p.at) }

// accept consumes the next token if it is the keyword or symbol.
func (p *parser) accept(text string) bool {
	if p.peek().is(text) {
		p.at++
		return true
	}
	return false
}

func (p *parser) expect(text string) error {
	if !p.accept(text) {
		return p.fail()
	}
	return nil
}

// finish checks that nothing is left and that the limits were kept.
func (p *parser) finish() error {
	switch {
	case p.peek().kind != end:
		return p.fail()
	case p.operators > maxOperators:
		return fmt.Errorf("The expression contains too many operators; operator count: %d", p.operators)
	case p.redundant:
		return errRedundant
	default:
		return nil
	}
}

// group parses what stands between parentheses, the first of which is the next token.
func (p *parser) group(inside func() (node, error)) (node, error) {
	p.at++
	opens := p.peek().is("(")
	n, err := inside()
	if err != nil {
		return nil, err
	}
	closed := p.tokens[p.at-1].is(")")
	if err := p.expect(")"); err != nil {
		return nil, err
	}
	if opens && closed && p.wrapped(p.at-1) {
		p.redundant = true
	}
	return n, nil
}

// wrapped reports whether the parenthesis before the closing one at index i is the partner of the one that directly
// follows the opening partner of i: whether the outer pair adds nothing.
func (p *parser) wrapped(i int) bool {
	outer := p.partner(i)
	return p.partner(i-1) == outer+1
}

// partner returns the index of the parenthesis that the one at index i closes.
func (p *parser) partner(i int) int {
	depth := 0
	for ; i > 0; i-- {
		switch {
		case p.tokens[i].is(")"):
			depth++
		case p.tokens[i].is("("):
			if depth--; depth == 0 {
				return i
			}
		}
	}
	return i
}

// primary parses an operand that needs no parentheses: an attribute, a :value, or a function call.
func (p *parser) primary(argument func() (node, error)) (node, error) {
	t := p.peek()
	switch {
	case t.kind == value:
		p.at++
		return &placeholder{name: t.text}, nil
	case t.kind == word && p.tokens[p.at+1].is("("):
		return p.call(argument)
	case t.kind == word || t.kind == name:
		return p.attribute()
	default:
		return nil, p.fail()
	}
}

func (p *parser) call(argument func() (node, error)) (node, error) {
	c := &call{name: p.next().text}
	if slices.Contains(lacking, c.name) {
		return nil, unsupported("the function " + c.name)
	}
	p.at++ // the parenthesis
	p.operators++
	for {
		arg, err := argument()
		if err != nil {
			return nil, err
		}
		c.args = append(c.args, arg)
		if !p.accept(",") {
			return c, p.expect(")")
		}
	}
}

// attribute parses the name of an attribute: a or #a
func (p *parser) attribute() (*attribute, error) {
	t := p.peek()
	if t.kind != word && t.kind != name {
		return nil, p.fail()
	}
	p.at++
	if p.peek().is(".") || p.peek().is("[") {
		return nil, unsupported("paths into an attribute")
	}
	return &attribute{text: t.text}, nil
}
