//go:build unix

package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/leasehold-dev/leasehold/functions/tokenfile"
)

// TestGuardedFiles: a file of tokens that everyone can change gives no one rights: serve does not start with it, and
// doctor says so. One that everyone can read is told of by both.
func TestGuardedFiles(t *testing.T) {
	folder := t.TempDir()
	path := filepath.Join(folder, "tokens")
	err := tokenfile.Change(path, func(all []tokenfile.Token) ([]tokenfile.Token, error) {
		_, token, err := tokenfile.New(tokenfile.Token{Subject: "ann", Tenant: "acme"}, time.Now())
		return append(all, token), err
	})
	if err != nil {
		t.Fatal(err)
	}
	settings := []string{"--store", "memory", "--listen", "127.0.0.1:0", "--auth-tokens", path}
	for _, c := range []struct {
		name         string
		folder, file os.FileMode
		finding      string // of doctor
		refused      bool   // by serve
		says         string // in doctor's line, and in serve's error or log
	}{
		{"its owner's", 0o755, 0o600, "files ok", false, ""},
		{"everyone reads it", 0o755, 0o644, "files warn", false, "everyone on this machine can read it: it has mode 0644"},
		{"everyone writes it", 0o755, 0o622, "files fail", true, "everyone can change it: it has mode 0622"},
		{"everyone replaces it", 0o777, 0o600, "files fail", true, "everyone can put another file in its place: "},
	} {
		t.Run(c.name, func(t *testing.T) {
			for name, mode := range map[string]os.FileMode{folder: c.folder, path: c.file} {
				if err := os.Chmod(name, mode); err != nil {
					t.Fatal(err)
				}
			}
			code, found, said := examine(t, settings...)
			if f, ok := found[c.finding]; !ok || !strings.Contains(f.Detail, c.says) || (code != 0) != c.refused {
				t.Errorf("doctor: %d %+v %s", code, found, said)
			}
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			listens := &heard{text: "listening on", then: stop}
			var errs strings.Builder
			code = run(ctx, append([]string{"serve"}, settings...), listens, &errs)
			if refused := code == exitUsage; refused != c.refused || !strings.Contains(errs.String(), c.says) ||
				!refused && code != 0 || c.refused && !strings.Contains(errs.String(), "--auth-tokens") {
				t.Errorf("serve: %d %s", code, errs.String())
			}
		})
	}
}

// heard is an output that does something when it has a text.
type heard struct {
	text string
	then func()
}

func (h *heard) Write(b []byte) (int, error) {
	if strings.Contains(string(b), h.text) {
		h.then()
	}
	return len(b), nil
}
