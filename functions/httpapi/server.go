package httpapi

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"time"
)

const (
	// sendTime is how long a response may take to be sent.
	sendTime = 30 * time.Second

	// maxStreams is how many requests are under way on one connection of HTTP/2: more than one subject has of all that
	// requests wait for.
	maxStreams = 1000
)

// Server returns an HTTP server with limits for clients that are slow, or never end: 5 s for the header, 15 s for the
// whole request, 30 s for the work and the response, or for the response alone where the work may take longer than half
// of that; two minutes between requests. A connection of HTTP/2 that takes no byte for 30 s is closed, and one tenant,
// or one subject, can have no connection for itself, which may be that of a proxy. Beyond so many connections at once,
// 1 at the least, one of the network that has most makes room for the next. Its errors go to the log.
func Server(h http.Handler, log *slog.Logger, connections int) *http.Server {
	return &http.Server{
		Handler:           h,
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       15 * time.Second,
		WriteTimeout:      sendTime,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    MaxHeaderBytes,
		HTTP2:             &http.HTTP2Config{MaxConcurrentStreams: maxStreams, WriteByteTimeout: sendTime},
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelWarn),
		ConnState:         newConnections(connections, log).changed,
		ConnContext: func(ctx context.Context, _ net.Conn) context.Context {
			return context.WithValue(ctx, connectionKey{}, newBound(streams, maxStreams, 0, 0))
		},
	}
}

// connectionKey is the key of the bound of the requests of a connection.
type connectionKey struct{}

// onConnection handles a request if its caller has less than its share of its connection, which over HTTP/2 has many
// requests at once.
func onConnection(w http.ResponseWriter, r *http.Request, c Caller, do handler) error {
	if r.ProtoMajor != 2 {
		return do(w, r, c)
	}
	its, _ := r.Context().Value(connectionKey{}).(*bound)
	by := noteOf(r).party
	if err := its.try(by, 1); err != nil {
		return err
	}
	defer its.leave(by, 1)
	return do(w, r, c)
}
