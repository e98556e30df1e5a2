//go:build !unix

package main

import "os/exec"

// There are no process groups here: the command itself is ended, what it started is not.
func inGroup(*exec.Cmd) {}

// terminate is kill: there is no gentler way.
func terminate(c *exec.Cmd) { kill(c) }

func kill(c *exec.Cmd) { _ = c.Process.Kill() } // it fails if the process has ended
