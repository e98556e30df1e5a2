package main

import (
	"errors"
	"io"
	"testing"

	"github.com/leasehold-dev/leasehold/once"
)

// TestFailedBefore: an analysis that was FAILED before is not a success, and has an exit code of its own.
func TestFailedBefore(t *testing.T) {
	err := (&onceCmd{Analysis: "a1"}).exit(once.Outcome{Status: once.AlreadyFailed}, &streams{out: io.Discard, err: io.Discard})
	if e, ok := errors.AsType[*exitError](err); !ok || e.code != exitDead || e.Error() != "a1 is FAILED and does not run again; its failure_reason says why" {
		t.Errorf("got %v", err)
	}
}
