//go:build unix

package demo

import (
	"syscall"
	"testing"
)

// TestGroup: a worker is in a group of its own, so that Ctrl-C reaches the demonstration only, which ends its workers.
func TestGroup(t *testing.T) {
	w, _ := worker(t)
	if group, err := syscall.Getpgid(w.pid); err != nil || group != w.pid {
		t.Errorf("worker %d is in group %d, %v", w.pid, group, err)
	}
}
