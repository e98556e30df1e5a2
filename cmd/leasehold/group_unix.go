//go:build unix

package main

import (
	"os/exec"
	"syscall"
)

// inGroup starts a command in a process group of its own, so that it can be ended with all that it starts.
func inGroup(c *exec.Cmd) { c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

// terminate asks the group to end.
func terminate(c *exec.Cmd) { _ = syscall.Kill(-c.Process.Pid, syscall.SIGTERM) } // it fails if no process is left

// kill ends the group.
func kill(c *exec.Cmd) { _ = syscall.Kill(-c.Process.Pid, syscall.SIGKILL) }
