//go:build unix

package process

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Watched is a command with its watcher.
type Watched struct {
	watcher *exec.Cmd
	tell    *os.File
	pid     int // of the command, which leads its group
	times   func() Times
	ended   chan struct{}

	mu   sync.Mutex // of what is told
	told end

	err         error
	interrupted bool

	job sync.Mutex     // one stop at a time
	key chan os.Signal // SIGTSTP, which stops this process and the command
}

// Watch starts a command with a watcher. Of c it takes the path, the arguments, the environment and the standard
// streams. grace is how long the command has between SIGTERM and SIGKILL when this process has died. times says when it
// is to be ended, if nothing else is said later; nil says that no lease bounds it. The error is that of a command that
// did not begin.
func Watch(c *exec.Cmd, grace time.Duration, times func() Times) (*Watched, error) {
	theirs, tell, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer theirs.Close() //nolint:errcheck // the watcher has its own
	told, theirTold, err := os.Pipe()
	if err != nil {
		_ = tell.Close()
		return nil, err
	}
	w := &Watched{tell: tell, times: times, ended: make(chan struct{}), key: make(chan os.Signal, 1)}
	w.watcher = &exec.Cmd{Path: self(), Env: c.Env, Stdin: c.Stdin, Stdout: c.Stdout, Stderr: c.Stderr,
		Args:        append([]string{"leasehold", watchArgument, strconv.FormatInt(int64(grace), 10), c.Path}, c.Args...),
		ExtraFiles:  []*os.File{theirs, theirTold},
		SysProcAttr: &syscall.SysProcAttr{Setpgid: true}}
	adopt()
	err = w.watcher.Start()
	_ = theirTold.Close()
	if err != nil {
		_, _ = tell.Close(), told.Close()
		return nil, fmt.Errorf("start a watcher: %w", err)
	}
	lines := bufio.NewScanner(told)
	w.Look()
	if err := w.started(c.Path, lines); err != nil {
		_, _ = tell.Close(), told.Close()
		_ = w.watcher.Wait()
		return nil, err
	}
	if !signal.Ignored(syscall.SIGTSTP) {
		signal.Notify(w.key, syscall.SIGTSTP)
	}
	go w.follow(lines, told)
	go w.listen()
	return w, nil
}

// listen stops this process and the command for each SIGTSTP that this process gets, until the command has ended.
func (w *Watched) listen() {
	for {
		select {
		case <-w.key:
			w.say(saySignal + " " + strconv.Itoa(int(syscall.SIGTSTP)))
			w.suspend(os.Getpid())
		case <-w.ended:
			signal.Stop(w.key)
			return
		}
	}
}

// started waits until the watcher says that the command has begun.
func (w *Watched) started(path string, lines *bufio.Scanner) error {
	for lines.Scan() {
		what, number, _ := strings.Cut(lines.Text(), " ")
		n, err := strconv.Atoi(number)
		switch {
		case err != nil:
		case what == sayStarted:
			w.pid = n
			return nil
		case what == sayFailed:
			return &fs.PathError{Op: "fork/exec", Path: path, Err: syscall.Errno(n)}
		}
	}
	return errors.New("start a watcher: it ended before the command began")
}

// follow reads what the watcher says until it has ended.
func (w *Watched) follow(lines *bufio.Scanner, told *os.File) {
	stop := reapOrphans(w.watcher.Process.Pid)
	defer stop()
	status, ended := syscall.WaitStatus(0), false
	for lines.Scan() {
		words := strings.Fields(lines.Text())
		switch {
		case len(words) == 1 && words[0] == sayStopped:
			go w.suspend(0) // the terminal would have stopped this process's group
		case len(words) == 3 && words[0] == sayEnded:
			n, err := strconv.ParseUint(words[1], 10, 32)
			status, ended = syscall.WaitStatus(n), err == nil
			w.interrupted = words[2] == "terminal" && status.Signaled() && status.Signal() == syscall.SIGINT
		}
	}
	_ = told.Close()
	err := w.watcher.Wait()
	_ = w.tell.Close()
	if ended {
		w.err = endOf(status)
	} else {
		endAll(w.pid)
		w.err = &EndError{-1, syscall.SIGKILL, fmt.Sprintf("signal: killed (its watcher ended: %v)", err)}
	}
	if w.interrupted { // what else is in this process's group had the terminal's signal, if the command had not been there
		_ = syscall.Kill(0, syscall.SIGINT)
	}
	close(w.ended)
}

// endOf is the error of a command that has ended; nil if it succeeded.
func endOf(status syscall.WaitStatus) error {
	switch {
	case status.Signaled():
		text := "signal: " + status.Signal().String()
		if status.CoreDump() {
			text += " (core dumped)"
		}
		return &EndError{-1, status.Signal(), text}
	case status.ExitStatus() != 0:
		return &EndError{status.ExitStatus(), 0, "exit status " + strconv.Itoa(status.ExitStatus())}
	default:
		return nil
	}
}

// Ended is closed when the command has ended, and what it left behind was killed.
func (w *Watched) Ended() <-chan struct{} { return w.ended }

// Err is how the command has ended, an [*EndError], or nil if it succeeded; to be asked for when it has.
func (w *Watched) Err() error { return w.err }

// Interrupted reports whether the terminal's SIGINT ended the command: this process is interrupted, too. To be asked for
// when the command has ended.
func (w *Watched) Interrupted() bool { return w.interrupted }

// grain is how much the end of a lease may seem to move because two clocks are read one after the other.
const grain = time.Millisecond

// Look tells the watcher when the command is to be ended, if that has changed.
func (w *Watched) Look() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.times == nil {
		if w.pid == 0 {
			w.say(sayForever)
		}
		return
	}
	now := readClocks() // before the lease is asked: a pause between the two makes the end early
	t := w.times()
	if next := (end{now.add(t.Ask), now.add(t.Kill)}); next.differs(w.told) {
		w.told = next
		w.say(next.String())
	}
}

// say writes a line to the watcher. One that cannot be told is dead, which [Watched.follow] sees, or was stopped.
func (w *Watched) say(line string) {
	_ = w.tell.SetWriteDeadline(time.Now().Add(patience)) // a pipe has one
	_, _ = w.tell.WriteString(line + "\n")
}

// patience is how long a watcher has to kill the command, before it is killed itself.
const patience = 250 * time.Millisecond

// Signal sends a signal to the command's group; SIGKILL to all that belongs to the command.
func (w *Watched) Signal(s os.Signal) {
	number, ok := s.(syscall.Signal)
	if !ok {
		return
	}
	w.say(saySignal + " " + strconv.Itoa(int(number)))
	if number != syscall.SIGKILL {
		return
	}
	time.AfterFunc(patience, func() {
		select {
		case <-w.ended:
		default:
			_ = w.watcher.Process.Kill() // it was stopped itself: then the command is killed from here
		}
	})
}

// suspend stops this process, or its group if whom is 0, as the key of a terminal does, and has the command go on when
// this process goes on.
func (w *Watched) suspend(whom int) {
	w.job.Lock()
	defer w.job.Unlock()
	if controlled() {
		continued := make(chan os.Signal, 1)
		signal.Notify(continued, syscall.SIGCONT)
		defer signal.Stop(continued)
		// Not SIGTSTP: once that was taken, Go's runtime does not give it back to the system.
		if syscall.Kill(whom, syscall.SIGSTOP) == nil {
			<-continued
		}
	}
	w.say(sayContinue)
}

// controlled reports whether there is a shell that can have this process go on when it has stopped: the leader of the
// session, in another group.
func controlled() bool {
	session, err := unix.Getsid(0)
	if err != nil {
		return false
	}
	group, err := syscall.Getpgid(session)
	return err == nil && group != syscall.Getpgrp()
}

// self is the path of this program, also when its file was replaced since it began.
func self() string {
	const linux = "/proc/self/exe"
	if _, err := os.Stat(linux); err == nil {
		return linux
	}
	path, err := os.Executable()
	if err != nil {
		return os.Args[0]
	}
	return path
}

// moment is a time on two clocks that all processes of a machine share: one that counts from its start, also while it
// sleeps, and the wall clock, which moves on while a virtual machine is paused.
type moment struct{ boot, wall time.Duration }

// readClocks reads both clocks.
func readClocks() moment {
	var boot unix.Timespec
	_ = unix.ClockGettime(bootClock, &boot) // every system has it
	return moment{time.Duration(boot.Nano()), time.Duration(time.Now().UnixNano())}
}

func (m moment) add(d time.Duration) moment { return moment{m.boot + d, m.wall + d} }

// until is the time from m to end by the clock that says less.
func (m moment) until(end moment) time.Duration { return min(end.boot-m.boot, end.wall-m.wall) }

// end is when a command is asked to end, and killed.
type end struct{ ask, kill moment }

func (e end) differs(other end) bool {
	for _, d := range []time.Duration{e.ask.boot - other.ask.boot, e.ask.wall - other.ask.wall,
		e.kill.boot - other.kill.boot, e.kill.wall - other.kill.wall} {
		if d > grain || d < -grain {
			return true
		}
	}
	return false
}

// String is the line that tells a watcher.
func (e end) String() string {
	return fmt.Sprintf("%s %d %d %d %d", sayUntil, e.ask.boot, e.ask.wall, e.kill.boot, e.kill.wall)
}

// parseEnd reads such a line.
func parseEnd(words []string) (e end, ok bool) {
	if len(words) != 5 || words[0] != sayUntil {
		return e, false
	}
	for i, d := range []*time.Duration{&e.ask.boot, &e.ask.wall, &e.kill.boot, &e.kill.wall} {
		n, err := strconv.ParseInt(words[i+1], 10, 64)
		if err != nil {
			return e, false
		}
		*d = time.Duration(n)
	}
	return e, true
}

// What this process says to a watcher, and a watcher to it.
const (
	sayUntil    = "until"
	sayForever  = "forever"
	saySignal   = "signal"
	sayContinue = "continue"

	sayStarted = "started"
	sayFailed  = "failed"
	sayStopped = "stopped"
	sayEnded   = "ended"
)
