//go:build unix

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// inGroup makes the end of a program that of the programs which it started.
func inGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
}

// endGroup ends what a program that has ended left behind: its group, and where the system tells, what has a group of
// its own. The variable in its environment is this run's alone.
func endGroup(cmd *exec.Cmd, variable string) {
	if cmd.Process != nil {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
	}
	all, _ := filepath.Glob("/proc/[0-9]*/environ") // Linux
	for _, path := range all {
		environ, _ := os.ReadFile(path) // it may have ended, or be another's
		if !slices.Contains(strings.Split(string(environ), "\x00"), variable) {
			continue
		}
		if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path))); err == nil {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
}
