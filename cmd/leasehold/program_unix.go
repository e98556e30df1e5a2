//go:build unix

package main

import (
	"os"
	"syscall"
)

// passedOn are the signals that a command under a lock receives when this process does.
var passedOn = []os.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1,
	syscall.SIGUSR2}

// sameDisk reports whether two files or folders are on one file system.
func sameDisk(one, other string) bool {
	var of [2]*syscall.Stat_t
	for i, path := range []string{one, other} {
		info, err := os.Stat(path)
		if err != nil {
			return false
		}
		if of[i], _ = info.Sys().(*syscall.Stat_t); of[i] == nil {
			return false
		}
	}
	return of[0].Dev == of[1].Dev
}
