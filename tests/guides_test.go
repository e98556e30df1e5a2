package tests

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestNamesInGuides: the variables and outputs of Terraform that docs/guides/aws.md and docs/guides/gcp.md name in
// commands are those of the example that the commands apply, and every target of make that a page names is one.
func TestNamesInGuides(t *testing.T) {
	t.Parallel()
	names := func(pattern string, files ...string) map[string]bool {
		known := map[string]bool{}
		for _, glob := range files {
			paths, err := filepath.Glob(glob)
			if err != nil || len(paths) == 0 {
				t.Fatalf("%s: %v", glob, err)
			}
			for _, path := range paths {
				text, err := os.ReadFile(path)
				if err != nil {
					t.Fatal(err)
				}
				for _, m := range regexp.MustCompile(pattern).FindAllStringSubmatch(string(text), -1) {
					known[m[1]] = true
				}
			}
		}
		return known
	}
	targets := names(`(?m)^([a-z-]+):`, "../Makefile")
	for cloud, least := range map[string]int{"aws": 5, "gcp": 5} {
		example := "../infra/" + cloud + "/examples/minimal/*.tf"
		variables, outputs := names(`variable "([a-z_]+)"`, example), names(`output "([a-z_]+)"`, example)
		page, err := os.ReadFile("../docs/guides/" + cloud + ".md")
		if err != nil {
			t.Fatal(err)
		}
		named := 0
		for pattern, known := range map[string]map[string]bool{`-var '?([a-z_]+)=`: variables,
			`output -raw ([a-z_]+)`: outputs} {
			for _, m := range regexp.MustCompile(pattern).FindAllStringSubmatch(string(page), -1) {
				if named++; !known[m[1]] {
					t.Errorf("docs/guides/%s.md: the example has no %s", cloud, m[0])
				}
			}
		}
		if named < least {
			t.Errorf("docs/guides/%s.md: %d names", cloud, named)
		}
	}
	made := 0
	sources(t, func(path string, line int, text string) {
		if !strings.HasSuffix(path, ".md") || path == "CHANGELOG.md" {
			return
		}
		for _, m := range regexp.MustCompile("(?:^ *|`|&& )make ([a-z-]+)").FindAllStringSubmatch(text, -1) {
			if made++; !targets[m[1]] {
				t.Errorf("%s:%d: there is no target %s", path, line, m[1])
			}
		}
	})
	if made < 10 {
		t.Errorf("%d targets", made)
	}
}
