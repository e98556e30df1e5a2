package tests

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/leasehold-dev/leasehold/proof/suite"
)

// example runs an example to its end and returns what it printed.
func example(t *testing.T, command *exec.Cmd) []string {
	t.Helper()
	command.Env = append(environment(), command.Env...)
	out, err := command.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return strings.Split(strings.TrimSpace(string(out)), "\n")
}

// oneAtATime checks what three machines print of a job: one of them at least does it, and no two do it at once.
func oneAtATime(t *testing.T, lines []string) {
	t.Helper()
	runs, running := 0, ""
	for _, line := range lines {
		name, what, _ := strings.Cut(line, " ")
		switch {
		case strings.HasPrefix(what, "runs the job with the token ") && running == "":
			running = name
			runs++
		case what == "is done" && running == name:
			running = ""
		case strings.HasPrefix(what, "skips it"):
		default:
			t.Fatalf("%q in %q", line, lines)
		}
	}
	if runs == 0 || running != "" {
		t.Errorf("%q", lines)
	}
}

// TestCronJobExample: three machines begin the job at once, and it never runs twice at once. As a Go program, and in a
// shell.
func TestCronJobExample(t *testing.T) {
	t.Parallel()
	t.Run("Go", func(t *testing.T) {
		suite.Deep(t)
		t.Parallel()
		oneAtATime(t, example(t, exec.CommandContext(t.Context(), build(t, "examples/cronjob"))))
	})
	t.Run("shell", func(t *testing.T) {
		t.Parallel()
		if runtime.GOOS == "windows" {
			t.Skip("a Unix shell script")
		}
		script := exec.CommandContext(t.Context(), "sh", "../examples/cronjob/cronjob.sh")
		script.Env = []string{"PATH=" + filepath.Dir(binary(t)) + string(os.PathListSeparator) + os.Getenv("PATH")}
		oneAtATime(t, example(t, script))
	})
}

// TestLeaderExample: two leaders are killed, and each time another one is elected, with a higher token.
func TestLeaderExample(t *testing.T) {
	t.Parallel()
	lines := example(t, exec.CommandContext(t.Context(), build(t, "examples/leader")))
	leads := regexp.MustCompile(`^(alpha|bravo|charlie) leads with the token ([0-9]+)$`)
	last, elected := int64(0), 0
	for _, line := range lines {
		if m := leads.FindStringSubmatch(line); m != nil {
			token, err := strconv.ParseInt(m[2], 10, 64)
			if err != nil || token <= last {
				t.Errorf("%v: %q", err, lines)
			}
			last = token
			elected++
		}
	}
	if elected != 3 || strings.Count(strings.Join(lines, "\n"), "is killed") != 2 {
		t.Errorf("%q", lines)
	}
}

// TestWorkerExample: a worker that was stopped is told of the loss of its lock, and what it writes in spite of that is
// rejected.
func TestWorkerExample(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("it stops a process with SIGSTOP")
	}
	lines := strings.Join(example(t, exec.CommandContext(t.Context(), build(t, "examples/worker"))), "\n")
	at := 0
	for _, want := range []string{"alpha booked", "alpha is stopped", "bravo booked", "alpha goes on",
		"alpha was told: the lock is lost", "alpha booked in spite of that, and was rejected"} {
		i := strings.Index(lines[at:], want)
		if i < 0 {
			t.Fatalf("no %q after byte %d of\n%s", want, at, lines)
		}
		at += i
	}
}

// TestPaymentsWalk: the cases of docs/tutorials/payment.md, with the responses and the number of payments that it
// shows.
func TestPaymentsWalk(t *testing.T) {
	t.Parallel()
	lines := example(t, exec.CommandContext(t.Context(), build(t, "examples/payments"), "--walk"))
	page, err := os.ReadFile("../docs/tutorials/payment.md")
	if shown := strings.Join(lines, "\n"); err != nil || !strings.Contains(string(page), "\n"+shown+"\n```\n") {
		t.Errorf("docs/tutorials/payment.md does not show this: %v\n%s", err, shown)
	}
}

// TestPaymentsStorm: processes are killed while payments are under way. All are answered, and each is made once. A bank
// that does not look at keys pays twice, and the storm finds that.
func TestPaymentsStorm(t *testing.T) {
	t.Parallel()
	const keys = 8
	for to, fails := range map[string]bool{"bob": false, "erin": true} {
		t.Run(to, func(t *testing.T) {
			t.Parallel()
			c := exec.CommandContext(t.Context(), build(t, "examples/payments"), "--storm", "--keys", strconv.Itoa(keys),
				"--clients", "4", "--to", to)
			c.Env = environment()
			out, err := c.CombinedOutput()
			if (err != nil) != fails || strings.Contains(string(out), "the ledger is wrong") != fails {
				t.Fatalf("%v\n%s", err, out)
			}
			sum := make([]int, 7) // of keys, requests, bank asked, answered, once, twice, not at all
			for line := range strings.Lines(string(out)) {
				numbers := regexp.MustCompile(` {2,}`).Split(strings.TrimSpace(line), -1)[1:]
				if n, err := strconv.Atoi(strings.Join(numbers, "")); len(numbers) == len(sum) && err == nil && n >= 0 {
					for i := range sum {
						n, _ := strconv.Atoi(numbers[i])
						sum[i] += n
					}
				}
			}
			if sum[0] != keys || sum[3] != keys || (sum[4] == keys) == fails || sum[6] != 0 ||
				strings.Contains(string(out), "\n0 processes were killed") {
				t.Errorf("%v\n%s", sum, out)
			}
		})
	}
}

// TestPoolExample: six processes use three connections twice each; no two have the same one at a time, and the tokens
// of one connection increase.
func TestPoolExample(t *testing.T) {
	suite.Deep(t)
	t.Parallel()
	lines := example(t, exec.CommandContext(t.Context(), build(t, "examples/pool")))
	has := regexp.MustCompile(`^(\w+) has the connection ([1-3]) with the token ([0-9]+)$`)
	returns := regexp.MustCompile(`^(\w+) returns the connection ([1-3])$`)
	uses, tokens, times := map[string]string{}, map[string]int64{}, map[string]int{}
	for _, line := range lines {
		if m := has.FindStringSubmatch(line); m != nil {
			token, err := strconv.ParseInt(m[3], 10, 64)
			if err != nil || uses[m[2]] != "" || token <= tokens[m[2]] {
				t.Errorf("%q in %q: %v", line, lines, err)
			}
			uses[m[2]], tokens[m[2]] = m[1], token
			times[m[1]]++
		} else if m := returns.FindStringSubmatch(line); m != nil && uses[m[2]] == m[1] {
			uses[m[2]] = ""
		} else {
			t.Errorf("%q in %q", line, lines)
		}
	}
	for _, name := range []string{"alpha", "bravo", "charlie", "delta", "echo", "foxtrot"} {
		if times[name] != 2 {
			t.Errorf("%s had a connection %d times: %q", name, times[name], lines)
		}
	}
}

// TestRateLimitExample: no call comes before the grants of earlier windows leave room for it.
func TestRateLimitExample(t *testing.T) {
	suite.Deep(t)
	t.Parallel()
	lines := example(t, exec.CommandContext(t.Context(), build(t, "examples/ratelimit")))
	calls := regexp.MustCompile(`^([0-9]+) ms: (alpha|bravo|charlie) calls$`)
	for i, line := range lines {
		m := calls.FindStringSubmatch(line)
		if m == nil {
			t.Fatalf("%q in %q", line, lines)
		}
		if at, err := strconv.Atoi(m[1]); err != nil || at < i/4*2000-10 { // times are stored in milliseconds
			t.Errorf("call %d comes after %d ms, %v: %q", i+1, at, err, lines)
		}
	}
	if len(lines) != 12 {
		t.Errorf("%d calls: %q", len(lines), lines)
	}
}

// TestConfigExample: each reader reads whole versions, in order, until the last one; it ends with an error otherwise.
func TestConfigExample(t *testing.T) {
	suite.Deep(t)
	t.Parallel()
	lines := example(t, exec.CommandContext(t.Context(), build(t, "examples/config")))
	said := regexp.MustCompile(`^(editor writes|web-[1-3] reads) version ([0-9])$`)
	last := map[string]string{}
	for _, line := range lines {
		m := said.FindStringSubmatch(line)
		if m == nil || m[2] <= last[m[1]] || m[1] != "editor writes" && m[2] > last["editor writes"] && m[2] != "0" {
			t.Fatalf("%q in %q", line, lines)
		}
		last[m[1]] = m[2]
	}
	for _, who := range []string{"editor writes", "web-1 reads", "web-2 reads", "web-3 reads"} {
		if last[who] != "4" {
			t.Errorf("%s version %q at last: %q", who, last[who], lines)
		}
	}
}
