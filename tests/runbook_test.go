package tests

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// TestNightOfAnOperator: the commands with which the runbook answers the questions of a night, as they stand there, on
// a server on which all of it has happened. Each shows what was asked for.
func TestNightOfAnOperator(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../docs/guides/runbook.md")
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "audit.jsonl")
	p := start(t, "--store", "memory", "--audit-log", file)
	env := []string{"LEASEHOLD_SERVER=" + p.url}
	does := func(want int, args ...string) string {
		t.Helper()
		code, said, told := run(t, env, args...)
		if code != want {
			t.Fatalf("%v: exit code %d, %s%s", args, code, said, told)
		}
		return said
	}
	does(0, "lock", "acquire", "deploy/prod", "--owner", "runner-7", "--ttl", "10m")
	does(1, "once", "nightly", "--every", "day", "--", "false")
	waits := make(chan struct{})
	go func() {
		defer close(waits)
		run(t, env, "lock", "run", "deploy/prod", "--owner", "runner-8", "--fair", "--wait", "5m", "--", "true")
	}()
	awaited(t, "runner-8 waits", func() bool {
		return strings.Contains(does(0, "lock", "get", "deploy/prod"), "runner-8")
	})

	shows := []struct{ command, want string }{ // in the order of the page, but for the one that ends the lease
		{"lock list --urgent", `deploy/prod.*runner-7`},
		{"lock get deploy/prod", `runner-7(?s:.*)runner-8`},
		{"run list --urgent", `nightly +PENDING`},
		{"audit --file", `runner-7`},
		{"doctor", `ok`},
		{"lock force-release deploy/prod", ``},
	}
	for _, c := range shows {
		shown := regexp.MustCompile(`(?m)^\$ leasehold (` + regexp.QuoteMeta(c.command) + `.*)$`)
		line := shown.FindStringSubmatch(string(page))
		if line == nil {
			t.Errorf("the runbook does not have %q", c.command)
			continue
		}
		command := strings.NewReplacer("/var/log/leasehold/audit.jsonl", file, "2026-11-26T03:12:00Z",
			time.Now().UTC().Format("2006-01-02T15:04:05.000Z"), `"the runner is gone"`, "gone").Replace(line[1])
		if said := does(0, strings.Fields(command)...); !regexp.MustCompile(c.want).MatchString(said) {
			t.Errorf("%s shows %q, not %s", command, said, c.want)
		}
	}
	<-waits // the next in line has it
	if said := does(0, "lock", "get", "deploy/prod"); !regexp.MustCompile(`runner-7 .* forced by`).MatchString(said) {
		t.Errorf("who ended the lease is not shown: %q", said)
	}
}
