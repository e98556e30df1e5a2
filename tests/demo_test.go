package tests

import (
	"bytes"
	"encoding/json"
	"os/exec"
	"testing"
)

// TestDemo runs the demonstration as a new user does: it exits by itself, and all its checks pass.
func TestDemo(t *testing.T) {
	t.Parallel()
	var stderr bytes.Buffer
	cmd := exec.CommandContext(t.Context(), binary(t), "demo", "--json")
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil || stderr.Len() > 0 {
		t.Fatalf("%v, %s\n%s", err, &stderr, out)
	}
	var summary struct {
		Held, Checks int
		OK           bool
	}
	lines := bytes.Split(bytes.TrimSpace(out), []byte("\n"))
	if err := json.Unmarshal(lines[len(lines)-1], &summary); err != nil || !summary.OK || summary.Held != 11 ||
		summary.Checks != 11 {
		t.Errorf("%+v, %v\n%s", summary, err, out)
	}
}
