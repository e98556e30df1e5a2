// Package external starts servers that others wrote, for tests that compare with them. They take seconds to start, so
// that tests use them only if the environment asks.
package external

import (
	"context"
	"net"
	"os"
	"os/exec"
	"testing"
	"time"
)

// Variable asks for external servers if it is "1".
const Variable = "LEASEHOLD_TEST_SERVERS"

// Ask skips the test unless the environment asks for external servers. otherwise says in a clause how else to ask for
// the server; it may be empty.
func Ask(t testing.TB, server, otherwise string) {
	t.Helper()
	if os.Getenv(Variable) != "1" {
		t.Skipf("%s starts only if the environment asks: set %s=1%s", server, Variable, otherwise)
	}
}

// Listen runs a command for as long as the test runs, and waits until it accepts connections at the address.
func Listen(t testing.TB, address, program string, args ...string) {
	t.Helper()
	// Not the test's own context, which ends before the clean-up of what uses the server.
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), program, args...) //nolint:gosec // a test's own choice
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // it was killed
	})
	dialer := net.Dialer{Timeout: time.Second}
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
		if conn, err := dialer.DialContext(t.Context(), "tcp", address); err == nil {
			_ = conn.Close()
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s does not accept connections on %s after a minute", program, address)
		}
	}
}

// FreePorts are loopback ports that no one listens on now.
func FreePorts(t testing.TB, n int) []string {
	t.Helper()
	var ports []string
	for range n {
		var config net.ListenConfig
		l, err := config.Listen(t.Context(), "tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close() //nolint:errcheck // nothing was sent; all are held until the last is found
		_, port, err := net.SplitHostPort(l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		ports = append(ports, port)
	}
	return ports
}
