package tests

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/leasehold-dev/leasehold/client"
	"github.com/leasehold-dev/leasehold/contracts"
)

// run runs the command until it exits.
func run(t *testing.T, env []string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	path := binary(t)
	var o, e bytes.Buffer
	c := exec.CommandContext(t.Context(), path, args...)
	c.Env = append(environment(), env...)
	c.Stdout, c.Stderr = &o, &e
	if err := c.Run(); err != nil && c.ProcessState == nil {
		t.Fatal(err)
	}
	return c.ProcessState.ExitCode(), o.String(), e.String()
}

// TestCommandLine walks through the lock commands with their exit codes, as a script would.
func TestCommandLine(t *testing.T) {
	t.Parallel()
	p := start(t, "--data", t.TempDir())
	env := []string{"LEASEHOLD_SERVER=" + p.url, "LEASEHOLD_OWNER=ci-42"}
	steps := []struct {
		args           string
		code           int
		stdout, stderr string // exactly; "…" at the end allows anything to follow
	}{
		{"lock get deploy", 5, "", "leasehold: NOT_FOUND: this lock was never held (tenant default)\n"},
		{"lock acquire deploy --ttl 60s --quiet", 0, "1\n", ""},
		{"lock acquire deploy --owner ci-43", 3, "", "leasehold: LOCK_HELD: lock is held by ci-42 until …"},
		{"lock acquire deploy --owner ci-43 --wait 50ms", 3, "", "…"}, // how often it asked depends on the machine
		{"lock renew deploy --token 1 --ttl 2m", 0, "deploy of tenant default is held by you until …", ""},
		{"lock renew deploy --token 1 --owner ci-43", 4, "", "leasehold: NOT_OWNER: …"},
		{"lock release deploy --token 1 --request-id e1", 0, "deploy of tenant default is free\n", ""},
		{"lock release deploy --token 1 --request-id e1", 0, "deploy of tenant default is free\n", ""},
		{"lock release deploy --token 1", 4, "", "leasehold: LEASE_RELEASED: …"},
		{"lock acquire a/b --metadata build=991 --json", 0, `{"acquired_at":…`, ""},
		{"lock list", 0, "TENANT   LOCK    STATE     OWNER  UNTIL\ndefault  a/b     ACTIVE    ci-42  …", ""},
		{"lock list --state RELEASED", 0, "TENANT   LOCK    STATE     OWNER  UNTIL\ndefault  deploy  RELEASED  ci-42  …", ""},
		{"lock list --prefix x", 0, "", "no locks of tenant default\n"},
		{"lock list --prefix a --json", 0, `{"acquired_at":…`, ""},
		{"lock force-release a/b --reason hangs", 0, "a/b of tenant default is free; ci-42 held it\n", ""},
		{"lock get a/b", 0, "TENANT   LOCK  STATE     OWNER  UNTIL\ndefault  a/b   RELEASED  …", ""},
		{"lock acquire deploy --ttl 1500ms", 2, "", "leasehold: --ttl 1.5s: must be whole seconds\n"},
		{"lock acquire deploy --ttl 48h", 2, "", "leasehold: INVALID_ARGUMENT: ttl_seconds must be …"},
		{"lock renew deploy", 2, "", "leasehold: missing flags: --token=INT-64\n…"},
		{"lock acquire deploy --server nowhere", 2, "", `leasehold: --server: server "nowhere": must be a URL like http://127.0.0.1:8080` + "\n"},
		{"lock acquire deploy --auth-token-file /does/not/exist", 2, "", "leasehold: --auth-token-file: open /does/not/exist: …"},
		{"lock", 2, "", "leasehold: expected one of …"},
		{"version", 0, "leasehold …", ""},
	}
	for _, s := range steps {
		t.Run(s.args, func(t *testing.T) {
			code, stdout, stderr := run(t, env, strings.Fields(s.args)...)
			if code != s.code {
				t.Errorf("exit code %d, want %d", code, s.code)
			}
			for _, x := range []struct{ name, got, want string }{{"stdout", stdout, s.stdout}, {"stderr", stderr, s.stderr}} {
				prefix, open := strings.CutSuffix(x.want, "…")
				if x.got != x.want && (!open || !strings.HasPrefix(x.got, prefix)) {
					t.Errorf("%s:\ngot  %q\nwant %q", x.name, x.got, x.want)
				}
			}
		})
	}
}

// TestWaitingForALock: --wait gets the lock when its holder releases it.
func TestWaitingForALock(t *testing.T) {
	t.Parallel()
	p := start(t, "--store", "memory")
	env := []string{"LEASEHOLD_SERVER=" + p.url}
	if code, _, stderr := run(t, env, "lock", "acquire", "k", "--owner", "ann", "--ttl", "1h"); code != 0 {
		t.Fatal(stderr)
	}
	waiting := exec.CommandContext(t.Context(), binary(t), "lock", "acquire", "k", "--owner", "bob", "--wait", "1h", "-q")
	var stdout bytes.Buffer
	waiting.Env, waiting.Stdout = append(environment(), env...), &stdout
	stderr, err := waiting.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := waiting.Start(); err != nil {
		t.Fatal(err)
	}
	if line := bufio.NewScanner(stderr); !line.Scan() || !strings.Contains(line.Text(), "held by ann") {
		t.Errorf("stderr %q", line.Text())
	}
	if code, _, stderr := run(t, env, "lock", "release", "k", "--owner", "ann", "--token", "1"); code != 0 {
		t.Error(stderr)
	}
	if err := waiting.Wait(); err != nil || stdout.String() != "2\n" {
		t.Errorf("%v, stdout %q", err, &stdout)
	}
}

// TestInterruptedWait: Ctrl-C ends the wait for a lock with the shell's exit code and one plain line.
func TestInterruptedWait(t *testing.T) {
	t.Parallel()
	p := start(t, "--store", "memory")
	env := []string{"LEASEHOLD_SERVER=" + p.url}
	if code, _, stderr := run(t, env, "lock", "acquire", "k", "--owner", "ann", "--ttl", "1h"); code != 0 {
		t.Fatal(stderr)
	}
	waiting := exec.CommandContext(t.Context(), binary(t), "lock", "acquire", "k", "--owner", "bob", "--wait", "1h")
	waiting.Env = append(environment(), env...)
	stderr, err := waiting.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := waiting.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(stderr)
	if !lines.Scan() || !strings.Contains(lines.Text(), "held by ann") {
		t.Errorf("stderr %q", lines.Text())
	}
	if err := waiting.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if !lines.Scan() || lines.Text() != "leasehold: interrupted before k was acquired" || lines.Scan() {
		t.Errorf("stderr %q", lines.Text())
	}
	if _ = waiting.Wait(); waiting.ProcessState.ExitCode() != 130 {
		t.Errorf("%v", waiting.ProcessState)
	}
}

// TestRejectedSettings: settings that cannot work end with exit code 2 or 1 and a sentence that says what to do.
func TestRejectedSettings(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, []byte("this is no database, whatever its name says; it has text in it"), 0o600); err != nil {
		t.Fatal(err)
	}
	notADatabase := t.TempDir()
	if err := os.Rename(file, filepath.Join(notADatabase, "leasehold.db")); err != nil {
		t.Fatal(err)
	}
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()

	for name, c := range map[string]struct {
		args []string
		env  []string
		code int
		says []string
	}{
		"public address without authentication": {
			args: []string{"--listen", "0.0.0.0:0", "--store", "memory"}, code: 2, says: []string{"--auth-issuer", "127.0.0.1"}},
		"all addresses without authentication": {
			args: []string{"--listen", ":0", "--store", "memory"}, code: 2, says: []string{"--auth-issuer"}},
		"public address by environment": {
			args: []string{"--store", "memory"}, env: []string{"LEASEHOLD_LISTEN=[::]:0"}, code: 2, says: []string{"LEASEHOLD_AUTH_ISSUER"}},
		"audience without issuer": {
			args: []string{"--auth-audience", "x", "--store", "memory"}, code: 2, says: []string{"--auth-issuer"}},
		"issuer without audience": {
			args: []string{"--auth-issuer", "https://issuer.example", "--store", "memory"}, code: 2, says: []string{"--auth-audience"}},
		"unencrypted issuer": {
			args: []string{"--auth-issuer", "http://issuer.example", "--auth-audience", "x", "--store", "memory"}, code: 2, says: []string{"https://"}},
		"address without a port": {
			args: []string{"--listen", "localhost", "--store", "memory"}, code: 2, says: []string{"host:port"}},
		"address that is taken": {
			args: []string{"--listen", taken.Addr().String(), "--store", "memory"}, code: 1, says: []string{"address already in use", "--listen"}},
		"data that is no database": {
			args: []string{"--listen", "127.0.0.1:0", "--data", notADatabase}, code: 1, says: []string{"leasehold.db", "--data"}},
		"data below a file": {
			args: []string{"--listen", "127.0.0.1:0", "--data", filepath.Join(notADatabase, "leasehold.db", "x")}, code: 1, says: []string{"leasehold.db", "--data"}},
		"no data folder known": {
			env: []string{"HOME=", "XDG_DATA_HOME="}, args: []string{"--listen", "127.0.0.1:0"}, code: 2, says: []string{"--data"}},
		"unknown store": {
			args: []string{"--store", "mongo"}, code: 2, says: []string{"--store", "sqlite"}},
		"ID services in a file that is not there": {
			args: []string{"--id-services", filepath.Join(notADatabase, "services.json"), "--store", "memory"}, code: 2, says: []string{"--id-services", "services.json"}},
		"ID service without a name": {
			args: []string{"--store", "memory"}, env: []string{`LEASEHOLD_ID_SERVICES=[{"bitSeq":8}]`}, code: 2, says: []string{"LEASEHOLD_ID_SERVICES", "serviceId is required"}},
		"a misspelled variable": {
			env: []string{"LEASEHOLD_LITSEN=x"}, code: 2, says: []string{"LEASEHOLD_LITSEN", "LEASEHOLD_LISTEN"}},
		"an issuer that is empty": {
			env: []string{"LEASEHOLD_AUTH_ISSUER="}, args: []string{"--store", "memory"}, code: 2, says: []string{"LEASEHOLD_AUTH_ISSUER is empty"}},
		"development mode on Cloud Run": {
			env: []string{"K_SERVICE=api", "PORT=8080"}, args: []string{"--store", "memory"}, code: 2, says: []string{"Cloud Run", "LEASEHOLD_AUTH_ISSUER"}},
		"a setting of another store": {
			args: []string{"--table", "locks"}, code: 2, says: []string{"--table is a setting of the store dynamodb", "--store"}},
		"unknown flag": {
			args: []string{"--colour"}, code: 2, says: []string{"--colour", "--help"}},
		"unencrypted target": {
			args: []string{"--target-url", "http://worker.example/run", "--listen", "127.0.0.1:0", "--store", "memory"}, code: 2, says: []string{"--target-url", "https://"}},
		"tasks of a public server from anybody": {
			args: []string{"--target-url", "https://worker.example/run", "--auth-issuer", "https://issuer.example", "--auth-audience", "x", "--listen", "127.0.0.1:0", "--store", "memory"}, code: 2, says: []string{"--task-account"}},
		"queue without its URL": {
			args: []string{"--task-queue", "projects/p/locations/l/queues/q", "--listen", "127.0.0.1:0", "--store", "memory"}, code: 2, says: []string{"--task-url"}},
		"no failures allowed": {
			args: []string{"--max-failures", "0", "--listen", "127.0.0.1:0", "--store", "memory"}, code: 2, says: []string{"--max-failures"}},
		"no time for requests": {
			args: []string{"--request-timeout", "0s", "--store", "memory"}, code: 2, says: []string{"--request-timeout"}},
	} {
		t.Run(name, func(t *testing.T) {
			code, stdout, stderr := run(t, c.env, append([]string{"serve"}, c.args...)...)
			if code != c.code || stdout != "" {
				t.Errorf("exit code %d, want %d; stdout %q", code, c.code, stdout)
			}
			for _, s := range c.says {
				if !strings.Contains(stderr, s) {
					t.Errorf("%q does not say %q", stderr, s)
				}
			}
		})
	}
}

// TestGracefulStop sends SIGTERM while a request is half sent: its response still arrives, and the exit code is 0.
func TestGracefulStop(t *testing.T) {
	t.Parallel()
	p := start(t, "--store", "memory", "--log", "json")
	conn, err := net.Dial("tcp", strings.TrimPrefix(p.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	body := `{"request_id":"r1","owner_id":"ann","ttl_seconds":30}`
	head := "POST /v1/tenants/acme/locks/k/acquire HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nExpect: 100-continue\r\nContent-Length: 53\r\n\r\n"
	if _, err := io.WriteString(conn, head); err != nil {
		t.Fatal(err)
	}
	// "100 Continue" says that the handler is reading the body: the request is in flight.
	interim := make([]byte, len("HTTP/1.1 100 Continue\r\n\r\n"))
	if _, err := io.ReadFull(conn, interim); err != nil || !strings.HasPrefix(string(interim), "HTTP/1.1 100 ") {
		t.Fatalf("%q, %v", interim, err)
	}
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	closed := false
	for deadline := time.Now().Add(30 * time.Second); !closed && time.Now().Before(deadline); {
		c, err := net.Dial("tcp", strings.TrimPrefix(p.url, "http://"))
		if closed = err != nil; !closed {
			c.Close()
		}
	}
	if !closed {
		t.Fatal("the server still takes connections after SIGTERM")
	}
	if _, err := io.WriteString(conn, body); err != nil {
		t.Fatal(err)
	}
	response, err := io.ReadAll(conn)
	if err != nil || !strings.HasPrefix(string(response), "HTTP/1.1 200 OK\r\n") || !strings.Contains(string(response), `"fencing_token":1`) {
		t.Errorf("%q, %v", response, err)
	}
	if err := <-p.ended; err != nil {
		t.Errorf("the server ended with %v\n%s", err, p.stderr.Bytes())
	}
	for line := range strings.Lines(p.stderr.String()) {
		if !json.Valid([]byte(line)) {
			t.Errorf("with --log json the log has the line %q", line)
		}
	}
}

// TestRestartKeepsLocks: locks survive a restart with the default store.
func TestRestartKeepsLocks(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	p := start(t, "--data", data)
	take := func(url, request string) (client.Lease, error) {
		t.Helper()
		c, err := client.New(url, nil)
		if err != nil {
			t.Fatal(err)
		}
		return c.Locks().Acquire(t.Context(), "acme", "k", contracts.AcquireRequest{RequestID: request, OwnerID: "ann", TTLSeconds: 3600})
	}
	first, err := take(p.url, "r1")
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := <-p.ended; err != nil {
		t.Fatalf("%v\n%s", err, p.stderr.Bytes())
	}
	p = start(t, "--data", data)
	again, err := take(p.url, "r1")
	if err != nil || !again.Replayed || again.LeaseID != first.LeaseID || again.ExpiresAt != first.ExpiresAt {
		t.Errorf("before %+v\nafter  %+v, %v", first, again, err)
	}
	if _, err := take(p.url, "r2"); !errors.Is(err, contracts.CodeLockHeld) {
		t.Errorf("another intention: %v", err)
	}
}

// TestSlowHeaders: a client that sends its header a byte now and then is disconnected, and other clients do not wait for it.
func TestSlowHeaders(t *testing.T) {
	t.Parallel()
	p := start(t, "--store", "memory")
	conn, err := net.Dial("tcp", strings.TrimPrefix(p.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, "POST /v1/tenants/acme/locks/k/acquire HTTP/1.1\r\nHost: loc"); err != nil {
		t.Fatal(err)
	}
	if w, err := http.Get(p.url + "/healthz"); err != nil || w.StatusCode != http.StatusOK {
		t.Errorf("another client: %v, %v", w, err)
	} else {
		w.Body.Close()
	}
	// The bound is the assertion: the server gives a header 5 s.
	if err := conn.SetReadDeadline(time.Now().Add(30 * time.Second)); err != nil {
		t.Fatal(err)
	}
	response, err := io.ReadAll(conn)
	if err != nil {
		t.Errorf("the connection is still open: %v", err)
	}
	if len(response) > 0 && !strings.HasPrefix(string(response), "HTTP/1.1 408 ") {
		t.Errorf("response %q", response)
	}
}

// TestHeaderTooLarge: 431, and the server goes on.
func TestHeaderTooLarge(t *testing.T) {
	t.Parallel()
	p := start(t, "--store", "memory")
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, p.url+"/healthz", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("X-Large", strings.Repeat("x", 64<<10))
	w, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	w.Body.Close()
	if w.StatusCode != http.StatusRequestHeaderFieldsTooLarge {
		t.Errorf("status %d, want 431", w.StatusCode)
	}
}

// TestBodyOfAMegabyte: 413 over a real connection, also while the client still sends.
func TestBodyOfAMegabyte(t *testing.T) {
	t.Parallel()
	p := start(t, "--store", "memory")
	body := `{"request_id":"r1","owner_id":"ann","ttl_seconds":30,"metadata":{"a":"` + strings.Repeat("x", 1<<20) + `"}}`
	w, err := http.Post(p.url+"/v1/tenants/acme/locks/k/acquire", "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer w.Body.Close()
	response, err := io.ReadAll(w.Body)
	if err != nil || w.StatusCode != http.StatusRequestEntityTooLarge || !strings.Contains(string(response), `"code":"PAYLOAD_TOO_LARGE"`) {
		t.Errorf("%d %s, %v", w.StatusCode, response, err)
	}
	if w, err := http.Get(p.url + "/v1/tenants/acme/locks/k"); err != nil || w.StatusCode != http.StatusNotFound {
		t.Errorf("afterwards the lock is there: %v, %v", w, err)
	} else {
		w.Body.Close()
	}
}
