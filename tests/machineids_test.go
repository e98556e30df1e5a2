package tests

import (
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/leasehold-dev/leasehold/kazahana"
)

// fetch returns the body of a response that must be 200.
func fetch(t *testing.T, method, url, body string) []byte {
	t.Helper()
	q, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r, err := http.DefaultClient.Do(q)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	got, err := io.ReadAll(r.Body)
	if err != nil || r.StatusCode != http.StatusOK {
		t.Fatalf("%s %s: %d %s, %v", method, url, r.StatusCode, got, err)
	}
	return got
}

// leased is how many units of the server's first space are leased.
func leased(t *testing.T, p *process) int {
	t.Helper()
	var o struct{ Spaces []struct{ Leased int } }
	if err := json.Unmarshal(fetch(t, http.MethodGet, p.url+"/v1/machine-ids", ""), &o); err != nil {
		t.Fatal(err)
	}
	return o.Spaces[0].Leased
}

// TestLeaseProviderOfOthers: the provider that the protocol's description shows works unchanged.
func TestLeaseProviderOfOthers(t *testing.T) {
	t.Parallel()
	node, err := exec.LookPath("node")
	if err != nil {
		t.Skip("node is not on PATH; install Node.js 18 or later to run the protocol's own client")
	}
	p := start(t, "--store", "memory")
	script := exec.CommandContext(t.Context(), node, filepath.Join("testdata", "http_lease_provider.mjs"), p.url+"/v1/machine-ids")
	script.Stderr = os.Stderr
	out, err := script.Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	var got struct {
		Leases  []kazahana.Lease
		Refused string
		Single  int
	}
	if err := json.Unmarshal(out, &got); err != nil {
		t.Fatalf("%v in %s", err, out)
	}
	if len(got.Leases) != 4 || got.Refused != "release failed: 403" || got.Single != 1 {
		t.Errorf("got %s", out)
	}
	for _, l := range got.Leases {
		if l.Layout != kazahana.DefaultLayout() || l.Expired-l.Created != 600_000 || len(l.Secret) != 32 {
			t.Errorf("lease %+v", l)
		}
	}
	for deadline := time.Now().Add(failAfter); leased(t, p) != 2; { // what was released is free from the next millisecond on
		if time.Now().After(deadline) {
			t.Fatalf("%d are leased, want the one that was kept and the last one", leased(t, p))
		}
	}
}

// TestMachineIDsSurvive: leases outlive kill -9, and a server whose configuration no longer fits them does not start.
func TestMachineIDsSurvive(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	services := filepath.Join(t.TempDir(), "services.json")
	if err := os.WriteFile(services, []byte(`[{"serviceId":"default"},{"serviceId":"payments","bitId":10,"bitSeq":12}]`), 0o600); err != nil {
		t.Fatal(err)
	}
	p := start(t, "--data", data, "--id-services", services)
	var first kazahana.AcquireResponse
	if err := json.Unmarshal(fetch(t, http.MethodPost, p.url+"/v1/machine-ids/lease", `{"serviceId":"payments"}`), &first); err != nil {
		t.Fatal(err)
	}
	if len(first.Leases) != 1 || first.Leases[0].BitSeq != 12 {
		t.Fatalf("%+v", first)
	}
	p.kill(t)
	p = start(t, "--data", data)
	if got := leased(t, p); got != 16 {
		t.Errorf("%d units are leased, want 16", got)
	}
	p.kill(t)
	code, _, stderr := run(t, nil, "serve", "--listen", "127.0.0.1:0", "--data", data, "--id-services", `[{"serviceId":"default","customEpoch":0}]`)
	if want := `space "default" was set up with customEpoch 1767225600000, and the configuration says 0`; code != 1 || !strings.Contains(stderr, want) {
		t.Errorf("exit code %d, %q", code, stderr)
	}
}
