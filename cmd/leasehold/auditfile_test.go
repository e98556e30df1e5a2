package main

import (
	"bytes"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// auditFileAt opens an audit file of tests, whose failures are in the log.
func auditFileAt(t *testing.T, path string, size int64, files int) (*auditFile, *bytes.Buffer) {
	t.Helper()
	var log bytes.Buffer
	f, err := openAuditFile(path, size, files, slog.New(slog.NewTextHandler(&log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.close() })
	return f, &log
}

// content is what a folder has: the events of each file.
func content(t *testing.T, folder string) map[string]string {
	t.Helper()
	entries, err := os.ReadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]string{}
	for _, e := range entries {
		b, err := os.ReadFile(filepath.Join(folder, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		found[e.Name()] = strings.ReplaceAll(string(b), "\n", "")
	}
	return found
}

func put(t *testing.T, f *auditFile, events ...string) {
	t.Helper()
	for _, e := range events {
		if _, err := f.Write([]byte(e + "\n")); err != nil {
			t.Fatal(err)
		}
	}
}

// TestAuditFileRotates: a full file becomes the first older one, and the oldest goes; at its size exactly it is not full
// yet. An event that is larger than a file is whole in one of its own. It goes on where a program before ended, and
// fewer files are kept from the first rotation on if so many are allowed.
func TestAuditFileRotates(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	path := filepath.Join(folder, "audit")
	f, log := auditFileAt(t, path, 4, 3)
	put(t, f, "a", "b")
	if got := fmt.Sprint(content(t, folder)); got != "map[audit:ab]" {
		t.Fatal(got)
	}
	put(t, f, "c", "d", "e", "f", "g")
	if got := fmt.Sprint(content(t, folder)); got != "map[audit:g audit.1:ef audit.2:cd]" {
		t.Fatal(got)
	}
	put(t, f, "larger", "h")
	if got := fmt.Sprint(content(t, folder)); got != "map[audit:h audit.1:larger audit.2:g]" {
		t.Fatal(got)
	}
	if err := f.close(); err != nil {
		t.Fatal(err)
	}
	f, _ = auditFileAt(t, path, 4, 2)
	put(t, f, "i")
	if got := fmt.Sprint(content(t, folder)); got != "map[audit:hi audit.1:larger audit.2:g]" {
		t.Fatal(got)
	}
	put(t, f, "j")
	if got := fmt.Sprint(content(t, folder)); got != "map[audit:j audit.1:hi]" {
		t.Fatal(got)
	}
	if err := f.close(); err != nil {
		t.Fatal(err)
	}
	f, _ = auditFileAt(t, path, 4, 1)
	put(t, f, "k", "l")
	if got := fmt.Sprint(content(t, folder)); got != "map[audit:l]" {
		t.Fatal(got)
	}
	if log.Len() > 0 {
		t.Error(log)
	}
}

// TestAuditFileRotatesAfterACrash: a program that ends between any two steps of a rotation has lost no event, and the
// next rotation loses none but the oldest.
func TestAuditFileRotatesAfterACrash(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		left map[string]string
		want string
	}{
		"after the first rename":  {map[string]string{"audit": "gh", "audit.1": "ef", "audit.3": "cd"}, "map[audit:x audit.1:gh audit.2:ef audit.3:cd]"},
		"after the second":        {map[string]string{"audit": "gh", "audit.2": "ef", "audit.3": "cd"}, "map[audit:x audit.1:gh audit.2:ef audit.3:cd]"},
		"before the new file":     {map[string]string{"audit.1": "gh", "audit.2": "ef", "audit.3": "cd"}, "map[audit:x audit.1:gh audit.2:ef audit.3:cd]"},
		"before the first rename": {map[string]string{"audit": "gh", "audit.1": "ef", "audit.2": "cd", "audit.3": "ab"}, "map[audit:x audit.1:gh audit.2:ef audit.3:cd]"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			folder := t.TempDir()
			for file, events := range c.left {
				text := strings.Join(strings.Split(events, ""), "\n") + "\n"
				if err := os.WriteFile(filepath.Join(folder, file), []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			f, _ := auditFileAt(t, filepath.Join(folder, "audit"), 4, 4)
			put(t, f, "x")
			if got := fmt.Sprint(content(t, folder)); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
}

// TestAuditFileIsRenamed: if something else renames or removes the file, events go on in a new one of the name when a
// second has passed, and what was renamed is not rotated away. No event is lost meanwhile, and each is whole.
func TestAuditFileIsRenamed(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	path := filepath.Join(folder, "audit")
	f, log := auditFileAt(t, path, 0, 1)
	const writers, events = 4, 500
	var running sync.WaitGroup
	for range writers {
		running.Go(func() {
			for range events {
				put(t, f, "event")
			}
		})
	}
	if err := os.Rename(path, path+".old"); err != nil {
		t.Skip("open files cannot be renamed here")
	}
	running.Wait()
	f.looked = time.Now().Add(-lookAtAuditFile)
	put(t, f, "last")
	found := content(t, folder)
	if n := strings.Count(found["audit"]+found["audit.old"], "event"); n != writers*events {
		t.Errorf("%d events, want %d", n, writers*events)
	}
	if !strings.HasSuffix(found["audit"], "last") || log.Len() > 0 {
		t.Errorf("%s; the log says %s", found["audit"], log)
	}
}

// TestAuditFileOfAnother: a file of the name that is another one than was opened is not rotated for the size of the
// first.
func TestAuditFileOfAnother(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	path := filepath.Join(folder, "audit")
	f, _ := auditFileAt(t, path, 4, 4)
	put(t, f, "a", "b")
	if err := os.Rename(path, path+"-2026"); err != nil {
		t.Skip("open files cannot be renamed here")
	}
	if err := os.WriteFile(path, []byte("z\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	put(t, f, "c")
	if got := fmt.Sprint(content(t, folder)); got != "map[audit:zc audit-2026:ab]" {
		t.Error(got)
	}
}

// TestAuditFileThatCannotRotate: it goes on beyond its size, says so, and does not try again with each event.
func TestAuditFileThatCannotRotate(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	path := filepath.Join(folder, "audit")
	f, log := auditFileAt(t, path, 4, 2)
	if err := os.MkdirAll(filepath.Join(path+".1", "in the way"), 0o700); err != nil {
		t.Fatal(err)
	}
	put(t, f, "a", "b", "c", "d")
	b, err := os.ReadFile(path)
	if err != nil || string(b) != "a\nb\nc\nd\n" {
		t.Errorf("%q, %v", b, err)
	}
	if n := strings.Count(log.String(), "cannot be rotated"); n != 1 {
		t.Errorf("the log says %s", log)
	}
}

// TestAuditFileWithAPartOfAnEvent: what follows a part of an event that the disk had room for can be read.
func TestAuditFileWithAPartOfAnEvent(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	f, _ := auditFileAt(t, filepath.Join(folder, "audit"), 0, 1)
	put(t, f, "a")
	if _, err := f.file.WriteString("half"); err != nil {
		t.Fatal(err)
	}
	f.torn = true
	put(t, f, "b", "c")
	b, err := os.ReadFile(f.path)
	if err != nil || !slices.Equal(strings.Fields(string(b)), []string{"a", "half", "b", "c"}) {
		t.Errorf("%q, %v", b, err)
	}
}
