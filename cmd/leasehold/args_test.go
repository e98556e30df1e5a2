package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/leasehold-dev/leasehold/contracts"
)

// TestArrange: what may stand before a command moves behind it, and not into the command line of another program.
func TestArrange(t *testing.T) {
	for in, want := range map[string]string{
		"":                                      "--help",
		"help":                                  "--help",
		"help lock list":                        "lock list --help",
		"--version":                             "version",
		"lock list":                             "lock list",
		"--server URL lock list":                "lock list --server URL",
		"--tenant=x --json lock list":           "lock list --tenant=x --json",
		"--server URL once a -- cmd --server x": "once a --server URL -- cmd --server x",
		"--auth-token-file f id next -n 2":      "id next -n 2 --auth-token-file f",
		"--server":                              "--server",
		"--json":                                "--json",
		"--colour lock list":                    "--colour lock list",
		"--json id decode -aYFmcAq3N0":          "id decode \x00-aYFmcAq3N0 --json",
		"lock acquire help":                     "lock acquire help",
		"--server URL help once":                "once --help --server URL",
		"once a -- leasehold --server x lock get": "once a -- leasehold --server x lock get",
		"-o wide --output=json lock list":         "lock list -o wide --output=json",
	} {
		if got := strings.Join(arrange(strings.Fields(in)), " "); got != want {
			t.Errorf("%s: %q, want %q", in, got, want)
		}
	}
}

// TestWrongUsage: arguments that cannot be read are an error on standard error with the code of wrong usage. It names
// the nearest name that there is, and where the usage of the command is.
func TestWrongUsage(t *testing.T) {
	for args, want := range map[string]string{
		"lokc":               `leasehold has no command lokc, did you mean "lock"?`,
		"token foo":          "leasehold token has no command foo",
		"token lst":          `leasehold token has no command lst, did you mean "list"?`,
		"help lock acquir":   `leasehold lock has no command acquir, did you mean "acquire"?`,
		"lock list x":        "leasehold lock list: unexpected argument x",
		"version x":          "leasehold version: unexpected argument x",
		"lock list --stat x": `leasehold lock list: unknown flag --stat, did you mean "--state"?`,
		"token":              `leasehold token: expected one of "new", "list", "revoke"`,
		"lock get":           `leasehold lock get: expected "<key>"`,
		"token list --file":  "leasehold token list: --file: its value is missing",
		"--server":           "leasehold: --server stands before a command or after it, and there is none",
		"--output table":     "leasehold: --output stands before a command or after it, and there is none",
		"serve --output x":   "leasehold serve: unknown flag --output",
	} {
		var out, errs strings.Builder
		code := run(t.Context(), strings.Fields(args), &out, &errs)
		name, says, ok := strings.Cut(want, ": ")
		if !ok {
			name, _, _ = strings.Cut(want, " has no command")
			says = want
		}
		if want := "leasehold: " + says + "\nRun \"" + name + " --help\" for the usage.\n"; code != exitUsage ||
			out.Len() > 0 || errs.String() != want {
			t.Errorf("%s: %d %q %q, want %q", args, code, &out, &errs, want)
		}
	}
	for _, r := range describeAll(t).all() { // at every level
		for _, wrong := range []string{"--no-such-flag", "no-such-command no-such-argument x y z"} {
			args := append(slices.Clone(r.words[1:]), strings.Fields(wrong)...)
			if slices.ContainsFunc(r.args, func(e entry) bool { return strings.Contains(e.name, "...") }) && wrong[0] != '-' {
				continue // it takes as many as are given
			}
			var out, errs strings.Builder
			if code := run(t.Context(), args, &out, &errs); code != usageCode(args) || out.Len() > 0 ||
				!strings.HasPrefix(errs.String(), "leasehold: ") {
				t.Errorf("%v: %d %q %q", args, code, &out, &errs)
			}
		}
	}
}

// TestReport: an error on standard error, as text and as JSON, with its exit code.
func TestReport(t *testing.T) {
	held := contracts.Errorf(contracts.CodeLockHeld, "")
	held.Owner = "ann"
	ended, end := context.WithCancel(t.Context())
	end()
	for _, c := range []struct {
		ctx    context.Context //nolint:containedctx // one of the inputs
		err    error
		code   int
		text   string // on standard error
		member string // code in JSON
	}{
		{t.Context(), &exitError{exitHeld, fmt.Errorf("%w by ann", held)}, 3, "LOCK_HELD: lock is held by ann", "LOCK_HELD"},
		{t.Context(), held, 1, "LOCK_HELD: lock is held", "LOCK_HELD"},
		{t.Context(), usage("--x: no"), 2, "--x: no", "INVALID_ARGUMENT"},
		{t.Context(), &unreachableError{"cannot reach x", nil}, 1, "cannot reach x", "UNAVAILABLE"},
		{t.Context(), &exitError{exitUnavailable, errors.New("no store")}, 118, "no store", "UNAVAILABLE"},
		{t.Context(), &exitError{exitOtherHolds, held}, 120, "LOCK_HELD: lock is held", "LOCK_HELD"},
		{t.Context(), &exitError{exitLost, errors.New("the lock is lost")}, 121, "the lock is lost", "LEASE_EXPIRED"},
		{t.Context(), &exitError{exitTrouble, errors.New("no command")}, 125, "no command", "INVALID_ARGUMENT"},
		{t.Context(), errors.New("broken"), 1, "broken", "FAILED"},
		{ended, fmt.Errorf("read: %w", context.Canceled), 130, "interrupted", "INTERRUPTED"},
		{ended, errors.New("broken"), 1, "broken", "FAILED"},
		{t.Context(), fmt.Errorf("read: %w", context.Canceled), 1, "read: context canceled", "FAILED"},
		{ended, interruption("interrupted before k"), 130, "interrupted before k", "INTERRUPTED"},
	} {
		var text, object strings.Builder
		if code := report(c.ctx, c.err, false, &streams{err: &text}); code != c.code || text.String() != "leasehold: "+c.text+
			"\n" {
			t.Errorf("%v: %d %q", c.err, code, &text)
		}
		var got struct {
			Code      string
			Title     string
			Status    int
			Type      string
			Retryable *bool
			ExitCode  int `json:"exit_code"`
		}
		code := report(c.ctx, c.err, true, &streams{err: &object})
		if err := json.Unmarshal([]byte(object.String()), &got); err != nil || code != c.code || got.Code != c.member ||
			got.ExitCode != c.code ||
			got.Title == "" || got.Status == 0 || got.Type == "" || got.Retryable == nil {
			t.Errorf("%v: %d %s, %v", c.err, code, &object, err)
		}
	}
}

// TestReportNothing: the exit code of another command is passed on without a word.
func TestReportNothing(t *testing.T) {
	for _, asJSON := range []bool{false, true} {
		var errs strings.Builder
		if code := report(t.Context(), &exitError{7, nil}, asJSON, &streams{err: &errs}); code != 7 || errs.Len() > 0 {
			t.Errorf("%d %q", code, &errs)
		}
	}
}

// TestWantsJSON: errors are JSON in every spelling of the flag, but not for the flags of another program.
func TestWantsJSON(t *testing.T) {
	for args, want := range map[string]bool{
		"lock list --json": true, "lock list --output json": true, "lock list --output=json": true, "lock list -o json": true,
		"lock list -ojson": true,
		"lock list":        false, "lock list -o wide": false, "lock get json": false, "lock run k -- jq --json": false,
		"lock run k -- x -o json": false,
	} {
		if got := wantsJSON(strings.Fields(args)); got != want {
			t.Errorf("%s: %t", args, got)
		}
	}
}

// TestWideTables: every column of a wide table has what it is called, and nothing is cut.
func TestWideTables(t *testing.T) {
	long := strings.Repeat("x", 60)
	now := time.Date(2026, 1, 1, 0, 2, 3, 0, time.UTC)
	for name, c := range map[string]struct{ got, head, row string }{
		"locks": {
			table([]contracts.Lock{{
				TenantID: "acme", LockKey: long, State: contracts.StateReleased, OwnerID: "ann",
				AcquiredAt: "2026-01-01T00:00:00.000Z", ReleasedAt: "R", TTLSeconds: 90,
				LeaseID: "l1", Metadata: map[string]string{"a": "b"}, ForceRelease: &contracts.ForcedRelease{
					By: "root", Reason: "hangs"},
			}}, now, true),
			"TENANT LOCK STATE OWNER AGE UNTIL MODE HOLDERS WAITING METADATA ACQUIRED TTL LEASE ENDED BY REASON",
			"acme " + long + " RELEASED ann 2m3s R exclusive 0 0 a=b 2026-01-01T00:00:00.000Z 1m30s l1 root hangs",
		},
		"analyses": {
			analysisTable(contracts.AnalysisPage{Analyses: []contracts.Analysis{{
				AnalysisID: long, Status: "READY", FinishedAt: "F", Runs: 2, Result: "r1", Retry: &contracts.RunRetry{At: "A"},
				FailureReason: "no",
			}}}, true),
			"ANALYSIS STATUS FINISHED OWNER UNTIL FAILURES REASON RUNS RETRIED RESULT", long + " READY F - - 0 no 2 A r1",
		},
		"members": {
			memberTable(contracts.MemberList{Cluster: "chat", Members: []contracts.ClusterMember{{
				Member: long, Status: "ACTIVE", Incarnation: 3, At: "A", Kinds: []string{"room"},
				Labels: map[string]string{"zone": "a"}, Weight: 2, Since: 7,
			}}}, true),
			"MEMBER STATUS INCARNATION SINCE ADDRESS KINDS LABELS WEIGHT EPOCH", long + " ACTIVE 3 A - room zone=a 2 7",
		},
	} {
		lines := strings.Split(strings.TrimSuffix(c.got, "\n"), "\n")
		lines = lines[len(lines)-2:]
		if head, row := strings.Join(strings.Fields(lines[0]), " "),
			strings.Join(strings.Fields(lines[1]), " "); head != c.head || row != c.row {
			t.Errorf("%s: %s\n%s\nwant %s\n%s", name, head, row, c.head, c.row)
		}
	}
}

// TestLockTable: what others chose does not reach the terminal as it is, and each lock is one line.
func TestLockTable(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 2, 3, 0, time.UTC)
	got := table([]contracts.Lock{
		{TenantID: "acme", LockKey: "a", State: contracts.StateActive, OwnerID: "ann", AcquiredAt: "2026-01-01T00:00:00.000Z",
			ExpiresAt: "E",
			Metadata:  map[string]string{"build": "991", "a": "x\ty\n\x1b[2J"}},
		{TenantID: "acme", LockKey: strings.Repeat("é", 60), State: contracts.StateReleased, OwnerID: "b ob",
			AcquiredAt: "2026-01-01T01:00:00.000Z",
			ExpiresAt:  "E", ReleasedAt: "R"},
	}, now, false)
	lines := strings.Split(strings.TrimSuffix(got, "\n"), "\n")
	if len(lines) != 3 || strings.ContainsAny(got, "\t\x1b") {
		t.Fatalf("%q", got)
	}
	for i, want := range [][]string{
		{"TENANT", "LOCK", "STATE", "OWNER", "AGE", "UNTIL", "METADATA"},
		{"acme", "a", "ACTIVE", "ann", "2m3s", "E", `a="x\ty\n\x1b[2J",build=991`},
		{"acme", strings.Repeat("é", 48) + "…", "RELEASED", `"b`, `ob"`, "0s", "R"},
	} {
		if fields := strings.Fields(lines[i]); !slices.Equal(fields, want) {
			t.Errorf("got  %q\nwant %q", fields, want)
		}
	}
}
