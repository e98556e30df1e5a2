package leasehold

import (
	"go/parser"
	"go/token"
	"os"
	"strings"
	"testing"
)

// TestBuilderRules holds the root package to what the builder of Cloud Functions for Go expects of it: one package,
// tests included, that is not main, and a file outside of tests that imports the framework's registry.
func TestBuilderRules(t *testing.T) {
	entries, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	registers, files := false, 0
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), ".go") {
			continue
		}
		files++
		f, err := parser.ParseFile(token.NewFileSet(), e.Name(), nil, parser.ImportsOnly)
		if err != nil {
			t.Fatal(err)
		}
		if f.Name.Name != "leasehold" {
			t.Errorf("%s: package %s, want leasehold, in tests too", e.Name(), f.Name.Name)
		}
		for _, i := range f.Imports {
			if i.Path.Value == `"github.com/GoogleCloudPlatform/functions-framework-go/functions"` &&
				!strings.HasSuffix(e.Name(), "_test.go") {
				registers = true
			}
		}
	}
	if !registers {
		t.Errorf("none of %d files imports functions-framework-go/functions", files)
	}
}
