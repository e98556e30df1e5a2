package grpcserver

import (
	"fmt"
	"io"
	"net"
	"sync"
	"time"
)

// preface is how every HTTP/2 connection begins, and no HTTP/1 request: its first bytes are enough.
const preface = "PRI"

// http1Timeout bounds how long a caller of HTTP/1 may take to read its response and go.
const http1Timeout = 10 * time.Second

// responder is a listener whose connections tell callers of HTTP/1 that there is nothing for them. It can close them
// all, because a server that stops would wait for those that have not said yet what they are.
type responder struct {
	net.Listener
	emulator string // its name, for the response

	mu     sync.Mutex
	open   map[*conn]struct{}
	closed bool
}

// Accept implements net.Listener.
func (r *responder) Accept() (net.Conn, error) {
	accepted, err := r.Listener.Accept()
	if err != nil {
		return nil, err
	}
	c := &conn{Conn: accepted, from: r}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		_ = accepted.Close() // the server finds out when it reads
	}
	r.open[c] = struct{}{}
	return c, nil
}

// end closes all connections, also those that come later.
func (r *responder) end() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
	for c := range r.open {
		_ = c.Conn.Close()
	}
}

// conn looks at its first bytes before the server writes or reads: one goroutine does both while it begins a
// connection.
type conn struct {
	net.Conn
	from  *responder
	known bool
	first []byte // not yet read again
}

// Close implements net.Conn.
func (c *conn) Close() error {
	c.from.mu.Lock()
	delete(c.from.open, c)
	c.from.mu.Unlock()
	return c.Conn.Close()
}

// Read implements net.Conn.
func (c *conn) Read(b []byte) (int, error) {
	if err := c.look(); err != nil {
		return 0, err
	}
	if len(c.first) > 0 {
		n := copy(b, c.first)
		c.first = c.first[n:]
		return n, nil
	}
	return c.Conn.Read(b)
}

// Write implements net.Conn.
func (c *conn) Write(b []byte) (int, error) {
	if err := c.look(); err != nil {
		return 0, err
	}
	return c.Conn.Write(b)
}

// look waits for the first bytes, and fails if they are not those of HTTP/2.
func (c *conn) look() error {
	if c.known {
		return nil
	}
	first := make([]byte, len(preface))
	if _, err := io.ReadFull(c.Conn, first); err != nil {
		return err
	}
	if string(first) != preface {
		c.reject()
		return io.EOF
	}
	c.known, c.first = true, first
	return nil
}

// reject responds to a caller of HTTP/1 as Google's APIs do, whatever it asks for, and waits until it has gone: a
// connection that is closed before what was sent is read may lose the response.
func (c *conn) reject() {
	body := fmt.Sprintf(`{"error":{"code":501,"message":"%s: REST is not supported, this emulator speaks gRPC only",`+
		`"status":"UNIMPLEMENTED"}}`, c.from.emulator)
	_ = c.SetDeadline(time.Now().Add(http1Timeout)) // a connection that fails here fails to write, too
	_, err := fmt.Fprintf(c.Conn, "HTTP/1.1 501 Not Implemented\r\nContent-Type: application/json; charset=utf-8\r\n"+
		"Content-Length: %d\r\nConnection: close\r\n\r\n%s", len(body), body)
	if err == nil {
		_, _ = io.Copy(io.Discard, c.Conn) // until the caller has closed the connection
	}
}
