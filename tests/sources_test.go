package tests

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestNoLargeFiles: the repository has sources only. What go build leaves behind is committed easily and stays in the history.
func TestNoLargeFiles(t *testing.T) {
	t.Parallel()
	list := exec.CommandContext(t.Context(), "git", "ls-files", "-z")
	list.Dir = ".."
	out, err := list.Output()
	if err != nil {
		t.Skip("the sources are not in a git repository: ", err)
	}
	const most = 512 << 10
	for path := range strings.SplitSeq(strings.TrimSuffix(string(out), "\x00"), "\x00") {
		info, err := os.Lstat(filepath.Join("..", path))
		if os.IsNotExist(err) {
			continue // deleted and not committed
		}
		if err != nil || info.Size() > most {
			t.Errorf("%s: %d bytes, %v; want %d at most", path, info.Size(), err, most)
		}
	}
}
