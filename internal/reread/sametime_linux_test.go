package reread_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/leasehold-dev/leasehold/internal/reread"
)

// TestSameTimeAndSize: a file that is written in place, with the time and size of the one before, as a copy that keeps
// times does it, is read again.
func TestSameTimeAndSize(t *testing.T) {
	t.Parallel()
	path, at := filepath.Join(t.TempDir(), "certificate"), time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(path, at, at); err != nil {
			t.Fatal(err)
		}
	}
	write("one")
	f := &reread.File[string]{Paths: []string{path}, Read: func() (string, error) {
		b, err := os.ReadFile(path)
		return string(b), err
	}}
	if err := f.Open(); err != nil {
		t.Fatal(err)
	}
	before, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	for {
		write("two")
		now, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if reread.ChangedAt(now) != reread.ChangedAt(before) {
			break // the clock of the file system has moved
		}
	}
	for f.Latest() != "two" { // each begins a look, or waits for it
		if t.Context().Err() != nil {
			t.Fatal("it was not read again")
		}
	}
}
