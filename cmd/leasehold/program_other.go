//go:build !unix

package main

import (
	"os"
	"os/exec"
)

// passedOn are the signals that a command under a lock receives when this process does.
var passedOn = []os.Signal{os.Interrupt}

// There are no process groups here: the command itself is ended, what it started is not.
func inGroup(*exec.Cmd) {}

// pass ends the command, because there is no gentler way. It fails if the process has ended.
func pass(c *exec.Cmd, _ os.Signal) { _ = c.Process.Kill() }
