package tests

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclparse"
	"github.com/hashicorp/hcl/v2/hclsyntax"
)

// tested runs the tests that a module has in its folder tests, with a made-up provider.
func tested(t *testing.T, provider, dir string) {
	t.Helper()
	c := configured(t, mirror(t, provider), dir)
	zip := packaged(t, c.root, "")
	if err := os.Rename(zip, filepath.Join(c.dir, "tests", "package.zip")); err != nil {
		t.Fatal(err)
	}
	out, err := c.run("test", "-no-color")
	if err != nil || !strings.Contains(out, "Success!") {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestInputsOfAWS: what cannot work is refused by the variable that is wrong.
func TestInputsOfAWS(t *testing.T) {
	t.Parallel()
	tested(t, awsProvider, "aws/functions")
}

// TestMissingRegion: without a region nothing is planned.
func TestMissingRegion(t *testing.T) {
	t.Parallel()
	c, variables := example(t, minimalExample)
	if p, refused := c.plan(variables[1:]...); p != nil || !strings.Contains(refused, `variable "region"`) {
		t.Errorf("refused: %s", refused)
	}
	for _, name := range []string{"", "Frankfurt"} {
		if p, refused := c.plan(append(variables[1:], "region="+name)...); p != nil ||
			!strings.Contains(refused, "region must be a region of AWS") {
			t.Errorf("%q: refused: %s", name, refused)
		}
	}
}

// TestMessagesNameTheVariable: who reads that a value is refused, reads of which variable.
func TestMessagesNameTheVariable(t *testing.T) {
	t.Parallel()
	seen := 0
	parser := hclparse.NewParser()
	err := filepath.WalkDir("..", func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".tf") || strings.Contains(path, ".terraform") {
			return err
		}
		file, diagnostics := parser.ParseHCLFile(path)
		if diagnostics.HasErrors() {
			return diagnostics
		}
		body, _ := file.Body.(*hclsyntax.Body)
		for _, b := range body.Blocks {
			if b.Type != "variable" {
				continue
			}
			for _, v := range b.Body.Blocks {
				seen++
				attribute := v.Body.Attributes["error_message"]
				message := string(hcl.Range.SliceBytes(attribute.Expr.Range(), file.Bytes))
				if !slices.Contains(strings.FieldsFunc(message, func(r rune) bool {
					return !strings.ContainsRune("abcdefghijklmnopqrstuvwxyz_", r)
				}), b.Labels[0]) {
					t.Errorf("%s: the message of %s is %s", path, b.Labels[0], message)
				}
			}
		}
		return nil
	})
	if err != nil || seen == 0 {
		t.Error(seen, err)
	}
}
