//go:build !unix

package main

import (
	"os"
	"os/exec"
)

// passedOn are the signals that a command under a lock receives when this process does.
var passedOn = []os.Signal{os.Interrupt}

// pass ends the command, because there is no gentler way; what it started goes on, because there are no process groups
// here. It fails if the process has ended.
func pass(c *exec.Cmd, _ os.Signal) { _ = c.Process.Kill() }

// sameDisk reports whether two files or folders are on one file system, which is not known here.
func sameDisk(string, string) bool { return false }
