package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"syscall"
	"time"

	"github.com/leasehold-dev/leasehold/cmd/leasehold/internal/process"
	"github.com/leasehold-dev/leasehold/functions/settings"
)

// program is a command of the user that runs under a lock, which ends with all that it started: see package process.
type program struct {
	name        string
	send        func(os.Signal) // to the command and all that it started
	late        chan struct{}   // closed when it must be killed, because its lease ends soon
	ended       chan struct{}   // closed when the command has ended, and what it left behind was killed
	err         error           // of the command; to be read once ended is closed
	interrupted bool            // by the key of a terminal, and so this process is; to be read as err
}

// bound is the lease that bounds a command.
type bound struct {
	left  func() time.Duration // nil: there is none
	last  time.Duration        // how long before its end the command is killed
	ask   time.Duration        // and is asked to end
	grace time.Duration        // how long it has between the two, if this process has died
}

// last is how long before the end of a lease of so long a command is killed.
func last(ttl time.Duration) time.Duration { return min(ttl/20, time.Second) }

// later is how much later than this process the command's watcher ends it, if this process does not.
func (b bound) later() time.Duration { return b.last / 4 }

// times are those of the watcher.
func (b bound) times() process.Times {
	left := b.left()
	kill := left - b.last + b.later()
	return process.Times{Ask: min(left-b.ask+b.later(), kill), Kill: kill}
}

// find returns the path of a command. The error has its exit code.
func find(name string) (path string, err error) {
	if path, err = exec.LookPath(name); err != nil {
		return "", notStarted(err)
	}
	return path, nil
}

// notStarted is the error of a command that did not begin.
func notStarted(err error) error {
	code := exitNoExec
	if errors.Is(err, exec.ErrNotFound) || errors.Is(err, fs.ErrNotExist) {
		code = exitNoCommand
	}
	return &exitError{code, err}
}

// begin starts a command that [find] found, with variables beside those of this process, but for Leasehold's secrets.
// The error is that of a command that did not begin.
func begin(path string, command, environ, variables []string, b bound, s *streams) (*program, error) {
	c := exec.Command(path, command[1:]...) //nolint:gosec,noctx // what the user asked to run; it is ended as a group
	c.Args[0] = command[0]
	c.Stdin, c.Stdout, c.Stderr = os.Stdin, s.out, s.err
	c.Env = append(settings.WithoutSecrets(environ), variables...)
	times := b.times
	if b.left == nil {
		times = nil
	}
	w, err := process.Watch(c, b.grace, times)
	if err != nil {
		return nil, notStarted(err)
	}
	p := &program{name: command[0], send: w.Signal, late: make(chan struct{}), ended: make(chan struct{})}
	go func() {
		if b.left != nil {
			p.keep(w, b)
		}
		<-w.Ended()
		p.err, p.interrupted = w.Err(), w.Interrupted()
		close(p.ended)
	}()
	return p, nil
}

// keep tells the watcher of a command each end of its lease, until the command has ended.
func (p *program) keep(w *process.Watched, b bound) {
	look := time.NewTicker(b.later())
	defer look.Stop()
	for late := false; ; {
		select {
		case <-look.C:
			w.Look()
			if !late && b.left() <= b.last {
				late = true
				close(p.late)
			}
		case <-w.Ended():
			return
		}
	}
}

// end ends the command and all that it started, and returns when it has ended: it is asked to end, and killed after the
// time of grace, or as soon as over says so.
func (p *program) end(grace time.Duration, over func() bool) {
	late := time.NewTimer(grace)
	defer late.Stop()
	look := time.NewTicker(25 * time.Millisecond)
	defer look.Stop()
	for asked := false; !over(); asked = true {
		if !asked {
			p.pass(syscall.SIGTERM)
		}
		select {
		case <-p.ended:
			return
		case <-late.C:
			p.kill()
			return
		case <-look.C:
		}
	}
	p.kill()
}

// pass sends a signal to the command and all that it started, unless it has ended.
func (p *program) pass(s os.Signal) {
	select {
	case <-p.ended:
	default:
		p.send(s)
	}
}

// kill ends the command and all that it started at once, and returns when it has ended.
func (p *program) kill() {
	p.pass(os.Kill)
	<-p.ended
}

// outcome is the error of a command that has ended; nil if it succeeded.
func (p *program) outcome() error {
	if p.err != nil {
		return fmt.Errorf("%s: %w", p.name, p.err)
	}
	return nil
}

// exitCode is the exit code to pass on for the error of a command that has ended: its own, or that of the signal that
// killed it. ok is false if the error is not that of a command.
func exitCode(err error) (code int, ok bool) {
	ended, ok := errors.AsType[*process.EndError](err)
	if !ok {
		return 0, false
	}
	if ended.Signal != 0 {
		return exitSignal + int(ended.Signal), true
	}
	return ended.Code, true
}

// itsOwn adds to the error of a command that its exit code is the command's, if Leasehold has a meaning for it, too.
// who is the command of Leasehold whose help says which.
func itsOwn(err error, code int, who string) error {
	ended, _ := errors.AsType[*process.EndError](err)
	if code < exitUnavailable || ended == nil || ended.Code < 0 {
		return err
	}
	return fmt.Errorf("%w (the command's own; see \"leasehold %s --help\" for what Leasehold means by it)", err, who)
}
