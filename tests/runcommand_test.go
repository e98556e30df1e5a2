package tests

import (
	"bufio"
	"context"
	"encoding/json"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/leasehold-dev/leasehold/client"
	"github.com/leasehold-dev/leasehold/once"
)

// TestJobsOfTwoTenants: two tenants of one server have a job of the same name, and both run, each once. A token is for its
// own tenant: the job of another is an error, not a job that is skipped.
func TestJobsOfTwoTenants(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "tokens")
	secrets := map[string]string{}
	for _, tenant := range []string{"acme", "initech"} {
		code, secret, said := run(t, nil, "token", "new", "--file", file, "--subject", "ci", "--tenant", tenant)
		if code != 0 {
			t.Fatal(said)
		}
		secrets[tenant] = strings.TrimSpace(secret)
	}
	p := start(t, "--store", "memory", "--auth-tokens", file)
	job := func(token, tenant string) (int, string, string) {
		return run(t, []string{"LEASEHOLD_SERVER=" + p.url, "LEASEHOLD_AUTH_TOKEN=" + secrets[token], "LEASEHOLD_TENANT=" + tenant},
			"once", "report", "--every", "8000h", "--skip", "-q", "--", "echo", "reported for", tenant)
	}
	for _, tenant := range []string{"acme", "initech"} {
		if code, stdout, stderr := job(tenant, tenant); code != 0 || stdout != "reported for "+tenant+"\n" || stderr != "" {
			t.Errorf("%s: %d %q %q", tenant, code, stdout, stderr)
		}
		if code, stdout, stderr := job(tenant, tenant); code != 0 || stdout != "" || stderr != "" {
			t.Errorf("%s, again: %d %q %q", tenant, code, stdout, stderr)
		}
		code, list, said := run(t, []string{"LEASEHOLD_SERVER=" + p.url, "LEASEHOLD_AUTH_TOKEN=" + secrets[tenant]}, "run", "list",
			"--tenant", tenant)
		if code != 0 || strings.Count(list, "report ") != 1 || !strings.Contains(list, "READY") {
			t.Errorf("the list of %s: %d %s%s", tenant, code, list, said)
		}
	}
	if code, stdout, stderr := job("acme", "initech"); code != 125 || stdout != "" ||
		!strings.Contains(stderr, "PERMISSION_DENIED: your token is for tenant \"acme\"") ||
		!strings.Contains(stderr, "Say --tenant acme, or set LEASEHOLD_TENANT=acme") {
		t.Errorf("the job of another tenant: %d %q %q", code, stdout, stderr)
	}
	code, _, said := run(t, []string{"LEASEHOLD_SERVER=" + p.url}, "once", "report", "--tenant", "acme", "--", "true")
	if code != 125 || !strings.Contains(said, "UNAUTHENTICATED: this server asks for a token: set LEASEHOLD_AUTH_TOKEN") {
		t.Errorf("without a token: %d %q", code, said)
	}
}

// TestFailingJob: a job that fails on one machine is tried again by the next one, until it succeeds or has failed as often
// as is allowed; from then on every machine says so, with -q, too.
func TestFailingJob(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("the commands are those of a Unix shell")
	}
	p := start(t, "--store", "memory")
	machine := func(name, job, command string) (int, string) {
		code, _, said := run(t, []string{"LEASEHOLD_SERVER=" + p.url, "LEASEHOLD_OWNER=" + name}, "once", job, "--every", "8000h",
			"--max-failures", "2", "--skip", "-q", "--", "sh", "-c", command)
		return code, said
	}
	for i, c := range []struct {
		name, job, command string
		code               int
		says               string
	}{
		{"alpha", "mended", "exit 7", 7, "leasehold: the run of mended failed, and may be tried again: sh: exit status 7\n"},
		{"bravo", "mended", "exit 0", 0, ""},
		{"charlie", "mended", "exit 7", 0, ""},
		{"alpha", "broken", "exit 7", 7, "leasehold: the run of broken failed, and may be tried again: sh: exit status 7\n"},
		{"bravo", "broken", "exit 8", 8, "leasehold: broken is FAILED: sh: exit status 8\n"},
		{"charlie", "broken", "exit 0", 123, "leasehold: broken: the run was FAILED before, and does not begin again unless it is " +
			"retried: sh: exit status 8: leasehold run retry broken --reason WHY\n"},
	} {
		if code, said := machine(c.name, c.job, c.command); code != c.code || said != c.says {
			t.Errorf("%d, %s: %d %q, want %d %q", i, c.name, code, said, c.code, c.says)
		}
	}
	if code, _, said := run(t, []string{"LEASEHOLD_SERVER=" + p.url}, "run", "retry", "broken", "--reason", "mended"); code != 0 {
		t.Fatal(said)
	}
	if code, said := machine("charlie", "broken", "exit 0"); code != 0 || said != "" {
		t.Errorf("after a retry: %d %q", code, said)
	}
}

// TestAtMostOnce: with --max-takeovers 0 a run whose machine is killed is FAILED, and never begun again.
func TestAtMostOnce(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("the commands are those of a Unix shell")
	}
	p := start(t, "--store", "memory")
	flags := []string{"once", "payout", "--server", p.url, "--every", "8000h", "--max-takeovers", "0", "--ttl", "1s", "-q", "--"}
	job := exec.CommandContext(t.Context(), binary(t), append(flags, "sh", "-c", "echo begun; exec sleep 600")...)
	job.Env = environment()
	stdout, err := job.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := job.Start(); err != nil {
		t.Fatal(err)
	}
	if lines := bufio.NewScanner(stdout); !lines.Scan() || lines.Text() != "begun" {
		t.Fatalf("it said %q", lines.Text())
	}
	if err := job.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = job.Wait()
	awaited(t, "the lock expires", func() bool {
		code, stdout, said := run(t, nil, append(flags, "echo", "begun again")...)
		if stdout != "" || code != 120 && code != 123 {
			t.Fatalf("%d %q %q", code, stdout, said)
		}
		return code == 123
	})
	if code, list, said := run(t, nil, "run", "list", "--server", p.url, "--state", "failed"); code != 0 ||
		!strings.Contains(list, "payout  FAILED") {
		t.Errorf("%d %s%s", code, list, said)
	}
}

// TestRunWaitsForAnEarlierOne: while the run of an earlier due time is at work, the command says what it waits for.
func TestRunWaitsForAnEarlierOne(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("it is stopped by a signal")
	}
	p := start(t, "--store", "memory")
	c, err := client.New(p.url, nil)
	if err != nil {
		t.Fatal(err)
	}
	due := time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC) // by a calendar of its own
	if g, err := c.Runs("default").Acquire(t.Context(), once.Acquire{RunID: "nightly", Owner: "alpha", RequestID: "r",
		TTL: time.Hour, Due: due, NextDue: time.Now().Add(24 * time.Hour).Truncate(time.Second)}); err != nil || !g.Acquired {
		t.Fatalf("%+v, %v", g, err)
	}
	job := exec.CommandContext(t.Context(), binary(t), "--server", p.url, "once", "nightly", "--at", "12:00", "--tz",
		"Asia/Tokyo", "--skip", "--", "true")
	job.Env = environment()
	stderr := toldOf{text: "waits until", said: make(chan struct{}, 1)}
	job.Stderr = &stderr
	if err := job.Start(); err != nil {
		t.Fatal(err)
	}
	of(t, stderr.said, "it does not say that it waits")
	if err := job.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	_ = job.Wait()
	const want = "leasehold: nightly@DUE (due 12:00 Asia/Tokyo) waits until 12:00 Asia/Tokyo at most: the run of nightly@DUE " +
		"(due 09:00 Asia/Tokyo) is still at work\nleasehold: interrupted before the run of nightly@DUE (due 12:00 Asia/Tokyo) began\n"
	if code, said := job.ProcessState.ExitCode(), masked(stderr.String()); code != 130 || said != want {
		t.Errorf("%d %q, want %q", code, said, want)
	}
}

// TestRunCommand: the jobs of a shell, of Go and of Python are in one list, and are looked at, retried, run again and
// removed by the same commands, with their exit codes.
func TestRunCommand(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("the commands are those of a Unix shell")
	}
	p := start(t, "--store", "memory")
	env := []string{"LEASEHOLD_SERVER=" + p.url, "LEASEHOLD_OWNER=root", "LEASEHOLD_TENANT=acme"}
	c, err := client.New(p.url, nil)
	if err != nil {
		t.Fatal(err)
	}
	gate := c.Runs("acme")
	if _, err := gate.Run(t.Context(), "go", func(context.Context, once.Lock) (string, error) { return "done", nil },
		&once.Options{Owner: "go"}); err != nil {
		t.Fatal(err)
	}
	run(t, env, "once", "shell", "--every", "day", "-q", "--max-failures", "1", "--", "false")
	want := "RUN go shell"
	if python, err := exec.LookPath("python3"); err == nil && pythonIsNewEnough(t, python) {
		script := "import os\nfrom leasehold import Client\nfrom leasehold.once import once\n" +
			"c = Client(os.environ['LEASEHOLD_SERVER'])\n@once(c.runs('acme'), key='python')\ndef work():\n    return 1\nwork()\n"
		work := exec.CommandContext(t.Context(), python, "-c", script)
		work.Env = append(environment(), "LEASEHOLD_SERVER="+p.url, "PYTHONPATH=../sdk/python/src")
		if out, err := work.CombinedOutput(); err != nil {
			t.Errorf("python: %v\n%s", err, out)
		}
		want = "RUN go python shell"
	}
	list := func(args string) string {
		t.Helper()
		code, out, errs := run(t, env, strings.Fields("run list "+args)...)
		if code != 0 {
			t.Errorf("%s: %d %s", args, code, errs)
		}
		var ids []string
		for line := range strings.Lines(out) {
			ids = append(ids, strings.Fields(line)[0])
		}
		return strings.Join(ids, " ")
	}
	for args, want := range map[string]string{
		"": want, "--prefix g": "RUN go", "--state FAILED": "RUN shell", "--state failed": "RUN shell", "--urgent": "RUN shell",
		"--since 1h": want, "--until 1h": "", "--since 2h --until 1h": "", "--state RUNNING": "", "--owner nobody": "",
	} {
		if got := list(args); got != want {
			t.Errorf("run list %s: %q, want %q", args, got, want)
		}
	}

	locked := once.Acquire{RunID: "held", Owner: "alpha", RequestID: "r", TTL: time.Hour}
	if _, err := gate.Acquire(t.Context(), locked); err != nil {
		t.Fatal(err)
	}
	if got := list("--owner alpha"); got != "RUN held" {
		t.Errorf("of alpha: %q", got)
	}
	step := func(args string, code int, stdout, stderr string) {
		t.Helper()
		gotCode, out, errs := run(t, env, strings.Split(args, "_")...)
		if out = masked(out); gotCode != code || out != stdout || !strings.HasPrefix(errs, stderr) || stderr == "" && errs != "" {
			t.Errorf("%s\ngot  %d\n%s%s\nwant %d\n%s%s", args, gotCode, out, errs, code, stdout, stderr)
		}
	}
	step("run_list_--state_LOST", 2, "", "leasehold: --state LOST: must be one of RUNNING, STALE, PENDING, READY, FAILED\n")
	step("run_list_--urgent_--state_READY", 2, "", "leasehold: --urgent and --state cannot both be given")
	step("run_list_--since_yesterday", 2, "", "leasehold: --since: \"yesterday\" is no time: ")
	step("run_list_--since_1h_--until_2h", 2, "", "leasehold: --until must be later than --since\n")
	step("run_list_--prefix_x", 0, "", "no such runs of tenant acme\n")
	step("run_get_go", 0, "run         go\nstatus      READY\nfinished    TIME\nfailures    0\nresult      done\nkept until  TIME\n", "")
	step("run_get_shell", 0, "run         shell\nstatus      FAILED\ndue         TIME\nbegun       TIME\nfinished    TIME\nfailures    "+
		"1\nreason      \"false: exit status 1\"\nkept until  TIME\n", "")
	step("run_get_nothing", 5, "", "leasehold: NOT_FOUND: ")
	step("run_get_go_--tenant_other", 5, "", "leasehold: NOT_FOUND: ")
	step("run_retry_shell", 2, "", "leasehold: missing flags: --reason=STRING\n")
	step("run_again_go", 2, "", "leasehold: missing flags: --reason=STRING\n")
	step("run_remove_go", 2, "", "leasehold: missing flags: --reason=STRING\n")
	step("run_retry_go_--reason_r", 6, "", "leasehold: NOT_FAILED: ")
	step("run_again_shell_--reason_r", 6, "", "leasehold: NOT_READY: ")
	step("run_retry_nothing_--reason_r", 5, "", "leasehold: NOT_FOUND: ")
	step("run_remove_held_--reason_r", 3, "", "leasehold: RUN_IN_PROGRESS: ")
	const waits = " waits to be begun again, and its failures count from 0: the next caller does its work\n"
	step("run_retry_shell_--reason_mended_--request-id_t1", 0, "shell"+waits, "")
	step("run_retry_shell_--reason_mended_--request-id_t1", 0,
		"this request let shell run again before; nothing was changed now, and it is not finished\n", "")
	step("run_again_go_--reason_prices", 0, "go"+waits, "")
	step("once_-q_shell_--every_day_--_echo_works", 0, "works\n", "")
	step("once_-q_go_--_echo_works", 0, "works\n", "")
	step("run_remove_go_--reason_left_--request-id_t2", 0, "the record of go is removed: who begins it next does its work\n", "")
	step("run_remove_go_--reason_left_--request-id_t2", 0,
		"this request removed the record of go before; nothing was changed now\n", "")
	step("once_-q_go_--_echo_works", 0, "works\n", "")
	for _, id := range []string{"m1", "m2", "n1"} {
		run(t, env, "once", id, "-q", "--max-failures", "1", "--", "false")
	}
	manyRetries(step, "run", "runs", waits)
	for args, has := range map[string]string{
		"--json_run_list": `"run_id":"go"`, "run_get_shell_--json": `"due_at":"`, "run_get_nothing_--json": `"exit_code":5`,
		"run_again_shell_--reason_x_--json": `"run_id":"shell"`, "run_remove_held_--reason_x_--json": `"code":"RUN_IN_PROGRESS"`,
	} {
		_, out, errs := run(t, env, strings.Split(args, "_")...)
		for line := range strings.Lines(out + errs) {
			if !json.Valid([]byte(line)) {
				t.Errorf("%s: no JSON: %s", args, line)
			}
		}
		if !strings.Contains(out+errs, has) {
			t.Errorf("%s: %s%s", args, out, errs)
		}
	}
}

// pythonIsNewEnough reports whether the client can run on it.
func pythonIsNewEnough(t *testing.T, python string) bool {
	t.Helper()
	return exec.CommandContext(t.Context(), python, "-c", "import sys; sys.exit(sys.version_info < (3, 10))").Run() == nil
}

// TestOfNoTenant: a worker runs analyses, which belong to no tenant, and says so where one is named; IDs are of no tenant
// either, and nothing of one can be confused with them.
func TestOfNoTenant(t *testing.T) {
	t.Parallel()
	p := start(t, "--store", "memory")
	env := []string{"LEASEHOLD_SERVER=" + p.url, "LEASEHOLD_TENANT=acme"}
	if code, _, said := run(t, env, "worker", "--queue-url", "http://127.0.0.1:1/q", "--target-url", "http://127.0.0.1:1"); code != 2 ||
		!strings.HasPrefix(said, "leasehold: LEASEHOLD_TENANT=acme: analyses belong to no tenant") {
		t.Errorf("the worker: %d %s", code, said)
	}
	if code, out, said := run(t, env, "id", "next"); code != 0 || out == "" {
		t.Errorf("an ID: %d %s", code, said)
	}
	if code, _, said := run(t, nil, "--tenant", "acme", "id", "next"); code != 2 ||
		!strings.Contains(said, "leasehold id next has no --tenant") {
		t.Errorf("an ID of a tenant: %d %s", code, said)
	}
}
