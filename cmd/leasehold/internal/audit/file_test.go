package audit

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// TestReadNewest: of a file and those that it was rotated to the newest are read, as many bytes as asked for, in whole
// lines.
func TestReadNewest(t *testing.T) {
	t.Parallel()
	name := filepath.Join(t.TempDir(), "audit.jsonl")
	events := acquired(40)
	part := func(from int) (b []byte) { // ten events
		for _, e := range events[from : from+10] {
			e.Schema, e.Kind, e.Key, e.Tenant = 1, Lock, "k", "t"
			line, err := json.Marshal(map[string]any{"msg": "audit", "audit": e})
			if err != nil {
				t.Fatal(err)
			}
			b = append(append(b, line...), '\n')
		}
		return b
	}
	var zipped bytes.Buffer
	z := gzip.NewWriter(&zipped)
	if _, err := z.Write(part(0)); err != nil || z.Close() != nil {
		t.Fatal(err)
	}
	size := int64(len(part(30)))
	for i, f := range []struct {
		suffix string
		bytes  []byte
	}{{"-20260101.gz", zipped.Bytes()}, {".2", part(10)}, {".1", part(20)}, {"", part(30)}, {".swp", []byte("x\n")}} {
		if err := os.WriteFile(name+f.suffix, f.bytes, 0o600); err != nil {
			t.Fatal(err)
		}
		at := time.Date(2026, 1, 1, i, 0, 0, 0, time.UTC)
		if err := os.Chtimes(name+f.suffix, at, at); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		most        int64
		first, many int
	}{
		{size * 10, 0, 40},
		{size*3 + int64(len(part(0))) - 1, 10, 30}, // the compressed one is read whole or not at all, by what it has
		{size * 2, 20, 20},
		{size*2 - 1, 21, 19}, // no part of a line
		{size, 30, 10},
		{1, 40, 0},
		{0, 40, 0},
	} {
		l := Log{About: Thing{Kind: Lock, Tenant: "t", Key: "k"}}
		if err := l.ReadNewest(t.Context(), name, c.most); err != nil {
			t.Fatal(err)
		}
		ids := map[string]bool{}
		for _, e := range l.Events {
			ids[e.ID] = true
		}
		if len(ids) != c.many || l.BrokenLines != 0 || c.many > 0 && !ids[fmt.Sprint("a", c.first)] {
			t.Errorf("%d bytes: %d events, want %d from %d; broken %v", c.most, len(ids), c.many, c.first, l.Broken)
		}
	}
	link := filepath.Join(t.TempDir(), "audit")
	if err := os.Symlink(name, link); err == nil { // Windows may not allow it
		l := Log{About: Thing{Kind: Lock, Tenant: "t", Key: "k"}}
		if err := l.ReadNewest(t.Context(), link, size*10); err != nil || len(l.Events) != 40 {
			t.Errorf("by a link: %d events, %v", len(l.Events), err)
		}
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if err := (&Log{}).ReadNewest(ended, name, size); !errors.Is(err, context.Canceled) {
		t.Errorf("of a request that has ended: %v", err)
	}
	if err := (&Log{}).ReadNewest(t.Context(), filepath.Join(t.TempDir(), "none", "a"), size); err == nil {
		t.Error("no folder: no error")
	}
}

// TestReadWhileRotated: a file that is another one than was listed, or shorter, may have lost its newest events to one
// that is not in the list: so the list is made anew.
func TestReadWhileRotated(t *testing.T) {
	t.Parallel()
	name := filepath.Join(t.TempDir(), "audit.jsonl")
	put := func(text string) {
		t.Helper()
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	read := func(files []fs.FileInfo) error {
		return (&Log{}).readFiles(t.Context(), filepath.Dir(name), files, 1<<20)
	}
	listed := func() []fs.FileInfo {
		t.Helper()
		files, err := rotated(name)
		if err != nil || read(files) != nil {
			t.Fatal(err)
		}
		return files
	}
	put("{}\n")
	files := listed()
	if err := os.Rename(name, name+"-20260101"); err != nil {
		t.Fatal(err)
	}
	if err := read(files); !errors.Is(err, errRotated) {
		t.Errorf("renamed: %v", err)
	}
	put("{}\n{}\n")
	if err := read(files); !errors.Is(err, errRotated) {
		t.Errorf("renamed, and made anew: %v", err)
	}
	files = listed()
	if err := os.Truncate(name, 0); err != nil {
		t.Fatal(err)
	}
	if err := read(files); !errors.Is(err, errRotated) {
		t.Errorf("truncated: %v", err)
	}
}

// TestReadHalfOfAFile: a compressed file that is written just now is left out, and counted.
func TestReadHalfOfAFile(t *testing.T) {
	t.Parallel()
	name := filepath.Join(t.TempDir(), "audit.jsonl")
	if err := os.WriteFile(name+".1.gz", []byte{0x1f, 0x8b, 8, 0}, 0o600); err != nil {
		t.Fatal(err)
	}
	var l Log
	if err := l.ReadNewest(t.Context(), name, 1<<20); err != nil || l.BrokenLines != 1 {
		t.Errorf("%d broken, %v", l.BrokenLines, err)
	}
}
