//go:build !unix

package main

import (
	"os"
	"os/exec"
)

// passedOn are the signals that a command under a lock receives when this process does.
var passedOn = []os.Signal{os.Interrupt}

// reopens are the signals at which the file of audit events is opened anew: there are none here.
var reopens []os.Signal

// pass ends the command, because there is no gentler way; what it started goes on, because there are no process groups
// here. It fails if the process has ended.
func pass(c *exec.Cmd, _ os.Signal) { _ = c.Process.Kill() }
