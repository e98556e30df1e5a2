package tests

import (
	"encoding/json"
	"strings"
	"testing"
)

// TestAnalysisCommand walks through `leasehold analysis` with its exit codes: what failed is found, looked at and
// retried.
func TestAnalysisCommand(t *testing.T) {
	t.Parallel()
	p, gate := ordered(t, "a1", "b1")
	if _, err := gate.Create(t.Context(), "c 1"); err != nil {
		t.Fatal(err)
	}
	env := []string{"LEASEHOLD_SERVER=" + p.url, "LEASEHOLD_OWNER=root"}
	step := func(args string, code int, stdout, stderr string) {
		t.Helper()
		words := strings.Split(args, "_")
		gotCode, out, errs := run(t, env, words...)
		if out = times.ReplaceAllString(out, "TIME"); gotCode != code || out != stdout || !strings.HasPrefix(errs, stderr) ||
			stderr == "" && errs != "" {
			t.Errorf("%s\ngot  %d\n%s%s\nwant %d\n%s%s", args, gotCode, out, errs, code, stdout, stderr)
		}
	}
	const failed = `ANALYSIS STATUS FINISHED OWNER UNTIL FAILURES REASON a1 FAILED TIME - - 1 "false: exit status 1"`
	run(t, env, "once", "--max-failures", "1", "a1", "--", "false")
	run(t, env, "once", "b1", "--", "true")
	list := func(args string) string {
		t.Helper()
		code, out, errs := run(t, env, strings.Split("analysis_list"+args, "_")...)
		if code != 0 || errs != "" {
			t.Errorf("%s: %d %s", args, code, errs)
		}
		var ids []string
		for line := range strings.Lines(out) {
			ids = append(ids, strings.Fields(line)[0])
		}
		return strings.Join(ids, " ")
	}
	if got := list(""); got != `ANALYSIS a1 b1 "c` {
		t.Errorf("all: %q", got)
	}
	if got := list("_--prefix_b"); got != "ANALYSIS b1" {
		t.Errorf("by prefix: %q", got)
	}
	code, out, _ := run(t, env, "analysis", "list", "--status", "Failed")
	if got := strings.Join(strings.Fields(times.ReplaceAllString(out, "TIME")), " "); code != 0 || got != failed {
		t.Errorf("by status: %d %s", code, got)
	}
	step("analysis_list_--prefix_b_--status_pending", 0, "", "no analyses that begin with b with the status pending\n")
	step("analysis_list_--prefix_b_--urgent", 0, "", "no analyses that begin with b that failed or lost their worker\n")
	step("analysis_list_--urgent_--status_FAILED", 2, "", "leasehold: --urgent and --status cannot both be given")
	run(t, env, "once", "c 1", "--", "false")
	if got := list("_--urgent"); got != `ANALYSIS a1 "c` {
		t.Errorf("what needs a look: %q", got)
	}
	step("analysis_list_--status_LOST", 5, "",
		"leasehold: no analyses with the status LOST; Leasehold writes PENDING, READY, FAILED, other words are your programs'\n")
	step("analysis_get_a1", 0,
		"analysis  a1\nstatus    FAILED\nfinished  TIME\nfailures  1\nreason    \"false: exit status 1\"\n", "")
	step("analysis_get_a9", 5, "", "leasehold: NOT_FOUND: there is no such analysis; a job of once --every has its window in "+
		"its name: leasehold analysis list --prefix a9@\n")
	step("analysis_retry_a1", 2, "", "leasehold: missing flags: --reason=STRING\n")
	const again = "analysis_retry_a1_--reason_fixed_--request-id_t1"
	step(again, 0,
		"a1 is PENDING again, and its failures count from 0; the next sweep queues it, or run it: leasehold once a1 -- COMMAND\n", "")
	step(again, 0, "this request retried a1 before; nothing was changed now, and it is PENDING\n", "")
	step("analysis_retry_a1_--reason_other_--request-id_t1", 2, "", "leasehold: REQUEST_ID_REUSED: ")
	step("analysis_retry_b1_--reason_fixed", 6, "", "leasehold: ANALYSIS_NOT_FAILED: the analysis is READY")
	step("analysis_retry_a9_--reason_fixed", 5, "", "leasehold: NOT_FOUND: ")
	step("analysis_get_a1", 0,
		"analysis  a1\nstatus    PENDING\nfailures  0\nreason    \"false: exit status 1\"\nretried   TIME by root: fixed\n",
		"")
	step("analysis_get_c 1", 0,
		"analysis  \"c 1\"\nstatus    PENDING\nfailures  1\nreason    \"false: exit status 1\"\n", "")

	for _, c := range []struct {
		args  string
		code  int
		lines int
		has   string
	}{
		{"--json_analysis_list", 0, 3, `"analysis_id":"a1"`},
		{"analysis_get_b1_--json", 0, 1, `"status":"READY"`},
		{"analysis_retry_b1_--reason_x_--json", 6, 1, `"code":"ANALYSIS_NOT_FAILED"`},
		{"analysis_retry_a1_--reason_fixed_--request-id_t1_--json", 0, 1, `"replayed":true`},
	} {
		code, out, errs := run(t, env, strings.Split(c.args, "_")...)
		lines := strings.Split(strings.TrimSuffix(out+errs, "\n"), "\n")
		if code != c.code || len(lines) != c.lines || !strings.Contains(out+errs, c.has) {
			t.Errorf("%s: %d %s%s", c.args, code, out, errs)
		}
		for _, l := range lines {
			if !json.Valid([]byte(l)) {
				t.Errorf("%s: no JSON: %s", c.args, l)
			}
		}
	}
	if code, out, errs := run(t, env, "once", "a1", "--", "echo", "runs again"); code != 0 || out != "runs again\n" {
		t.Errorf("after the retry: %d %q %q", code, out, errs)
	}
}
