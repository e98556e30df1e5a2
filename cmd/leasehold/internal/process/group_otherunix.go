//go:build unix && !linux

package process

import (
	"os/exec"
	"syscall"
)

// inGroup has a command start in a process group of its own.
func inGroup(c *exec.Cmd) { c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }
