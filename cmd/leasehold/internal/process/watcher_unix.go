//go:build unix

package process

import (
	"bufio"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// watchArgument makes a process of this program a watcher: PROGRAM __watch GRACE PATH NAME ARGUMENT…
const watchArgument = "__watch"

// A watcher begins before the packages of the program that need most: it is a process for each command, and needs none.
//
//nolint:gochecknoinits // see above; of any other process it looks at an argument
func init() {
	if len(os.Args) >= 5 && os.Args[1] == watchArgument {
		os.Exit(watchOver(os.Args[2], os.Args[3], os.Args[4:]))
	}
}

// The files of a watcher.
const (
	fromProgram = 3
	toProgram   = 4
)

// watchOver is a watcher's main.
func watchOver(grace, path string, args []string) int {
	runtime.LockOSThread() // Linux kills the command when the thread that started it ends
	syscall.CloseOnExec(fromProgram)
	syscall.CloseOnExec(toProgram)
	n, err := strconv.ParseInt(grace, 10, 64)
	if err != nil {
		return 1
	}
	adopt()
	signals := make(chan os.Signal, 16)
	for _, s := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1,
		syscall.SIGUSR2, syscall.SIGTSTP} {
		if !signal.Ignored(s) { // or the command would not ignore it
			signal.Notify(signals, s) // they are for the command, which this process must survive
		}
	}
	home, _ := syscall.Getpgid(os.Getppid())
	out := os.NewFile(toProgram, "told")
	lines := make(chan string)
	go read(os.NewFile(fromProgram, "tells"), lines)
	w := &watcher{clock: readClocks, grace: time.Duration(n), say: func(text string) { _, _ = fmt.Fprintln(out, text) }}
	first, ok := <-lines
	if !ok || !w.bounded(first) {
		return 1 // the program died
	}
	//nolint:gosec // what the user asked to run
	pid, err := syscall.ForkExec(path, args, &syscall.ProcAttr{Env: os.Environ(), Files: []uintptr{0, 1, 2},
		Sys: attributes()})
	if err != nil {
		number, _ := err.(syscall.Errno) //nolint:errorlint // it is one
		w.say(sayFailed + " " + strconv.Itoa(int(number)))
		return 0
	}
	t := &terminal{home: home, group: pid}
	w.send = func(s syscall.Signal) bool {
		if s == syscall.SIGKILL {
			return kill(pid)
		}
		return syscall.Kill(-pid, s) == nil
	}
	w.resume = t.give
	t.give()
	_ = syscall.Kill(-pid, syscall.SIGCONT) // it may have stopped, because it asked the terminal before it had it
	w.say(sayStarted + " " + strconv.Itoa(pid))

	status := w.watch(lines, signals, reap(pid))
	t.take()
	how := "alone"
	if t.given {
		how = "terminal"
	}
	w.say(fmt.Sprint(sayEnded, " ", uint32(status), " ", how))
	return 0
}

// read sends each line, and closes lines at the end.
func read(f *os.File, lines chan<- string) {
	defer close(lines)
	for s := bufio.NewScanner(f); s.Scan(); {
		lines <- s.Text()
	}
}

// event is what the system says of a command.
type event struct {
	status syscall.WaitStatus // it has stopped, or has ended
}

// reap waits for the command, and for what it left behind if that has become this process's. The channel is closed when
// there is nothing left.
func reap(pid int) <-chan event {
	events := make(chan event, 1)
	go func() {
		defer close(events)
		for {
			var s syscall.WaitStatus
			switch which, err := syscall.Wait4(-1, &s, syscall.WUNTRACED, nil); {
			case err == syscall.EINTR:
			case err != nil:
				return
			case which == pid:
				events <- event{s}
			}
		}
	}()
	return events
}

// watcher ends a command when it must not run any more.
type watcher struct {
	clock func() moment
	grace time.Duration
	say   func(string)
	send  func(syscall.Signal) bool // to the command's group, SIGKILL to all that belongs to it; false: there is no one
	// has the command go on that the terminal has stopped
	resume func()

	end    end
	leased bool // there is an end
	asked  bool // the command, to end
	paused bool // this process's program has stopped it
	halted bool // it has stopped
}

// Times of a watcher.
const (
	lookAgain = 50 * time.Millisecond // a timer that was set before the machine slept is trusted for so long
	killAgain = 5 * time.Millisecond  // what was started while all was killed; twice as long each time, up to
	killSlow  = time.Second           // which is for what cannot be killed
)

// watch returns when the command has ended, and all that it left behind. Signals that this process gets are passed on, as
// the program does: a command takes its parent for the program.
func (w *watcher) watch(lines <-chan string, signals <-chan os.Signal, events <-chan event) (status syscall.WaitStatus) {
	killing, ended, again := false, false, killAgain
	for {
		var late <-chan time.Time
		switch {
		case killing:
			late = time.After(again)
			again = min(2*again, killSlow)
		case w.leased:
			late = time.After(min(lookAgain, max(0, w.clock().until(w.next()))))
		}
		select {
		case e, ok := <-events:
			switch {
			case !ok:
				w.send(syscall.SIGKILL) // where what is left behind is not a child of this process
				return status
			case e.status.Stopped():
				w.stopped(e.status.StopSignal())
			default:
				status, killing, ended = e.status, true, true
			}
		case line, ok := <-lines:
			if !ok {
				lines = nil
				w.alone()
			} else if w.obey(line) {
				killing = true
			}
		case s := <-signals:
			w.pass(s.(syscall.Signal)) //nolint:forcetypeassert // it is one
		case <-late:
		}
		if killing = killing || w.look(); killing && !w.send(syscall.SIGKILL) && ended {
			return status // what is left is another user's
		}
	}
}

// next is when something is to be done.
func (w *watcher) next() moment {
	if w.asked {
		return w.end.kill
	}
	return w.end.ask
}

// look asks the command to end when that is due, and reports whether it is to be killed. What is late is killed at once:
// a command that was stopped does not go on before.
func (w *watcher) look() bool {
	now := w.clock()
	switch {
	case !w.leased:
		return false
	case now.until(w.end.kill) <= 0:
		return true
	case !w.asked && now.until(w.end.ask) <= 0:
		w.ask()
	}
	return false
}

// ask asks the command to end.
func (w *watcher) ask() {
	w.asked = true
	w.send(syscall.SIGTERM)
	if w.halted {
		w.halted = false
		w.send(syscall.SIGCONT) // or it could not
	}
}

// alone is for a program that has died: nothing renews the lease any more.
func (w *watcher) alone() {
	now := w.clock()
	late := now.add(w.grace)
	if !w.leased || late.until(w.end.kill) > 0 {
		w.end.kill = late
	}
	w.leased, w.asked, w.end.ask = true, false, now
}

// bounded takes note of when the command is to be ended. ok is false if a line is about something else.
func (w *watcher) bounded(line string) (ok bool) {
	if line == sayForever {
		return true
	}
	e, ok := parseEnd(strings.Fields(line))
	if ok {
		w.end, w.leased = e, true
	}
	return ok
}

// obey does what the program says. It reports whether that is to kill the command.
func (w *watcher) obey(line string) (kills bool) {
	if w.bounded(line) {
		return false
	}
	if line == sayContinue {
		w.paused, w.halted = false, false
		if w.look() { // the program goes on too late
			return true
		}
		w.resume()
		w.send(syscall.SIGCONT)
		return false
	}
	what, number, _ := strings.Cut(line, " ")
	n, err := strconv.Atoi(number)
	if what != saySignal || err != nil {
		return false
	}
	s := syscall.Signal(n)
	if s == syscall.SIGKILL {
		return true
	}
	w.pass(s)
	return false
}

// pass sends a signal to the command.
func (w *watcher) pass(s syscall.Signal) {
	w.asked = w.asked || s == syscall.SIGTERM // and is not asked twice
	w.paused = w.paused || s == syscall.SIGTSTP
	w.send(s)
}

// stopped is for a command that a signal has stopped. That of a terminal stops the program, too.
func (w *watcher) stopped(s syscall.Signal) {
	w.halted = true
	if !w.paused && (s == syscall.SIGTSTP || s == syscall.SIGTTIN || s == syscall.SIGTTOU) {
		w.paused = true
		w.say(sayStopped)
	}
}

// terminal is that of the command's standard input. While the command runs, its group is the one that may read from it
// and that has its keys, if the program's group was.
type terminal struct {
	home, group int  // the program's, and the command's
	given       bool // the command's group has it, unless it has passed it on
}

// give gives it to the command's group.
func (t *terminal) give() {
	now, err := unix.IoctlGetInt(0, unix.TIOCGPGRP)
	if t.given = err == nil && now == t.group; t.given || err != nil || now != t.home {
		return
	}
	signal.Ignore(syscall.SIGTTOU) // that of a process in the background which does this
	t.given = unix.IoctlSetPointerInt(0, unix.TIOCSPGRP, t.group) == nil
}

// take gives it back, unless another group has it that lives, such as that of the shell in whose background the
// command went on.
func (t *terminal) take() {
	now, err := unix.IoctlGetInt(0, unix.TIOCGPGRP)
	if err == nil && t.given && (now == t.group || syscall.Kill(-now, 0) == syscall.ESRCH) {
		_ = unix.IoctlSetPointerInt(0, unix.TIOCSPGRP, t.home)
	}
}
