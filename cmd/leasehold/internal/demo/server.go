package demo

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/http"

	"github.com/leasehold-dev/leasehold/functions/httpapi"
)

// AnyPort is an address of this machine with a port that is free.
const AnyPort = "127.0.0.1:0"

// ErrAddress says that other machines could reach the address, or that it is none.
var ErrAddress = errors.New(
	"the demonstration is for this machine only: its address must be that of this machine with a port, such as 127.0.0.1:0")

// server is an HTTP server on this machine, without a log.
type server struct {
	url string // http://HOST:PORT

	listener net.Listener
	server   *http.Server
}

// listen opens an address of this machine. Requests wait until [server.serve].
func listen(ctx context.Context, address string) (*server, error) {
	if host, _, err := net.SplitHostPort(address); err != nil || !httpapi.Loopback(host) {
		return nil, fmt.Errorf("%w, not %q", ErrAddress, address)
	}
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("cannot listen on %s: %w; choose another address with --listen", address, err)
	}
	return &server{url: "http://" + l.Addr().String(), listener: l}, nil
}

// serve serves requests until close. What ended it comes through the channel. It is called once, before close.
func (s *server) serve(h http.Handler) <-chan error {
	ended := make(chan error, 1)
	s.server = httpapi.Server(h, slog.New(slog.DiscardHandler), httpapi.MaxConnections)
	go func() { ended <- s.server.Serve(s.listener) }()
	return ended
}

// close closes the address and all connections: the demonstration is over.
func (s *server) close() {
	if s.server != nil {
		_ = s.server.Close()
	}
	_ = s.listener.Close() // the server may have closed it
}

// post sends JSON, as any program in any language would, and reads a JSON response, whatever its status is, unless into
// is nil.
func post(ctx context.Context, c *http.Client, url string, header http.Header, body, into any) (status int, err error) {
	b, err := json.Marshal(body)
	if err != nil {
		return 0, err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(b))
	if err != nil {
		return 0, err
	}
	maps.Copy(r.Header, header)
	got, err := c.Do(r)
	if err != nil {
		return 0, err
	}
	defer got.Body.Close() //nolint:errcheck // what is left of it is not wanted
	if into != nil {
		if err := json.NewDecoder(got.Body).Decode(into); err != nil {
			return 0, fmt.Errorf("the server responded %s without JSON: %w", got.Status, err)
		}
	}
	return got.StatusCode, nil
}
