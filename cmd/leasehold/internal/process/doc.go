// Package process starts the processes that belong to this one: commands under a lock, and the workers of the
// demonstration. Each is in a group of its own, so that it can be ended with all that it started, and the keys of a
// terminal reach this process only.
//
//	              this process ends, in whatever way
//	Linux         the system kills the command, not what it started
//	other Unix    a command that was stopped is continued and hung up; others go on
//	Windows       the command goes on; there are no groups, and nothing can be stopped
package process

import (
	"os/exec"
	"runtime"
)

// Start starts a command in a group of its own, and calls ended with the error of [exec.Cmd.Wait] when it has ended.
// The error of Start is that of a command that did not begin; ended is not called then.
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
