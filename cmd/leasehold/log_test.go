package main

import (
	"bytes"
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/leasehold-dev/leasehold/functions/settings"
)

// TestAuditFile: events are appended to a file that its owner alone may read, whatever the level of the log; those that
// it does not take are in the log.
func TestAuditFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.jsonl")
	for range 2 {
		var log bytes.Buffer
		l, err := openLogs(&settings.Config{Log: "json", LogLevel: "none", AuditLog: path}, &streams{err: &log})
		if err != nil {
			t.Fatal(err)
		}
		l.log.Error("a line")
		l.audit.Info("audit", "a", "b")
		if err := l.close(); err != nil || log.Len() != 0 {
			t.Errorf("%v, and the log says %s", err, log.String())
		}
		// Closed, the file takes nothing.
		l.audit.Info("audit", "a", "late")
		lines := strings.Split(strings.TrimSpace(log.String()), "\n")
		if len(lines) != 2 || !strings.Contains(lines[0], `"level":"ERROR"`) ||
			!strings.Contains(lines[1], `"msg":"audit","a":"late"`) {
			t.Errorf("the log says %s", log.String())
		}
	}
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	events := strings.Split(strings.TrimSpace(string(b)), "\n")
	if len(events) != 2 {
		t.Fatalf("the file has %s", b)
	}
	for _, e := range events {
		var l map[string]any
		if err := json.Unmarshal([]byte(e), &l); err != nil || l["msg"] != "audit" || l["a"] != "b" {
			t.Errorf("%v in %s", err, e)
		}
	}
	if info, err := os.Stat(path); err != nil || runtime.GOOS != "windows" && info.Mode() != fs.FileMode(0o600) {
		t.Errorf("the file is %v, %v", info.Mode(), err)
	}
	if _, err := openLogs(&settings.Config{AuditLog: t.TempDir()}, &streams{err: &bytes.Buffer{}}); err == nil ||
		!strings.Contains(err.Error(), "--audit-log") &&
			!strings.Contains(err.Error(), "LEASEHOLD_AUDIT_LOG") {
		t.Errorf("a folder: %v", err)
	}
}
