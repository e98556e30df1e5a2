package main

import (
	"bufio"
	"bytes"
	"encoding/pem"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
)

// TestImageRuns: the image's program runs as its user with nothing but what is in the image: no /proc, no /dev, no
// other library. It keeps data in /data and writes to nothing else, trusts the image's root certificates, answers its
// own health check, and stops at SIGTERM.
func TestImageRuns(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("another root folder and another user need root")
	}
	root := t.TempDir()
	unpackRoot(t, root, rootOf(t, runtime.GOARCH))
	for dir := root; dir != "/"; dir = filepath.Dir(dir) {
		info, err := os.Stat(dir)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(dir, info.Mode().Perm()|0o111); err != nil { // the user must reach it
			t.Fatal(err)
		}
		if dir == os.TempDir() || filepath.Dir(dir) == os.TempDir() {
			break
		}
	}
	// A container may be read-only but for its data.
	if err := os.Chmod(filepath.Join(root, "tmp"), 0o555); err != nil {
		t.Fatal(err)
	}
	inImage := func(args ...string) *exec.Cmd {
		c := exec.CommandContext(t.Context(), entrypoint[0], args...)
		c.Dir = "/"
		c.Env = append(append([]string{}, imageEnv...), "PORT=0")
		c.SysProcAttr = &syscall.SysProcAttr{Chroot: root, Credential: &syscall.Credential{Uid: user, Gid: user}}
		return c
	}

	server := inImage(command...)
	var log bytes.Buffer
	server.Stderr = &log
	stdout, err := server.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Process.Kill() })
	lines := bufio.NewScanner(stdout)
	if !lines.Scan() || !strings.HasPrefix(lines.Text(), "listening on http://127.0.0.1:") {
		_ = server.Wait()
		t.Fatalf("%q\n%s", lines.Text(), &log)
	}
	url := strings.TrimPrefix(lines.Text(), "listening on ")
	go func() { _, _ = io.Copy(io.Discard, stdout) }()
	r, err := http.Post(url+"/v1/tenants/default/locks/k/acquire", "application/json",
		strings.NewReader(`{"request_id":"r1","owner_id":"me","ttl_seconds":60}`))
	if err != nil {
		t.Fatal(err)
	}
	r.Body.Close()
	if r.StatusCode != http.StatusOK {
		t.Errorf("%s\n%s", r.Status, &log)
	}
	if out, err := inImage("health", "--server", url).CombinedOutput(); err != nil {
		t.Errorf("health: %v\n%s", err, out)
	}

	// A server whose certificate is among the image's root certificates is trusted, another one is not.
	secure := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer secure.Close()
	if out, err := inImage("health", "--server", secure.URL).CombinedOutput(); err == nil ||
		!strings.Contains(string(out), "certificate") {
		t.Errorf("health of a server that is not trusted: %v\n%s", err, out)
	}
	f, err := os.OpenFile(filepath.Join(root, rootsFile), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := pem.Encode(f, &pem.Block{Type: "CERTIFICATE", Bytes: secure.Certificate().Raw}); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if out, err := inImage("health", "--server", secure.URL).CombinedOutput(); err != nil {
		t.Errorf("health of a server that is trusted: %v\n%s", err, out)
	}

	if err := server.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := server.Wait(); err != nil {
		t.Errorf("stopped: %v\n%s", err, &log)
	}
	stored := 0
	err = filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		name, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		if owner := info.Sys().(*syscall.Stat_t).Uid; (owner == user) != (name == "data" ||
			strings.HasPrefix(name, "data/")) {
			t.Errorf("%s is of %d", name, owner)
		}
		if strings.HasPrefix(name, "data/leasehold/") {
			stored++
		}
		return nil
	})
	if err != nil || stored == 0 {
		t.Errorf("%d files in /data/leasehold, %v", stored, err)
	}
}

// unpackRoot writes the root of an image into a folder, as a container has it.
func unpackRoot(t *testing.T, dir string, root map[string]entry) {
	t.Helper()
	for _, folders := range []bool{true, false} {
		for name, e := range root {
			if e.folder == folders && folders {
				if err := os.MkdirAll(filepath.Join(dir, name), 0o755); err != nil {
					t.Fatal(err)
				}
			} else if e.folder == folders {
				if err := os.WriteFile(filepath.Join(dir, name), e.content, 0o600); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	for name, e := range root {
		path := filepath.Join(dir, name)
		mode := e.mode & fs.ModePerm
		if e.mode&0o1000 != 0 {
			mode |= fs.ModeSticky
		}
		if err := os.Lchown(path, e.uid, e.gid); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
	}
}
