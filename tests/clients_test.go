package tests

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/leasehold-dev/leasehold/locks"
)

// TestClientsPage: the table of the clients has names that there are, the same words for one thing, and the defaults
// that hold.
func TestClientsPage(t *testing.T) {
	page := read(t, "../docs/reference/clients.md")
	names := map[string]map[string]bool{"Go": goNames(t), "TypeScript": typeScriptNames(t), "Python": pythonNames(t)}
	var columns []string
	rows := 0
	for line := range strings.SplitSeq(page, "\n") {
		if !strings.HasPrefix(line, "| ") {
			columns = nil
			continue
		}
		cells := strings.Split(strings.Trim(line, "| "), " | ")
		if columns == nil {
			columns = cells
			continue
		}
		if strings.HasPrefix(cells[0], "---") {
			continue
		}
		if len(cells) != len(columns) {
			t.Errorf("%d cells instead of %d: %s", len(cells), len(columns), line)
			continue
		}
		rows++
		words := map[string]string{}
		for i, language := range columns {
			for _, m := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(cells[i], -1) {
				if known, is := names[language]; is && !known[m[1]] {
					t.Errorf("%s: there is no %s: %s", language, m[1], line)
				} else if is && (columns[0] == "option" || strings.Contains(m[1], "Error")) {
					words[language] = strings.ToLower(regexp.MustCompile(`[^A-Za-z]`).ReplaceAllString(
						m[1][strings.LastIndexAny(m[1], ".(")+1:], ""))
				}
			}
		}
		if ts, py := words["TypeScript"], words["Python"]; ts != py && ts != "mode" && ts != "" && py != "" {
			t.Errorf("%s and %s are two words for one thing", ts, py)
		}
	}
	if rows < 45 {
		t.Errorf("%d rows", rows)
	}
	ts, py := read(t, "../sdk/typescript/src/locks.ts"), read(t, "../sdk/python/src/leasehold/locks.py")
	client := read(t, "../sdk/python/src/leasehold/client.py")
	for what, is := range map[string]bool{
		"ttl, Go":          locks.DefaultTTL == 30*time.Second,
		"ttl, TypeScript":  strings.Contains(ts, "ttl ?? 30_000"),
		"ttl, Python":      strings.Contains(client, "ttl: float = 30.0"),
		"wait, TypeScript": strings.Contains(ts, "wait: longest = FOREVER"),
		"wait, Python":     strings.Contains(py, "wait: float = FOREVER"),
		"poll, TypeScript": strings.Contains(ts, "poll ?? 2000"),
		"poll, Python":     strings.Contains(py, "poll: float = 2.0"),
	} {
		if !is {
			t.Errorf("the default of %s is not that of the page, or stands elsewhere", what)
		}
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// goNames are package.Name and package.Type.Member of the packages that users import.
func goNames(t *testing.T) map[string]bool {
	t.Helper()
	names := map[string]bool{}
	for _, dir := range []string{"client", "contracts", "kazahana", "locks", "locks/election", "once", "idempotency"} {
		files, err := filepath.Glob("../" + dir + "/*.go")
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range files {
			if strings.HasSuffix(path, "_test.go") {
				continue
			}
			f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			add := func(parts ...string) { names[f.Name.Name+"."+strings.Join(parts, ".")] = true }
			for _, d := range f.Decls {
				switch d := d.(type) {
				case *ast.FuncDecl:
					if d.Recv == nil {
						add(d.Name.Name)
						continue
					}
					of := d.Recv.List[0].Type
					if p, ok := of.(*ast.StarExpr); ok {
						of = p.X
					}
					if id, ok := of.(*ast.Ident); ok {
						add(id.Name, d.Name.Name)
					}
				case *ast.GenDecl:
					for _, s := range d.Specs {
						switch s := s.(type) {
						case *ast.ValueSpec:
							for _, id := range s.Names {
								add(id.Name)
							}
						case *ast.TypeSpec:
							add(s.Name.Name)
							if of, ok := s.Type.(*ast.StructType); ok {
								for _, field := range of.Fields.List {
									for _, id := range field.Names {
										add(s.Name.Name, id.Name)
									}
								}
							}
						}
					}
				}
			}
		}
	}
	return names
}

// typeScriptNames are those of the sources, with the members of classes and interfaces.
func typeScriptNames(t *testing.T) map[string]bool {
	t.Helper()
	return namesOf(t, "../sdk/typescript/src/*.ts",
		regexp.MustCompile(`^export (?:abstract )?(?:async )?(?:class|interface|function|const|type) (\w+)`),
		regexp.MustCompile(`^  (?:async |get |readonly |override |\*)*(\w+)\??[(:<]`), nil)
}

// pythonNames are those of the sources, with the members of classes, and the parameters of functions as name(parameter=).
func pythonNames(t *testing.T) map[string]bool {
	t.Helper()
	return namesOf(t, "../sdk/python/src/leasehold/*.py", regexp.MustCompile(`^(?:class|(?:async )?def) (\w+)`),
		regexp.MustCompile(`^    (?:async )?def (\w+)`), regexp.MustCompile(`\b(\w+): `))
}

// namesOf reads names line by line: of what stands at the beginning of a line, and of what is in that. A class has what
// the classes have of which it is made.
func namesOf(t *testing.T, glob string, outer, inner, parameter *regexp.Regexp) map[string]bool {
	t.Helper()
	names, bases := map[string]bool{}, map[string][]string{}
	files, err := filepath.Glob(glob)
	if err != nil || len(files) == 0 {
		t.Fatal(glob, err)
	}
	base := regexp.MustCompile(`(?: extends |^class \w+\()(?:Pick<)?(\w+)`)
	for _, path := range files {
		of, last := "", ""
		for line := range strings.SplitSeq(read(t, path), "\n") {
			switch m, n := outer.FindStringSubmatch(line), inner.FindStringSubmatch(line); {
			case m != nil:
				of, last = m[1], m[1]
				if b := base.FindStringSubmatch(line); b != nil {
					bases[of] = append(bases[of], b[1])
				}
			case n != nil:
				last = of + "." + n[1]
			case line != "" && line[0] != ' ' && line[0] != ')' && line[0] != '}':
				of = ""
			}
			names[last] = true
			if parameter == nil {
				continue
			}
			for _, p := range parameter.FindAllStringSubmatch(line, -1) {
				names[strings.TrimSuffix(last, ".__init__")+"("+p[1]+"=)"] = true
			}
		}
	}
	for class, all := range bases {
		for _, b := range all {
			for name := range names {
				if member, of := strings.CutPrefix(name, b+"."); of {
					names[class+"."+member] = true
				}
			}
		}
	}
	return names
}
