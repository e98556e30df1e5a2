package tests

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/leasehold-dev/leasehold/client"
	"github.com/leasehold-dev/leasehold/contracts"
	"github.com/leasehold-dev/leasehold/once"
	"github.com/leasehold-dev/leasehold/repo/analysis"
)

// TestBoundsAgree: the client rejects what the server would, and nothing else.
func TestBoundsAgree(t *testing.T) {
	t.Parallel()
	if once.MaxResultBytes != analysis.MaxResultBytes || once.MaxTTL != analysis.MaxTTLSeconds*time.Second {
		t.Error("the bounds of once are not those of repo/analysis")
	}
}

// What differs from run to run in what commands say.
var (
	times  = regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z`)
	dues   = regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d(:00)?Z`)
	dates  = regexp.MustCompile(`until \d{4}-\d\d-\d\d(T[0-9:]+Z)? or later`)
	tokens = regexp.MustCompile(`\b\d{16}\b`)
)

// masked is what a command says without what differs from run to run.
func masked(said string) string {
	said = dates.ReplaceAllString(times.ReplaceAllString(said, "TIME"), "until DATE or later")
	return tokens.ReplaceAllString(dues.ReplaceAllString(said, "DUE"), "TOKEN")
}

// TestNightlyJob: of three machines whose clocks start a job at the same time, one runs it, and all three exit with 0
// and say nothing, so that cron sends no mail: with a server, and with a store that all of them open.
func TestNightlyJob(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("the commands are those of a Unix shell")
	}
	p := start(t, "--data", t.TempDir())
	for name, where := range map[string][]string{
		"server": {"--server", p.url}, "store": {"--store", "sqlite", "--data", t.TempDir()},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			job := append(append([]string{"once", "nightly", "--every", "8000h", "--skip", "-q"}, where...), "--", "sh", "-c",
				"echo $LEASEHOLD_FENCING_TOKEN >> "+dir+"/ran; until [ -e "+dir+"/go ]; do sleep 0.05; done")
			type end struct {
				code           int
				stdout, stderr string
			}
			ended := make(chan end, 3)
			for range cap(ended) {
				go func() {
					var e end
					e.code, e.stdout, e.stderr = run(t, nil, job...)
					ended <- e
				}()
			}
			for i := range cap(ended) {
				if i == 2 { // the others are done while the job still runs
					if err := os.WriteFile(filepath.Join(dir, "go"), nil, 0o600); err != nil {
						t.Fatal(err)
					}
				}
				if got := <-ended; got != (end{}) {
					t.Errorf("a machine: %+v", got)
				}
			}
			if code, stdout, stderr := run(t, nil, job...); code != 0 || stdout != "" || stderr != "" {
				t.Errorf("a fourth, later: %d %q %q", code, stdout, stderr)
			}
			if ran, err := os.ReadFile(filepath.Join(dir, "ran")); err != nil || bytes.Count(ran, []byte("\n")) != 1 {
				t.Errorf("the job ran as %q, %v", ran, err)
			}
		})
	}
}

// TestOnceCommand walks through `leasehold once` with its exit codes, as a script would.
func TestOnceCommand(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("the commands are those of a Unix shell")
	}
	p := start(t, "--store", "memory", "--max-takeovers", "1000")
	c, err := client.New(p.url, nil)
	if err != nil {
		t.Fatal(err)
	}
	gate := c.Runs("acme")
	env := []string{"LEASEHOLD_SERVER=" + p.url, "LEASEHOLD_OWNER=ci-42", "LEASEHOLD_TENANT=acme"}
	noProgram, noInterpreter := filepath.Join(t.TempDir(), "data"), filepath.Join(t.TempDir(), "script")
	for path, content := range map[string]string{noProgram: "no program\n", noInterpreter: "#!/no/such/interpreter\n"} {
		program(t, path, content)
	}
	const running = "leasehold: running %s; its record is kept until DATE or later, and it does not run again before\n"
	begins := func(name string) string { return strings.ReplaceAll(running, "%s", name) }
	for _, c := range []struct {
		args           []string
		code           int
		stdout, stderr string // "…" at the end allows anything to follow
	}{
		{[]string{"a1", "--", "sh", "-c", "echo $LEASEHOLD_RUN_ID of $LEASEHOLD_TENANT under $LEASEHOLD_FENCING_TOKEN${LEASEHOLD_DUE_AT-}; exit 7"},
			7, "a1 of acme under TOKEN\n", begins("a1") + "leasehold: the run of a1 failed, and may be tried again: sh: exit status 7\n"},
		{[]string{"-q", "a1", "--", "sh", "-c", "echo s3://results/a1 > $LEASEHOLD_RESULT"}, 0, "", ""},
		{[]string{"a1", "--", "echo", "twice"}, 0, "",
			"leasehold: a1 is finished already, since TIME, with the result s3://results/a1, and nothing was run; to run it once a day: leasehold once a1 --every day -- COMMAND\n"},
		{[]string{"-q", "a1", "--", "echo", "twice"}, 0, "", ""},
		{[]string{"-q", "--max-failures", "1", "a2", "--", "false"}, 1, "", "leasehold: a2 is FAILED: false: exit status 1\n"},
		{[]string{"-q", "--skip", "a2", "--", "echo", "x"}, 123, "",
			"leasehold: a2: the run was FAILED before, and does not begin again unless it is retried: false: exit status 1: leasehold run retry --tenant acme a2 --reason WHY\n"},
		{[]string{"--keep", "90m", "a9", "--", "true"}, 0, "", begins("a9")},
		{[]string{"--every", "day", "n", "--", "sh", "-c", "echo $LEASEHOLD_RUN_ID $LEASEHOLD_DUE_AT"}, 0, "n DUE\n",
			"leasehold: running n@DUE (due 00:00 UTC); its record is kept until DATE or later, the next one is due at 00:00 UTC\n"},
		{[]string{"--every", "day", "n", "--", "echo", "x"}, 0, "",
			"leasehold: n@DUE (due 00:00 UTC) is finished already, since TIME, and nothing was run; the next one is due at 00:00 UTC\n"},
		{[]string{"--every", "day", "-q", "n", "--", "echo", "x"}, 0, "", ""},
		{[]string{"--every", "90m", "e", "--", "true"}, 0, "",
			"leasehold: running e; its record is kept until DATE or later, and it runs again 1h30m from now at the earliest\n"},
		{[]string{"--every", "90m", "e", "--", "true"}, 0, "",
			"leasehold: e is finished already, since TIME, and nothing was run; it runs again in 1h…"},
		{[]string{"--every", "0", "n", "--", "echo", "x"}, 125, "", "leasehold: --every 0: must be hour, day or week, or whole seconds from 1s to 3660d, such as 90m\n"},
		{[]string{"--at", "25:00", "n", "--", "echo", "x"}, 125, "", "leasehold: --at \"25:00\": must be a time of day from 00:00 to 23:59\n"},
		{[]string{"--at", "23:00", "--tz", "Mars/Olympus", "n", "--", "echo", "x"}, 125, "", "leasehold: --tz \"Mars/Olympus\": there is no such time zone…"},
		{[]string{"--keep", "0", "n", "--", "echo", "x"}, 125, "", "leasehold: --keep: must not be 0: leave it out for the default\n…"},
		{[]string{"--max-takeovers", "-1", "n", "--", "true"}, 125, "", "leasehold: …"},
		{[]string{"-q", "a7", "--", "sh", "-c", "kill -TERM $$"}, 128 + 15, "",
			"leasehold: the run of a7 failed, and may be tried again: sh: signal: terminated\n"},
		{[]string{"-q", "a7", "--", "sh", "-c", "exit 123"}, 123, "",
			"leasehold: the run of a7 failed, and may be tried again: sh: exit status 123 (the command's own; see \"leasehold once --help\" for what Leasehold means by it)\n"},
		{[]string{"a3", "--", "./once_test.go"}, 126, "", "leasehold: exec: \"./once_test.go\": permission denied\n"},
		{[]string{"a3", "--", "./no-such-file"}, 127, "",
			"leasehold: exec: \"./no-such-file\": stat ./no-such-file: no such file or directory\n"},
		{[]string{"-q", "a7", "--", noProgram}, 126, "", "leasehold: the run of a7 failed, and may be tried again: fork/exec " +
			noProgram + ": exec format error\n"},
		{[]string{"-q", "a7", "--", noInterpreter}, 127, "", "leasehold: the run of a7 failed, and may be tried again: fork/exec " +
			noInterpreter + ": no such file or directory\n"},
		{[]string{"a/3", "--", "true"}, 125, "", "leasehold: run once: the run ID cannot be \"a/3\": …"},
		{[]string{"--tenant", ".", "a3", "--", "true"}, 125, "", "leasehold: --tenant: …"},
		{[]string{"a3", "--", "no-such-command-here"}, 127, "",
			"leasehold: exec: \"no-such-command-here\": executable file not found in $PATH\n"},
		{[]string{"--ttl", "1500ms", "a3", "--", "true"}, 125, "",
			"leasehold: --ttl 1.5s: must be whole seconds from 1s to 24h0m0s\n"},
		{[]string{"--heartbeat", "5m", "a3", "--", "true"}, 125, "",
			"leasehold: --heartbeat 5m0s: must be less than --ttl 5m0s, or the lock is lost each time\n"},
		{[]string{"a3"}, 125, "", "…"},
		{[]string{"--data", "x", "a3", "--", "true"}, 125, "",
			"leasehold: --data is a setting of a store: name the store with --store, such as --store sqlite\n"},
		{[]string{"--store", "sqlite", "--server", "http://127.0.0.1:8080", "a3", "--", "true"}, 125, "",
			"leasehold: --server and --store cannot both be given: a store is opened without a server\n"},
		{[]string{"--store", "memory", "a3", "--", "true"}, 125, "",
			"leasehold: --store memory is seen by no other process: choose the store that all of them use\n"},
		{[]string{"--store", "sqlite", "--data", "/dev/null/x", "a3", "--", "true"}, 118, "", "…"},
		{[]string{"--color", "red", "a3", "--", "true"}, 125, "", "leasehold: unknown flag --color…"},
	} {
		t.Run(strings.Join(c.args, " "), func(t *testing.T) {
			code, stdout, stderr := run(t, env, append([]string{"once"}, c.args...)...)
			stdout, stderr = masked(stdout), masked(stderr)
			prefix, open := strings.CutSuffix(c.stderr, "…")
			if code != c.code || stdout != c.stdout || stderr != c.stderr && (!open || !strings.HasPrefix(stderr, prefix)) {
				t.Errorf("got  %d %q %q\nwant %d %q %q", code, stdout, stderr, c.code, c.stdout, c.stderr)
			}
		})
	}
	a, err := gate.Get(t.Context(), "a1")
	if err != nil || a.Status != contracts.RunReady || a.Failures != 1 || a.Result != "s3://results/a1" || a.FinishedAt == "" ||
		a.DueAt != "" {
		t.Errorf("a1: %+v, %v", a, err)
	}

	// A command that starts another, in its group, and says so by its process ID.
	begin := func(id string) (*exec.Cmd, int, int64, *bytes.Buffer) {
		t.Helper()
		path := binary(t)
		c := exec.CommandContext(t.Context(), path, "once", "-q", "--ttl", "60s", "--heartbeat", "200ms", id, "--",
			"sh", "-c", "sleep 600 & echo $! $LEASEHOLD_FENCING_TOKEN; wait")
		var stderr bytes.Buffer
		c.Env, c.Stderr = append(environment(), env...), &stderr
		stdout, err := c.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Process.Kill() })
		line := bufio.NewScanner(stdout)
		line.Scan()
		child, token := 0, int64(0)
		if _, err := fmt.Sscan(line.Text(), &child, &token); err != nil {
			t.Fatalf("the command said %q\n%s", line.Text(), stderr.Bytes())
		}
		killAtEnd(t, child)
		return c, child, token, &stderr
	}
	t.Run("locked, then lost", func(t *testing.T) {
		c, child, token, stderr := begin("a3")
		code, _, says := run(t, env, "once", "a3", "--", "echo", "x")
		if code != 120 || !strings.HasPrefix(says, "leasehold: another worker runs a3; its lock expires in ") {
			t.Errorf("locked: %d %q", code, says)
		}
		code, _, says = run(t, env, "once", "--skip", "a3", "--", "echo", "x")
		if code != 0 || !strings.HasPrefix(says, "leasehold: skipped: another worker runs a3; its lock expires in ") {
			t.Errorf("locked, with --skip: %d %q", code, says)
		}
		if code, _, says = run(t, env, "once", "--skip", "-q", "a3", "--", "echo", "x"); code != 0 || says != "" {
			t.Errorf("locked, with --skip -q: %d %q", code, says)
		}
		if err := gate.Release(t.Context(), once.Lock{RunID: "a3", Owner: "ci-42", Token: token}, ""); err != nil {
			t.Fatal(err)
		}
		_ = c.Wait()
		if c.ProcessState.ExitCode() != 121 || !strings.HasPrefix(stderr.String(),
			"leasehold: the lock is lost: LEASE_RELEASED: ") {
			t.Errorf("lost: %v %s", c.ProcessState, stderr.Bytes())
		}
		waitUntilGone(t, child)
	})
	// A run that still runs is not over: what the command left behind must not work on while another run begins.
	for _, c := range []struct {
		id, status string
		code       int
	}{{"a5", "7", 7}, {"a6", "0", 0}} {
		t.Run("child left behind by exit "+c.status, func(t *testing.T) {
			code, stdout, stderr := run(t, env, "once", c.id, "--", "sh", "-c", "sleep 600 >/dev/null 2>&1 & echo $!; exit "+
				c.status)
			child, err := strconv.Atoi(strings.TrimSpace(stdout))
			if err != nil || code != c.code {
				t.Fatalf("%d %q %q", code, stdout, stderr)
			}
			killAtEnd(t, child)
			waitUntilGone(t, child)
		})
	}
	t.Run("stopped", func(t *testing.T) {
		c, child, _, stderr := begin("a4")
		if err := c.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		_ = c.Wait()
		if c.ProcessState.ExitCode() != 130 ||
			stderr.String() != "leasehold: interrupted: the run of a4 was stopped, and may be tried again\n" {
			t.Errorf("%v %s", c.ProcessState, stderr.Bytes())
		}
		waitUntilGone(t, child)
		if a, err := gate.Get(t.Context(), "a4"); err != nil || a.OwnerID != "" || a.Failures != 0 {
			t.Errorf("after the release: %+v, %v", a, err)
		}
	})
}

// TestOnceKilled: on Linux the command is killed when its supervisor is, so that the next step of a script is not taken
// without the lock.
func TestOnceKilled(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("only Linux kills a process with its parent")
	}
	p := start(t, "--store", "memory")
	c := exec.CommandContext(t.Context(), binary(t), "once", "--server", p.url, "a1", "--", "sh", "-c",
		"echo $$; while :; do sleep 0.1; done")
	c.Env = environment()
	stdout, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Process.Kill() })
	line := bufio.NewScanner(stdout)
	line.Scan()
	child, err := strconv.Atoi(line.Text())
	if err != nil {
		t.Fatalf("the command said %q", line.Text())
	}
	killAtEnd(t, child)
	if err := c.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = c.Wait()
	waitUntilGone(t, child)
}

// killAtEnd ends a process with the test, whatever came of it.
func killAtEnd(t *testing.T, pid int) {
	t.Helper()
	t.Cleanup(func() {
		if process, err := os.FindProcess(pid); err == nil {
			_ = process.Kill()
		}
	})
}

// waitUntilGone waits until a process has ended: it was killed with its group, and its new parent must reap it.
func waitUntilGone(t *testing.T, pid int) {
	t.Helper()
	for deadline := time.Now().Add(failAfter); time.Now().Before(deadline); {
		if state := processState(t, pid); state == "" || state == "Z" {
			return
		}
		time.Sleep(10 * time.Millisecond) // of another process: nothing tells when it changes
	}
	t.Errorf("process %d lives on", pid)
}
