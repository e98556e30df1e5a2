package tests

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// tracked lists the files of the repository that match the patterns, all without one, by their paths from its root. A
// copy of the sources without git has no such list, and nothing that could be checked into it by mistake.
func tracked(t *testing.T, patterns ...string) []string {
	t.Helper()
	list := exec.CommandContext(t.Context(), "git", append([]string{"ls-files", "-z"}, patterns...)...)
	list.Dir = ".."
	out, err := list.Output()
	if err != nil {
		t.Skip("the sources are not in a git repository: ", err)
	}
	return strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00")
}

// generated files have their language from their sources.
var generated = regexp.MustCompile(`\.gen\.go$|/testdata/|(^|/)node_modules/|package-lock\.json$`)

// sources calls f with each line of the tracked files that people read: code, pages, and the titles in conformance
// scripts.
func sources(t *testing.T, f func(path string, line int, text string)) {
	t.Helper()
	for _, path := range tracked(t, "*.go", "*.py", "*.ts", "*.mjs", "*.lua", "*.md", "*.yaml",
		"contracts/conformance/*.json") {
		if generated.MatchString(path) {
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

// TestNoLargeFiles: the repository has sources only. What go build leaves behind is committed easily and stays in the
// history.
func TestNoLargeFiles(t *testing.T) {
	t.Parallel()
	const most = 512 << 10
	for _, path := range tracked(t) {
		info, err := os.Lstat(filepath.Join("..", path))
		if os.IsNotExist(err) {
			continue // deleted and not committed
		}
		if err != nil || info.Size() > most {
			t.Errorf("%s: %d bytes, %v; want %d at most", path, info.Size(), err, most)
		}
	}
}
