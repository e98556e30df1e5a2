//go:build unix

package main

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/leasehold-dev/leasehold/functions/settings"
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
	args := []string{"--store", "memory", "--listen", "127.0.0.1:0", "--auth-tokens", path}
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
			code, found, said := examine(t, args...)
			if f, ok := found[c.finding]; !ok || !strings.Contains(f.Detail, c.says) || (code != 0) != c.refused {
				t.Errorf("doctor: %d %+v %s", code, found, said)
			}
			var out, errs strings.Builder
			if c.refused {
				over, end := context.WithCancel(t.Context())
				end() // what starts all the same ends at once
				code := run(over, append([]string{"serve"}, args...), &out, &errs)
				if code != exitUsage || !strings.Contains(errs.String(), "--auth-tokens: "+path+": "+c.says) {
					t.Errorf("serve: %d %s", code, errs.String())
				}
				return
			}
			err := guardFiles(&settings.Config{Entry: settings.Serve, AuthTokens: path}, slog.New(slog.NewTextHandler(&errs, nil)))
			if err != nil || !strings.Contains(errs.String(), c.says) || (errs.Len() == 0) != (c.says == "") {
				t.Errorf("serve: %v %s", err, errs.String())
			}
		})
	}
}
