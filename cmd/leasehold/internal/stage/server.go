package stage

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/http"

	"github.com/leasehold-dev/leasehold/functions/httpapi"
)

// AnyPort is an address of this machine with a port that is free.
const AnyPort = "127.0.0.1:0"

// Server is an HTTP server on this machine, without a log.
type Server struct {
	URL string // http://HOST:PORT

	listener net.Listener
	server   *http.Server
}

// Listen opens an address. Requests wait until [Server.Serve].
func Listen(ctx context.Context, address string) (*Server, error) {
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	return &Server{URL: "http://" + l.Addr().String(), listener: l}, nil
}

// Serve serves requests until Close. What ended it comes through the channel. It is called once, before Close.
func (s *Server) Serve(h http.Handler) <-chan error {
	ended := make(chan error, 1)
	s.server = httpapi.Server(h, slog.New(slog.DiscardHandler))
	go func() { ended <- s.server.Serve(s.listener) }()
	return ended
}

// Close closes the address and all connections: the demonstration is over.
func (s *Server) Close() {
	if s.server != nil {
		_ = s.server.Close()
	}
	_ = s.listener.Close() // the server may have closed it
}

// Post sends JSON, as any program in any language would, and reads a JSON response, whatever its status is, unless into
// is nil.
func Post(ctx context.Context, c *http.Client, url string, header http.Header, body, into any) (status int, err error) {
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
