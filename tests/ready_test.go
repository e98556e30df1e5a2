package tests

import (
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestReadyOnAFullDisk: a server whose disk is full says so on /readyz, keeps reading, and is ready again when there is
// space.
func TestReadyOnAFullDisk(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if out, err := exec.Command("mount", "-t", "tmpfs", "-o", "size=4m", "none", dir).CombinedOutput(); err != nil {
		t.Skipf("a disk that is full needs `mount -t tmpfs`, as root on Linux: %v %s", err, out)
	}
	t.Cleanup(func() { _ = exec.Command("umount", "-l", dir).Run() })
	p := start(t, "--data", dir)
	ready := func(status int, says string) {
		t.Helper()
		for end := time.Now().Add(30 * time.Second); ; time.Sleep(200 * time.Millisecond) {
			got, body := call(t, http.MethodGet, p.url+"/readyz", "", "")
			if got == status && strings.Contains(body, says) {
				return
			}
			if time.Now().After(end) {
				t.Fatalf("readyz: %d %s, want %d %q\n%s", got, body, status, says, p.stderr.Bytes())
			}
		}
	}
	ready(http.StatusOK, "ok")
	filler := filepath.Join(dir, "filler")
	if err := os.WriteFile(filler, make([]byte, 8<<20), 0o600); err == nil {
		t.Fatal("the disk is not full")
	}
	ready(http.StatusServiceUnavailable, "the store is full")
	if status, body := call(t, http.MethodGet, p.url+"/v1/tenants/acme/locks", "", ""); status != http.StatusOK {
		t.Errorf("reading on a full disk: %d %s", status, body)
	}
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	ready(http.StatusOK, "ok")
}
