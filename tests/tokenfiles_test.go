//go:build unix

package tests

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/leasehold-dev/leasehold/proof/suite"
)

// TestTokenFiles: programs of their own that go on for longer than their token is valid send the one that its file has
// by now, to a server that verifies it: tokens of 8 s are replaced every 4 s, in a deep run for a minute.
func TestTokenFiles(t *testing.T) {
	t.Parallel()
	const valid = 8 * time.Second
	lasts := suite.AtDepth(12*time.Second, time.Minute)
	i := newIssuer(t)
	p := serve(t, []string{"LEASEHOLD_AUTH_LEEWAY=1ms"}, "--store", "memory", "--auth-issuer", i.URL, "--auth-audience", "leasehold")
	dir := t.TempDir()
	path := filepath.Join(dir, "token")
	write := func() {
		t.Helper()
		token := i.token(t, map[string]any{"exp": time.Now().Add(valid).Unix(), "scope": "openid leasehold:admin"})
		if err := errors.Join(os.WriteFile(path+".new", []byte(token), 0o600), os.Rename(path+".new", path)); err != nil {
			t.Error(err)
		}
	}
	write()
	stop := make(chan struct{})
	replaced := make(chan struct{})
	go func() {
		defer close(replaced)
		for tick := time.NewTicker(valid / 2); ; {
			select {
			case <-stop:
				tick.Stop()
				return
			case <-tick.C:
				write()
			}
		}
	}()
	t.Cleanup(func() { close(stop); <-replaced })

	// What ends by itself works for so long; what watches is interrupted then.
	seconds := strconv.Itoa(int(lasts / time.Second))
	server := []string{"--server", p.url, "--tenant", "acme", "--auth-token-file", path}
	for name, c := range map[string]struct {
		program []string
		watches bool
	}{
		"lock run":          {append(server, "lock", "run", "k", "--ttl", "2s", "--", "sleep", seconds), false},
		"once":              {append(server, "once", "-q", "r", "--ttl", "2s", "--", "sleep", seconds), false},
		"lock list --watch": {append(server, "lock", "list", "--watch", "--interval", "200ms"), true},
		"lock get --watch":  {append(server, "lock", "get", "k", "--watch", "--interval", "200ms"), true},
		"placement events":  {append(server, "placement", "events", "c", "-f"), true},
		"lock in Python":    {[]string{"python3", "-c", holdInPython, p.url, path, seconds}, false},
		"once in Python":    {[]string{"python3", "-c", onceInPython, p.url, path, seconds}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var said bytes.Buffer
			cmd := exec.Command(binary(t), c.program...)
			if c.program[0] == "python3" {
				python, err := exec.LookPath("python3")
				if err != nil {
					t.Skip("no python3 on the PATH")
				}
				cmd = exec.Command(python, c.program[1:]...)
			}
			cmd.Env = append(environment(), "PYTHONPATH="+filepath.Join("..", "sdk", "python", "src"), "PYTHONDONTWRITEBYTECODE=1")
			cmd.Stderr = &said
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = cmd.Process.Kill() })
			ended := make(chan error, 1)
			go func() { ended <- cmd.Wait() }()
			if c.watches {
				select {
				case err := <-ended:
					t.Fatalf("it ended by itself: %v\n%s", err, &said)
				case <-time.After(lasts):
				}
				if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
					t.Fatal(err)
				}
			}
			err := <-ended
			code := 0
			if e, ok := errors.AsType[*exec.ExitError](err); ok {
				code = e.ExitCode()
			}
			if want := map[bool]int{true: 130}[c.watches]; code != want || strings.Contains(said.String(), "UNAUTHENTICATED") {
				t.Errorf("exit code %d, want %d: %v\n%s", code, want, err, &said)
			}
		})
	}
}

// holdInPython holds a lock without losing it: at the end of its block the client says whether it did.
const holdInPython = `
import sys, time
import leasehold
locks = leasehold.Client(sys.argv[1], token_file=sys.argv[2]).locks("acme", ttl=2)
end = time.monotonic() + float(sys.argv[3])
with locks.hold("python") as lock:
    while time.monotonic() < end:
        lock.check()
        time.sleep(0.05)
`

// onceInPython does one thing after the other once.
const onceInPython = `
import sys, time
import leasehold
from leasehold.once import once
client = leasehold.Client(sys.argv[1], token_file=sys.argv[2])
done = []
@once(client.runs("acme"), key="python-{n}")
def work(n):
    done.append(n)
    return n
end, n = time.monotonic() + float(sys.argv[3]), 0
while time.monotonic() < end:
    n += 1
    assert work(n) == work(n) == n
    time.sleep(0.05)
assert done == list(range(1, n + 1)), done
`
