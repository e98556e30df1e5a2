package tests

import (
	"encoding/json"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/leasehold-dev/leasehold/client"
	"github.com/leasehold-dev/leasehold/contracts"
)

// TestStoreCommands: maintenance of a store beside its server, and without one.
func TestStoreCommands(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	p := start(t, "--data", dir)
	c, err := client.New(p.url, nil)
	if err != nil {
		t.Fatal(err)
	}
	take := func(request string) client.Lease {
		t.Helper()
		l, err := c.Locks().Acquire(t.Context(), "acme", "deploy", contracts.AcquireRequest{
			RequestID: request, OwnerID: "ann", TTLSeconds: 3600})
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	first := take("r1")
	if status, body := call(t, http.MethodPost, p.url+"/v1/tenants/acme/fences/db/check", "",
		`{"fencing_token":1}`); status != 200 {
		t.Fatalf("fence: %d %s", status, body)
	}

	type result struct {
		DryRun bool `json:"dry_run"`
		Kinds  []struct {
			Kind                                string
			Documents, Raised, Current, Damaged int
		}
	}
	raise := func(args ...string) (r result) {
		t.Helper()
		code, out, stderr := run(t, nil, append([]string{"store", "raise-tokens", "--data", dir, "--json"}, args...)...)
		if err := json.Unmarshal([]byte(out), &r); err != nil || code != 0 {
			t.Fatalf("exit code %d, %v: %s%s", code, err, out, stderr)
		}
		return r
	}
	before := time.Now()
	for _, args := range [][]string{{"--dry-run"}, {}} {
		r := raise(args...)
		if len(r.Kinds) != 5 || r.Kinds[0].Kind != "locks" || r.Kinds[0].Raised != 1 || r.Kinds[3].Kind != "fences" ||
			r.Kinds[3].Raised != 1 || r.DryRun != (len(args) == 1) {
			t.Errorf("%v: %+v", args, r)
		}
	}
	if _, err := c.Locks().Renew(t.Context(), "acme", "deploy",
		contracts.RenewRequest{OwnerID: "ann", FencingToken: first.FencingToken, TTLSeconds: 60}); err == nil {
		t.Error("a token from before still works")
	}
	if status, body := call(t, http.MethodPost, p.url+"/v1/tenants/acme/fences/db/check", "",
		`{"fencing_token":2}`); status != 409 {
		t.Errorf("fence: %d %s", status, body)
	}
	if _, err := c.Locks().ForceRelease(t.Context(), "acme", "deploy",
		contracts.ForceReleaseRequest{OwnerID: "root", Reason: "restored"}); err != nil {
		t.Fatal(err)
	}
	if next := take("r2"); next.FencingToken <= before.UnixMicro() || next.FencingToken <= first.FencingToken {
		t.Errorf("the next token is %d", next.FencingToken)
	}

	for _, x := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{"prune", "--data", dir}, 0, "Removed 0 documents in " + filepath.Join(dir, "leasehold.db")},
		{[]string{"prune", "--data", dir, "--json"}, 0, `{"removed":0}`},
		{[]string{"raise-tokens", "--data", dir}, 0, "2 tokens raised in " + filepath.Join(dir, "leasehold.db") +
			".\nStart the servers in a minute, not before"},
		{[]string{"raise-tokens", "--data", dir, "--dry-run"}, 0, "2 tokens to raise in " +
			filepath.Join(dir, "leasehold.db") + ".\n"},
		{[]string{"raise-tokens", "--data", filepath.Join(dir, "none")}, 2, "--data DIR"},
		{[]string{"prune", "--store", "memory"}, 2, "--store memory"},
		{[]string{"prune", "--store", "dynamodb"}, 2, "--table"},
	} {
		code, out, stderr := run(t, nil, append([]string{"store"}, x.args...)...)
		if code != x.code || !strings.Contains(out+stderr, x.says) {
			t.Errorf("%v: exit code %d\n%s%s", x.args, code, out, stderr)
		}
	}
}
