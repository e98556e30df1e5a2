package awsjson

import (
	"bytes"
	"io"
	"net/http"
)

// RoundTripper returns a transport that hands requests to a server without a network. A connection that the server
// drops by panicking with [http.ErrAbortHandler] shows as [io.ErrUnexpectedEOF], or as the error of the request's
// context if that is done.
func RoundTripper(h http.Handler) http.RoundTripper { return inMemory{h} }

type inMemory struct{ h http.Handler }

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
	m.h.ServeHTTP(w, r)
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

// recorder keeps a response in memory.
type recorder struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (w *recorder) Header() http.Header         { return w.header }
func (w *recorder) WriteHeader(status int)      { w.status = status }
func (w *recorder) Write(p []byte) (int, error) { return w.body.Write(p) }
