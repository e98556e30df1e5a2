package tests

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
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

// TestCronJobExample: three machines begin the job at once, and it never runs twice at once. As a Go program, and in a shell.
func TestCronJobExample(t *testing.T) {
	t.Parallel()
	t.Run("Go", func(t *testing.T) {
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

// TestWorkerExample: a worker that was stopped is told of the loss of its lock, and what it writes in spite of that is rejected.
func TestWorkerExample(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("it stops a process with SIGSTOP")
	}
	lines := strings.Join(example(t, exec.CommandContext(t.Context(), build(t, "examples/worker"))), "\n")
	at := 0
	for _, want := range []string{"alpha booked", "alpha is stopped", "bravo booked", "alpha goes on", "alpha was told: the lock is lost", "alpha booked in spite of that, and was rejected"} {
		i := strings.Index(lines[at:], want)
		if i < 0 {
			t.Fatalf("no %q after byte %d of\n%s", want, at, lines)
		}
		at += i
	}
}

// TestIdempotencyExample: 64 requests at once and one payment, another amount under the same key, and a failure that is not stored.
func TestIdempotencyExample(t *testing.T) {
	t.Parallel()
	want := []string{
		"64 requests, 1 payment, 64 equal responses, 63 of them replayed: 201 payment 1: 10 euros to bob",
		"the same key with another amount: 422, 1 payment",
		"a bank that fails the first time: 502 the bank does not respond",
		"a bank that fails the first time: 201 payment 2: 5 euros to flaky",
	}
	if lines := example(t, exec.CommandContext(t.Context(), build(t, "examples/idempotency"))); !slices.Equal(lines, want) {
		t.Errorf("%q", lines)
	}
	page, err := os.ReadFile("../docs/idempotency.md")
	if err != nil || !strings.Contains(string(page), strings.Join(want, "\n")) {
		t.Errorf("docs/idempotency.md shows another output: %v", err)
	}
}
