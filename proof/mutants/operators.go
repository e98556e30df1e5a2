package main

import (
	"fmt"
	"go/ast"
	"go/token"
	"hash/fnv"
	"strconv"
	"strings"
)

// opposites are the operators of Go that are easily taken for each other, with the word for it.
var opposites = map[token.Token]struct {
	word string
	by   token.Token
}{
	token.LSS: {"bound", token.LEQ}, token.LEQ: {"bound", token.LSS},
	token.GTR: {"bound", token.GEQ}, token.GEQ: {"bound", token.GTR},
	token.EQL: {"equal", token.NEQ}, token.NEQ: {"equal", token.EQL},
	token.LAND: {"logic", token.LOR}, token.LOR: {"logic", token.LAND},
	token.ADD: {"arithmetic", token.SUB}, token.SUB: {"arithmetic", token.ADD},
	token.MUL: {"arithmetic", token.QUO}, token.QUO: {"arithmetic", token.MUL},
	token.ADD_ASSIGN: {"arithmetic", token.SUB_ASSIGN}, token.SUB_ASSIGN: {"arithmetic", token.ADD_ASSIGN},
	token.INC: {"arithmetic", token.DEC}, token.DEC: {"arithmetic", token.INC},
}

// candidates are the faults that can be made of a Go file by its syntax alone, in their order. Some do not compile.
// The name of each is made of its function and of the text that changes, so that it outlives changes elsewhere.
func candidates(file, text string) ([]*fault, error) {
	g, err := parse(file, text)
	if err != nil || ast.IsGenerated(g.tree) {
		return nil, err
	}
	c := &maker{goFile: g, file: file, times: map[string]int{}}
	for _, d := range g.tree.Decls {
		if f, ok := d.(*ast.FuncDecl); ok && f.Body != nil {
			c.function, c.results = functionName(f), nil
			c.within(f.Type, f.Body)
		}
	}
	return c.all, nil
}

func functionName(f *ast.FuncDecl) string {
	if f.Recv == nil || len(f.Recv.List) == 0 {
		return f.Name.Name
	}
	of := f.Recv.List[0].Type
	for {
		switch t := of.(type) {
		case *ast.StarExpr:
			of = t.X
		case *ast.IndexExpr:
			of = t.X
		case *ast.IndexListExpr:
			of = t.X
		case *ast.Ident:
			return t.Name + "." + f.Name.Name
		default:
			return f.Name.Name
		}
	}
}

// maker makes the faults of a file.
type maker struct {
	*goFile

	file, function string
	results        []ast.Expr     // the types of what the function returns
	times          map[string]int // how often each name was given
	all            []*fault
}

// add adds a fault: the text of a region is replaced.
func (c *maker) add(word string, from, to token.Pos, text string) {
	begin, end := c.offset(from), c.offset(to)
	first := strings.LastIndexByte(c.text[:begin], '\n') + 1
	line, _, _ := strings.Cut(c.text[first:], "\n")
	h := fnv.New32a()
	_, _ = fmt.Fprintf(h, "%s\n%d\n%s\n%s", strings.TrimSpace(line), begin-first-indent(line),
		oneLine(c.text[begin:end]), oneLine(text))
	name := fmt.Sprintf("%s/%s/%s-%08x", strings.TrimSuffix(c.file, ".go"), c.function, word, h.Sum32())
	if c.times[name]++; c.times[name] > 1 {
		name += "-" + strconv.Itoa(c.times[name])
	}
	c.all = append(c.all, &fault{name: name, list: c.file, line: c.set.Position(from).Line, file: c.file, drawn: true,
		begin: begin, end: end, old: c.text[begin:end], new: text})
}

func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }

func indent(line string) int { return len(line) - len(strings.TrimLeft(line, " \t")) }

// within adds the faults of a function, and of those in it.
func (c *maker) within(of *ast.FuncType, body *ast.BlockStmt) {
	outer := c.results
	defer func() { c.results = outer }()
	c.results = nil
	if of.Results != nil {
		for _, f := range of.Results.List {
			for range max(1, len(f.Names)) {
				c.results = append(c.results, f.Type)
			}
		}
	}
	ast.Inspect(body, c.node)
}

// node adds the faults of a node. It reports whether those in it are to be visited.
func (c *maker) node(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.FuncLit:
		c.within(n.Type, n.Body)
		return false
	case *ast.GenDecl:
		return n.Tok == token.VAR // no constants: some are sizes and cases
	case *ast.BinaryExpr:
		if ofTime(n) { // another duration is seldom a mistake
			return false
		}
		c.operator(n.OpPos, n.Op)
	case *ast.UnaryExpr:
		if n.Op == token.NOT {
			c.add("not", n.OpPos, n.X.Pos(), "")
		}
	case *ast.IfStmt:
		c.condition(n.Cond)
	case *ast.IncDecStmt:
		c.operator(n.TokPos, n.Tok)
	case *ast.AssignStmt:
		if n.Tok == token.ADD_ASSIGN || n.Tok == token.SUB_ASSIGN {
			c.operator(n.TokPos, n.Tok)
		}
	case *ast.BasicLit:
		c.number(n)
	case *ast.CallExpr:
		c.call(n)
	case *ast.ReturnStmt:
		c.returned(n)
	case *ast.DeferStmt:
		if f, ok := n.Call.Fun.(*ast.SelectorExpr); !ok || !strings.HasSuffix(f.Sel.Name, "Unlock") {
			c.add("defer", n.Pos(), n.Call.Pos(), "") // of a mutex, only the race detector notices
		}
	case *ast.BlockStmt:
		c.removed(n.List)
	case *ast.CaseClause:
		c.removed(n.Body)
	case *ast.CommClause:
		c.removed(n.Body)
	}
	return true
}

func (c *maker) operator(at token.Pos, op token.Token) {
	if o, ok := opposites[op]; ok {
		c.add(o.word, at, at+token.Pos(len(op.String())), o.by.String())
	}
}

// ofTime reports whether the expression is a number of units of time, such as 5 * time.Second.
func ofTime(n *ast.BinaryExpr) bool {
	unit, ok := n.Y.(*ast.SelectorExpr)
	if _, literal := n.X.(*ast.BasicLit); !literal || !ok || n.Op != token.MUL {
		return false
	}
	from, ok := unit.X.(*ast.Ident)
	return ok && from.Name == "time"
}

// condition adds what is done never, and what is done when it should not be.
func (c *maker) condition(cond ast.Expr) {
	c.add("never", cond.Pos(), cond.End(), "("+c.of(cond)+") && false")
	switch e := cond.(type) {
	case *ast.UnaryExpr:
		return // without its !, it is the same
	case *ast.BinaryExpr:
		if e.Op == token.EQL || e.Op == token.NEQ {
			return
		}
	}
	c.add("negate", cond.Pos(), cond.End(), "!("+c.of(cond)+")")
}

// number adds a number that is off by one. Those with a prefix are bits, such as rights of files.
func (c *maker) number(n *ast.BasicLit) {
	was, err := strconv.ParseInt(n.Value, 10, 62)
	if n.Kind != token.INT || err != nil || n.Value != strconv.FormatInt(was, 10) {
		return
	}
	wrong := was + 1
	if was == 1 {
		wrong = 0
	}
	c.add("number", n.Pos(), n.End(), strconv.FormatInt(wrong, 10))
}

// call adds the wrong one of min and max, and neighbours among the arguments that change places. If their types differ,
// that does not compile.
func (c *maker) call(n *ast.CallExpr) {
	if f, ok := n.Fun.(*ast.Ident); ok && (f.Name == "min" || f.Name == "max") {
		c.add("minmax", f.Pos(), f.End(), map[string]string{"min": "max", "max": "min"}[f.Name])
		return // their order does not matter
	}
	for i := range max(0, len(n.Args)-1) {
		a, b := n.Args[i], n.Args[i+1]
		if plain(a) && plain(b) && c.of(a) != c.of(b) {
			c.add("swap", a.Pos(), b.End(), c.of(b)+c.text[c.offset(a.End()):c.offset(b.Pos())]+c.of(a))
		}
	}
}

// plain reports whether an expression is a variable or a field of one.
func plain(e ast.Expr) bool {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name != "nil" && e.Name != "_"
	case *ast.SelectorExpr:
		return plain(e.X)
	default:
		return false
	}
}

// returned adds a lost error, the other truth value, or the zero value of what is returned.
func (c *maker) returned(n *ast.ReturnStmt) {
	if len(n.Results) != len(c.results) {
		return
	}
	for i, e := range n.Results {
		if zero := zeroOf(c.results[i]); zero == "bool" {
			c.add("return", e.Pos(), e.End(), map[string]string{"true": "false", "false": "true"}[c.of(e)])
			if last := c.all[len(c.all)-1]; last.new == "" {
				last.new = "!(" + c.of(e) + ")"
			}
		} else if zero != "" && c.of(e) != zero {
			c.add("return", e.Pos(), e.End(), zero)
		}
	}
}

// zeroOf is the zero value of a type as far as its text tells, bool for truth values, else empty.
func zeroOf(t ast.Expr) string {
	switch t := t.(type) {
	case *ast.StarExpr, *ast.MapType, *ast.FuncType, *ast.InterfaceType, *ast.ChanType:
		return "nil"
	case *ast.ArrayType:
		if t.Len == nil {
			return "nil"
		}
	case *ast.Ident:
		switch t.Name {
		case "bool":
			return "bool"
		case "error", "any":
			return "nil"
		case "string":
			return `""`
		case "int", "int32", "int64", "uint", "uint32", "uint64", "float64":
			return "0"
		}
	}
	return ""
}

// removed adds what is forgotten: a call, a change of a variable, a message to a channel, what is done at the end.
func (c *maker) removed(list []ast.Stmt) {
	for _, s := range list {
		switch s := s.(type) {
		case *ast.ExprStmt:
			if call, ok := s.X.(*ast.CallExpr); ok && c.of(call.Fun) == "panic" {
				continue // a function with results may end with it
			}
		case *ast.AssignStmt:
			if s.Tok == token.DEFINE || unused(s) {
				continue
			}
		case *ast.IncDecStmt, *ast.SendStmt, *ast.DeferStmt:
		default:
			continue
		}
		c.add("remove", s.Pos(), s.End(), "")
	}
}

// unused reports whether an assignment does nothing.
func unused(s *ast.AssignStmt) bool {
	for _, l := range s.Lhs {
		if id, ok := l.(*ast.Ident); !ok || id.Name != "_" {
			return false
		}
	}
	for _, r := range s.Rhs {
		if _, ok := r.(*ast.CallExpr); ok {
			return false
		}
	}
	return true
}
