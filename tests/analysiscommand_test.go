package tests

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/leasehold-dev/leasehold/once"
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
	work := func(id string, err error, most int64) {
		t.Helper()
		if _, refused := gate.Run(t.Context(), id, func(context.Context, once.Lock) (string, error) { return "", err },
			&once.Options{MaxFailures: most}); refused != nil {
			t.Fatal(refused)
		}
	}
	errFalse := errors.New("false: exit status 1")
	work("a1", errFalse, 1)
	work("b1", nil, 0)
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
	work("c 1", errFalse, 0)
	if got := list("_--urgent"); got != `ANALYSIS a1 "c` {
		t.Errorf("what needs a look: %q", got)
	}
	step("analysis_list_--status_LOST", 5, "",
		"leasehold: no analyses with the status LOST; Leasehold writes PENDING, READY, FAILED, other words are your programs'\n")
	step("analysis_get_a1", 0,
		"analysis  a1\nstatus    FAILED\nfinished  TIME\nfailures  1\nreason    \"false: exit status 1\"\n", "")
	step("analysis_get_a9", 5, "", "leasehold: NOT_FOUND: there is no such analysis\n")
	step("analysis_retry_a1", 2, "", "leasehold: missing flags: --reason=STRING\n")
	const again = "analysis_retry_a1_--reason_fixed_--request-id_t1"
	step(again, 0,
		"a1 is PENDING again, and its failures count from 0; the next sweep queues it for a worker\n", "")
	step(again, 0, "this request retried a1 before; nothing was changed now, and it is PENDING\n", "")
	step("analysis_retry_a1_--reason_other_--request-id_t1", 2, "", "leasehold: REQUEST_ID_REUSED: ")
	step("analysis_retry_b1_--reason_fixed", 6, "", "leasehold: NOT_FAILED: the analysis is READY")
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
		{"analysis_retry_b1_--reason_x_--json", 6, 1, `"code":"NOT_FAILED"`},
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
	work("a1", nil, 0)
	if a, err := gate.Get(t.Context(), "a1"); err != nil || a.Status != "READY" {
		t.Errorf("after the retry: %+v, %v", a, err)
	}
	for _, id := range []string{"m1", "m2", "n1"} {
		if _, err := gate.Create(t.Context(), id); err != nil {
			t.Fatal(err)
		}
		work(id, errFalse, 1)
	}
	const pending = " is PENDING again, and its failures count from 0; the next sweep queues it for a worker\n"
	manyRetries(step, "analysis", "analyses", pending)
	for _, args := range []string{"analysis_list", "analysis_get_a1", "analysis_retry_a1_--reason_x"} {
		code, out, errs := run(t, append(env, "LEASEHOLD_TENANT=acme"), strings.Split(args, "_")...)
		if code != 2 || out != "" || !strings.HasPrefix(errs, "leasehold: LEASEHOLD_TENANT=acme: analyses belong to no tenant") {
			t.Errorf("%s of a tenant: %d %q %q", args, code, out, errs)
		}
		code, out, errs = run(t, env, append([]string{"--tenant", "acme"}, strings.Split(args, "_")...)...)
		if code != 2 || out != "" || !strings.Contains(errs, "has no --tenant: it is about nothing that belongs to one") {
			t.Errorf("%s --tenant: %d %q %q", args, code, out, errs)
		}
	}
}

// manyRetries retries all that is FAILED: m1, m2 and n1.
func manyRetries(step func(args string, code int, stdout, stderr string), what, many, again string) {
	end := func(n string) string {
		return n + " " + many + " retried; 0 had been retried or removed meanwhile; 0 could not be retried\n"
	}
	step(what+"_retry_--reason_x", 2, "", "leasehold: missing: the name of one "+what+", or --all")
	step(what+"_retry_m1_--all_--reason_x", 2, "", "leasehold: "+what+" m1 and --all cannot both be given")
	step(what+"_retry_m1_--prefix_m_--reason_x", 2, "", "leasehold: --prefix and --since are for --all")
	step(what+"_retry_--all_--request-id_r_--reason_x", 2, "", "leasehold: --request-id is for one")
	step(what+"_retry_--all_--prefix_m_--since_2100-01-01T00:00Z_--reason_x", 0, "", end("0"))
	step(what+"_retry_--all_--prefix_m_--since_1h_--reason_x", 0, "m1"+again+"m2"+again, end("2"))
	step(what+"_retry_--all_--reason_x", 0, "n1"+again, end("1"))
	step(what+"_retry_--all_--reason_x", 0, "", end("0"))
}
