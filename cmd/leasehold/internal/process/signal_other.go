//go:build !unix

package process

import (
	"errors"
	"os/exec"
)

// CanStop says whether the system can stop a process and let it go on.
const CanStop = false

// Stop fails: this system has no such signal.
func Stop(*exec.Cmd) error { return errors.ErrUnsupported }

// Continue fails: this system has no such signal.
func Continue(*exec.Cmd) error { return errors.ErrUnsupported }

// inGroup does nothing: there are no process groups here.
func inGroup(*exec.Cmd) {}
