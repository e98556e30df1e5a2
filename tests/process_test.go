package tests

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
)

// binary builds the command once for all tests of this package.
var binary = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "leasehold-test-")
	if err != nil {
		return "", err
	}
	cleanups = append(cleanups, func() { _ = os.RemoveAll(dir) })
	path := filepath.Join(dir, "leasehold")
	if runtime.GOOS == "windows" {
		path += ".exe"
	}
	out, err := exec.CommandContext(context.Background(), "go", "build", "-o", path, "../cmd/leasehold").CombinedOutput()
	if err != nil {
		return "", &buildError{out, err}
	}
	return path, nil
})

type buildError struct {
	output []byte
	err    error
}

func (e *buildError) Error() string { return e.err.Error() + "\n" + string(e.output) }

// cleanups run when all tests have ended.
var cleanups []func()

// children are what this binary does when a test starts it as a process of its own, by the value of childVariable.
var children = map[string]func() int{}

const childVariable = "LEASEHOLD_TEST_CHILD"

func TestMain(m *testing.M) {
	if child, ok := children[os.Getenv(childVariable)]; ok {
		os.Exit(child())
	}
	code := m.Run()
	for _, f := range cleanups {
		f()
	}
	os.Exit(code)
}

// process is a running server.
type process struct {
	cmd    *exec.Cmd
	url    string // or address: what it said that it listens on
	stderr bytes.Buffer
	ended  chan error
}

// start runs `leasehold serve` with the arguments and waits until it says that it listens.
func start(t *testing.T, args ...string) *process {
	t.Helper()
	return launch(t, nil, append([]string{"serve", "--listen", "127.0.0.1:0"}, args...)...)
}

// launch runs the command and waits until it says that it listens.
func launch(t *testing.T, env []string, args ...string) *process {
	t.Helper()
	path, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	p := &process{cmd: exec.Command(path, args...), ended: make(chan error, 1)}
	p.cmd.Env = append(environment(), env...)
	p.cmd.Stderr = &p.stderr
	stdout, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(stdout)
	listening := lines.Scan()
	first := lines.Text()
	go func() {
		for lines.Scan() { // until the process closes its end, so that it never waits for a reader
		}
		p.ended <- p.cmd.Wait()
	}()
	t.Cleanup(func() { _ = p.cmd.Process.Kill() })
	url, ok := strings.CutPrefix(first, "listening on ")
	if !listening || !ok {
		<-p.ended
		t.Fatalf("the server said %q\n%s", first, p.stderr.Bytes())
	}
	p.url = url
	return p
}

// kill ends the process as a power cut would, and waits until it is gone.
func (p *process) kill(t *testing.T) {
	t.Helper()
	if err := p.cmd.Process.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	<-p.ended
}

// environment is that of this process without what could lead the command to another store.
func environment() []string {
	var env []string
	for _, kv := range os.Environ() {
		if !strings.HasPrefix(kv, "LEASEHOLD_") && !strings.HasPrefix(kv, "AWS_") && !strings.HasPrefix(kv, "GOOGLE_") &&
			!strings.HasPrefix(kv, "FIRESTORE_") {
			env = append(env, kv)
		}
	}
	return env
}

// processState is the state of a process by its letter, as ps has it: T is stopped, Z has ended and nobody has noticed. Empty
// if there is none. Linux says it without ps, which not every machine has.
func processState(t *testing.T, pid int) string {
	t.Helper()
	if runtime.GOOS == "linux" {
		stat, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ESRCH) {
			return ""
		}
		_, rest, ok := bytes.Cut(stat, []byte(") ")) // the name before it may have anything in it but this
		if err != nil || !ok || len(rest) == 0 {
			t.Fatalf("the state of process %d: %v, %q", pid, err, stat)
		}
		return string(rest[:1])
	}
	out, err := exec.CommandContext(t.Context(), "ps", "-o", "state=", "-p", strconv.Itoa(pid)).Output()
	if _, ended := errors.AsType[*exec.ExitError](err); ended {
		return ""
	}
	state := strings.TrimSpace(string(out))
	if err != nil || state == "" {
		t.Fatalf("the state of process %d: %v, %q", pid, err, out)
	}
	return state[:1]
}
