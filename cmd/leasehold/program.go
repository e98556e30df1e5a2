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

// program is a command of the user that runs under a lock: in a process group of its own, so that it can be ended with
// all that it started. On Linux it is killed, without what it started, when this process ends in whatever way.
type program struct {
	name  string
	send  func(os.Signal) // to the command and all that it started
	ended chan struct{}   // closed when the command has ended, and what it left behind was killed
	err   error           // of the command; to be read once ended is closed
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
func begin(path string, command, environ, variables []string, s *streams) (*program, error) {
	c := exec.Command(path, command[1:]...) //nolint:gosec,noctx // what the user asked to run; it is ended as a group
	c.Args[0] = command[0]
	c.Stdout, c.Stderr = s.out, s.err
	if in, err := os.Stdin.Stat(); err == nil && in.Mode()&os.ModeCharDevice == 0 {
		c.Stdin = os.Stdin // a terminal belongs to this process's group: reading from it would stop the command
	}
	c.Env = append(settings.WithoutSecrets(environ), variables...)
	p := &program{name: command[0], send: func(s os.Signal) { pass(c, s) }, ended: make(chan struct{})}
	err := process.Start(c, func(err error) {
		p.err = err
		p.send(os.Kill) // what it left behind: it must not work on when another holds the lock
		close(p.ended)
	})
	if err != nil {
		return nil, notStarted(err)
	}
	return p, nil
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
	ended, ok := errors.AsType[*exec.ExitError](err)
	if !ok {
		return 0, false
	}
	if status, ok := ended.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return exitSignal + int(status.Signal()), true
	}
	return ended.ExitCode(), true
}

// itsOwn adds to the error of a command that its exit code is the command's, if Leasehold has a meaning for it, too.
// who is the command of Leasehold whose help says which.
func itsOwn(err error, code int, who string) error {
	ended, _ := errors.AsType[*exec.ExitError](err)
	if code < exitUnavailable || ended == nil || ended.ExitCode() < 0 {
		return err
	}
	return fmt.Errorf("%w (the command's own; see \"leasehold %s --help\" for what Leasehold means by it)", err, who)
}
