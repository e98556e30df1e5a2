package tests

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// flaw is a line of testdata/flaws.md: | number | flaw | where it was seen | `package.Test`, `package.Test` |.
var (
	flaw     = regexp.MustCompile(`(?m)^\| ([0-9]+) \| ([^|]+) \| ([^|]+) \| ([^|]*) \|$`)
	flawTest = regexp.MustCompile("^`([a-z0-9/]+)\\.(Test[A-Za-z0-9]+)`$")
)

// TestFlaws: each flaw has a number, one after the other, and tests, which exist.
func TestFlaws(t *testing.T) {
	t.Parallel()
	table, err := os.ReadFile("testdata/flaws.md")
	if err != nil {
		t.Fatal(err)
	}
	sources := map[string][]byte{}
	lines := flaw.FindAllStringSubmatch(string(table), -1)
	if len(lines) == 0 {
		t.Error("the table has no flaws")
	}
	var seen []string
	for i, l := range lines {
		if l[1] != strconv.Itoa(i+1) {
			t.Errorf("number %s, want %d", l[1], i+1)
		}
		if slices.Contains(seen, l[2]) {
			t.Errorf("%s: twice", l[2])
		}
		seen = append(seen, l[2])
		for name := range strings.SplitSeq(l[4], ", ") {
			part := flawTest.FindStringSubmatch(name)
			if part == nil {
				t.Errorf("%s: %q is no test", l[1], name)
				continue
			}
			if sources[part[1]] == nil {
				files, err := filepath.Glob(filepath.Join("..", part[1], "*_test.go"))
				if err != nil {
					t.Fatal(err)
				}
				sources[part[1]] = []byte{}
				for _, f := range files {
					text, err := os.ReadFile(f)
					if err != nil {
						t.Fatal(err)
					}
					sources[part[1]] = append(sources[part[1]], text...)
				}
			}
			if !regexp.MustCompile(`(?m)^func ` + part[2] + `\(t \*testing\.T\)`).Match(sources[part[1]]) {
				t.Errorf("%s: there is no %s", l[1], name)
			}
		}
	}
}
