package tests

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// words are not used in this field, or not in the sense in which they were once used here, each with what to write
// instead.
var words = map[string]string{
	`(thundering )?herd`: "many callers at once", `legible`: "readable", `astray`: "lost", `timely`: "in time",
	`somebody`: "another worker, a caller", `whoever`: "the caller that", `strangers?`: "other writers",
	`hears?`: "receives",
	`doors?`: "endpoint, handler", `steady clock`: "monotonic clock", `time is over`: "expired",
	`comes? to an end`:  "expires",
	`gives? (it )?back`: "releases", `given back`: "released", `gave back`: "released", `stands? for`: "means",
	`patien(t|ce|tly)`: "retry timeout", `verdicts?`: "result, status", `planted`: "injected, mutation",
	`(?-i:[Nn]obody)`: "no one, no caller, only", // http.NoBody is another word
}

// generated files have their language from their sources.
var generated = regexp.MustCompile(`\.gen\.go$|/testdata/|(^|/)node_modules/|package-lock\.json$`)

// sources calls f with each line of the tracked files that people read: code, pages, and the titles in conformance
// scripts.
func sources(t *testing.T, f func(path string, line int, text string)) {
	t.Helper()
	for _, path := range tracked(t, "*.go", "*.py", "*.ts", "*.mjs", "*.lua", "*.md", "*.yaml",
		"contracts/conformance/*.json") {
		if generated.MatchString(path) || path == "tests/language_test.go" {
			continue
		}
		content, err := os.ReadFile(filepath.Join("..", path))
		if os.IsNotExist(err) {
			continue // deleted and not committed
		} else if err != nil {
			t.Fatal(err)
		}
		n := 0
		for line := range strings.Lines(string(content)) {
			n++
			f(path, n, strings.TrimRight(line, "\n"))
		}
	}
}

// TestPlainWords: sources and pages use the words of the field.
func TestPlainWords(t *testing.T) {
	t.Parallel()
	all := make([]string, 0, len(words))
	for word := range words {
		all = append(all, word)
	}
	unusual := regexp.MustCompile(`(?i)\b(` + strings.Join(all, "|") + `)\b`)
	sources(t, func(path string, line int, text string) {
		for _, found := range unusual.FindAllString(text, -1) {
			for word, better := range words {
				if regexp.MustCompile(`(?i)^` + word + `$`).MatchString(found) {
					t.Errorf("%s:%d: %q: write %q", path, line, found, better)
				}
			}
		}
	})
}

// TestRequirementIDsStandInTestsOnly: readers of the code cannot look them up; docs/traceability.md connects
// the two.
func TestRequirementIDsStandInTestsOnly(t *testing.T) {
	t.Parallel()
	id := regexp.MustCompile(`\b(LS-[A-Z]+-[0-9]+|BE-041-[A-Z]+|(IDS|PLC|PRJ)-[A-Z]+)\b`)
	sources(t, func(path string, line int, text string) {
		if !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") ||
			strings.HasPrefix(path, "proof/suite/") {
			return
		}
		if found := id.FindString(text); found != "" {
			t.Errorf("%s:%d: %s: say the reason in words", path, line, found)
		}
	})
}
