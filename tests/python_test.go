package tests

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestPythonClient: the client in Python passes the conformance scripts and the test vectors, and its generated files
// are up to date: what a change of the contract breaks. What only a change of the client can break, and what needs a
// server, is in .ci/sdk/python: its own tests, types, the examples.
func TestPythonClient(t *testing.T) {
	t.Parallel()
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("no python3 on the PATH; install Python 3.10 or later and run: .ci/sdk/python")
	}
	if exec.CommandContext(t.Context(), python, "-c", "import sys; sys.exit(sys.version_info < (3, 10))").Run() != nil {
		t.Skip("python3 on the PATH is older than 3.10; run with a later one: .ci/sdk/python")
	}
	player := build(t, "contracts/conformance/player")
	sdk := filepath.Join("..", "sdk", "python")
	for _, args := range []string{
		"tools/generate.py --check", "tools/docs.py --check",
		"-m unittest discover -s tests -p test_conformance.py", "-m unittest discover -s tests -p test_vectors.py",
	} {
		run := exec.CommandContext(t.Context(), python, strings.Fields(args)...)
		run.Dir = sdk
		run.Env = append(os.Environ(), "PYTHONPATH=src", "PYTHONDONTWRITEBYTECODE=1", "LEASEHOLD_BIN=",
			"LEASEHOLD_PLAYER="+player)
		if out, err := run.CombinedOutput(); err != nil {
			t.Errorf("python3 %s: %v\n%s", args, err, out)
		}
	}
}
