package expr

// parseCondition parses a condition, filter or key condition.
func parseCondition(src string) (node, error) {
	p, err := newParser(src)
	if err != nil {
		return nil, err
	}
	n, err := p.condition()
	if err != nil {
		return nil, err
	}
	return n, p.finish()
}

// condition parses what has to be true or false.
func (p *parser) condition() (node, error) { return p.asCondition(p.either()) }

// asCondition rejects an operand where a condition has to stand: the token after it should have been an operator.
func (p *parser) asCondition(n node, err error) (node, error) {
	if err != nil {
		return nil, err
	}
	switch n.(type) {
	case *attribute, *placeholder:
		return nil, p.fail()
	}
	return n, nil
}

// either parses a condition or an operand: behind a parenthesis only the end shows which of the two it is.
//
//	either = both {OR both}
//	both   = test {AND test}
//	test   = NOT test | side [comparator side | BETWEEN side AND side]
//	side   = (either) | attribute | :value | function(side, …)
func (p *parser) either() (node, error) { return p.chain("OR", p.both) }

func (p *parser) both() (node, error) { return p.chain("AND", p.test) }

func (p *parser) chain(op string, part func() (node, error)) (node, error) {
	left, err := part()
	if err != nil || !p.peek().is(op) {
		return left, err
	}
	if left, err = p.asCondition(left, nil); err != nil {
		return nil, err
	}
	for p.accept(op) {
		p.operators++
		right, err := p.asCondition(part())
		if err != nil {
			return nil, err
		}
		left = &logical{op, left, right}
	}
	return left, nil
}

func (p *parser) test() (node, error) {
	if p.accept("NOT") {
		p.operators++
		of, err := p.asCondition(p.test())
		if err != nil {
			return nil, err
		}
		return &negation{of}, nil
	}
	left, err := p.side()
	if err != nil || !isOperand(left) {
		return left, err
	}
	switch t := p.peek(); {
	case t.is("=") || t.is("<>") || t.is("<") || t.is("<=") || t.is(">") || t.is(">="):
		p.at++
		p.operators++
		right, err := p.operand()
		if err != nil {
			return nil, err
		}
		return &comparison{t.text, left, right}, nil
	case t.is("BETWEEN"):
		p.at++
		p.operators++
		return p.between(left)
	case t.is("IN"):
		return nil, unsupported("IN")
	default:
		return left, nil
	}
}

func (p *parser) between(operand node) (node, error) {
	low, err := p.operand()
	if err != nil {
		return nil, err
	}
	if err := p.expect("AND"); err != nil {
		return nil, err
	}
	high, err := p.operand()
	if err != nil {
		return nil, err
	}
	return &between{operand, low, high}, nil
}

// operand parses one side of a comparison, in parentheses or not.
func (p *parser) operand() (node, error) {
	at := p.at
	n, err := p.side()
	if err == nil && !isOperand(n) {
		p.at = at
		return nil, p.fail()
	}
	return n, err
}

func (p *parser) side() (node, error) {
	if p.peek().is("(") {
		return p.group(p.either)
	}
	return p.primary(p.operand)
}

// isOperand tells the nodes that mean values from those that are true or false.
func isOperand(n node) bool {
	switch n.(type) {
	case *attribute, *placeholder:
		return true
	default:
		return false
	}
}
