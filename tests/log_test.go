package tests

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
)

// checkLog wants JSON objects, a line each, in which no member stands twice, and none of the secrets: services that
// read logs keep one of two members with one name, or neither.
func checkLog(t *testing.T, log string, secrets ...string) {
	t.Helper()
	if log == "" {
		t.Error("the log is empty")
	}
	for line := range strings.Lines(log) {
		if v := jsontext.Value(line); v.Kind() != '{' || !v.IsValid(jsontext.AllowDuplicateNames(false)) {
			t.Errorf("the log has the line %q", line)
		}
	}
	for _, s := range secrets {
		if strings.Contains(log, s) {
			t.Errorf("the log has the secret %q", s)
		}
	}
}

// TestCheckLog: a check that finds nothing would pass everything.
func TestCheckLog(t *testing.T) {
	t.Parallel()
	for line, good := range map[string]bool{
		`{"msg":"a","message":"b"}`: true, `{"msg":"a","audit":{"msg":"b"}}`: true,
		`{"msg":"a","msg":"b"}`: false, `{"audit":{"a":1,"a":2}}`: false, `text`: false, `"a"`: false,
	} {
		if v := jsontext.Value(line); good != (v.Kind() == '{' && v.IsValid(jsontext.AllowDuplicateNames(false))) {
			t.Errorf("%s: want %v", line, good)
		}
	}
}

// TestAttributesOfTheLog: no attribute has the name of a member that a log has anyway: those of slog, and those of
// Cloud Logging.
func TestAttributesOfTheLog(t *testing.T) {
	t.Parallel()
	calls := 0
	for _, path := range tracked(t, "*.go") {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		files := token.NewFileSet()
		f, err := parser.ParseFile(files, filepath.Join("..", path), nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(f, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			for _, name := range attributes(call) {
				if calls++; slices.Contains([]string{"time", "level", "msg", "source", "message", "severity"}, name) {
					t.Errorf("%s: the attribute %q has the name of another member of the line", files.Position(call.Pos()), name)
				}
			}
			return true
		})
	}
	if calls < 100 {
		t.Errorf("only %d attributes were found", calls)
	}
}

var (
	logMethods  = regexp.MustCompile(`^(Debug|Info|Warn|Error)(Context)?$|^With$`)
	attrMethods = regexp.MustCompile(`^(String|Int|Int64|Uint64|Float64|Bool|Time|Duration|Any|Group)$`)
)

// attributes are the names of the attributes in a call: slog.String and its like, or the texts after the message of a
// call of a log.
func attributes(call *ast.CallExpr) (names []string) {
	method, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		return nil
	}
	texts := []string{}
	for _, a := range call.Args {
		if lit, ok := a.(*ast.BasicLit); ok && lit.Kind == token.STRING {
			if s, err := strconv.Unquote(lit.Value); err == nil {
				texts = append(texts, s)
			}
		}
	}
	receiver, _ := method.X.(*ast.Ident)
	switch {
	case receiver != nil && receiver.Name == "slog" && attrMethods.MatchString(method.Sel.Name):
		return texts[:min(1, len(texts))]
	case logMethods.MatchString(method.Sel.Name) && len(call.Args) > 1:
		if method.Sel.Name != "With" && len(texts) > 0 {
			texts = texts[1:]
		}
		return texts
	}
	return nil
}
