// Package moto starts moto_server for tests that compare with it: a server of AWS' protocols in Python that others
// wrote (https://github.com/getmoto/moto).
package moto

import (
	"net"
	"os/exec"
	"testing"

	"github.com/leasehold-dev/leasehold/emulator/internal/external"
)

// Start starts a moto_server on a free loopback port for as long as the test runs and returns its URL. It skips the
// test unless LEASEHOLD_TEST_SERVERS is 1 and moto_server is installed.
func Start(t testing.TB) string {
	t.Helper()
	external.Ask(t, "moto_server", "")
	path, err := exec.LookPath("moto_server")
	if err != nil {
		t.Skip("moto_server is not installed: pip install 'moto[sqs,server]'")
	}
	port := external.FreePorts(t, 1)[0]
	address := net.JoinHostPort("127.0.0.1", port)
	external.Listen(t, address, path, "-H", "127.0.0.1", "-p", port)
	return "http://" + address
}
