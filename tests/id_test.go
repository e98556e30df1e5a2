package tests

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/leasehold-dev/leasehold/kazahana"
)

// command runs the command until it exits and returns what it printed and its exit code.
func command(t *testing.T, env []string, stdin string, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	path := binary(t)
	var out, errs bytes.Buffer
	cmd := exec.CommandContext(t.Context(), path, args...)
	cmd.Env = append(environment(), env...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(stdin), &out, &errs
	err := cmd.Run()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		code = exit.ExitCode()
	} else if err != nil {
		t.Fatal(err)
	}
	return out.String(), errs.String(), code
}

const exampleSecret = "LEASEHOLD_EXTERNAL_ID_SECRET=an example, not random: 32 bytes"

func TestIDCommands(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(file, []byte("an example, not random: 32 bytes\r\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	keyed := []string{exampleSecret}
	const table = "ID                TIME                      FALLBACK  MACHINE  SEQUENCE  NODE\n"
	for _, c := range []struct {
		name           string
		env            []string
		stdin, args    string
		stdout, stderr string
		code           int
	}{
		{
			name: "encode without a secret", args: "id encode --mode unkeyed 0 1 2 7301444403200005",
			stdout: "nKBm8aSrLuo\nJbd1-uyo9SA\n-PdjU7bYd8U\n_NIq0XDea8E\n",
		},
		{name: "encode under a secret", env: keyed, args: "id encode --entity user 7301444403200005",
			stdout: "9xO-N-buxPg\n"},
		{name: "under key 3", env: keyed, args: "id encode --entity user --key 3 7301444403200005", stdout: "9xO-N-buxPj\n"},
		{name: "secret from a file", args: "id encode --entity user --secret-file " + file + " 7301444403200005",
			stdout: "9xO-N-buxPg\n"},
		{
			name: "encode lines as JSON", env: keyed, args: "id encode --entity user - --json", stdin: "7301444403200005\n0\n",
			stdout: `{"id":"7301444403200005","external_id":"9xO-N-buxPg"}` + "\n" + `{"id":"0","external_id":"4x-FkFkzpr4"}` +
				"\n",
		},
		{
			name: "decode decimals", args: "id decode 7422240358401287 9223372036854775807 0",
			stdout: "ID                   TIME                      FALLBACK  MACHINE  SEQUENCE  NODE\n" +
				"7422240358401287     2026-01-21T11:33:20.000Z  false     5        7         1287\n" +
				"9223372036854775807  2095-09-07T15:47:35.551Z  true      8191     255       4194303\n" +
				"0                    2026-01-01T00:00:00.000Z  false     0        0         0\n",
		},
		{
			name: "decode public IDs, one that looks like a flag", args: "id decode --mode unkeyed -PdjU7bYd8U _NIq0XDea8E",
			stdout: table +
				"2                 2026-01-01T00:00:00.000Z  false     0        2         2\n" +
				"7301444403200005  2026-01-21T03:33:20.000Z  false     0        5         5\n",
		},
		{
			name: "decode as JSON", env: keyed, args: "id decode --json --entity user 9xO-N-buxPg",
			stdout: `{"id":"7301444403200005","base32":"006FGK0000005","external_id":"9xO-N-buxPg","time":"2026-01-21T03:33:20.000Z","unix_ms":1768966400000,` +
				`"fallback":false,"machine_id":0,"sequence":5,"node":5}` + "\n",
		},
		{
			name: "decode under another layout",
			args: "id decode --epoch 1577836800000 --bit-reserve 2 --bit-ts 40 --bit-id 16 --bit-seq 6 --json 4611686018425290751",
			stdout: `{"id":"4611686018425290751","base32":"3VVVVVVVTVVVV","time":"2054-11-03T19:53:47.775Z","unix_ms":2677348427775,` +
				`"fallback":false,"machine_id":32767,"sequence":63,"node":2097151}` + "\n",
		},
		{name: "11 digits, decimal", args: "id decode --decimal --json 12345678901",
			stdout: `{"id":"12345678901","base32":"000000BFTO71L","time":"2026-01-01T00:00:02.943Z","unix_ms":1767225602943,"fallback":false,"machine_id":7196,"sequence":53,"node":1842229}` + "\n"},
		{
			name: "one that looks like a flag, flags behind it", args: "id decode -PdjU7bYd8U --mode unkeyed --json",
			stdout: `{"id":"2","base32":"0000000000002","external_id":"-PdjU7bYd8U","time":"2026-01-01T00:00:00.000Z","unix_ms":1767225600000,` +
				`"fallback":false,"machine_id":0,"sequence":2,"node":2}` + "\n",
		},
		{name: "decode base 32", args: "id decode --base32 006FGK0000005",
			stdout: table + "7301444403200005  2026-01-21T03:33:20.000Z  false     0        5         5\n"},
		{name: "decode what is no base 32", args: "id decode --base32 7301444403200005", code: 2,
			stderr: "leasehold: ID in base 32 has 16 characters: must be 13\n"},
		{name: "no lines", args: "id decode -"},

		{name: "no secret", args: "id encode 1", code: 2,
			stderr: "leasehold: no secret: set LEASEHOLD_EXTERNAL_ID_SECRET, or --secret-file, or say --mode unkeyed to convert without one\n"},
		{name: "short secret", env: []string{"LEASEHOLD_EXTERNAL_ID_SECRET=fifteen bytes.."}, args: "id encode 1", code: 2,
			stderr: "leasehold: public IDs: key 0 (ff1-aes256): its secret has 15 bytes, must have at least 16 random ones; `openssl rand -base64 32` makes some\n"},
		{name: "no file", args: "id encode --secret-file " + file + "2 1", code: 2,
			stderr: "leasehold: --secret-file: open " + file + "2: no such file or directory\n"},
		{name: "key 4", env: keyed, args: "id encode --key 4 1", code: 2,
			stderr: "leasehold: public IDs: key number 4: must be from 0 to 3\n"},
		{name: "too large", args: "id encode --mode unkeyed 9223372036854775808", code: 2,
			stderr: "leasehold: ID \"9223372036854775808\": must be at most 9223372036854775807\n"},
		{name: "not digits", args: "id encode --mode unkeyed 12x", code: 2,
			stderr: "leasehold: ID \"12x\": must be decimal digits only\n"},
		{name: "10 characters", env: keyed, args: "id decode 9xO-N-buxP", code: 2,
			stderr: "leasehold: \"9xO-N-buxP\": public ID has 10 characters: must have exactly 11\n"},
		{name: "12 characters", env: keyed, args: "id decode 9xO-N-buxPgA", code: 2,
			stderr: "leasehold: \"9xO-N-buxPgA\": public ID has 12 characters: must have exactly 11\n"},
		{name: "a line with a space", env: keyed, args: "id decode -", stdin: " 9xO-N-buxPg\n", code: 2,
			stderr: "leasehold: \" 9xO-N-buxPg\": public ID has ' ' at position 1: remove the white space\n"},
		{name: "another last character", env: keyed, args: "id decode 9xO-N-buxPh", code: 2,
			stderr: "leasehold: \"9xO-N-buxPh\": public ID names key 1 in its last character, known are 0: check the character, or configure the key: --key 1, with its secret\n"},
		{name: "another entity", env: keyed, args: "id decode --entity order 9xO-N-buxPg", code: 2,
			stderr: "leasehold: \"9xO-N-buxPg\" decodes to no ID that was made: another secret, --mode, --entity or layout, or made up; --any shows it all the same\n"},
		{name: "widths", args: "id decode --bit-ts 40 1", code: 2,
			stderr: "leasehold: --epoch, --bit-…: bitReserve + bitTs + bitId + bitSeq must be 64, not 63\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			stdout, stderr, code := command(t, c.env, c.stdin, strings.Fields(c.args)...)
			if stdout != c.stdout || stderr != c.stderr || code != c.code {
				t.Errorf("exit code %d, want %d\ngot\n%s%s\nwant\n%s%s", code, c.code, stdout, stderr, c.stdout, c.stderr)
			}
		})
	}
	t.Run("newline", func(t *testing.T) {
		_, stderr, code := command(t, keyed, "", "id", "decode", "9xO-N-buxPg\n")
		if want :=
			"leasehold: \"9xO-N-buxPg\\n\": public ID has '\\n' at position 12: remove the white space\n"; stderr != want ||
			code != 2 {
			t.Errorf("exit code %d: %s", code, stderr)
		}
	})
	t.Run("any", func(t *testing.T) {
		stdout, _, code := command(t, keyed, "", "id", "decode", "--any", "--entity", "order", "9xO-N-buxPg", "--json")
		var d struct{ ID, Time string }
		if err := json.Unmarshal([]byte(stdout), &d); err != nil || code != 0 || d.ID != "7126840212670782705" ||
			d.Time != "2079-11-05T07:58:36.988Z" {
			t.Errorf("exit code %d: %s, %v", code, stdout, err)
		}
	})
}

// leaseServer leases the machine ID 42 and notes what it is asked.
type leaseServer struct {
	*httptest.Server

	asked []string
}

func newLeaseServer(t *testing.T) *leaseServer {
	s := &leaseServer{}
	const secret = "a secret of this lease"
	var mu sync.Mutex
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		var body struct {
			ServiceID, Signature string
			Timestamp            int64
		}
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
			t.Error(err)
		}
		s.asked = append(s.asked, r.Method+" "+r.URL.Path+" "+body.ServiceID+" "+r.Header.Get("Authorization"))
		if r.Method == http.MethodDelete {
			if body.Signature != kazahana.Sign(secret, 42, body.Timestamp) {
				t.Errorf("signed %d with %s", body.Timestamp, body.Signature)
			}
			w.WriteHeader(http.StatusNoContent)
			return
		}
		now := time.Now().UnixMilli()
		w.Header().Set("Content-Type", "application/json")
		if err := json.NewEncoder(w).Encode(kazahana.AcquireResponse{Leases: []kazahana.Lease{{
			ID: 42, Created: now, Expired: now + time.Hour.Milliseconds(), Secret: secret, Layout: kazahana.DefaultLayout(),
		}}}); err != nil {
			t.Error(err)
		}
	}))
	t.Cleanup(s.Close)
	return s
}

// TestNextID: IDs are made under a lease that is released afterwards.
func TestNextID(t *testing.T) {
	t.Parallel()
	server := newLeaseServer(t)
	before := time.Now().Truncate(time.Millisecond)
	stdout, stderr, code := command(t, []string{"LEASEHOLD_AUTH_TOKEN=a-token"}, "",
		"id", "next", "-n", "2000", "--json", "--server", server.URL, "--service", "orders")
	if code != 0 || stderr != "" {
		t.Fatalf("exit code %d: %s", code, stderr)
	}
	last := kazahana.ID(-1)
	lines := strings.Split(strings.TrimSuffix(stdout, "\n"), "\n")
	for _, line := range lines {
		var d struct {
			ID        kazahana.ID
			Time      time.Time
			Fallback  bool
			MachineID int `json:"machine_id"`
		}
		if err := json.Unmarshal([]byte(line), &d); err != nil {
			t.Fatal(err)
		}
		if d.ID <= last || d.Fallback || d.MachineID != 42 || d.Time.Before(before) || d.Time.After(time.Now()) {
			t.Fatalf("after %d: %s", last, line)
		}
		last = d.ID
	}
	if len(lines) != 2000 {
		t.Errorf("%d IDs", len(lines))
	}
	server.Close() // what it noted is complete
	want := []string{"POST /v1/machine-ids/lease orders Bearer a-token",
		"DELETE /v1/machine-ids/lease/42 orders Bearer a-token"}
	if !slices.Equal(server.asked, want) {
		t.Errorf("asked %q, want %q", server.asked, want)
	}
}

// TestNextIDWithoutServer: standalone IDs are marked, and without a server there are none under a lease.
func TestNextIDWithoutServer(t *testing.T) {
	t.Parallel()
	stdout, stderr, code := command(t, nil, "", "id", "next", "--standalone")
	id, err := kazahana.ParseID(strings.TrimSuffix(stdout, "\n"))
	if code != 0 || stderr != "" || err != nil || !kazahana.DefaultLayout().Decode(id).Fallback {
		t.Errorf("exit code %d, %q, %q, %v", code, stdout, stderr, err)
	}
	server := newLeaseServer(t)
	server.Close()
	stdout, stderr, code = command(t, nil, "", "id", "next", "--server", server.URL)
	if code != 1 || stdout != "" || !strings.Contains(stderr, "is the server running?") ||
		!strings.Contains(stderr, "--standalone") {
		t.Errorf("exit code %d, %q, %q", code, stdout, stderr)
	}
	for arg, want := range map[string]string{
		"--count=0":        "leasehold: --count 0: must be at least 1\n",
		"--server=nowhere": "leasehold: --server \"nowhere\": must be a URL like http://127.0.0.1:8080\n",
	} {
		if _, stderr, code := command(t, nil, "", "id", "next", arg); code != 2 || stderr != want {
			t.Errorf("%s: exit code %d, %q", arg, code, stderr)
		}
	}
}

// TestIDBench: the benchmark ends by itself and has a line for each of its settings.
func TestIDBench(t *testing.T) {
	t.Parallel()
	stdout, stderr, code := command(t, nil, "", "id", "bench", "--time", "10ms", "--json")
	if code != 0 {
		t.Fatalf("exit code %d: %s", code, stderr)
	}
	var got []string
	for line := range strings.Lines(stdout) {
		var m struct {
			Call           string
			Batch, Leases  int
			IDs            int64
			IDsPerSecond   int64 `json:"ids_per_second"`
			LimitPerSecond int64 `json:"limit_per_second"`
			Seconds        float64
		}
		if err := json.Unmarshal([]byte(line), &m); err != nil {
			t.Fatal(err)
		}
		// The first and the last millisecond count in full, and the wall clock may be set meanwhile.
		if most := int64(m.Leases) * 256 * int64(m.Seconds*1000+10); m.Seconds < 0.01 || m.IDs < 64 || m.IDs > most ||
			m.LimitPerSecond != int64(m.Leases)*256_000 {
			t.Errorf("%s", line)
		}
		got = append(got, fmt.Sprintf("%s %d %d", m.Call, m.Batch, m.Leases))
	}
	want := []string{"NextID 1 1", "NextID 1 4", "NextID 1 16", "NextID 1 8192", "NextIDs 16 8192", "NextIDs 256 8192"}
	if !slices.Equal(got, want) || strings.Count(stderr, "measuring ") != len(want) {
		t.Errorf("got %q, want %q; progress:\n%s", got, want, stderr)
	}
	stdout, _, code = command(t, nil, "", "id", "bench", "--time", "10ms")
	if code != 0 || !strings.Contains(stdout, "IDS PER SECOND") || strings.Count(stdout, "\n") != len(want)+1 {
		t.Errorf("exit code %d:\n%s", code, stdout)
	}
	if _, stderr, code := command(t, nil, "", "id", "bench", "--time", "1m"); code != 2 ||
		stderr != "leasehold: --time 1m0s: must be from 10ms to 10s\n" {
		t.Errorf("exit code %d, %q", code, stderr)
	}
}
