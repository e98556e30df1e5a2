package dynamodbtest

import (
	"net/http"

	"github.com/leasehold-dev/leasehold/emulator/internal/awsjson"
	"github.com/leasehold-dev/leasehold/emulator/internal/loopback"
)

// TB is what [Start] needs of a test; *testing.T, *testing.B and *testing.F have it.
type TB = loopback.TB

// Start runs a new server on a free port of the loopback interface until the test ends, and returns it with its URL
// set; opts may be nil.
func Start(t TB, opts *Options) *Server {
	t.Helper()
	s := New(opts)
	if s.URL = loopback.StartHTTP(t, "dynamodb emulator", s); s.URL == "" {
		return nil
	}
	return s
}

// RoundTripper returns a transport that hands requests to the server without a network, for an http.Client inside a
// testing/synctest bubble. A dropped connection shows as [io.ErrUnexpectedEOF].
func (s *Server) RoundTripper() http.RoundTripper {
	return awsjson.RoundTripper(http.HandlerFunc(s.serve))
}
