//go:build unix

package stage_test

import (
	"syscall"
	"testing"
)

// TestGroup: a worker is in a group of its own, so that Ctrl-C reaches the demonstration only, which ends its workers.
func TestGroup(t *testing.T) {
	w, _ := worker(t)
	if group, err := syscall.Getpgid(w.PID); err != nil || group != w.PID {
		t.Errorf("worker %d is in group %d, %v", w.PID, group, err)
	}
}
