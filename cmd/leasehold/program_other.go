//go:build !unix

package main

import "os"

// passedOn are the signals that a command under a lock receives when this process does.
var passedOn = []os.Signal{os.Interrupt}

// sameDisk reports whether two files or folders are on one file system, which is not known here.
func sameDisk(string, string) bool { return false }
