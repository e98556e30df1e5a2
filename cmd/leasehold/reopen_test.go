//go:build unix

package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/leasehold-dev/leasehold/functions/settings"
)

// TestAuditFileIsRenamed: after SIGHUP events go on in a new file of the name. No event is lost meanwhile, and each is
// whole. It is not parallel: a signal is for the whole process.
func TestAuditFileIsRenamed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.jsonl")
	var log bytes.Buffer
	l, err := openLogs(&settings.Config{Log: "json", AuditLog: path}, &streams{err: &log})
	if err != nil {
		t.Fatal(err)
	}
	const writers, events = 4, 500
	var running sync.WaitGroup
	for range writers {
		running.Go(func() {
			for range events {
				l.audit.Info("audit", "a", "b")
			}
		})
	}
	if err := os.Rename(path, path+".1"); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(os.Getpid(), syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	more := 0 // events until one is in the new file
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		l.audit.Info("audit", "a", "b")
		more++
		if info, err := os.Stat(path); err == nil && info.Size() > 0 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("there is no new file")
		}
	}
	running.Wait()
	if err := l.close(); err != nil {
		t.Error(err)
	}
	before, err := os.ReadFile(path + ".1")
	if err != nil {
		t.Fatal(err)
	}
	after, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(before)+string(after)), "\n")
	if len(lines) != writers*events+more || log.Len() > 0 {
		t.Errorf("%d events, want %d; the log says %s", len(lines), writers*events+more, log.String())
	}
	for _, line := range lines {
		if !strings.HasPrefix(line, "{") || !strings.HasSuffix(line, "}") {
			t.Errorf("%q is none", line)
		}
	}
}
