//go:build unix && !linux

package main

import (
	"os/exec"
	"syscall"
)

// inGroup starts a command in a process group of its own.
func inGroup(c *exec.Cmd) { c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }
