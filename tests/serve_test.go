package tests

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
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
	c := exec.CommandContext(unhurried(t), path, args...)
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
		args string
		code int
		// exactly; "…" at the end allows anything to follow, "{token}" is the fencing token of the first grant
		stdout, stderr string
	}{
		{"lock get deploy", 5, "",
			"leasehold: NOT_FOUND: there is no record of this lock: it was never held, or not for long (tenant default)\n"},
		{"lock acquire deploy --ttl 1h --quiet", 0, "{token}\n", ""},
		{"lock acquire deploy --owner ci-43", 3, "", "leasehold: LOCK_HELD: lock is held (by ci-42, until …"},
		{"lock acquire deploy --owner ci-43 --wait 50ms", 3, "", "…"}, // how often it asked depends on the machine
		{"lock renew deploy --token {token} --ttl 2h", 0, "deploy of tenant default is held by you until …", ""},
		{"lock renew deploy --token {token} --owner ci-43", 4, "", "leasehold: NOT_OWNER: …"},
		{"lock release deploy --token {token} --request-id e1", 0, "deploy of tenant default is free\n", ""},
		{"lock release deploy --token {token} --request-id e1", 0, "deploy of tenant default is free\n", ""},
		{"lock release deploy --token {token}", 4, "", "leasehold: LEASE_RELEASED: …"},
		{"lock acquire a/b --ttl 1h --metadata build=991 --json", 0, `{"acquired_at":…`, ""},
		{"lock list", 0, "TENANT   LOCK  STATE   OWNER  AGE…", ""},
		{"lock list --state released", 0, "TENANT   LOCK    STATE     OWNER  AGE…", ""},
		{"lock list --state Gone", 2, "", "leasehold: --state Gone: must be active, released or expired\n"},
		{"lock list --prefix deploy", 0, "", "no active locks of tenant default; --all lists ended ones too\n"},
		{"lock list --prefix x --all", 0, "", "no locks of tenant default\n"},
		{"lock list --prefix a --json", 0, `{"acquired_at":…`, ""},
		{"--tenant other --json lock acquire k --ttl 1h", 0, `{"acquired_at":…`, ""},
		{"--tenant=other lock acquire k --owner ci-43", 3, "", "leasehold: LOCK_HELD: lock is held (by ci-42, until …"},
		{"fence check orders-db --token 7 --subject lock/orders", 0, "orders-db of tenant default accepts fencing token 7\n", ""},
		{"fence check orders-db --token 6 --subject lock/orders", 4, "", "leasehold: STALE_TOKEN: …"},
		{"fence check orders-db --token 8 --subject run/r1", 4, "", "leasehold: OTHER_SUBJECT: …"},
		{"fence check orders-db --token 6 --subject lock/orders --json", 4, "", `{"code":"STALE_TOKEN",…`},
		{"fence reset orders-db --token 6 --reason typo", 4, "",
			"leasehold: STALE_TOKEN: another token is the highest by now: look again before resetting the fence: the highest is 7 (tenant default)\n"},
		{"fence reset orders-db --token 7 --reason typo", 0,
			"orders-db of tenant default has forgotten fencing token 7; the next one that is checked passes, whichever it is\n",
			""},
		{"fence reset orders-db --token 7 --reason typo --json", 0,
			`{"replayed":true,"reset_token":7,"resource":"orders-db","tenant_id":"default"}` + "\n", ""},
		{"fence reset orders-db --token 7 --reason typo", 0,
			"orders-db of tenant default had forgotten fencing token 7 before\n", ""},
		{"fence remove orders-db --token 6 --reason gone", 4, "", "leasehold: STALE_TOKEN: …"},
		{"fence remove orders-db --token 7 --reason gone", 0,
			"the fence of orders-db of tenant default is removed, and fencing token 7 forgotten\n", ""},
		{"fence remove orders-db --token 7 --reason gone", 0,
			"there is no fence of orders-db of tenant default; token 7 was not needed\n", ""},
		{"fence remove orders-db --token 7", 2, "", "leasehold: missing flags: --reason=STRING…"},
		{"placement remove chat --reason gone", 5, "",
			"leasehold: NOT_FOUND: there is no cluster \"chat\" of tenant default…"},
		{"fence reset nothing --token 7 --reason typo", 5, "", "leasehold: NOT_FOUND: …"},
		{"fence reset orders-db --token 7", 2, "", "leasehold: missing flags: --reason=STRING…"},
		{"fence check orders-db --token 6 --subject lock/orders", 0, "orders-db of tenant default accepts fencing token 6\n", ""},
		{"lock acquire a/b --owner ci-43 --json --wait 50ms", 3, "", `{"code":"LOCK_HELD",…`},
		{"lock get nothing --json", 5, "", `{"code":"NOT_FOUND",…`},
		{"lock list --json --state x", 2, "", `{"code":"INVALID_ARGUMENT","detail":"--state x: must be active, …`},
		{"--json lock", 2, "", `{"code":"INVALID_ARGUMENT",…`},
		{"lock force-release a/b --reason hangs", 0, "a/b of tenant default is free; ci-42 held it\n", ""},
		{"lock get a/b", 0, "TENANT   LOCK  STATE     OWNER  AGE…", ""},
		{"lock acquire deploy --ttl 1500ms", 2, "",
			"leasehold: --ttl 1.5s: must be whole seconds from 1s to 24h, such as 30s or 5m\n"},
		{"lock acquire deploy --ttl 48h", 2, "", "leasehold: --ttl 48h0m0s: must be …"},
		{"lock acquire deploy --ttl 0s", 2, "", "leasehold: --ttl 0s: must be …"},
		{"lock acquire deploy --ttl 5", 2, "", "leasehold: --ttl: 5 has no unit: write 5s for seconds…"},
		{"lock acquire deploy --ttl soon", 2, "", `leasehold: --ttl: "soon" is no duration: …`},
		{"lock renew deploy", 2, "", "leasehold: missing flags: --token=N\n…"},
		{"lock acquire deploy --server nowhere", 2, "",
			`leasehold: --server "nowhere": must be a URL like http://127.0.0.1:8080` + "\n"},
		{"--server http://127.0.0.1:1 lock list", 1, "",
			"leasehold: cannot reach http://127.0.0.1:1: connection refused; is the server running? Start one with: leasehold serve …"},
		{"--server http://127.0.0.1:1 fence check r --token 1 --subject lock/orders --json", 1, "",
			`{"code":"UNAVAILABLE","detail":"cannot reach …`},
		{"id next --server http://127.0.0.1:1", 1, "", "leasehold: cannot reach http://127.0.0.1:1: connection refused…"},
		{"lock acquire deploy --auth-token-file /does/not/exist", 2, "",
			"leasehold: --auth-token-file: stat /does/not/exist: …"},
		{"lock", 2, "", "leasehold: expected one of …"},
		{"version", 0, "leasehold …", ""},
		{"--version", 0, "leasehold …", ""},
		{"help lock acquire", 0, "Usage: leasehold lock acquire <key>…", ""},
		{"help", 0, "Usage: leasehold <command>…", ""},
		{"", 0, "Usage: leasehold <command>…", ""},
	}
	token := "{token}"
	for _, s := range steps {
		t.Run(s.args, func(t *testing.T) {
			code, stdout, stderr := run(t, env, strings.Fields(strings.ReplaceAll(s.args, "{token}", token))...)
			if token == "{token}" && s.stdout == "{token}\n" {
				token = firstToken(t, stdout)
			}
			if code != s.code {
				t.Errorf("exit code %d, want %d", code, s.code)
			}
			for _, x := range []struct{ name, got, want string }{{"stdout", stdout, s.stdout}, {"stderr", stderr, s.stderr}} {
				x.want = strings.ReplaceAll(x.want, "{token}", token)
				prefix, open := strings.CutSuffix(x.want, "…")
				if x.got != x.want && (!open || !strings.HasPrefix(x.got, prefix)) {
					t.Errorf("%s:\ngot  %q\nwant %q", x.name, x.got, x.want)
				}
			}
		})
	}
}

// firstToken returns the fencing token that "lock acquire --quiet" printed, which for the first grant of a lock is the
// store's time in microseconds.
func firstToken(t *testing.T, stdout string) string {
	t.Helper()
	token := strings.TrimSuffix(stdout, "\n")
	n, err := strconv.ParseInt(token, 10, 64)
	if err != nil || time.Since(time.UnixMicro(n)).Abs() > time.Minute {
		t.Fatalf("stdout %q, want the time in microseconds", stdout)
	}
	return token
}

// TestClientEnvironment: an empty variable counts as not set, a misspelt one is an error.
func TestClientEnvironment(t *testing.T) {
	t.Parallel()
	p := start(t, "--store", "memory")
	for name, c := range map[string]struct {
		env    []string
		args   string
		code   int
		stderr string
	}{
		"empty tenant": {[]string{"LEASEHOLD_TENANT=", "LEASEHOLD_OWNER=", "LEASEHOLD_AUTH_TOKEN_FILE="},
			"lock list", 0, "no active locks of tenant default"},
		"empty server": {[]string{"LEASEHOLD_SERVER="}, "lock list --server " + p.url, 0, "no active locks"},
		"empty number": {[]string{"LEASEHOLD_EXTERNAL_ID_KEY="}, "id encode --mode unkeyed 7", 0, ""},
		"misspelt": {[]string{"LEASEHOLD_TENNANT=x"}, "lock list", 2,
			"LEASEHOLD_TENNANT is not a setting: did you mean LEASEHOLD_TENANT?"},
		"misspelt, fence": {[]string{"LEASEHOLD_SERVRE=x"}, "fence check r --token 1 --subject lock/orders", 2,
			"did you mean LEASEHOLD_SERVER?"},
		"misspelt, once": {[]string{"LEASEHOLD_SERVRE=x"}, "once a -- true", 125, "did you mean LEASEHOLD_SERVER?"},
		"misspelt, id": {[]string{"LEASEHOLD_EXTERNAL_ID_SECRETS=hunter2"}, "id decode 7", 2,
			"did you mean LEASEHOLD_EXTERNAL_ID_SECRET?"},
		"not a server": {[]string{"LEASEHOLD_SERVER=nowhere"}, "lock list", 2,
			`LEASEHOLD_SERVER "nowhere": must be a URL`},
		"variable of a server":  {[]string{"LEASEHOLD_STORE=memory"}, "lock list", 0, "no active locks"},
		"variable with a value": {[]string{"LEASEHOLD_TENANT=acme"}, "lock list", 0, "no active locks of tenant acme"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			code, stdout, stderr := run(t, append([]string{"LEASEHOLD_SERVER=" + p.url}, c.env...), strings.Fields(c.args)...)
			if code != c.code || !strings.Contains(stderr, c.stderr) || strings.Contains(stderr, "hunter2") {
				t.Errorf("%d %q %q, want %d %q", code, stdout, stderr, c.code, c.stderr)
			}
		})
	}
}

// TestInterruptedCommands: Ctrl-C ends every command with the shell's exit code and one plain line.
func TestInterruptedCommands(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("there is no signal to send")
	}
	p := start(t, "--store", "memory")
	for name, c := range map[string]struct {
		args []string
		says string // last on standard error
		// in the line on standard output, or on standard error, after which it is interrupted: the first, if empty
		when string
	}{
		"id next":            {[]string{"id", "next", "-n", "1000000000000"}, "leasehold: interrupted", ""},
		"id next standalone": {[]string{"id", "next", "--standalone", "-n", "1000000000000"}, "leasehold: interrupted", ""},
		"id next as JSON":    {[]string{"id", "next", "--json", "-n", "1000000000000"}, `"exit_code":130}`, ""},
		"standard input":     {[]string{"id", "decode", "--json", "7", "-"}, `"exit_code":130}`, ""},
		"once": {[]string{"once", "-q", "a", "--", "sh", "-c", "echo ready; exec sleep 600"},
			"leasehold: interrupted: the run of a was stopped, and may be tried again", ""},
		"once, no server": {[]string{"once", "a", "--server", "http://127.0.0.1:1", "--", "true"},
			"leasehold: interrupted before the run of a began", ""},
		"demo":         {[]string{"demo"}, "leasehold: the demonstration was interrupted", ""},
		"demo, worker": {[]string{"demo"}, "leasehold: the demonstration was interrupted", "worker-a"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cmd := exec.CommandContext(unhurried(t), binary(t), c.args...)
			cmd.Env = append(environment(), "LEASEHOLD_SERVER="+p.url)
			stdin, err := cmd.StdinPipe() // open, so that a command that reads it waits
			if err != nil {
				t.Fatal(err)
			}
			defer stdin.Close()
			stdout, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			stderr, err := cmd.StderrPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			var ready sync.Once
			said := make(chan string, 1)
			interrupt := func() {
				if err := cmd.Process.Signal(os.Interrupt); err != nil {
					t.Error(err)
				}
			}
			go func() { // what it prints first says that it is at work
				for lines := bufio.NewScanner(stdout); lines.Scan(); {
					if strings.Contains(lines.Text(), c.when) {
						ready.Do(interrupt)
					}
				}
			}()
			go func() {
				last := ""
				for lines := bufio.NewScanner(stderr); lines.Scan(); last = lines.Text() {
					if strings.Contains(lines.Text(), c.when) {
						ready.Do(interrupt)
					}
				}
				said <- last
			}()
			last := <-said
			if _ = cmd.Wait(); cmd.ProcessState.ExitCode() != 130 || !strings.HasSuffix(last, c.says) ||
				strings.Contains(last, "context canceled") {
				t.Errorf("%v, %q, want %q", cmd.ProcessState, last, c.says)
			}
		})
	}
}

// TestWaitingForALock: --wait gets the lock when its holder releases it.
func TestWaitingForALock(t *testing.T) {
	t.Parallel()
	p := start(t, "--store", "memory")
	env := []string{"LEASEHOLD_SERVER=" + p.url}
	code, granted, says := run(t, env, "lock", "acquire", "k", "--owner", "ann", "--ttl", "1h", "-q")
	if code != 0 {
		t.Fatal(says)
	}
	token := firstToken(t, granted)
	ctx, cancel := context.WithTimeout(unhurried(t), failAfter) // it would wait for an hour if the lock was not released
	defer cancel()
	waiting := exec.CommandContext(ctx, binary(t), "lock", "acquire", "k", "--owner", "bob", "--wait", "1h", "-q")
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
	if code, _, stderr := run(t, env, "lock", "release", "k", "--owner", "ann", "--token", token); code != 0 {
		t.Fatal(stderr)
	}
	first, err := strconv.ParseInt(token, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	if err := waiting.Wait(); err != nil || stdout.String() != strconv.FormatInt(first+1, 10)+"\n" {
		t.Errorf("%v, stdout %q, after token %d", err, &stdout, first)
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
	waiting := exec.CommandContext(unhurried(t), binary(t), "lock", "acquire", "k", "--owner", "bob", "--wait", "1h")
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
	if err := os.WriteFile(file, []byte("this is no database, whatever its name says; it has text in it"),
		0o600); err != nil {
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
			args: []string{"--store", "memory"}, env: []string{"LEASEHOLD_LISTEN=[::]:0"}, code: 2,
			says: []string{"LEASEHOLD_AUTH_ISSUER"}},
		"audience without issuer": {
			args: []string{"--auth-audience", "x", "--store", "memory"}, code: 2, says: []string{"--auth-issuer"}},
		"issuer without audience": {
			args: []string{"--auth-issuer", "https://issuer.example", "--store", "memory"}, code: 2,
			says: []string{"--auth-audience"}},
		"unencrypted issuer": {
			args: []string{"--auth-issuer", "http://issuer.example", "--auth-audience", "x", "--store", "memory"}, code: 2,
			says: []string{"https://"}},
		"address without a port": {
			args: []string{"--listen", "localhost", "--store", "memory"}, code: 2, says: []string{"host:port"}},
		"address that is taken": {
			args: []string{"--listen", taken.Addr().String(), "--store", "memory"}, code: 1,
			says: []string{"address already in use", "--listen"}},
		"data that is no database": {
			args: []string{"--listen", "127.0.0.1:0", "--data", notADatabase}, code: 1,
			says: []string{"leasehold.db", "--data"}},
		"data below a file": {
			args: []string{"--listen", "127.0.0.1:0", "--data", filepath.Join(notADatabase, "leasehold.db", "x")}, code: 1,
			says: []string{"leasehold.db", "--data"}},
		"no data folder known": {
			env: []string{"HOME=", "XDG_DATA_HOME="}, args: []string{"--listen", "127.0.0.1:0"}, code: 2,
			says: []string{"--data"}},
		"unknown store": {
			args: []string{"--store", "mongo"}, code: 2, says: []string{"--store", "sqlite"}},
		"ID services in a file that is not there": {
			args: []string{"--id-services", filepath.Join(notADatabase, "services.json"), "--store", "memory"}, code: 2,
			says: []string{"--id-services", "services.json"}},
		"ID service without a name": {
			args: []string{"--store", "memory"}, env: []string{`LEASEHOLD_ID_SERVICES=[{"bitSeq":8}]`}, code: 2,
			says: []string{"LEASEHOLD_ID_SERVICES", "serviceId is required"}},
		"a misspelled variable": {
			env: []string{"LEASEHOLD_LITSEN=x"}, code: 2, says: []string{"LEASEHOLD_LITSEN", "LEASEHOLD_LISTEN"}},
		"an issuer that is empty": {
			env: []string{"LEASEHOLD_AUTH_ISSUER="}, args: []string{"--store", "memory"}, code: 2,
			says: []string{"LEASEHOLD_AUTH_ISSUER is empty"}},
		"development mode on Cloud Run": {
			env: []string{"K_SERVICE=api", "PORT=8080"}, args: []string{"--store", "memory"}, code: 2,
			says: []string{"Cloud Run", "LEASEHOLD_AUTH_ISSUER"}},
		"a setting of another store": {
			args: []string{"--table", "locks"}, code: 2, says: []string{"--table is a setting of the store dynamodb",
				"--store"}},
		"unknown flag": {
			args: []string{"--colour"}, code: 2, says: []string{"--colour", "--help"}},
		"unencrypted target": {
			args: []string{"--target-url", "http://worker.example/run", "--listen", "127.0.0.1:0", "--store", "memory"}, code: 2,
			says: []string{"--target-url", "https://"}},
		"tasks of a public server from anybody": {
			args: []string{"--target-url", "https://worker.example/run", "--auth-issuer", "https://issuer.example",
				"--auth-audience", "x", "--listen", "127.0.0.1:0", "--store", "memory"}, code: 2, says: []string{"--task-account"}},
		"queue without its URL": {
			args: []string{"--task-queue", "projects/p/locations/l/queues/q", "--listen", "127.0.0.1:0", "--store", "memory"},
			code: 2, says: []string{"--task-url"}},
		"no failures allowed": {
			args: []string{"--max-failures", "0", "--listen", "127.0.0.1:0", "--store", "memory"}, code: 2,
			says: []string{"--max-failures"}},
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
	begin := time.Now()
	p := start(t, "--store", "memory", "--log", "json")
	conn, err := net.Dial("tcp", strings.TrimPrefix(p.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	body := `{"request_id":"r1","owner_id":"ann","ttl_seconds":30}`
	head :=
		"POST /v1/tenants/acme/locks/k/acquire HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nExpect: 100-continue\r\nContent-Length: 53\r\n\r\n"
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
	for deadline := time.Now().Add(failAfter); !closed && time.Now().Before(deadline); {
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
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusOK {
		t.Errorf("%s %q, %v", response.Status, content, err)
	}
	firstLease(t, string(content), begin)
	if err := <-p.ended; err != nil {
		t.Errorf("the server ended with %v\n%s", err, p.stderr.Bytes())
	}
	checkLog(t, p.stderr.String())
}

// firstLease reads the first lease of a lock: its token is the store's time of the acquire in microseconds, which is
// not before begin. The time of a store without a clock may be off by some seconds.
func firstLease(t *testing.T, body string, begin time.Time) contracts.Lease {
	t.Helper()
	var l contracts.Lease
	if err := json.Unmarshal([]byte(body), &l); err != nil {
		t.Fatalf("%v in %q", err, body)
	}
	const off = 10 * time.Second
	if at := time.UnixMicro(l.FencingToken); at.Before(begin.Add(-off)) || at.After(time.Now().Add(off)) {
		t.Errorf("the token %d is the time %v: %s", l.FencingToken, at, body)
	}
	return l
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
		return c.LockAPI().Acquire(unhurried(t), "acme", "k", contracts.AcquireRequest{RequestID: request, OwnerID: "ann",
			TTLSeconds: 3600})
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

// TestSlowHeaders: a client that sends its header a byte now and then is disconnected, and other clients do not wait
// for it.
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
	if err := conn.SetReadDeadline(time.Now().Add(failAfter)); err != nil {
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
	r, err := http.NewRequestWithContext(unhurried(t), http.MethodGet, p.url+"/healthz", nil)
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
	// A server that has responded reads no more, and closes after a while. http.Client takes that for an error if it has
	// not looked at the response by then.
	host := strings.TrimPrefix(p.url, "http://")
	conn, err := (&net.Dialer{}).DialContext(unhurried(t), "tcp", host)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	go fmt.Fprintf(conn, "POST /v1/tenants/acme/locks/k/acquire HTTP/1.1\r\nHost: %s\r\n"+
		"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", host, len(body), body)
	w, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Body.Close()
	response, err := io.ReadAll(w.Body)
	if err != nil || w.StatusCode != http.StatusRequestEntityTooLarge ||
		!strings.Contains(string(response), `"code":"PAYLOAD_TOO_LARGE"`) {
		t.Errorf("%d %s, %v", w.StatusCode, response, err)
	}
	if w, err := http.Get(p.url + "/v1/tenants/acme/locks/k"); err != nil || w.StatusCode != http.StatusNotFound {
		t.Errorf("afterwards the lock is there: %v, %v", w, err)
	} else {
		w.Body.Close()
	}
}
