//go:build unix

package main

import (
	"os/exec"
	"syscall"
)

// inGroup makes the end of a program that of the programs which it started.
func inGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
}
