//go:build unix

package reread_test

import (
	"errors"
	"os"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leasehold-dev/leasehold/internal/reread"
)

// put replaces a file whole, as what renews tokens does.
func put(t *testing.T, path, text string) {
	t.Helper()
	if err := errors.Join(os.WriteFile(path+".new", []byte(text), 0o600), os.Rename(path+".new", path)); err != nil {
		t.Fatal(err)
	}
}

// TestToken: a token is read again when its file was replaced, at most each quarter of a second, and at once when it
// was rejected. What is empty or missing for a moment leaves the one of before.
func TestToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "token")
		if _, err := reread.Token(path); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("no file: %v", err)
		}
		put(t, path, " \n")
		if _, err := reread.Token(path); !errors.Is(err, reread.EmptyError(path)) {
			t.Errorf("an empty file: %v", err)
		}
		put(t, path, "one\n")
		f, err := reread.Token(path)
		if err != nil {
			t.Fatal(err)
		}
		step := func(when, want string) {
			t.Helper()
			if got := f.Latest(); got != want {
				t.Errorf("%s: %q, want %q", when, got, want)
			}
		}
		step("at once", "one")
		put(t, path, "two")
		step("before it looks again", "one")
		time.Sleep(250 * time.Millisecond)
		step("after a quarter of a second", "two")
		put(t, path, "")
		time.Sleep(time.Second)
		step("empty", "two")
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		step("missing", "two")
		put(t, path, "three")
		if got := f.Again(); got != "three" {
			t.Errorf("rejected: %q", got)
		}
		info, err := os.Stat(path)
		if err == nil {
			err = errors.Join(os.WriteFile(path, []byte("THREE"), 0o600), os.Chtimes(path, info.ModTime(), info.ModTime()))
		}
		if err != nil {
			t.Fatal(err)
		}
		if got := f.Again(); got != "THREE" {
			t.Errorf("rejected again, and its file seems the same: %q", got)
		}
	})
}

// TestPipe: what is a pipe is not waited for when it is to be read again.
func TestPipe(t *testing.T) {
	path := filepath.Join(t.TempDir(), "token")
	put(t, path, "one")
	f, err := reread.Token(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.Remove(path), syscall.Mkfifo(path, 0o600)); err != nil {
		t.Fatal(err)
	}
	if got := f.Again(); got != "one" {
		t.Errorf("%q", got)
	}
	put(t, path, "two")
	if got := f.Again(); got != "two" {
		t.Errorf("a file again: %q", got)
	}
}

// TestHang: a file system that does not answer delays those who ask as long as one look may take, and no others for as
// long again; each look that does not end says so once. When it answers, what it says counts.
func TestHang(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "token")
		put(t, path, "one")
		answers, silent := make(chan struct{}), atomic.Int32{}
		f := &reread.File[string]{Paths: []string{path}, Every: time.Second,
			Read:   func() (string, error) { b, err := os.ReadFile(path); return string(b), err },
			Silent: func() { silent.Add(1) }}
		if err := f.Open(); err != nil {
			t.Fatal(err)
		}
		stat := f.Stat
		f.Stat = func(path string) (os.FileInfo, error) { <-answers; return stat(path) }
		put(t, path, "two")
		time.Sleep(time.Second)
		for i, ask := range []func() string{f.Latest, f.Latest, f.Again} {
			begin := time.Now()
			if got := ask(); got != "one" {
				t.Errorf("%q", got)
			}
			if took := time.Since(begin); took > time.Second || i > 0 && took > 0 {
				t.Errorf("the caller %d waited for %v", i, took)
			}
		}
		if n := silent.Load(); n != 1 {
			t.Errorf("%d times it was said that it hangs", n)
		}
		close(answers)
		synctest.Wait()
		if got := f.Latest(); got != "two" {
			t.Errorf("once it answers: %q", got)
		}
	})
}

// TestFailures: a failure is told once for each change, and what could not be read is read again though its file has
// not changed.
func TestFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "token")
		put(t, path, "one")
		var wrong error
		failed, changed := 0, 0
		f := &reread.File[string]{Paths: []string{path}, Every: time.Second,
			Read:    func() (string, error) { b, err := os.ReadFile(path); return string(b), errors.Join(err, wrong) },
			Changed: func(string, string) { changed++ }, Failed: func(error) { failed++ }}
		if err := f.Open(); err != nil {
			t.Fatal(err)
		}
		wrong = errors.New("no more files")
		put(t, path, "two")
		for range 3 {
			time.Sleep(time.Second)
			if got := f.Latest(); got != "one" {
				t.Errorf("%q", got)
			}
		}
		wrong = nil
		time.Sleep(time.Second)
		if got := f.Latest(); got != "two" || failed != 1 || changed != 1 {
			t.Errorf("%q, %d failures, %d changes", got, failed, changed)
		}
	})
}
