package tests

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/leasehold-dev/leasehold/contracts"
	"github.com/leasehold-dev/leasehold/emulator/dynamodbtest"
	"github.com/leasehold-dev/leasehold/emulator/firestoretest"
	"github.com/leasehold-dev/leasehold/emulator/redistest"
)

// backends are the stores on which `leasehold serve` runs, with the environment and the arguments for each.
var backends = map[string]func(t *testing.T) (env, args []string){
	"sqlite": func(t *testing.T) (env, args []string) {
		return nil, []string{"--data", t.TempDir()}
	},
	"firestore": func(t *testing.T) (env, args []string) {
		server := firestoretest.Start(t, nil)
		watchQueries(t, server)
		return []string{"FIRESTORE_EMULATOR_HOST=" + server.Addr()},
			[]string{"--store", "firestore", "--project", "demo", "--root", "leasehold/v1"}
	},
	"dynamodb": func(t *testing.T) (env, args []string) {
		return nil, []string{"--store", "dynamodb", "--table", "locks", "--create-table", "--endpoint",
			dynamodbtest.Start(t, nil).URL}
	},
	"redis": func(t *testing.T) (env, args []string) {
		server := redistest.Start(t, "--requirepass", "hunter2")
		return []string{"LEASEHOLD_REDIS_PASSWORD=hunter2"}, []string{"--store", "redis", "--redis-addr", server.URL(),
			"--redis-prefix", "t"}
	},
	"redis, with its password in a file": func(t *testing.T) (env, args []string) {
		server := redistest.Start(t, "--requirepass", "hunter2")
		path := filepath.Join(t.TempDir(), "password")
		if err := os.WriteFile(path, []byte("hunter2\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		return nil, []string{"--store", "redis", "--redis-addr", server.URL(), "--redis-password-file", path}
	},
	"redis, by its stand-in": func(t *testing.T) (env, args []string) {
		return []string{"LEASEHOLD_REDIS_ADDR=" + redistest.StandIn(t).URL()},
			[]string{"--store", "redis", "--redis-shards", "16"}
	},
}

// TestServeOnEveryStore: the same server on each store. What it acknowledged is there for the next one, unless the
// store is its own memory.
func TestServeOnEveryStore(t *testing.T) {
	t.Parallel()
	for name, backend := range backends {
		t.Run(name, func(t *testing.T) {
			env, args := backend(t)
			p := serve(t, env, args...)
			take := func() (contracts.Lease, error) {
				t.Helper()
				return acquires(t, p.url+"/v1/tenants/acme/locks/a%2Fb/acquire",
					`{"request_id":"r1","owner_id":"ann","ttl_seconds":3600}`)
			}
			first, err := take()
			if err != nil || first.FencingToken == 0 || first.Replayed {
				t.Fatalf("%+v, %v\n%s", first, err, p.stderr.Bytes())
			}
			p.kill(t)
			p = serve(t, env, args...)
			if again, err := take(); err != nil || !again.Replayed || again.LeaseID != first.LeaseID {
				t.Errorf("before %+v\nafter  %+v, %v\n%s", first, again, err, p.stderr.Bytes())
			}
		})
	}
}

// TestStoresThatCannotBeOpened: each ends the start within seconds, with a sentence that says what to set.
func TestStoresThatCannotBeOpened(t *testing.T) {
	t.Parallel()
	unused := fmt.Sprintf("127.0.0.1:%d", freePort(t))
	empty := dynamodbtest.Start(t, nil).URL
	const secret = "hunter2"
	for name, c := range map[string]struct {
		env, args []string
		code      int
		says      []string
	}{
		"firestore without a project": {
			env: []string{"FIRESTORE_EMULATOR_HOST=" + unused}, args: []string{"--store", "firestore"}, code: 1,
			says: []string{"--project", "GOOGLE_CLOUD_PROJECT"}},
		"firestore without credentials": {
			env: []string{"HOME=" + t.TempDir(), "NO_GCE_CHECK=true"}, args: []string{"--store", "firestore", "--project", "p"},
			code: 1, says: []string{"gcloud auth application-default login"}},
		"firestore whose emulator is down": {
			env: []string{"FIRESTORE_EMULATOR_HOST=" + unused}, args: []string{"--store", "firestore", "--project", "p"},
			code: 1, says: []string{"connection refused"}},
		"dynamodb without a table": {
			args: []string{"--store", "dynamodb"}, code: 2, says: []string{"--table"}},
		"dynamodb with a table that is missing": {
			args: []string{"--store", "dynamodb", "--table", "locks", "--endpoint", empty}, code: 1,
			says: []string{"locks", "--create-table"}},
		"dynamodb without a region": {
			env:  []string{"HOME=" + t.TempDir(), "AWS_EC2_METADATA_DISABLED=true"},
			args: []string{"--store", "dynamodb", "--table", "locks"}, code: 1, says: []string{"region"}},
		"dynamodb without credentials": {
			env:  []string{"HOME=" + t.TempDir(), "AWS_EC2_METADATA_DISABLED=true"},
			args: []string{"--store", "dynamodb", "--table", "locks", "--region", "eu-west-1"}, code: 1,
			says: []string{"credentials"}},
		"dynamodb that is down": {
			args: []string{"--store", "dynamodb", "--table", "locks", "--endpoint", "http://" + unused}, code: 1,
			says: []string{"connection refused"}},
		"redis that is down": {
			args: []string{"--store", "redis", "--redis-addr", unused}, code: 1,
			says: []string{"connection refused", "--redis-addr"}},
		"redis with a URL that is none": {
			env: []string{"LEASEHOLD_REDIS_ADDR=redis://ann:" + secret + "@host:port"}, args: []string{"--store", "redis"},
			code: 1, says: []string{"redis://user:password@host:6379/0"}},
		"redis that is something else": {
			args: []string{"--store", "redis", "--redis-addr", strings.TrimPrefix(empty, "http://")}, code: 1,
			says: []string{"--redis-addr"}},
	} {
		t.Run(name, func(t *testing.T) {
			code, stdout, stderr := run(t, c.env, append([]string{"serve", "--listen", "127.0.0.1:0"}, c.args...)...)
			if code != c.code || stdout != "" {
				t.Errorf("exit code %d, want %d; stdout %q", code, c.code, stdout)
			}
			if strings.Contains(stderr, secret) {
				t.Errorf("%q shows the password", stderr)
			}
			for _, s := range c.says {
				if !strings.Contains(stderr, s) {
					t.Errorf("%q does not say %q", stderr, s)
				}
			}
		})
	}
}
