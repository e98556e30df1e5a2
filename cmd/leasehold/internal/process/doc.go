// Package process starts the processes that belong to this one: commands under a lock, and the workers of the
// demonstration. Each is in a group of its own, so that it can be ended with all that it started.
//
// A command under a lock must end before another holder begins, whatever happens to this process: so a watcher is its
// parent, a second process of the same program, which knows when the lease ends. It ends the command when this process
// has died, and when it was told of no later end in time, because this process was stopped or frozen.
//
//	this process ──▶ watcher ──▶ command ──▶ what it started
//	     ▲   │         │  ▲
//	     │   └─────────┼──┘ until when the command may run; signals; closed: this process has died
//	     └─────────────┘ started, stopped, ended; closed: the watcher has died
//
//	              what is ended with the command
//	Linux         all that descends from it, also what has left its group and session, or has lost its parent
//	other Unix    its process group
//	Windows       itself; there is no watcher
package process

import (
	"os/exec"
	"runtime"
	"syscall"
	"time"
)

// Start starts a command in a group of its own, and calls ended with the error of [exec.Cmd.Wait] when it has ended. On
// Linux the system kills it when this process ends. The error of Start is that of a command that did not begin; ended
// is not called then.
func Start(c *exec.Cmd, ended func(error)) error {
	inGroup(c)
	started := make(chan error)
	go func() {
		// Linux kills the command when the thread that started it ends, so that thread stays.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := c.Start()
		started <- err
		if err == nil {
			ended(c.Wait())
		}
	}()
	return <-started
}

// EndError is how a command has ended other than by exit code 0.
type EndError struct {
	Code   int            // its exit code; -1 if a signal killed it
	Signal syscall.Signal // that killed it; 0 if none did
	text   string
}

func (e *EndError) Error() string { return e.text }

// Times say when a command is ended by its watcher, from the time at which they were asked for. The zero value is a
// command that no lease bounds.
type Times struct {
	Ask, Kill time.Duration // SIGTERM and SIGKILL; what is past is done at once
}
