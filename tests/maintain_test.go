package tests

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/leasehold-dev/leasehold/adapters/redisstore"
	"github.com/leasehold-dev/leasehold/client"
	"github.com/leasehold-dev/leasehold/contracts"
	"github.com/leasehold-dev/leasehold/emulator/redistest"
	"github.com/leasehold-dev/leasehold/functions/setup"
	"github.com/leasehold-dev/leasehold/repo/docstore"
)

// TestPruneRoundTrips: documents that ended are found by 500 and removed by a hundred, each in one round trip. What
// was removed is said after each 500, and a run that was interrupted there goes on with the next.
func TestPruneRoundTrips(t *testing.T) {
	t.Parallel()
	server := redistest.StandIn(t)
	store, err := redisstore.Open(unhurried(t), &redisstore.Options{Addr: server.URL()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	const n = 2300
	for first := 0; first < n; first += docstore.MaxWrites {
		writes := make([]docstore.Write, docstore.MaxWrites)
		for i := range writes {
			writes[i] = docstore.Write{Key: docstore.Key{Kind: "locks", Tenant: "acme", ID: strconv.Itoa(first + i)},
				Set: map[string]docstore.Value{"n": docstore.Int(1)}, Keep: time.Millisecond}
		}
		if _, err := store.Write(unhurried(t), writes...); err != nil {
			t.Fatal(err)
		}
	}
	for from := (time.Time{}); ; { // until all have ended
		snap, err := store.Get(unhurried(t), docstore.Key{Kind: "locks", Tenant: "acme", ID: "0"})
		if err != nil {
			t.Fatal(err)
		}
		if from.IsZero() {
			from = snap.At
		} else if snap.At.Sub(from) > 2*time.Millisecond {
			break
		}
	}
	removed := func(most int) (n int, said []int) {
		t.Helper()
		n, err := setup.Prune(unhurried(t), store, func(some int) error {
			if said = append(said, some); len(said) == most {
				return context.Canceled
			}
			return nil
		})
		if err != nil && !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		return n, said
	}
	if got, said := removed(1); got != 500 || len(said) != 1 {
		t.Fatalf("%d were removed until it was interrupted, and %v said", got, said)
	}
	server.ResetCommands()
	if got, said := removed(0); got != n-500 || !slices.Equal(said, []int{500, 500, 500}) {
		t.Errorf("%d were removed then, and %v said", got, said)
	}
	trips := 0
	for _, sent := range server.Commands() {
		trips += sent
	}
	const batch = 1 + 5
	if want := 3*batch + 1 + 3 + 1; trips != want { // 300 are left at the end, and nothing
		t.Errorf("%d round trips for %d documents, want %d: %v", trips, n-500, want, server.Commands())
	}
}

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
		l, err := c.LockAPI().Acquire(unhurried(t), "acme", "deploy", contracts.AcquireRequest{
			RequestID: request, OwnerID: "ann", TTLSeconds: 3600})
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	first := take("r1")
	if status, body := call(t, http.MethodPost, p.url+"/v1/tenants/acme/fences/db/check", "",
		`{"fencing_token":1,"subject":"lock/deploy"}`); status != 200 {
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
	if _, err := c.LockAPI().Renew(unhurried(t), "acme", "deploy",
		contracts.RenewRequest{OwnerID: "ann", FencingToken: first.FencingToken, TTLSeconds: 60}); err == nil {
		t.Error("a token from before still works")
	}
	if status, body := call(t, http.MethodPost, p.url+"/v1/tenants/acme/fences/db/check", "",
		`{"fencing_token":2,"subject":"lock/deploy"}`); status != 409 {
		t.Errorf("fence: %d %s", status, body)
	}
	if _, err := c.LockAPI().ForceRelease(unhurried(t), "acme", "deploy",
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
