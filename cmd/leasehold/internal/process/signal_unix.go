//go:build unix

package process

import (
	"errors"
	"os"
	"os/exec"
	"syscall"
)

// CanStop says whether the system can stop a process and let it go on.
const CanStop = true

// Stop stops a command, and nothing that it started: SIGSTOP. It returns when the command has stopped, so that whatever
// it does next, it does after [Continue]; or with [os.ErrProcessDone] when it has ended.
func Stop(c *exec.Cmd) error {
	if err := c.Process.Signal(syscall.SIGSTOP); err != nil {
		return err
	}
	for { // the system stops one thread after the other
		var status syscall.WaitStatus
		switch _, err := syscall.Wait4(c.Process.Pid, &status, syscall.WUNTRACED, nil); {
		case errors.Is(err, syscall.EINTR):
		case err != nil || !status.Stopped():
			return os.ErrProcessDone
		default:
			return nil
		}
	}
}

// Continue lets a command go on that was stopped: SIGCONT.
func Continue(c *exec.Cmd) error { return c.Process.Signal(syscall.SIGCONT) }
