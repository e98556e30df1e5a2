//go:build unix

package main

import (
	"os"
	"os/exec"
	"syscall"
)

// passedOn are the signals that a command under a lock receives when this process does.
var passedOn = []os.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1,
	syscall.SIGUSR2}

// reopens are the signals at which the file of audit events is opened anew.
var reopens = []os.Signal{syscall.SIGHUP}

// pass sends a signal to the command and all that it started. It fails if no process is left.
func pass(c *exec.Cmd, s os.Signal) {
	if number, ok := s.(syscall.Signal); ok {
		_ = syscall.Kill(-c.Process.Pid, number)
	}
}
