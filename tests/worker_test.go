package tests

import (
	"bufio"
	"bytes"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/leasehold-dev/leasehold/adapters/sqlitestore"
	"github.com/leasehold-dev/leasehold/client"
	"github.com/leasehold-dev/leasehold/contracts"
	"github.com/leasehold-dev/leasehold/once"
	"github.com/leasehold-dev/leasehold/repo/docstore"
)

// ordered is a server on a file in which analyses have been ordered, and a client of it.
func ordered(t *testing.T, ids ...string) (*process, *client.Analyses) {
	t.Helper()
	dir := t.TempDir()
	store, err := sqlitestore.Open(unhurried(t), filepath.Join(dir, "leasehold.db"), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range ids {
		w := docstore.Write{Key: docstore.Key{Kind: "analyses", ID: id}, Set: map[string]docstore.Value{
			"status": docstore.String("PENDING"), "lockToken": docstore.Int(0), // counted up: short numbers are easier to read
		}}
		if _, err := store.Write(unhurried(t), w); err != nil {
			t.Fatal(err)
		}
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	p := start(t, "--data", dir, "--max-takeovers", "1000") // some tests kill workers by the dozen
	c, err := client.New(p.url, nil)
	if err != nil {
		t.Fatal(err)
	}
	return p, c.Analyses()
}

// TestPythonWorker: a worker in another language, over HTTP alone. It is killed in the middle of its run, another takes
// over, and a third finds the work done.
func TestPythonWorker(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("processes are not stopped by signals here")
	}
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("no Python: apt-get install python3")
	}
	p, gate := ordered(t, "a1", "a2", "a3")
	worker := func(args ...string) *exec.Cmd {
		c := exec.CommandContext(unhurried(t), python, append([]string{"../examples/worker.py"}, args...)...)
		c.Env = append(environment(), "LEASEHOLD_SERVER="+p.url, "TTL=10")
		return c
	}
	// begin starts a worker that works for a long time, and waits until it does.
	begin := func(id string) (*exec.Cmd, *bytes.Buffer) {
		t.Helper()
		c, stderr := worker(id, "600"), &bytes.Buffer{}
		c.Stderr = stderr
		stdout, err := c.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Process.Kill() })
		if line := bufio.NewScanner(stdout); !line.Scan() || line.Text() != "running under token 1" {
			t.Fatalf("the worker said %q\n%s", line.Text(), stderr.Bytes())
		}
		return c, stderr
	}
	end := func(c *exec.Cmd, code int, want string) {
		t.Helper()
		out, _ := c.CombinedOutput()
		if c.ProcessState == nil || c.ProcessState.ExitCode() != code || string(out) != want {
			t.Errorf("got  %v %q\nwant exit status %d %q", c.ProcessState, out, code, want)
		}
	}

	t.Run("killed", func(t *testing.T) {
		first, _ := begin("a1")
		time.Sleep(10500 * time.Millisecond) // longer than the lock, which its heartbeat keeps alive
		end(worker("a1", "0"), 3, "skipped: locked\n")
		if err := first.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = first.Wait()
		for deadline := time.Now().Add(failAfter); ; time.Sleep(20 * time.Millisecond) {
			if a, err := gate.Get(unhurried(t), "a1"); err != nil || time.Now().After(deadline) {
				t.Fatalf("%+v, %v", a, err)
			} else if !a.Locked {
				break // the lock has expired
			}
		}
		end(worker("a1", "0"), 0, "running under token 2\nREADY: analyzed under token 2\n")
		end(worker("a1"), 0, "skipped: already_finished\n")
		want := contracts.Analysis{AnalysisID: "a1", Status: "READY", Finished: true, Result: "analyzed under token 2"}
		a, err := gate.Get(unhurried(t), "a1")
		want.FinishedAt = a.FinishedAt
		if err != nil || a != want || a.FinishedAt == "" {
			t.Errorf("got %+v, %v\nwant %+v", a, err, want)
		}
	})

	t.Run("stopped", func(t *testing.T) {
		c, stderr := begin("a2")
		if err := c.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		_ = c.Wait()
		if c.ProcessState.ExitCode() != 1 || stderr.String() != "Stopped: SIGTERM\n" {
			t.Errorf("%v\n%s", c.ProcessState, stderr.Bytes())
		}
		if a, err := gate.Get(unhurried(t), "a2"); err != nil || a.Locked || a.OwnerID != "" || a.Failures != 0 {
			t.Errorf("after the release: %+v, %v", a, err)
		}
	})

	t.Run("overtaken", func(t *testing.T) {
		c, stderr := begin("a3")
		a, err := gate.Get(unhurried(t), "a3")
		if err != nil {
			t.Fatal(err)
		}
		// A release under the same owner and token: the worker learns of it at its next refresh.
		if err := gate.Release(unhurried(t), once.Lock{RunID: "a3", Owner: a.OwnerID, Token: 1}, ""); err != nil {
			t.Fatal(err)
		}
		_ = c.Wait()
		if c.ProcessState.ExitCode() != 4 || !strings.HasPrefix(stderr.String(), "lost: LEASE_RELEASED: ") {
			t.Errorf("%v\n%s", c.ProcessState, stderr.Bytes())
		}
	})

	t.Run("unknown", func(*testing.T) {
		end(worker("a4"), 5, "NOT_FOUND: there is no document analyses/a4\n")
	})
}
