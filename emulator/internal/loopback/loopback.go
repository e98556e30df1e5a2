// Package loopback starts and closes the servers of the emulators.
package loopback

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"
)

// Listen binds a loopback address, "127.0.0.1:8080"; port 0 or an empty address picks a free port. It rejects other
// addresses, because the emulators let every caller do everything, unless anywhere allows them. The emulator's name is
// for the errors.
func Listen(emulator, addr string, anywhere bool) (net.Listener, error) {
	if addr == "" {
		addr = "127.0.0.1:0"
	}
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, fmt.Errorf("%s: address %q: %w", emulator, addr, err)
	}
	if !anywhere && !IsHost(host) {
		return nil, fmt.Errorf(
			"%s: address %q is not a loopback address: use 127.0.0.1, ::1 or localhost, or set Options.InsecureListenAnywhere",
			emulator, addr)
	}
	l, err := net.Listen("tcp", addr) //nolint:noctx // a loopback address is bound at once
	if err != nil {
		return nil, fmt.Errorf("%s: %w", emulator, err)
	}
	return l, nil
}

// IsHost reports whether a host is on this machine.
func IsHost(host string) bool {
	ip := net.ParseIP(host)
	return strings.EqualFold(host, "localhost") || ip != nil && ip.IsLoopback()
}

// CheckHost rejects a request that names another host than this machine. A page in a browser can have the name of its
// own site lead to this machine, and would then be allowed to read the responses.
func CheckHost(r *http.Request) error {
	host := r.Host
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	if IsHost(host) || strings.HasSuffix(host, ".localhost") {
		return nil
	}
	return fmt.Errorf("the request is for the host %q, and this emulator serves its own machine only: "+
		"use 127.0.0.1 or localhost, or set Options.InsecureListenAnywhere (--insecure-listen-anywhere)", r.Host)
}

// TB is what [Start] needs of a test.
type TB interface {
	Helper()
	Cleanup(func())
	Fatalf(format string, args ...any)
}

// Start closes a server when the test ends, or fails the test if the server did not start.
func Start[S io.Closer](t TB, s S, err error) S {
	t.Helper()
	if err == nil {
		t.Cleanup(func() {
			t.Helper()
			if err := s.Close(); err != nil {
				t.Fatalf("close the server: %v", err)
			}
		})
	} else {
		t.Fatalf("%v", err)
	}
	return s
}

// HTTP is a running server.
type HTTP struct {
	URL string // without a slash at the end

	server *http.Server
	served chan error
}

// ServeHTTP serves a listener until the server is closed.
func ServeHTTP(l net.Listener, h http.Handler) *HTTP {
	s := &HTTP{
		URL: "http://" + l.Addr().String(), server: &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second},
		served: make(chan error, 1),
	}
	go func() { s.served <- s.server.Serve(l) }()
	return s
}

// Close closes all connections and waits for the end.
func (s *HTTP) Close() error {
	err := s.server.Close()
	if e := <-s.served; !errors.Is(e, http.ErrServerClosed) {
		err = errors.Join(err, e)
	}
	return err
}

// StartHTTP serves on a free port until the test ends, and returns the URL; it is empty if the test's Fatalf returned.
func StartHTTP(t TB, emulator string, h http.Handler) string {
	t.Helper()
	l, err := Listen(emulator, "", false)
	if err != nil {
		t.Fatalf("%v", err)
		return ""
	}
	return Start(t, ServeHTTP(l, h), nil).URL
}
