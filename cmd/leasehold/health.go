package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/leasehold-dev/leasehold/functions/settings"
)

type healthCmd struct {
	Server    string        `env:"LEASEHOLD_SERVER" placeholder:"URL" help:"The server (${env}). The default is the one that \"leasehold serve\" starts with the settings of this environment."`
	Listening string        `placeholder:"HOST:PORT" help:"Only check that a program listens on this address, such as an emulator."`
	Timeout   time.Duration `default:"3s" placeholder:"DURATION" help:"Time limit (default ${default})."`
}

// Help is the longer help of the command.
func (healthCmd) Help() string {
	return `For health checks of containers, which may have no other program that could ask. It asks /readyz: a server is ready if its store accepts a write.

  leasehold health
  leasehold health --listening 127.0.0.1:8000

Exit codes: 0 ready, 1 not ready or not there.`
}

// Run asks.
func (c *healthCmd) Run(ctx context.Context, s *streams) error {
	if c.Timeout <= 0 {
		return usage("--timeout %v: must be longer than 0s", c.Timeout)
	}
	ctx, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	if c.Listening != "" {
		return c.dial(ctx, s)
	}
	server := remote{Server: strings.TrimSuffix(c.Server, "/")}
	if server.Server == "" {
		local, err := settings.Load(settings.Serve, os.Environ(), nil)
		if err != nil {
			return usage("%w", err)
		}
		server.Server = "http://" + fromHere(local.Listen)
	}
	if _, err := server.connect(); err != nil { // looks at the URL
		return err
	}
	if err := ready(ctx, server); err != nil {
		return err
	}
	_, err := fmt.Fprintln(s.out, server.Server, "is ready")
	return err
}

// ready asks a server whether its store accepts a write.
func ready(ctx context.Context, server remote) error {
	status, body, err := get(ctx, server.Server+"/readyz")
	if err != nil {
		return server.explain(err)
	}
	if status != "200 OK" {
		return fmt.Errorf("%s is not ready: %s: %s", server.Server, status, strings.TrimSpace(string(body)))
	}
	return nil
}

// get asks a server for something that needs no token. It follows no redirects, and has what there is of a body.
func get(ctx context.Context, url string) (status string, body []byte, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", nil, usage("--server: %w", err)
	}
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	w, err := client.Do(r)
	if err != nil {
		return "", nil, err
	}
	defer func() { _ = w.Body.Close() }()
	body, _ = io.ReadAll(io.LimitReader(w.Body, 1<<10))
	return fmt.Sprintf("%d %s", w.StatusCode, http.StatusText(w.StatusCode)), body, nil
}

// dial checks that a program listens.
func (c *healthCmd) dial(ctx context.Context, s *streams) error {
	if _, _, err := net.SplitHostPort(c.Listening); err != nil {
		return usage("--listening %q: must be host:port, such as 127.0.0.1:8000", c.Listening)
	}
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", c.Listening)
	if err != nil {
		return fmt.Errorf("no program listens on %s: %w", c.Listening, err)
	}
	_, err = fmt.Fprintln(s.out, "a program listens on", c.Listening)
	_ = conn.Close()
	return err
}
