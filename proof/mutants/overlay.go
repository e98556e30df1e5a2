package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// variable is the environment variable that switches a fault on. Tests hand it on to the programs that they start: they
// keep only Leasehold's own variables and those of platforms from them.
const variable = "INJECTED_FAULT"

// overlay is a set of Go files with all their faults, each behind a switch. A function with faults has its body once
// for each, and once as it is; a constant or variable of a package is chosen when the program starts, and so is an
// embedded text.
type overlay struct {
	src   *sources
	edits map[string][]edit   // by file
	tails map[string][]string // by file: what is added at its end
	inits map[string][]string // by package: what is added to its switch
}

// edit replaces a part of a file.
type edit struct {
	begin, end int
	text       string
}

// newOverlay makes the files of the faults that have a switch.
func newOverlay(src *sources, faults []*fault) (*overlay, error) {
	o := &overlay{src: src, edits: map[string][]edit{}, tails: map[string][]string{}, inits: map[string][]string{}}
	byFile := map[string][]*fault{}
	for _, f := range faults {
		if f.check.switched() {
			byFile[f.file] = append(byFile[f.file], f)
		}
	}
	var errs []error
	for _, file := range sorted(byFile) {
		if path.Ext(file) == ".go" {
			errs = append(errs, o.addGo(file, byFile[file]))
		} else {
			errs = append(errs, o.addEmbedded(file, byFile[file]))
		}
	}
	return o, errors.Join(errs...)
}

func sorted[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// goFile is a parsed file.
type goFile struct {
	text string
	set  *token.FileSet
	tree *ast.File
}

func parse(name, text string) (*goFile, error) {
	set := token.NewFileSet()
	tree, err := parser.ParseFile(set, name, text, parser.SkipObjectResolution|parser.ParseComments)
	return &goFile{text, set, tree}, err
}

func (g *goFile) offset(p token.Pos) int { return g.set.PositionFor(p, false).Offset }

// of returns the text of a node.
func (g *goFile) of(n ast.Node) string { return g.text[g.offset(n.Pos()):g.offset(n.End())] }

// function returns the function of the package in whose body the region is.
func (g *goFile) function(begin, end int) (n int, body *ast.BlockStmt) {
	for i, d := range g.tree.Decls {
		if f, ok := d.(*ast.FuncDecl); ok && f.Body != nil && g.offset(f.Body.Lbrace) < begin &&
			end <= g.offset(f.Body.Rbrace) {
			return i, f.Body
		}
	}
	return 0, nil
}

// value returns the constant or variable of the package in whose declaration the region is.
func (g *goFile) value(begin, end int) *ast.ValueSpec {
	for _, d := range g.tree.Decls {
		gen, ok := d.(*ast.GenDecl)
		if !ok {
			continue
		}
		for i, s := range gen.Specs {
			v, ok := s.(*ast.ValueSpec)
			if !ok || len(v.Names) != 1 || len(v.Values) != 1 || begin < g.offset(v.Pos()) || end > g.offset(v.End()) {
				continue
			}
			if i+1 < len(gen.Specs) && gen.Tok == token.CONST && len(gen.Specs[i+1].(*ast.ValueSpec).Values) == 0 {
				return nil // the next constants repeat its expression
			}
			return v
		}
	}
	return nil
}

// addGo adds the faults of a Go file.
func (o *overlay) addGo(file string, faults []*fault) error {
	text, err := o.src.read(file)
	if err != nil {
		return err
	}
	g, err := parse(file, text)
	if err != nil {
		return err
	}
	bodies := map[*ast.BlockStmt][]string{}
	values := map[*ast.ValueSpec]string{}
	var errs []error
	for _, f := range faults {
		begin, end, err := f.find(text)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		wrong, err := parse(file, text[:begin]+f.new+text[end:])
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: with it, %w", f.where(), err))
			continue
		}
		if n, body := g.function(begin, end); body != nil {
			changed := wrong.tree.Decls[n].(*ast.FuncDecl).Body
			bodies[body] = append(bodies[body], fmt.Sprintf("case %d: // %s\n//line %s.go:%d\n%s\n", f.id(), f.name, f.name,
				g.set.Position(body.Pos()).Line, wrong.inside(changed, fmt.Sprintf("_%d", f.id()))))
		} else if v := g.value(begin, end); v != nil {
			changed := wrong.value(begin, begin+len(f.new))
			if changed == nil || changed.Names[0].Name != v.Names[0].Name {
				errs = append(errs, fmt.Errorf("%s: with it, there is no constant or variable of that name there", f.where()))
				continue
			}
			values[v] = fmt.Sprintf("leaseholdPick(%d, %s, %s)", f.id(), wrong.of(changed.Values[0]),
				cmp.Or(values[v], g.of(v.Values[0])))
		} else {
			errs = append(errs, fmt.Errorf(
				"%s: the text is not in the body of a function, nor is it the one value of a constant or variable", f.where()))
		}
	}
	abs, err := filepath.Abs(filepath.Join(o.src.root, file))
	if err != nil {
		return err
	}
	for body, cases := range bodies {
		begin, end := g.offset(body.Lbrace)+1, g.offset(body.Rbrace)
		line := func(p token.Pos) int { return g.set.Position(p).Line }
		o.edits[file] = append(o.edits[file],
			edit{begin, end, fmt.Sprintf("switch leaseholdMutant {\n%sdefault:\n//line %s:%d\n%s\n}\n//line %s:%d\n",
				strings.Join(cases, ""), abs, line(body.Lbrace), text[begin:end], abs, line(body.Rbrace))})
	}
	for v, picked := range values {
		o.edits[file] = append(o.edits[file], edit{g.offset(v.Pos()), g.offset(v.End()), "_ = 0"})
		of := ""
		if v.Type != nil {
			of = g.of(v.Type)
			picked = strings.ReplaceAll(picked, "leaseholdPick(", "leaseholdPick["+of+"](")
		}
		o.tails[file] = append(o.tails[file], fmt.Sprintf("\nvar %s %s = %s\n", v.Names[0].Name, of, picked))
	}
	o.inits[path.Dir(file)] = append(o.inits[path.Dir(file)], "")
	return errors.Join(errs...)
}

// inside is what is between the braces of a body. Its labels have a suffix: a function has each once.
func (g *goFile) inside(body *ast.BlockStmt, suffix string) string {
	var ends []int
	ast.Inspect(body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.LabeledStmt:
			ends = append(ends, g.offset(n.Label.End()))
		case *ast.BranchStmt:
			if n.Label != nil {
				ends = append(ends, g.offset(n.Label.End()))
			}
		}
		return true
	})
	slices.Sort(ends)
	begin, end := g.offset(body.Lbrace)+1, g.offset(body.Rbrace)
	text := g.text[begin:end]
	for _, e := range slices.Backward(ends) {
		text = text[:e-begin] + suffix + text[e-begin:]
	}
	return text
}

// addEmbedded adds the faults of a file that a package of Go embeds as a string.
func (o *overlay) addEmbedded(file string, faults []*fault) error {
	dir := path.Dir(file)
	text, err := o.src.read(file)
	if err != nil {
		return err
	}
	directive := regexp.MustCompile(`(?m)^\s*//go:embed ` + regexp.QuoteMeta(path.Base(file)) +
		`\n\s*(?:var )?((\w+) string)$`)
	all, err := filepath.Glob(filepath.Join(o.src.root, dir, "*.go"))
	if err != nil {
		return err
	}
	for _, p := range all {
		name := path.Join(dir, filepath.Base(p))
		code, err := o.src.read(name)
		if err != nil {
			return err
		}
		m := directive.FindStringSubmatchIndex(code)
		if m == nil {
			continue
		}
		variable := code[m[4]:m[5]]
		picked := "leaseholdOf_" + variable
		o.edits[name] = append(o.edits[name], edit{m[2], m[3], picked + " string"})
		for _, f := range faults {
			wrong, err := f.apply(text)
			if err != nil {
				return err
			}
			picked = fmt.Sprintf("leaseholdPick(%d, %s, %s)", f.id(), strconv.Quote(wrong), picked)
		}
		o.inits[dir] = append(o.inits[dir], fmt.Sprintf("var %s = %s\n", variable, picked))
		return nil
	}
	return fmt.Errorf("%s: no file beside %s embeds it as a string", faults[0].where(), file)
}

// switchText is what each package with faults has beside its own files.
const switchText = `package %s

import (
	"os"
	"strconv"
)

var leaseholdMutant = func() uint64 {
	n, _ := strconv.ParseUint(os.Getenv(%q), 10, 64)
	return n
}()

func leaseholdPick[T any](n uint64, wrong, right T) T {
	if leaseholdMutant == n {
		return wrong
	}
	return right
}

%s`

// write writes the files into a folder, and returns the path of the file for the flag -overlay.
func (o *overlay) write(folder string) (string, error) {
	replace := map[string]string{}
	add := func(file, text string) error {
		abs, err := filepath.Abs(filepath.Join(o.src.root, filepath.FromSlash(file)))
		if err != nil {
			return err
		}
		replace[abs] = filepath.Join(folder, fmt.Sprintf("%d.go", len(replace)))
		return os.WriteFile(replace[abs], []byte(text), 0o600)
	}
	packages := map[string]string{}
	for _, file := range sorted(o.edits) {
		text, err := o.src.read(file)
		if err != nil {
			return "", err
		}
		edits := o.edits[file]
		slices.SortFunc(edits, func(a, b edit) int { return cmp.Compare(b.begin, a.begin) })
		for _, e := range edits {
			text = text[:e.begin] + e.text + text[e.end:]
		}
		text += strings.Join(o.tails[file], "")
		g, err := parse(file, text)
		if err != nil {
			return "", fmt.Errorf("with its faults: %w", err)
		}
		packages[path.Dir(file)] = g.tree.Name.Name
		if err := add(file, text); err != nil {
			return "", err
		}
	}
	for _, dir := range sorted(packages) {
		if err := add(path.Join(dir, "leasehold_mutant.go"), fmt.Sprintf(switchText, packages[dir], variable,
			strings.Join(o.inits[dir], ""))); err != nil {
			return "", err
		}
	}
	list, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	to := filepath.Join(folder, "overlay.json")
	return to, os.WriteFile(to, list, 0o600)
}
