package tests

import (
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
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
	script := exec.CommandContext(t.Context(), node, filepath.Join("testdata", "http_lease_provider.mjs"),
		p.url+"/v1/machine-ids")
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
	// what was released is free from the next millisecond on
	for deadline := time.Now().Add(failAfter); leased(t, p) != 2; {
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
	if err := os.WriteFile(services, []byte(`[{"serviceId":"default"},{"serviceId":"payments","bitId":10,"bitSeq":12}]`),
		0o600); err != nil {
		t.Fatal(err)
	}
	p := start(t, "--data", data, "--id-services", services)
	var first kazahana.AcquireResponse
	if err := json.Unmarshal(fetch(t, http.MethodPost, p.url+"/v1/machine-ids/lease", `{"serviceId":"payments"}`),
		&first); err != nil {
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
	code, _, stderr := run(t, nil, "serve", "--listen", "127.0.0.1:0", "--data", data, "--id-services",
		`[{"serviceId":"default","customEpoch":0}]`)
	if want := `space "default" was set up with customEpoch 1767225600000, and the configuration says 0`; code != 1 ||
		!strings.Contains(stderr, want) {
		t.Errorf("exit code %d, %q", code, stderr)
	}
}

// TestForceReleaseOfMachineIDs: the command ends the leases that it names and no others, and says what is missing.
func TestForceReleaseOfMachineIDs(t *testing.T) {
	t.Parallel()
	p := start(t, "--store", "memory", "--id-services-closed", "--id-services",
		`[{"serviceId":"default"},{"serviceId":"gone"}]`)
	var ids []string
	for _, service := range []string{"gone", "gone", "gone", "default"} {
		var r kazahana.AcquireResponse
		if err := json.Unmarshal(fetch(t, http.MethodPost, p.url+"/v1/machine-ids/lease", `{"serviceId":"`+service+`"}`),
			&r); err != nil {
			t.Fatal(err)
		}
		ids = append(ids, strconv.FormatInt(r.Leases[0].ID, 10))
	}
	held := func() map[string]int {
		var o struct {
			Spaces []struct{ Leases map[string]int }
		}
		if err := json.Unmarshal(fetch(t, http.MethodGet, p.url+"/v1/machine-ids", ""), &o); err != nil {
			t.Fatal(err)
		}
		return o.Spaces[0].Leases
	}
	for _, c := range []struct {
		args           string
		stdout, stderr string // that begin the output
		code           int
		gone           int // leases of the service that are left
	}{
		{"--service gone", "", "leasehold: missing flags: --reason=STRING", 2, 3},
		{"--service gone --reason lost", "",
			"leasehold: say which leases to end: a range by --first and --last, or --all of the service", 2, 3},
		{"--service gone --reason lost --all --first 1", "", "leasehold: say which leases to end", 2, 3},
		{"--service gone --reason lost --first 2 --last 1", "",
			"leasehold: INVALID_ARGUMENT: last is 1: must be at least first, 2", 2, 3},
		{"--service unknown --reason lost --all", "",
			`leasehold: UNKNOWN_SERVICE: serviceId "unknown" is not configured on this server`, 5, 3},
		{"--service gone --reason lost --first " + ids[0] + " --last " + ids[0],
			"1 leases of service gone in namespace default were ended; their machine IDs are free from 2", "", 0, 2},
		{"--service gone --reason lost --all --json", `{"free":`, "", 0, 0},
		{"--service gone --reason lost --all", "0 leases of service gone", "", 0, 0},
	} {
		code, stdout, stderr := run(t, nil, append([]string{"id", "force-release", "--server", p.url},
			strings.Fields(c.args)...)...)
		if code != c.code || !strings.HasPrefix(stdout, c.stdout) || !strings.HasPrefix(stderr, c.stderr) ||
			(c.stderr == "") != (stderr == "") {
			t.Errorf("%s: exit code %d, %q, %q", c.args, code, stdout, stderr)
		}
		if got := held(); got["gone"] != c.gone || got["default"] != 1 {
			t.Errorf("%s: %v are leased", c.args, got)
		}
	}
}

// TestMemoryIsForgotten: a server whose store is in memory says at its start what that means: it leases the same
// machine IDs again after it was killed. One on a file does not say it, and leases others.
func TestMemoryIsForgotten(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		store  string
		warned bool
	}{{"memory", true}, {"sqlite", false}} {
		t.Run(c.store, func(t *testing.T) {
			t.Parallel()
			args := []string{"--store", c.store}
			if c.store == "sqlite" {
				args = append(args, "--data", t.TempDir())
			}
			free := func() (left int, log string) {
				p := start(t, args...)
				left = 8192 - leased(t, p)
				for range 4 {
					fetch(t, http.MethodPost, p.url+"/v1/machine-ids/lease", `{"throughputPerMs":16384}`)
				}
				p.kill(t)
				return left, p.stderr.String()
			}
			before, log := free()
			if got := strings.Contains(log, "Machine IDs are leased again"); got != c.warned {
				t.Errorf("warned is %v: %s", got, log)
			}
			after, _ := free()
			if forgotten := after == before; forgotten != c.warned {
				t.Errorf("%d machine IDs were free, and %d after the server was killed", before, after)
			}
		})
	}
}
