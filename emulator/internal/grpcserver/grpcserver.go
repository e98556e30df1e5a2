// Package grpcserver starts and closes the gRPC servers of the emulators, and connects clients with them.
package grpcserver

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"

	"google.golang.org/api/option"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
)

// Server is a running server. Its methods may be called from several goroutines at once.
type Server struct {
	addr   string
	grpc   *grpc.Server
	served chan error

	split      *splitter
	rest       *http.Server
	restServed chan error

	mu    sync.Mutex
	conns []*grpc.ClientConn
}

// Serve serves a listener until the server is closed: gRPC, and to other callers, those of HTTP/1, the handler.
func Serve(l net.Listener, rest http.Handler, register func(grpc.ServiceRegistrar), o ...grpc.ServerOption) *Server {
	s := &Server{
		addr: l.Addr().String(), grpc: grpc.NewServer(append(o, grpc.WaitForHandlers(true))...), served: make(chan error, 1),
		split: split(l), rest: &http.Server{Handler: rest, ReadHeaderTimeout: 10 * time.Second}, restServed: make(chan error, 1),
	}
	register(s.grpc)
	go func() { s.served <- s.grpc.Serve(s.split.http2) }()
	go func() { s.restServed <- s.rest.Serve(s.split.rest) }()
	return s
}

// Addr is the address of the server, "127.0.0.1:41234".
func (s *Server) Addr() string { return s.addr }

// ClientOptions connect a client of one of Google's libraries with the server. Each call opens a connection.
func (s *Server) ClientOptions() []option.ClientOption {
	conn, err := grpc.NewClient("passthrough:///"+s.addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		panic(fmt.Sprintf("connect with the emulator: %v", err)) // the address is the server's own and well formed
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.conns = append(s.conns, conn)
	return []option.ClientOption{option.WithGRPCConn(conn)}
}

// Close ends all requests, waits for them and closes the connections of [Server.ClientOptions].
func (s *Server) Close() error {
	s.split.close()
	s.grpc.Stop()
	err := s.rest.Close()
	s.mu.Lock()
	conns := s.conns
	s.mu.Unlock()
	for _, c := range conns {
		if e := c.Close(); e != nil && status.Code(e) != codes.Canceled { // Canceled: its client was closed before
			err = errors.Join(err, e)
		}
	}
	if e := <-s.served; e != nil && !errors.Is(e, grpc.ErrServerStopped) && !errors.Is(e, net.ErrClosed) {
		err = errors.Join(err, e)
	}
	if e := <-s.restServed; !errors.Is(e, http.ErrServerClosed) && !errors.Is(e, net.ErrClosed) {
		err = errors.Join(err, e)
	}
	return err
}

// Errorf responds to a caller of HTTP/1 as Google's APIs do.
func Errorf(w http.ResponseWriter, code int, status, format string, args ...any) {
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.WriteHeader(code)
	type problem struct {
		Code    int    `json:"code"`
		Message string `json:"message"`
		Status  string `json:"status"`
	}
	body, err := json.Marshal(map[string]problem{"error": {code, fmt.Sprintf(format, args...), status}})
	if err != nil {
		panic(err) // text and a number
	}
	_, _ = w.Write(append(body, '\n')) // the client that hung up does not mind
}
