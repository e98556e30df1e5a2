package grpcserver

import (
	"errors"
	"io"
	"net"
	"sync"
	"time"
)

// preface is how every HTTP/2 connection begins, and no HTTP/1 request: its first bytes are enough.
const preface = "PRI"

// prefaceTimeout is how long a connection may take to send its first bytes.
const prefaceTimeout = 10 * time.Second

// A splitter hands the connections of one listener to two: those that begin with HTTP/2 and all others.
type splitter struct {
	from        net.Listener
	http2, rest *half

	mu     sync.Mutex
	open   map[net.Conn]struct{} // that have not said yet what they are; nil when closed
	routes sync.WaitGroup
}

func split(l net.Listener) *splitter {
	s := &splitter{from: l, http2: newHalf(l.Addr()), rest: newHalf(l.Addr()), open: make(map[net.Conn]struct{})}
	s.routes.Go(s.accept)
	return s
}

func (s *splitter) accept() {
	for {
		c, err := s.from.Accept()
		if err != nil && !errors.Is(err, net.ErrClosed) {
			time.Sleep(10 * time.Millisecond) // too many files are open, for instance
			continue
		}
		if err != nil {
			_ = s.http2.Close() // the servers of both end then
			_ = s.rest.Close()
			return
		}
		s.mu.Lock()
		if s.open == nil {
			_ = c.Close()
		} else {
			s.open[c] = struct{}{}
			s.routes.Go(func() { s.route(c) })
		}
		s.mu.Unlock()
	}
}

func (s *splitter) route(c net.Conn) {
	first := make([]byte, len(preface))
	_ = c.SetReadDeadline(time.Now().Add(prefaceTimeout)) // a connection that fails here fails to read too
	_, err := io.ReadFull(c, first)
	_ = c.SetReadDeadline(time.Time{})
	s.mu.Lock()
	delete(s.open, c)
	s.mu.Unlock()
	to := s.rest
	if string(first) == preface {
		to = s.http2
	}
	if err != nil || !to.offer(&peeked{Conn: c, first: first}) {
		_ = c.Close()
	}
}

// close closes the listener and the connections that no server has yet.
func (s *splitter) close() {
	_ = s.from.Close() // again after the servers, which closes nothing more
	s.mu.Lock()
	for c := range s.open {
		_ = c.Close()
	}
	s.open = nil
	s.mu.Unlock()
	s.routes.Wait()
}

// A half is a listener of the connections that a splitter offers it.
type half struct {
	addr  net.Addr
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
}

func newHalf(addr net.Addr) *half {
	return &half{addr: addr, conns: make(chan net.Conn), done: make(chan struct{})}
}

func (h *half) offer(c net.Conn) bool {
	select {
	case h.conns <- c:
		return true
	case <-h.done:
		return false
	}
}

// Accept implements net.Listener.
func (h *half) Accept() (net.Conn, error) {
	select {
	case c := <-h.conns:
		return c, nil
	case <-h.done:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener. It leaves the splitter's own listener open.
func (h *half) Close() error {
	h.once.Do(func() { close(h.done) })
	return nil
}

// Addr implements net.Listener.
func (h *half) Addr() net.Addr { return h.addr }

// A peeked is a connection whose first bytes were read.
type peeked struct {
	net.Conn
	first []byte // not yet read again
}

// Read implements net.Conn.
func (p *peeked) Read(b []byte) (int, error) {
	if len(p.first) == 0 {
		return p.Conn.Read(b)
	}
	n := copy(b, p.first)
	p.first = p.first[n:]
	return n, nil
}
