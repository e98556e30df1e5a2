//go:build linux

package tests

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/leasehold-dev/leasehold/repo/lock"
)

// writes is a command that appends the time to a file each 20 ms, in nanoseconds, and does not end when asked.
const writes = `trap "" TERM; for i in $(seq 3000); do date +%s%N >> $LINES_FILE; sleep 0.02; done`

// next takes a lock as soon as its lease is over or it is released, and returns when it was granted, by the clock of this
// machine.
func (s *lockServer) next(t *testing.T, key string) time.Time {
	t.Helper()
	for end := time.Now().Add(failAfter); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		o, err := s.locks.Acquire(context.WithoutCancel(t.Context()), lock.Acquire{ID: lock.ID{Tenant: "default", Key: key},
			Owner: "next", RequestID: "next", TTLSeconds: 3600})
		if err != nil {
			t.Fatal(err)
		}
		if o.Code == lock.OK {
			return o.Lease.AcquiredAt
		}
	}
	t.Fatal("the lock stays held")
	return time.Time{}
}

// lastLine is the time in the last line of a file.
func lastLine(t *testing.T, path string) time.Time {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Fields(string(text))
	n, err := strconv.ParseInt(lines[len(lines)-1], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return time.Unix(0, n)
}

// watcherOf is the process that a program has started: its one child.
func watcherOf(t *testing.T, pid int) int {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%[1]d/children", pid))
	if err != nil {
		t.Skip(err)
	}
	tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range tasks { // the thread that started it
		if text, err = os.ReadFile(path); err == nil && len(text) > 0 {
			break
		}
	}
	child, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	return child
}

// TestNoTwoAtWork: whatever happens to the program, its command and all that it started have written their last line a
// tenth of a second before another holds the lock, and at the release if it was released.
func TestNoTwoAtWork(t *testing.T) {
	t.Parallel()
	kill := func(t *testing.T, p *supervised) { p.signal(t, syscall.SIGKILL) }
	stop := func(t *testing.T, p *supervised) {
		p.signal(t, syscall.SIGSTOP)
		waitUntilStopped(t, p.cmd.Process.Pid)
	}
	for name, c := range map[string]struct {
		command string
		happens func(t *testing.T, p *supervised)
		before  time.Duration
		code    int // -1: the program was killed
		says    string
	}{
		"killed":                    {`sh -c "$WRITES" & wait`, kill, 100 * time.Millisecond, -1, ""},
		"killed, nested":            {`sh -c "sh -c \"\$WRITES\" & wait" & wait`, kill, 100 * time.Millisecond, -1, ""},
		"killed, a session":         {`setsid sh -c "$WRITES" & wait`, kill, 100 * time.Millisecond, -1, ""},
		"killed, a lost session":    {`(setsid sh -c "$WRITES" &); sleep 600`, kill, 100 * time.Millisecond, -1, ""},
		"stopped":                   {`eval "$WRITES"`, stop, 100 * time.Millisecond, 121, "the lock is lost"},
		"stopped, a session":        {`setsid sh -c "$WRITES" & wait`, stop, 100 * time.Millisecond, 121, "the lock is lost"},
		"its watcher is killed":     {`setsid sh -c "$WRITES" & wait`, killWatcher, 0, 137, "its watcher ended"},
		"its watcher stops, and it": {`eval "$WRITES"`, stopWatcherAndFree, 0, 121, "LEASE_RELEASED"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newLockServer(t)
			path := filepath.Join(t.TempDir(), "lines")
			p := s.supervise(t, "k", "--ttl", "4s", "--", "env", "LINES_FILE="+path, "WRITES="+writes, "sh", "-c", c.command)
			for end := time.Now().Add(failAfter); ; time.Sleep(5 * time.Millisecond) {
				if info, err := os.Stat(path); err == nil && info.Size() > 0 {
					break
				}
				if time.Now().After(end) {
					t.Fatal(p.errors(t))
				}
			}
			c.happens(t, p)
			granted := s.next(t, "k")
			_ = p.cmd.Process.Signal(syscall.SIGCONT)
			said, code := p.ends(t) // with the last that has its standard output
			if last := lastLine(t, path); granted.Sub(last) < c.before || c.before == 0 && last.After(granted) {
				t.Errorf("the last line is of %v, the next holder's lease of %v", last, granted)
			}
			if code != c.code || len(said) > 0 || !strings.Contains(p.errors(t), c.says) {
				t.Errorf("%d %q %s", code, said, p.errors(t))
			}
		})
	}
}

// killWatcher kills the watcher of a command.
func killWatcher(t *testing.T, p *supervised) {
	t.Helper()
	if err := syscall.Kill(watcherOf(t, p.cmd.Process.Pid), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
}

// stopWatcherAndFree stops the watcher of a command, and ends the lease.
func stopWatcherAndFree(t *testing.T, p *supervised) {
	t.Helper()
	watcher := watcherOf(t, p.cmd.Process.Pid)
	if err := syscall.Kill(watcher, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	waitUntilStopped(t, watcher)
	p.server.free(t, "k")
	_ = p.cmd.Wait() // it knows of its loss with its next renewal
}

// TestFirstProcess: as the first process of a container, the command leaves no dead processes behind that no one waits
// for.
func TestFirstProcess(t *testing.T) {
	t.Parallel()
	if out, err := exec.CommandContext(t.Context(), "unshare", "--pid", "--fork", "--mount-proc", "true").CombinedOutput(); err != nil {
		t.Skipf("no namespaces of processes here: %v %s", err, out)
	}
	s := newLockServer(t)
	c := exec.CommandContext(t.Context(), "unshare", "--pid", "--fork", "--mount-proc", binary(t), "lock", "run", "--server", s.url,
		"k", "--", "sh", "-c", `(sleep 0.1 & setsid sleep 0.1 &); sleep 0.5; cat /proc/[0-9]*/stat | grep -c ") Z"`)
	c.Env = environment()
	out, err := c.CombinedOutput()
	if string(out) != "0\n" { // and so grep fails
		t.Errorf("%q dead processes, %v", out, err)
	}
}

// terminal is a shell on a terminal, as a person uses it.
type terminal struct {
	master *os.File
	shell  *exec.Cmd

	mu   sync.Mutex
	text string // that it has shown, since it was asked for
}

// newTerminal starts a shell on a terminal.
func newTerminal(t *testing.T, env ...string) *terminal {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Skip(err)
	}
	number, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0)
	}
	if err != nil {
		t.Skip(err)
	}
	slave, err := os.OpenFile(fmt.Sprint("/dev/pts/", number), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Skip(err)
	}
	defer slave.Close()
	x := &terminal{master: master, shell: exec.CommandContext(t.Context(), "sh", "-i")}
	x.shell.Env = append(append(environment(), "PS1=", "ENV="), env...)
	x.shell.Stdin, x.shell.Stdout, x.shell.Stderr = slave, slave, slave
	x.shell.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := x.shell.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = x.shell.Process.Kill()
		_ = x.shell.Wait()
		_ = master.Close()
	})
	go func() {
		for b := make([]byte, 4096); ; {
			n, err := master.Read(b)
			x.mu.Lock()
			x.text += string(b[:n])
			x.mu.Unlock()
			if err != nil {
				return
			}
		}
	}()
	return x
}

// types types a text, or keys.
func (x *terminal) types(t *testing.T, text string) {
	t.Helper()
	if _, err := x.master.WriteString(text); err != nil {
		t.Fatal(err)
	}
}

// shows waits until a text is on the screen, and forgets what is there up to it.
func (x *terminal) shows(t *testing.T, text string) {
	t.Helper()
	for end := time.Now().Add(failAfter); ; time.Sleep(5 * time.Millisecond) {
		x.mu.Lock()
		_, rest, found := strings.Cut(x.text, text)
		if found {
			x.text = rest
			x.mu.Unlock()
			return
		}
		shown := x.text
		x.mu.Unlock()
		if time.Now().After(end) {
			t.Fatalf("the screen does not show %q: %q", text, shown)
		}
	}
}

// The keys of a terminal.
const (
	ctrlC = "\x03"
	ctrlZ = "\x1a"
)

// TestTerminal: a command under a lock asks the one who sits there, is stopped and goes on, and is interrupted, as
// without Leasehold. Stopped for longer than the lease it is killed, and another holds the lock.
func TestTerminal(t *testing.T) {
	t.Parallel()
	s := newLockServer(t)
	asks := `sh -c 'read answer; echo got-$answer; trap "echo again" CONT; while :; do sleep 0.05; done'`
	t.Run("goes on", func(t *testing.T) {
		t.Parallel()
		x := newTerminal(t, "LEASEHOLD_SERVER="+s.url)
		x.types(t, binary(t)+" lock run k1 --ttl 1h -- "+asks+"\nyes\n")
		x.shows(t, "got-yes")
		for range 2 {
			x.types(t, ctrlZ)
			x.shows(t, "Stopped")
			if !s.held(t, "k1") {
				t.Error("the lock is not held while its command is stopped")
			}
			x.types(t, "echo shell-$((6*7))\n")
			x.shows(t, "shell-42")
			x.types(t, "fg\n")
			x.shows(t, "again")
		}
		x.types(t, ctrlC)
		x.types(t, "echo code-$?\n")
		x.shows(t, "code-130")
		if s.held(t, "k1") {
			t.Error("the lock is still held")
		}
	})
	for key, input := range map[string]string{"k2": "", "k3": " </dev/null"} { // without it this process has the keys
		t.Run("stays stopped"+input, func(t *testing.T) {
			t.Parallel()
			x := newTerminal(t, "LEASEHOLD_SERVER="+s.url)
			path := filepath.Join(t.TempDir(), "lines")
			x.types(t, "export LINES_FILE="+path+"\n"+binary(t)+" lock run "+key+" --ttl 4s -- sh -c '"+writes+"'"+input+"\n")
			for _, err := os.Stat(path); err != nil; _, err = os.Stat(path) {
				time.Sleep(5 * time.Millisecond)
			}
			x.types(t, ctrlZ)
			x.shows(t, "Stopped")
			granted := s.next(t, key)
			x.types(t, "fg\n")
			x.shows(t, "the lock is lost")
			x.types(t, "echo code-$?\n")
			x.shows(t, "code-121")
			if last := lastLine(t, path); granted.Sub(last) < 100*time.Millisecond {
				t.Errorf("the last line is of %v, the next holder's lease of %v", last, granted)
			}
		})
	}
	t.Run("once", func(t *testing.T) {
		t.Parallel()
		x := newTerminal(t, "LEASEHOLD_SERVER="+s.url)
		x.types(t, binary(t)+" once r1 --max-failures 1 -- "+asks+"\nyes\n")
		x.shows(t, "got-yes")
		x.types(t, ctrlC)
		x.types(t, "echo code-$?\n")
		x.shows(t, "code-130")
		x.types(t, binary(t)+" once r1 --max-failures 1 -- echo done-$((6*7))\n") // it is not counted as a failure
		x.shows(t, "done-42")
	})
	t.Run("in the background", func(t *testing.T) {
		t.Parallel()
		x := newTerminal(t, "LEASEHOLD_SERVER="+s.url)
		x.types(t, binary(t)+" lock run k4 -- sh -c 'echo be\"\"gun; sleep 0.2; echo en\"\"ded' &\n")
		x.shows(t, "begun")
		x.types(t, "echo shell-$((6*7))\n") // the terminal stays the shell's
		x.shows(t, "shell-42")
		x.types(t, "wait; echo code-$?\n")
		x.shows(t, "code-0")
	})
}

// TestWatcherIsSmall: the process beside a command begins before the packages of the program do, and needs little.
func TestWatcherIsSmall(t *testing.T) {
	t.Parallel()
	s := newLockServer(t)
	p := s.supervise(t, "k", "--", "sh", "-c", obedient)
	p.says(t, "ready")
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", watcherOf(t, p.cmd.Process.Pid)))
	if err != nil {
		t.Fatal(err)
	}
	words := strings.Fields(string(text))
	at := slices.Index(words, "RssAnon:")
	if at < 0 {
		t.Skip("the system does not say how much memory it has")
	}
	if kb, err := strconv.Atoi(words[at+1]); err != nil || kb > 8<<10 {
		t.Errorf("the watcher has %d KiB of its own, %v", kb, err)
	}
}
