//go:build unix

package main

import (
	"bytes"
	"io"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/leasehold-dev/leasehold/functions/settings"
)

// TestBesideARunningServer: a server does not start on a database that another one serves, and says which, unless it is
// told that it may; then it says so, too. When the others have ended, whichever was the last, it starts again.
func TestBesideARunningServer(t *testing.T) {
	t.Parallel()
	var lines bytes.Buffer
	log := slog.New(slog.NewTextHandler(&lines, nil))
	alone := &settings.Config{Store: "sqlite", Data: t.TempDir()}
	told := &settings.Config{Store: "sqlite", Data: alone.Data, Beside: true}
	open := func(c *settings.Config) func() {
		t.Helper()
		end, err := besideNone(c, log)
		if err != nil {
			t.Fatal(err)
		}
		return func() {
			if err := end(); err != nil {
				t.Error(err)
			}
		}
	}
	refused := func() {
		t.Helper()
		_, err := besideNone(alone, log)
		if err == nil || !strings.Contains(err.Error(), "another server runs on "+alone.Data) ||
			!strings.Contains(err.Error(), "process "+strconv.Itoa(os.Getpid())) ||
			!strings.Contains(err.Error(), "LEASEHOLD_BESIDE") && !strings.Contains(err.Error(), "--beside") {
			t.Errorf("it started beside another one, or says %v", err)
		}
	}
	first := open(alone)
	if lines.Len() > 0 {
		t.Errorf("the first one warns: %s", &lines)
	}
	refused()
	second := open(told)
	if !strings.Contains(lines.String(), "another server runs on the same database") {
		t.Errorf("it does not say that it is beside another one: %s", &lines)
	}
	first()
	refused()
	second()
	open(alone)()
	open(&settings.Config{Store: "memory"})()
}

// TestServeBesideARunningServer: as a command.
func TestServeBesideARunningServer(t *testing.T) {
	t.Parallel()
	c := &settings.Config{Store: "sqlite", Data: t.TempDir()}
	end, err := besideNone(c, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = end() }()
	var errs bytes.Buffer
	code := run(t.Context(), []string{"serve", "--listen", "127.0.0.1:0", "--data", c.Data}, io.Discard, &errs)
	if code == exitOK || !strings.Contains(errs.String(), "or set --beside if both are to share it") {
		t.Errorf("exit code %d: %s", code, &errs)
	}
}
