//go:build unix

package tests

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/leasehold-dev/leasehold/functions/httpapi"
	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/lock"
)

// lockServer is a server in this process, whose network can be cut.
type lockServer struct {
	url   string
	locks *lock.Locks
	close func()
	hangs atomic.Bool // requests are not answered any more
}

func newLockServer(t *testing.T) *lockServer {
	t.Helper()
	return lockServerOn(t, docstore.NewMemory(nil))
}

func lockServerOn(t *testing.T, store docstore.Store) *lockServer {
	t.Helper()
	s := &lockServer{locks: lock.New(store, nil)}
	api := httpapi.New(store, httpapi.Development{}, nil)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if s.hangs.Load() {
			_, _ = io.Copy(io.Discard, r.Body) // only then the end of the connection is noticed
			<-r.Context().Done()
			return
		}
		api.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	s.url, s.close = server.URL, server.Close
	return s
}

// held reports whether a lock of the default tenant is held.
func (s *lockServer) held(t *testing.T, key string) bool {
	t.Helper()
	got, _, err := s.locks.Get(context.WithoutCancel(t.Context()), lock.ID{Tenant: "default", Key: key})
	if err != nil {
		t.Fatal(err)
	}
	return got.Phase == lock.Active
}

// take holds a lock as another.
func (s *lockServer) take(t *testing.T, key string) {
	t.Helper()
	o, err := s.locks.Acquire(t.Context(), lock.Acquire{ID: lock.ID{Tenant: "default", Key: key}, Owner: "ann",
		RequestID: "r-" + key, TTLSeconds: 3600})
	if err != nil || o.Code != lock.OK {
		t.Fatalf("%+v, %v", o, err)
	}
}

// free ends the lease of a lock.
func (s *lockServer) free(t *testing.T, key string) {
	t.Helper()
	o, err := s.locks.ForceRelease(t.Context(), lock.ForceRelease{ID: lock.ID{Tenant: "default", Key: key}, By: "root",
		RequestID: "f-" + key, Reason: "test"})
	if err != nil || o.Code != lock.OK {
		t.Fatalf("%+v, %v", o, err)
	}
}

// supervised is a command under a lock, as a process.
type supervised struct {
	server *lockServer
	cmd    *exec.Cmd
	lines  *bufio.Scanner // of its standard output, which ends when the command and all that it started have ended
	stderr *os.File
}

// supervise starts leasehold lock run with the arguments.
func (s *lockServer) supervise(t *testing.T, args ...string) *supervised {
	t.Helper()
	p := &supervised{server: s, cmd: exec.CommandContext(t.Context(), binary(t),
		append([]string{"lock", "run", "--server", s.url}, args...)...)}
	p.cmd.Env = environment()
	var err error
	if p.stderr, err = os.CreateTemp(t.TempDir(), "stderr"); err != nil {
		t.Fatal(err)
	}
	p.cmd.Stderr = p.stderr
	stdout, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.cmd.Process.Kill() })
	p.lines = bufio.NewScanner(stdout)
	return p
}

// says waits for a line on standard output.
func (p *supervised) says(t *testing.T, want string) {
	t.Helper()
	if !p.lines.Scan() || p.lines.Text() != want {
		t.Fatalf("the command said %q, want %q\n%s", p.lines.Text(), want, p.errors(t))
	}
}

// errors is what is on standard error so far.
func (p *supervised) errors(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(p.stderr.Name())
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// ends waits until the command and all that it started have ended, and returns what they said meanwhile, and the exit
// code.
func (p *supervised) ends(t *testing.T) (said []string, code int) {
	t.Helper()
	for p.lines.Scan() {
		said = append(said, p.lines.Text())
	}
	_ = p.cmd.Wait()
	return said, p.cmd.ProcessState.ExitCode()
}

func (p *supervised) signal(t *testing.T, s os.Signal) {
	t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		t.Fatal(err)
	}
}

// Commands that run until they are ended. What they start has their standard output, so that it ends with the last of
// them.
const (
	obedient = `trap 'echo asked; exit 3' TERM; echo ready; while :; do sleep 0.05; done`
	stubborn = `trap '' TERM; sh -c 'trap "" TERM; while :; do sleep 0.05; done' & echo ready; while :; do sleep 0.05; done`
)

// TestLockRun walks through `leasehold lock run` with its exit codes, as a script would.
func TestLockRun(t *testing.T) {
	t.Parallel()
	s := newLockServer(t)
	s.take(t, "held")
	env := []string{"LEASEHOLD_SERVER=" + s.url, "LEASEHOLD_OWNER=ci-42", "LEASEHOLD_AUTH_TOKEN=secret"}
	data := filepath.Join(t.TempDir(), "data")
	program(t, data, "no program\n")
	const isHeld = `LOCK_HELD: lock is held (by ann, until TIME unless it renews) (tenant default)`
	for _, c := range []struct {
		args           string // as for a shell
		code           int
		stdout, stderr string // "…" means any text
	}{
		{`k -- sh -c 'echo $LEASEHOLD_KEY ${#LEASEHOLD_FENCING_TOKEN} $LEASEHOLD_AUTH_TOKEN'`, 0, "k 16\n", ""},
		{`--key k -- sh -c 'echo $LEASEHOLD_KEY'`, 0, "k\n", ""},
		{`k echo without dashes`, 0, "without dashes\n", ""},
		{`k -- cat`, 0, "standard input\n", ""},
		{`k -- sh -c 'echo out; echo err >&2; exit 7'`, 7, "out\n", "err\n"},
		{`k -- sh -c 'kill -TERM $$'`, 128 + 15, "", "leasehold: sh: signal: terminated\n"},
		{`k -- sh -c 'exit 121'`, 121, "",
			"leasehold: sh: exit status 121 (the command's own; see \"leasehold lock run --help\" for what Leasehold means by it)\n"},
		{`k -- no-such-command-here`, 127, "",
			"leasehold: exec: \"no-such-command-here\": executable file not found in $PATH\n"},
		{`k -- ./lockrun_test.go`, 126, "", "leasehold: exec: \"./lockrun_test.go\": permission denied\n"},
		{`k -- ` + data, 126, "", "leasehold: fork/exec " + data + ": exec format error\n"},
		{`held -- echo x`, 120, "", `leasehold: lock "held": ` + isHeld + "\n"},
		{`held --skip -- echo x`, 0, "", `leasehold: skipped: lock "held": ` + isHeld + "\n"},
		{`held --skip -q -- echo x`, 0, "", ""},
		// before the first response it does not say that it waits
		{`held --wait 50ms -- echo x`, 119, "", "…leasehold: lock \"held\": not acquired within 50ms: " + isHeld + "\n"},
		{`held --wait 50ms --skip -q -- echo x`, 0, "", ""},
		{`held --json -- echo x`, 120, "", `{"code":"LOCK_HELD",…`},
		{`k --wait 300ms --server http://127.0.0.1:1 -- echo x`, 118, "",
			"…cannot reach http://127.0.0.1:1: connection refused; is the server running? Start one with: leasehold serve --listen 127.0.0.1:1…"},
		{`k --wait 50ms --server http://127.0.0.1:1 --json -- echo x`, 118, "", `{"code":"UNAVAILABLE",…`},
		{``, 125, "", "leasehold: the lock is missing: leasehold lock run KEY -- COMMAND\n"},
		{`k`, 125, "", "leasehold: the command is missing: leasehold lock run k -- COMMAND\n"},
		{`k --ttl 1500ms -- true`, 125, "",
			"leasehold: --ttl 1.5s: must be whole seconds from 1s to 24h, such as 30s or 5m\n"},
		{`k --grace 15s -- true`, 125, "", "leasehold: --grace 15s: must be less than half of --ttl 30s, …"},
		{`k --wait=-1s -- true`, 125, "", "leasehold: --wait -1s: must not be negative\n"},
		{`k --colour -- true`, 125, "", "leasehold: unknown flag --colour…"},
		{`k --data /tmp -- true`, 125, "",
			"leasehold: --data is a setting of a store: name the store with --store, such as --store sqlite\n"},
		{`k --store memory -- true`, 125, "", "leasehold: --store memory is seen by no other process: …"},
		{`k --store sqlite --server http://127.0.0.1:1 -- true`, 125, "",
			"leasehold: --server and --store cannot both be given: …"},
	} {
		t.Run(c.args, func(t *testing.T) {
			// The shell takes the arguments apart, and is replaced.
			cmd := exec.CommandContext(t.Context(), "sh", "-c", "exec "+binary(t)+" lock run "+c.args)
			cmd.Env = append(environment(), env...)
			cmd.Stdin = strings.NewReader("standard input\n")
			var stdout, stderr bytes.Buffer
			cmd.Stdout, cmd.Stderr = &stdout, &stderr
			_ = cmd.Run()
			said := times.ReplaceAllString(stderr.String(), "TIME")
			if code := cmd.ProcessState.ExitCode(); code != c.code || stdout.String() != c.stdout || !says(said, c.stderr) {
				t.Errorf("got  %d %q %q\nwant %d %q %q", code, &stdout, said, c.code, c.stdout, c.stderr)
			}
			if s.held(t, "k") {
				t.Error("the lock is still held")
			}
		})
	}
	t.Run("waits", func(t *testing.T) {
		s.take(t, "busy")
		p := s.supervise(t, "busy", "--wait", "1h", "--", "echo", "mine")
		p.complains(t, "\n")
		// what is left of it
		if said := times.ReplaceAllString(p.errors(t), "TIME"); !says(
			said, "leasehold: busy of tenant default is held by ann until TIME; waiting for up to …s\n") {
			t.Errorf("%q", said)
		}
		s.free(t, "busy")
		if said, code := p.ends(t); !slices.Equal(said, []string{"mine"}) || code != 0 {
			t.Errorf("%q %d %s", said, code, p.errors(t))
		}
	})
	t.Run("tries again", func(t *testing.T) {
		for _, quiet := range []string{"--quiet=false", "--quiet"} {
			p := (&lockServer{url: "http://127.0.0.1:1"}).supervise(t, "k", quiet, "--wait", "1h", "--", "echo", "mine")
			p.complains(t, "\n")
			const says = "leasehold: cannot reach http://127.0.0.1:1: connection refused; is the server running? Start one with: leasehold serve --listen 127.0.0.1:1; trying again\n"
			if said := p.errors(t); said != says {
				t.Errorf("%s: %q", quiet, said)
			}
			p.signal(t, syscall.SIGTERM)
			if said, code := p.ends(t); said != nil || code != 130 {
				t.Errorf("%s: %q %d %s", quiet, said, code, p.errors(t))
			}
		}
	})
	t.Run("interrupted", func(t *testing.T) {
		for _, signal := range []os.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP} {
			p := s.supervise(t, "held", "--wait", "1h", "--", "echo", "mine")
			p.waits(t)
			p.signal(t, signal)
			if said, code := p.ends(t); said != nil || code != 130 ||
				!strings.HasSuffix(p.errors(t), "leasehold: interrupted before held was acquired\n") {
				t.Errorf("%v: %q %d %s", signal, said, code, p.errors(t))
			}
		}
	})
	t.Run("signals", func(t *testing.T) {
		p := s.supervise(t, "k", "--", "sh", "-c", `for s in INT HUP QUIT USR1 USR2; do trap "echo $s" $s; done; `+obedient)
		p.says(t, "ready")
		for signal, name := range map[os.Signal]string{
			syscall.SIGINT: "INT", syscall.SIGHUP: "HUP", syscall.SIGQUIT: "QUIT", syscall.SIGUSR1: "USR1",
			syscall.SIGUSR2: "USR2",
		} {
			p.signal(t, signal)
			p.says(t, name)
		}
		if !s.held(t, "k") {
			t.Error("the lock is not held while the command runs")
		}
		p.signal(t, syscall.SIGTERM)
		if said, code := p.ends(t); !slices.Equal(said, []string{"asked"}) || code != 3 {
			t.Errorf("%q %d %s", said, code, p.errors(t))
		}
		if s.held(t, "k") {
			t.Error("the lock is still held")
		}
	})
	t.Run("left behind", func(t *testing.T) {
		p := s.supervise(t, "k", "--", "sh", "-c", "sleep 600 & echo done; exit 4")
		if said, code := p.ends(t); !slices.Equal(said, []string{"done"}) || code != 4 {
			t.Errorf("%q %d %s", said, code, p.errors(t))
		}
	})
	t.Run("killed", func(t *testing.T) {
		p := s.supervise(t, "killed", "--", "sh", "-c", obedient)
		p.says(t, "ready")
		p.signal(t, syscall.SIGKILL)
		if said, code := p.ends(t); !slices.Equal(said, []string{"asked"}) || code != -1 { // it is asked to end, as at a loss
			t.Errorf("%q %d", said, code)
		}
		if !s.held(t, "killed") {
			t.Error("no one can have released the lock")
		}
	})
}

// waits waits until the supervisor says that it waits for a lock.
func (p *supervised) waits(t *testing.T) {
	t.Helper()
	p.complains(t, "is held by ann")
}

// complains waits until standard error has a text.
func (p *supervised) complains(t *testing.T, text string) {
	t.Helper()
	for deadline := time.Now().Add(failAfter); !strings.Contains(p.errors(t), text); {
		if time.Now().After(deadline) {
			t.Fatalf("standard error: %s", p.errors(t))
		}
		time.Sleep(10 * time.Millisecond) // of another process: nothing tells when it writes
	}
}

// TestLockRunLost: whatever makes the lease end, the command and all that it started have ended when its supervisor
// says so, and it says so by its exit code. TestLockRunTimes in cmd/leasehold has the times.
func TestLockRunLost(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		// for obedient commands, so long that a busy machine does not end them otherwise; for the others, so short that
		// nothing but the loss does
		grace  string
		script string
		loss   func(t *testing.T, s *lockServer, p *supervised)
		said   []string
		stderr string
	}{
		"no network": {"9s", obedient, func(_ *testing.T, s *lockServer, _ *supervised) { s.hangs.Store(true) },
			[]string{"asked"}, "exit status 3"},
		"no server": {"9s", obedient, func(_ *testing.T, s *lockServer, _ *supervised) { s.close() },
			[]string{"asked"}, "the lock is lost: it could not be renewed: cannot reach "},
		"ignores SIGTERM": {"1s", stubborn, func(_ *testing.T, s *lockServer, _ *supervised) { s.hangs.Store(true) }, nil,
			"signal: killed"},
		"force-released": {"1s", stubborn, func(t *testing.T, s *lockServer, _ *supervised) { s.free(t, "k") }, nil,
			"LEASE_RELEASED"},
		"stopped":           {"1s", obedient, stopped, nil, "signal: killed"},
		"stopped and taken": {"1s", obedient, stoppedAndTaken, nil, "signal: killed"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newLockServer(t)
			p := s.supervise(t, "--ttl", "20s", "--grace", c.grace, "k", "--", "sh", "-c", c.script)
			p.says(t, "ready")
			c.loss(t, s, p)
			if said, code := p.ends(t); !slices.Equal(said, c.said) || code != 121 || !strings.Contains(p.errors(t), c.stderr) {
				t.Errorf("%q %d\n%s", said, code, p.errors(t))
			}
		})
	}
}

// stopped stops the supervisor, but not its command, until the lease is over.
func stopped(t *testing.T, s *lockServer, p *supervised) {
	t.Helper()
	p.signal(t, syscall.SIGSTOP)
	waitUntilStopped(t, p.cmd.Process.Pid)
	for s.held(t, "k") {
		time.Sleep(10 * time.Millisecond) // the supervisor's clocks must pass the end, too
	}
	p.signal(t, syscall.SIGCONT)
}

// stoppedAndTaken stops the supervisor until another has the lock.
func stoppedAndTaken(t *testing.T, s *lockServer, p *supervised) {
	t.Helper()
	p.signal(t, syscall.SIGSTOP)
	waitUntilStopped(t, p.cmd.Process.Pid)
	for s.held(t, "k") {
		time.Sleep(10 * time.Millisecond) // the supervisor's clocks must pass the end, too
	}
	s.take(t, "k")
	p.signal(t, syscall.SIGCONT)
	t.Cleanup(func() {
		if !s.held(t, "k") {
			t.Error("the supervisor released the lease of another")
		}
	})
}

// TestLockRunOnStore: without a server the command opens the store itself, and shares its locks with a server on the
// same one.
func TestLockRunOnStore(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	store := []string{"lock", "run", "--store", "sqlite", "--data", dir}
	if code, stdout, stderr := run(t, nil, append(store, "k", "--", "sh", "-c",
		"echo $LEASEHOLD_KEY; exit 7")...); code != 7 || stdout != "k\n" || stderr != "" {
		t.Errorf("a new store: %d %q %q", code, stdout, stderr)
	}
	p := start(t, "--data", dir)
	env := []string{"LEASEHOLD_SERVER=" + p.url} // the flag wins
	if code, _, stderr := run(t, env, "lock", "acquire", "k", "--owner", "ann"); code != 0 {
		t.Fatal(stderr)
	}
	if code, _, stderr := run(t, env, append(store, "k", "--", "echo", "x")...); code != 120 ||
		!strings.Contains(stderr, "by ann") {
		t.Errorf("held through the server: %d %q", code, stderr)
	}
	if code, _, stderr := run(t, env, append(store, "other", "--", binary(t), "lock", "run", "other", "--", "echo",
		"x")...); code != 120 || !strings.Contains(stderr, "LOCK_HELD") {
		t.Errorf("held on the store, asked for through the server: %d %q", code, stderr)
	}
	if code, _, stderr := run(t, nil, append(store, "--server", p.url, "k", "--", "true")...); code != 125 ||
		!strings.Contains(stderr, "--server and --store cannot both be given") {
		t.Errorf("a server and a store: %d %q", code, stderr)
	}
	if code, _, stderr := run(t, nil, "lock", "run", "--store", "sqlite", "--data", "/dev/null/x", "k", "--",
		"true"); code != 118 || !strings.Contains(stderr, "--data") {
		t.Errorf("a store that cannot be opened: %d %q", code, stderr)
	}
}

// TestLockRunNeverSkipsWhatIsFree: a job runs, however many readers of its lock have died: no lock is taken for held
// that no one holds.
func TestLockRunNeverSkipsWhatIsFree(t *testing.T) {
	t.Parallel()
	var ahead atomic.Int64 // of the store's clock
	s := lockServerOn(t, docstore.NewMemory(&docstore.MemoryOptions{Now: func() time.Time {
		return time.Now().Add(time.Duration(ahead.Load()))
	}}))
	jobs := map[string][]string{
		"report": {"report", "--skip"},
		"fair":   {"fair", "--skip", "--fair"},
		"pool":   {"pool", "--skip", "--permits", "3"},
		"both":   {"both", "--skip", "--also", "report"},
		"forced": {"forced", "--skip"},
	}
	for key := range jobs {
		for i := range 60 {
			o, err := s.locks.Acquire(t.Context(), lock.Acquire{
				ID: lock.ID{Tenant: "default", Key: key}, Owner: fmt.Sprint("reader ", i), RequestID: "r", TTLSeconds: 60,
				Mode: lock.Shared, LockDelaySeconds: 30,
			})
			if err != nil || o.Code != lock.OK {
				t.Fatalf("%+v, %v", o, err)
			}
		}
	}
	s.free(t, "forced")
	if code, stdout, stderr := run(t, []string{"LEASEHOLD_SERVER=" + s.url}, "lock", "run", "report", "--skip", "--",
		"echo", "ran"); code != 0 ||
		stdout != "" || !strings.Contains(stderr, "skipped") {
		t.Errorf("while they hold it: %d %q %q", code, stdout, stderr)
	}
	ahead.Store(int64(90 * time.Second))
	for key, args := range jobs {
		args = append(append([]string{"lock", "run"}, args...), "--", "echo", "ran")
		if code, stdout, stderr := run(t, []string{"LEASEHOLD_SERVER=" + s.url}, args...); code != 0 || stdout != "ran\n" ||
			stderr != "" {
			t.Errorf("%s: %d %q %q", key, code, stdout, stderr)
		}
	}
}

// says compares what was printed with what should be, in which "…" means any text.
func says(printed, want string) bool {
	parts := strings.Split(want, "…")
	rest, ok := strings.CutPrefix(printed, parts[0])
	for _, part := range parts[1:] {
		var found bool
		if _, rest, found = strings.Cut(rest, part); !found {
			return false
		}
	}
	return ok && (rest == "" || strings.HasSuffix(want, "…"))
}
