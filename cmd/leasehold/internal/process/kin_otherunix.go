//go:build unix && !linux

package process

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// bootClock is the monotonic clock, which on macOS counts while the machine sleeps.
const bootClock = unix.CLOCK_MONOTONIC

// attributes has a command start in a process group of its own.
func attributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// adopt does nothing: orphans are those of the system's first process.
func adopt() {}

// kill kills a group. It reports whether there was someone to kill.
func kill(group int) (found bool) { return syscall.Kill(-group, syscall.SIGKILL) == nil }

// endAll kills a group.
func endAll(group int) { kill(group) }

// reapOrphans does nothing: see [adopt].
func reapOrphans(int) (stop func()) { return func() {} }
