//go:build unix

package projectlock

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/leasehold-dev/leasehold/internal/term"
	"github.com/leasehold-dev/leasehold/proof/suite"
)

// childVariable makes this binary one of the processes of the tests: its value is a folder. On its standard input come
// commands, one a line, and for each it prints one line.
const childVariable = "LEASEHOLD_TEST_PROJECT"

func TestMain(m *testing.M) {
	if folder := os.Getenv(childVariable); folder != "" {
		os.Exit(child(folder))
	}
	os.Exit(m.Run())
}

// ahead is the file with how many seconds the clocks of all processes are ahead: the time of the machine cannot be
// moved.
func ahead(folder string) string { return filepath.Join(folder, "ahead") }

// movable is the clock of a process that follows the file.
func movable(folder string) term.Clock {
	return func() term.Moment {
		b, err := os.ReadFile(ahead(folder))
		seconds, parseErr := strconv.Atoi(string(b))
		if err := errors.Join(err, parseErr); err != nil {
			panic(err)
		}
		now := time.Now().Add(time.Duration(seconds) * time.Second)
		return term.On(now.Round(0), now.Round(0))
	}
}

// child carries out commands until its standard input ends.
func child(folder string) int {
	var lease Lease
	var p *Project
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		command, name, _ := strings.Cut(lines.Text(), " ")
		var err error
		switch command {
		case "use": // a project
			p, err = New(filepath.Join(folder, name), &Options{clock: movable(folder)})
		case "try":
			lease, err = p.Acquire(context.Background(), &AcquireOptions{Retry: RetryPolicy{MaxAttempts: 1}})
		case "wait":
			often := RetryPolicy{InitialDelay: time.Millisecond, Multiplier: 1, MaxAttempts: 1 << 30}
			lease, err = p.Acquire(context.Background(), &AcquireOptions{Retry: often})
		case "renew":
			_, err = p.Renew(context.Background(), lease)
		case "release":
			err = p.Release(context.Background(), lease)
		case "left":
			if lease.Remaining() <= 0 {
				err = ErrLost
			}
		}
		if err != nil {
			fmt.Printf("error %q\n", err)
			continue
		}
		fmt.Println("ok", lease.ID())
	}
	return 0
}

// process is a child.
type process struct {
	t     *testing.T
	cmd   *exec.Cmd
	in    io.WriteCloser
	lines *bufio.Scanner
}

func startProcess(t *testing.T, folder string) *process {
	t.Helper()
	p := &process{t: t, cmd: exec.Command(os.Args[0])}
	p.cmd.Env = append(os.Environ(), childVariable+"="+folder)
	p.cmd.Stderr = os.Stderr
	var err error
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	p.lines = bufio.NewScanner(out)
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = p.in.Close()
		_ = p.cmd.Process.Kill()
		_ = p.cmd.Wait()
	})
	return p
}

func (p *process) send(command string) {
	if _, err := fmt.Fprintln(p.in, command); err != nil {
		p.t.Error(err)
	}
}

// response is "ok ID" or "error …"; empty if the process has ended.
func (p *process) response() string {
	p.lines.Scan()
	return p.lines.Text()
}

// do sends a command and wants it to succeed.
func (p *process) do(command string) (id string) {
	p.t.Helper()
	p.send(command)
	id, ok := strings.CutPrefix(p.response(), "ok ")
	if !ok {
		p.t.Fatalf("%s: %s", command, p.lines.Text())
	}
	return id
}

func (p *process) signal(s syscall.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		p.t.Fatal(err)
	}
}

// processFolder has the clock of the processes and a project.
func processFolder(t *testing.T) (folder, project string) {
	t.Helper()
	folder = t.TempDir()
	project = filepath.Join(folder, "project")
	if err := errors.Join(os.WriteFile(ahead(folder), []byte("0"), 0o600), os.Mkdir(project, 0o700)); err != nil {
		t.Fatal(err)
	}
	return folder, project
}

func advance(t *testing.T, folder string, seconds int) {
	t.Helper()
	next := ahead(folder) + ".next"
	if err := errors.Join(os.WriteFile(next, []byte(strconv.Itoa(seconds)), 0o600),
		os.Rename(next, ahead(folder))); err != nil {
		t.Fatal(err)
	}
}

// TestManyProcessesOnOneOrphan: of many processes, of many goroutines each, that find the same orphan at once, exactly
// one gets it; of those that find no file, too (PRJ-ACQ-3).
func TestManyProcessesOnOneOrphan(t *testing.T) {
	t.Parallel()
	folder, _ := processFolder(t)
	processes := make([]*process, suite.AtDepth(4, 12))
	for i := range processes {
		processes[i] = startProcess(t, folder)
	}
	for round := range suite.AtDepth(60, 1000) {
		name := fmt.Sprint("project-", round)
		path := filepath.Join(folder, name)
		if err := os.Mkdir(path, 0o700); err != nil {
			t.Fatal(err)
		}
		w := &world{t: t, folder: path}
		switch round % 3 {
		case 0:
			w.put(other(time.Now().Add(-time.Millisecond)), time.Now())
		case 1:
			w.put("{", time.Now().Add(-time.Hour))
		}
		for _, p := range processes {
			p.do("use " + name)
		}
		for _, p := range processes {
			p.send("try")
		}
		var won atomic.Int32
		var winner atomic.Value
		var all sync.WaitGroup
		for range suite.AtDepth(8, 32) { // beside the processes
			all.Go(func() {
				p, err := New(path, nil)
				if err != nil {
					t.Error(err)
					return
				}
				if l, err := p.Acquire(t.Context(), &AcquireOptions{Retry: RetryPolicy{MaxAttempts: 1}}); err == nil {
					won.Add(1)
					winner.Store(l.ID())
				}
			})
		}
		for _, p := range processes {
			if id, ok := strings.CutPrefix(p.response(), "ok "); ok {
				won.Add(1)
				winner.Store(id)
			}
		}
		all.Wait()
		if n := won.Load(); n != 1 {
			t.Fatalf("round %d: %d holders", round, n)
		}
		if id, _ := winner.Load().(string); w.content().ID != id {
			t.Fatalf("round %d: the file has %s, the holder is %s", round, w.content().ID, id)
		}
		if entries, err := os.ReadDir(path); err != nil || len(entries) != 1 {
			t.Fatalf("round %d: %v, %v", round, entries, err)
		}
	}
}

// TestKilledHolders: the lock of a process that is killed while it holds it goes to one of those that wait when the ttl
// has passed, and not before; and nothing but the file is left behind (PRJ-ACQ-3, PRJ-FILE).
func TestKilledHolders(t *testing.T) {
	t.Parallel()
	folder, project := processFolder(t)
	const processes = 4
	holders := make(chan *process, processes)
	for range processes {
		p := startProcess(t, folder)
		p.do("use project")
		p.send("wait")
		go func() {
			if strings.HasPrefix(p.response(), "ok ") {
				holders <- p
			}
		}()
	}
	before := tree(t, folder)
	for n := range processes {
		p := <-holders
		p.signal(syscall.SIGKILL)
		beside, err := New(project, &Options{clock: movable(folder)})
		if err != nil {
			t.Fatal(err)
		}
		_, err = beside.Acquire(t.Context(), &AcquireOptions{Retry: RetryPolicy{MaxAttempts: 1}})
		wantError(t, err, CodeLockUnavailable, false)
		select {
		case <-holders:
			t.Fatal("two holders")
		default:
		}
		advance(t, folder, (n+1)*31)
	}
	after := tree(t, folder)
	for _, files := range []map[string]string{before, after} {
		delete(files, filepath.Join(project, fileName))
		delete(files, ahead(folder))
	}
	if !maps.Equal(after, before) {
		t.Errorf("%v\nwant\n%v", after, before)
	}
}

// TestStoppedHolder: a process that was stopped for longer than its lease finds that it is lost as soon as it
// continues, and neither renews nor releases the lock of the next one (PRJ-RNW-1, PRJ-REL-1).
func TestStoppedHolder(t *testing.T) {
	t.Parallel()
	folder, project := processFolder(t)
	first, second := startProcess(t, folder), startProcess(t, folder)
	first.do("use project")
	second.do("use project")
	first.do("try")
	first.signal(syscall.SIGSTOP)
	advance(t, folder, 31)
	id := second.do("try")
	for _, command := range []string{"left", "renew", "release"} {
		first.send(command)
	}
	first.signal(syscall.SIGCONT)
	for _, command := range []string{"left", "renew", "release"} {
		if got := first.response(); !strings.HasPrefix(got, "error ") || !strings.Contains(got, ErrLost.Error()) {
			t.Errorf("%s: %s", command, got)
		}
	}
	if got := (&world{t: t, folder: project}).content(); got == nil || got.ID != id {
		t.Errorf("the file has %+v, want %s", got, id)
	}
	second.do("renew")
	second.do("release")
	first.do("try")
}

// TestProcessesTakeTurns: processes that acquire, renew and release all the time are never in it together.
func TestProcessesTakeTurns(t *testing.T) {
	t.Parallel()
	folder, project := processFolder(t)
	inside, turns := atomic.Int32{}, suite.AtDepth(20, 300)
	var all sync.WaitGroup
	for range 4 {
		p := startProcess(t, folder)
		p.do("use project")
		all.Go(func() {
			for range turns {
				for _, command := range []string{"wait", "renew", "release"} {
					if command == "release" {
						inside.Add(-1)
					}
					p.send(command)
					if got := p.response(); !strings.HasPrefix(got, "ok ") {
						t.Errorf("%s: %s", command, got)
						return
					}
					if command == "wait" && inside.Add(1) != 1 {
						t.Error("two holders")
					}
				}
			}
		})
	}
	all.Wait()
	if got := (&world{t: t, folder: project}).content(); got != nil {
		t.Errorf("%+v", got)
	}
}
