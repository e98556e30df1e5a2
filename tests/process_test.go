package tests

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/leasehold-dev/leasehold/proof/suite"
)

// built is a command of this module that was built for the tests.
type built struct {
	once sync.Once
	path string
	err  error
}

var (
	builds   sync.Map // of *built, by package and flags
	binaries string   // the folder that they are in
)

// build builds a command of this module, once for all tests of this package.
func build(t *testing.T, pkg string, flags ...string) string {
	t.Helper()
	command := strings.Join(append(flags, module+pkg), " ")
	entry, _ := builds.LoadOrStore(command, &built{})
	b := entry.(*built)
	b.once.Do(func() {
		dir, err := os.MkdirTemp(binaries, "") //nolint:usetesting // it outlives the test that asks first
		if err != nil {
			b.err = err
			return
		}
		b.path = filepath.Join(dir, filepath.Base(pkg))
		if runtime.GOOS == "windows" {
			b.path += ".exe"
		}
		// Without the tables of debuggers, which no test reads; in a deep run without cgo, as it is deployed: then nothing
		// that the tests are built of can be used again.
		c := exec.CommandContext(context.Background(), "go",
			append(append([]string{"build", "-ldflags=-s -w", "-o", b.path}, flags...), module+pkg)...)
		c.Env = append(c.Environ(), suite.AtDepth([]string(nil), []string{"CGO_ENABLED=0"})...)
		if out, err := c.CombinedOutput(); err != nil {
			b.err = fmt.Errorf("go build %s: %w\n%s", command, err, out)
		}
	})
	if b.err != nil {
		t.Fatal(b.err)
	}
	return b.path
}

// binary is the path of the command line.
func binary(t *testing.T) string {
	t.Helper()
	return build(t, "cmd/leasehold")
}

// failAfter is how long a test waits for what must happen. It only matters to a test that fails.
const failAfter = 5 * time.Minute

// ports are below those that systems choose for themselves, so that no other program and no other test takes one that
// was free.
var ports atomic.Int32

// freePort returns a port of 127.0.0.1 on which no program listens, for programs that must be told one.
func freePort(t *testing.T) int {
	t.Helper()
	for range 1000 {
		port := 20_000 + (os.Getpid()+int(ports.Add(1)))%10_000
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err != nil {
			continue
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		return port
	}
	t.Fatal("no free port")
	return 0
}

// seedOf is the seed of a test's random choices: another one in each run, unless the environment names one to repeat a
// run. The test's output says which.
func seedOf(t *testing.T, variable string) uint64 {
	t.Helper()
	seed := rand.Uint64()
	if s := os.Getenv(variable); s != "" {
		var err error
		if seed, err = strconv.ParseUint(s, 10, 64); err != nil {
			t.Fatalf("%s: %v", variable, err)
		}
	}
	t.Logf("%s=%d", variable, seed)
	return seed
}

// children are what this binary does when a test starts it as a process of its own, by the value of childVariable.
var children = map[string]func() int{}

const childVariable = "LEASEHOLD_TEST_CHILD"

// childCommand is this binary as the child of a name, killed when ctx ends.
func childCommand(ctx context.Context, name string, env ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, os.Args[0])
	cmd.Env = append(append(environment(), env...), childVariable+"="+name)
	return cmd
}

func TestMain(m *testing.M) {
	if child, ok := children[os.Getenv(childVariable)]; ok {
		os.Exit(child())
	}
	os.Exit(runTests(m))
}

func runTests(m *testing.M) int {
	// A connection for each request. A server closes one that was kept and not used, and a POST that is sent on it at that
	// moment ends with EOF.
	http.DefaultClient = anew()
	var err error
	if binaries, err = os.MkdirTemp("", "leasehold-test-"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = os.RemoveAll(binaries) }()
	// A signal that this process ignores, as under nohup, its children ignore, too; one that it takes, they do not.
	for _, s := range []os.Signal{os.Interrupt, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT} {
		if signal.Ignored(s) {
			signal.Notify(make(chan os.Signal, 1), s)
		}
	}
	return m.Run()
}

// anew is a client that makes a connection for each request.
func anew() *http.Client { return &http.Client{Transport: &http.Transport{DisableKeepAlives: true}} }

// process is a running server.
type process struct {
	cmd    *exec.Cmd
	url    string // or address: what it said that it listens on
	stderr bytes.Buffer
	ended  chan error
}

// unhurried is the context of calls of clients that are judged by what they do: without a deadline of its caller's a call
// ends after seconds, for which a machine that others use can stand still.
func unhurried(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
	t.Cleanup(cancel)
	return ctx
}

// start runs `leasehold serve` with the arguments and waits until it says that it listens.
func start(t *testing.T, args ...string) *process {
	t.Helper()
	return serve(t, nil, args...)
}

// serve is start with an environment.
func serve(t *testing.T, env []string, args ...string) *process {
	t.Helper()
	return launch(t, env, append([]string{"serve", "--listen", "127.0.0.1:0"}, args...)...)
}

// patient is a setting with which a server's requests, and the opening of its store, may take as long as a test waits.
// An emulator in this process has its turn beside all tests that run at once, and an opening is two dozen requests to
// it, one after the other; a busy machine's disk can take longer than the usual limit.
var patient = "LEASEHOLD_REQUEST_TIMEOUT=" + failAfter.String()

// besides lets several servers of a test share a database.
const besides = "LEASEHOLD_BESIDE=true"

// launch runs the command, which is [patient], and waits until it says that it listens.
func launch(t *testing.T, env []string, args ...string) *process {
	t.Helper()
	return launchOf(t, binary(t), env, args...)
}

// launchOf is launch of another program, or of another version of the command.
func launchOf(t *testing.T, program string, env []string, args ...string) *process {
	t.Helper()
	p := &process{cmd: exec.Command(program, args...), ended: make(chan error, 1)}
	p.cmd.Env = append(append(environment(), patient), env...)
	if on := strings.Join(append(slices.Clone(env), args...), " "); !strings.Contains(on, "--store") &&
		!strings.Contains(on, "LEASEHOLD_STORE=") || strings.Contains(on, "sqlite") {
		p.cmd.Env = append(p.cmd.Env, besides)
	}
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
		for lines.Scan() { // until the process closes its standard output, so that it never blocks on it
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

// program writes a file that is going to be run. No process may be begun meanwhile: it would have the file open for a
// moment, and what is open for writing cannot be run.
func program(t *testing.T, path, text string) {
	t.Helper()
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	if err := os.WriteFile(path, []byte(text), 0o700); err != nil {
		t.Fatal(err)
	}
}

// awaited waits until something is so.
func awaited(t *testing.T, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(failAfter); !is(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("not in time: ", what)
		}
	}
}

// childProcess starts this binary as the child of a name. It ends with ctx, and may read its standard input to end with
// this process. done returns when it has ended, and reports what it complained of.
func childProcess(ctx context.Context, t *testing.T, name string, env ...string) (cmd *exec.Cmd, done func()) {
	t.Helper()
	var stderr bytes.Buffer
	cmd = childCommand(ctx, name, env...)
	cmd.Stderr = &stderr
	stdin, err := cmd.StdinPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Error(err)
		return cmd, func() {}
	}
	return cmd, func() {
		_ = cmd.Wait()
		_ = stdin.Close()
		if stderr.Len() > 0 && ctx.Err() == nil {
			t.Errorf("%s: %v: %s", name, cmd.ProcessState, stderr.Bytes())
		}
	}
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

// processState is the state of a process as the letter of ps: T is stopped, Z has ended and was not reaped. Empty if
// there is no such process. Linux says it without ps, which not every machine has.
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
