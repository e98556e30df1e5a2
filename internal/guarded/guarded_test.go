//go:build unix

package guarded_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/leasehold-dev/leasehold/internal/guarded"
)

// TestCheck: who can change the file, or put another in its place, is refused; who can only read it is told of.
func TestCheck(t *testing.T) {
	t.Parallel()
	const refused, warned = "refused", "warned"
	for _, c := range []struct {
		name         string
		folder, file os.FileMode // 0: there is none
		want         []string    // what is found, and what of the text
	}{
		{"its owner's", 0o755, 0o600, nil},
		{"its group's", 0o775, 0o660, nil},
		{"everyone reads", 0o755, 0o644, []string{warned + " can read it: it has mode 0644"}},
		{"everyone writes", 0o755, 0o602, []string{refused + " can change it: it has mode 0602"}},
		{"everyone does both", 0o755, 0o666, []string{refused + " can change it: it has mode 0666",
			warned + " can read it: it has mode 0666"}},
		{"a folder of everyone", 0o777, 0o600, []string{refused + " can put another file in its place: "}},
		{"a folder of everyone, each for itself", 0o777 | os.ModeSticky, 0o600, nil},
		{"no file yet", 0o755, 0, nil},
		{"no file yet, in a folder of everyone", 0o777, 0, []string{refused + " can put another file"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			folder := filepath.Join(t.TempDir(), "f")
			path := filepath.Join(folder, "tokens")
			if err := os.Mkdir(folder, 0o700); err != nil {
				t.Fatal(err)
			}
			if c.file != 0 {
				if err := os.WriteFile(path, []byte("x"), 0o600); err != nil {
					t.Fatal(err)
				}
				if err := os.Chmod(path, c.file); err != nil {
					t.Fatal(err)
				}
			}
			if err := os.Chmod(folder, c.folder); err != nil {
				t.Fatal(err)
			}
			check(t, path, c.want)
			// A link is as good as what it leads to.
			link := filepath.Join(t.TempDir(), "link")
			if err := os.Symlink(path, link); err != nil {
				t.Fatal(err)
			}
			if c.file != 0 {
				check(t, link, c.want)
			}
		})
	}
}

func check(t *testing.T, path string, want []string) {
	t.Helper()
	found, err := guarded.Check(path)
	if err != nil || len(found) != len(want) {
		t.Fatalf("%+v, %v, want %q", found, err, want)
	}
	for i, f := range found {
		got := map[bool]string{true: "refused", false: "warned"}[f.Refuse]
		kind, text, _ := strings.Cut(want[i], " ")
		if got != kind || !strings.Contains(f.Text, text) || !strings.HasPrefix(f.Fix, "chmod o-") {
			t.Errorf("%+v, want %q", f, want[i])
		}
	}
}

// TestStrangers: a file of another user is told of, unless that is root.
func TestStrangers(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root gives files to others")
	}
	path := filepath.Join(t.TempDir(), "tokens")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(path, 4711, 0); err != nil {
		t.Fatal(err)
	}
	found, err := guarded.Check(path)
	if err != nil || len(found) != 1 || found[0].Refuse || !strings.Contains(found[0].Text, fmt.Sprint("belongs to user ", 4711)) {
		t.Errorf("%+v, %v", found, err)
	}
}

// TestNoFile: what is no file is not looked at: a pipe of a shell has its own access.
func TestNoFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(path, 0o666); err != nil {
		t.Fatal(err)
	}
	check(t, path, nil)
	check(t, filepath.Join(t.TempDir(), "none", "tokens"), nil)
}
