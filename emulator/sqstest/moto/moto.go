// Package moto finds moto_server for tests that compare with it: a server of AWS' protocols in Python that others wrote
// (https://github.com/getmoto/moto). It needs a second or two to start.
package moto

import (
	"net"
	"os/exec"
	"testing"
	"time"
)

// Start starts a moto_server on a free loopback port for as long as the test runs and returns its URL. If there is none it
// skips the test and says how to install one.
func Start(t testing.TB) string {
	t.Helper()
	path, err := exec.LookPath("moto_server")
	if err != nil {
		t.Skip("no moto_server: install it with `pip install 'moto[sqs,server]'`")
	}
	host, port, err := net.SplitHostPort(freeAddress(t))
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), path, "-H", host, "-p", port) //nolint:gosec // a test's own choice
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // it was killed
	})
	address := net.JoinHostPort(host, port)
	dialer := net.Dialer{Timeout: time.Second}
	for deadline := time.Now().Add(60 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		if conn, err := dialer.DialContext(t.Context(), "tcp", address); err == nil {
			_ = conn.Close()
			return "http://" + address
		}
		if time.Now().After(deadline) {
			t.Fatalf("moto_server does not answer on %s after a minute", address)
		}
	}
}

// freeAddress is a loopback address that nobody listens on now.
func freeAddress(t testing.TB) string {
	t.Helper()
	var config net.ListenConfig
	l, err := config.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close() //nolint:errcheck // nothing was sent
	return l.Addr().String()
}
