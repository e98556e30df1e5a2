package tests

import (
	"go/ast"
	"go/constant"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// TestBoundsAreInTheTable: docs/reference/limits.md names every constant of the product that bounds something, with the
// value that it has, and tests that there are.
func TestBoundsAreInTheTable(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../docs/reference/limits.md")
	if err != nil {
		t.Fatal(err)
	}
	found := boundsInSources(t)
	tests := testNames(t)
	named := map[string]bool{}
	for line := range strings.Lines(string(page)) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		names := boundName.FindAllString(cells[len(cells)-1], -1)
		if !strings.HasPrefix(line, "| ") || len(cells) < 5 {
			continue
		}
		for _, test := range testName.FindAllString(cells[len(cells)-2], -1) {
			if !tests[test] {
				t.Errorf("there is no %s: %s", test, line)
			}
		}
		for _, name := range names {
			named[name] = true
			value, ok := found[name]
			if !ok {
				t.Errorf("no package has %s: %s", name, line)
			} else if !slices.Contains(values(cells[1]), value) {
				t.Errorf("%s is %s, and the page says %s", name, value, strings.TrimSpace(cells[1]))
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(found)) {
		if _, other := noBound[name]; !named[name] && !other {
			t.Errorf("%s = %s is not in docs/reference/limits.md", name, found[name])
		}
	}
}

var (
	boundName  = regexp.MustCompile(`\b[a-z]+\.[A-Za-z]+\b`)
	testName   = regexp.MustCompile(`\bTest[A-Z][A-Za-z0-9]*`)
	boundConst = regexp.MustCompile(`^([mM]ax|[mM]ost|[mM]in|[rR]emembered)[A-Z]`)
)

// noBound are constants whose names look like those of bounds, and what they are.
var noBound = map[string]string{
	"analysis.maxISO":          "the longest text that is read as a time",
	"analysis.maxRequeueEvery": "a setting beyond it is a mistake",
	"docstore.maxOffset":       "no time is as far away",
	"docstore.maxDepth":        "conditions are made by rules",
	"kazahana.maxEpoch":        "the last time that can be written",
	"placement.maxDelay":       "follows from EventLag",
	"placement.maxPause":       "of a backoff",
	"lock.rememberedRoom":      "of what a document tells servers, not callers",
	"redisstore.maxPrefix":     "of a setting",
	"projectlock.maxContent":   "of a file that a lock can have",
	"conformance.maxRequest":   "of the player of scripts",
	"console.MaxBytes":         "of the page's sources",
	"demo.maxSkew":             "of the demonstration",
	"awsdynamodb.maxIndexes":   "of the service",
	"awsdynamodb.maxRead":      "of the service: more are read in several requests",
	"awssqs.maxBatch":          "of the service",
	"awssqs.maxWait":           "of the service",
	"awssqs.minRetention":      "of a queue, about which it warns",
	"machineid.maxUnitBits":    "the same as maxUnits",
	"emf.maxValues":            "of the service: more are written in several lines",
	"gcpfirestore.maxIDBytes":  "of the service",
	"sqlitestore.maxBatch":     "of a group: what is more is in the next",
	"redisstore.mostSent":      "of a flight: what is more is in the next",
	"redisstore.mostShapes":    "of a cache: the text of what is more comes along",
	"redisstore.mostText":      "of a script that is kept: the text of what is more comes along",
	"redisstore.mostLocals":    "what is more is in a table",
	"redisstore.mostShown":     "what is more is returned with the rest",
	"awsdynamodb.maxShapes":    "of a cache",
	"client.maxIdle":           "of a pool",
	"awssqs.MaxPause":          "of a backoff",
	"tasks.maxReturned":        "of a backoff",
	"fencing.MaxSubjectBytes":  "of a key of a lock, with its permit",
	"fence.MaxSubjectBytes":    "of a key of a lock, with its permit",
	"awssqs.maxAttempts":       "while draining",
	"election.maxLook":         "of a backoff",
	"election.minLook":         "of a backoff",
	"once.MinHeartbeat":        "of an option",
	"restore.MaxNameBytes":     "of an option",
	"restore.MaxParallel":      "of an option",
	"kazahana.maxBurstWindow":  "of an option",
	"kazahana.maxNap":          "between two looks at a clock",
	"kazahana.maxSampleError":  "of a sample of a clock",
	"kazahana.maxSamples":      "of a sample of a clock",
	"extid.MaxEntityBytes":     "of an option",
	"extid.MinSecretBytes":     "of an option",
}

// boundsInSources are the constants of the product's packages whose names say that they bound something, by package and
// name.
func boundsInSources(t *testing.T) map[string]string {
	t.Helper()
	consts := map[string]ast.Expr{}
	var names []string
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && slices.Contains([]string{"tests", "examples", "emulator", "node_modules", "testdata", "proof",
			"release"}, d.Name()):
			return filepath.SkipDir
		case d.IsDir() && path != ".." && strings.HasPrefix(d.Name(), "."):
			return filepath.SkipDir
		case d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go"):
			return nil
		}
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil || strings.HasSuffix(f.Name.Name, "test") {
			return err
		}
		for _, decl := range f.Decls {
			g, ok := decl.(*ast.GenDecl)
			if !ok || g.Tok != token.CONST {
				continue
			}
			for _, spec := range g.Specs {
				v := spec.(*ast.ValueSpec)
				for i, n := range v.Names {
					if i >= len(v.Values) {
						continue
					}
					name := f.Name.Name + "." + n.Name
					consts[name] = v.Values[i]
					if boundConst.MatchString(n.Name) {
						names = append(names, name)
					}
				}
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]string{}
	for _, name := range names {
		pkg, _, _ := strings.Cut(name, ".")
		if v := evaluate(consts, pkg, consts[name]); v != nil {
			found[name] = v.ExactString()
		}
	}
	return found
}

// evaluate is the value of a constant expression of whole numbers, nil if it is none.
func evaluate(consts map[string]ast.Expr, pkg string, e ast.Expr) constant.Value {
	switch e := e.(type) {
	case *ast.BasicLit:
		if e.Kind == token.INT {
			return constant.MakeFromLiteral(e.Value, e.Kind, 0)
		}
	case *ast.ParenExpr:
		return evaluate(consts, pkg, e.X)
	case *ast.Ident:
		if x, ok := consts[pkg+"."+e.Name]; ok {
			return evaluate(consts, pkg, x)
		}
	case *ast.SelectorExpr:
		of, _ := e.X.(*ast.Ident)
		if of == nil {
			return nil
		}
		if unit, ok := durations[of.Name+"."+e.Sel.Name]; ok {
			return constant.MakeInt64(unit)
		}
		if x, ok := consts[of.Name+"."+e.Sel.Name]; ok {
			return evaluate(consts, of.Name, x)
		}
	case *ast.BinaryExpr:
		x, y := evaluate(consts, pkg, e.X), evaluate(consts, pkg, e.Y)
		if x == nil || y == nil {
			return nil
		}
		switch e.Op {
		case token.SHL:
			n, _ := constant.Uint64Val(y)
			return constant.Shift(x, e.Op, uint(n))
		case token.QUO:
			return constant.BinaryOp(x, token.QUO_ASSIGN, y)
		default:
			return constant.BinaryOp(x, e.Op, y)
		}
	}
	return nil
}

var durations = map[string]int64{
	"time.Millisecond": 1e6, "time.Second": 1e9, "time.Minute": 60e9, "time.Hour": 3600e9,
}

// values are what a cell may mean: numbers, sizes and times, as the constants have them.
func values(cell string) (all []string) {
	for _, m := range regexp.MustCompile(`([0-9][0-9,]*)( (ms|s|min|h|days|KiB|MiB|kB|MB)\b)?`).FindAllStringSubmatch(cell,
		-1) {
		n, err := strconv.ParseInt(strings.ReplaceAll(m[1], ",", ""), 10, 64)
		if err != nil {
			continue
		}
		unit := map[string]int64{
			"ms": 1e6, "s": 1e9, "min": 60e9, "h": 3600e9, "days": 86400e9, "KiB": 1 << 10, "MiB": 1 << 20,
			"kB": 1000, "MB": 1e6,
		}[m[3]]
		for _, v := range []int64{n, n * max(unit, 1), n * unit / 1e9, n * unit / 1e6} {
			all = append(all, strconv.FormatInt(v, 10))
		}
	}
	return all
}

// TestSecurityNamesTests: what SECURITY.md says of attacks is held by tests that exist.
func TestSecurityNamesTests(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../SECURITY.md")
	if err != nil {
		t.Fatal(err)
	}
	tests, named := testNames(t), regexp.MustCompile("`(Test[A-Za-z0-9]+)`").FindAllSubmatch(page, -1)
	for _, m := range named {
		if !tests[string(m[1])] {
			t.Errorf("SECURITY.md names %s, which is no test", m[1])
		}
	}
	if len(named) < 30 {
		t.Errorf("SECURITY.md names %d tests: are they read?", len(named))
	}
}

// testNames are those of all tests of the repository.
func testNames(t *testing.T) map[string]bool {
	t.Helper()
	names := map[string]bool{}
	declared := regexp.MustCompile(`(?m)^func (Test[A-Za-z0-9]+)\(`)
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		b, err := os.ReadFile(path)
		for _, m := range declared.FindAllSubmatch(b, -1) {
			names[string(m[1])] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}
