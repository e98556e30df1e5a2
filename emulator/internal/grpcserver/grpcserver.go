// Package grpcserver starts and closes the gRPC servers of the emulators, and connects clients with them.
package grpcserver

import (
	"errors"
	"fmt"
	"net"
	"sync"

	"google.golang.org/api/option"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/leasehold-dev/leasehold/emulator/internal/loopback"
)

// Server is a running server. Its methods may be called from several goroutines at once.
type Server struct {
	addr   string
	from   *responder
	grpc   *grpc.Server
	served chan error

	mu    sync.Mutex
	conns []*grpc.ClientConn
}

// Listen serves an address until the server is closed, as [loopback.Listen] takes it. The emulator's name is for errors
// and for callers of HTTP/1, which are told that there is nothing for them.
func Listen(
	emulator, addr string, anywhere bool, register func(grpc.ServiceRegistrar), o ...grpc.ServerOption,
) (*Server, error) {
	l, err := loopback.Listen(emulator, addr, anywhere)
	if err != nil {
		return nil, err
	}
	s := &Server{
		addr: l.Addr().String(), from: &responder{Listener: l, emulator: emulator, open: make(map[*conn]struct{})},
		grpc: grpc.NewServer(append(o, grpc.WaitForHandlers(true))...), served: make(chan error, 1),
	}
	register(s.grpc)
	go func() { s.served <- s.grpc.Serve(s.from) }()
	return s, nil
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
	s.from.end()
	s.grpc.Stop()
	s.mu.Lock()
	conns := s.conns
	s.mu.Unlock()
	var err error
	for _, c := range conns {
		if e := c.Close(); e != nil && status.Code(e) != codes.Canceled { // Canceled: its client was closed before
			err = errors.Join(err, e)
		}
	}
	if e := <-s.served; e != nil && !errors.Is(e, grpc.ErrServerStopped) && !errors.Is(e, net.ErrClosed) {
		err = errors.Join(err, e)
	}
	return err
}
