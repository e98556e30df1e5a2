package tests

import (
	"os"
	"os/exec"
	"path/filepath"
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
