package dynamodb

import (
	"bytes"
	"errors"
	"io"
	"net"
	"net/http"
	"time"
)

// TB is what [Start] needs of a test; *testing.T, *testing.B and *testing.F have it.
type TB interface {
	Helper()
	Cleanup(func())
	Fatalf(format string, args ...any)
}

// Start runs a new server on a free port of the loopback interface until the test ends, and returns it with its URL
// set; opts may be nil.
func Start(t TB, opts *Options) *Server {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // a loopback address is bound at once
	if err != nil {
		t.Fatalf("dynamodb: %v", err)
		return nil
	}
	s := New(opts)
	s.URL = "http://" + listener.Addr().String()
	server := &http.Server{Handler: s, ReadHeaderTimeout: 10 * time.Second}
	done := make(chan error, 1)
	go func() { done <- server.Serve(listener) }()
	t.Cleanup(func() {
		err := server.Close()
		if served := <-done; !errors.Is(served, http.ErrServerClosed) {
			err = errors.Join(err, served)
		}
		if err != nil {
			t.Fatalf("dynamodb: closing the server: %v", err)
		}
	})
	return s
}

// RoundTripper returns a transport that hands requests to the server without a network, for an http.Client inside a
// testing/synctest bubble. A dropped connection shows as [io.ErrUnexpectedEOF].
func (s *Server) RoundTripper() http.RoundTripper { return inMemory{s} }

type inMemory struct{ s *Server }

// RoundTrip serves one request in the caller's goroutine.
func (m inMemory) RoundTrip(r *http.Request) (_ *http.Response, err error) {
	if r.Body != nil {
		defer r.Body.Close() //nolint:errcheck // the server has read what it wants of it
	} else {
		r = r.Clone(r.Context())
		r.Body = http.NoBody
	}
	w := &recorder{header: http.Header{}, status: http.StatusOK}
	defer func() {
		switch p := recover(); {
		case p == nil:
		case p != http.ErrAbortHandler: //nolint:errorlint // net/http, too, knows this very value only
			panic(p)
		case r.Context().Err() != nil:
			err = r.Context().Err()
		default:
			err = io.ErrUnexpectedEOF
		}
	}()
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	m.s.ServeHTTP(w, r)
	return &http.Response{
		Status:        http.StatusText(w.status),
		StatusCode:    w.status,
		Proto:         "HTTP/1.1",
		ProtoMajor:    1,
		ProtoMinor:    1,
		Header:        w.header,
		Body:          io.NopCloser(&w.body),
		ContentLength: int64(w.body.Len()),
		Request:       r,
	}, nil
}

// recorder keeps an answer in memory.
type recorder struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (w *recorder) Header() http.Header         { return w.header }
func (w *recorder) WriteHeader(status int)      { w.status = status }
func (w *recorder) Write(p []byte) (int, error) { return w.body.Write(p) }
