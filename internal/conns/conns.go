// Package conns keeps the connections of a client of a store, so that dead ones are left behind.
//
// A connection is dead when its packets are dropped and nothing resets it: the machine slept, the function was frozen,
// a gateway forgot it, or the way to the server is gone. Neither side is told. Whatever is sent on it waits, and the
// next request would take the next dead connection of a pool, or the same one, where a connection is shared.
//
// A try of a request takes [TryTimeout] at most. After that the connections from which nothing came for as long are
// closed, the idle ones with them, so that the next try makes a new one. One on which the server still answers others
// is left alone. Before a request, idle connections are closed if nothing was asked for [IdleTime]: after such a gap
// they are as good as dead, and a new one takes less time than finding that out.
//
// Times are those of the wall clock, which moves on while a machine sleeps. If it is set, connections are closed too
// early or too late, which costs a new one, or a try.
package conns

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

const (
	// TryTimeout is how long a try of a request waits for a response, and for a connection to be made. It is many times
	// what a store takes, and leaves a request of ten seconds, as the HTTP API has them, time for three.
	TryTimeout = 2500 * time.Millisecond

	// IdleTime is how long nothing was asked when the connections from before are not used any more.
	IdleTime = time.Minute
)

// young is how long the request on a silent connection has waited, at the most, if it is left to its own time limit. It
// is a little less than TryTimeout: a request is sent a little after its try began.
const young = TryTimeout - TryTimeout/10

// ErrLeft is the error of a request that found its connection closed by [Set.Leave] or [Set.Begin] before anything of
// it was sent. A pool that does not ask its connections how they are, as one cannot below TLS, still has such ones.
// Nothing was executed, and the next try takes another one.
var ErrLeft = errors.New("the connection was left before the request")

// Dial makes a connection.
type Dial func(ctx context.Context, network, address string) (net.Conn, error)

// Set is the connections of one client. The zero value is empty and ready; nil is one that never has any, of a client
// that dials by itself. Methods may be called from several goroutines at once.
type Set struct {
	asked atomic.Int64 // when Begin was called last

	mu   sync.Mutex
	open map[*conn]struct{}
}

// Track makes a dialer whose connections are in the set until they are closed.
func (s *Set) Track(dial Dial) Dial {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		raw, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		c := &conn{Conn: raw, set: s}
		c.came.Store(now())
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.open == nil {
			s.open = map[*conn]struct{}{}
		}
		s.open[c] = struct{}{}
		return c, nil
	}
}

// Begin is called before a request. After a gap of [IdleTime] it closes the connections that were idle in it.
func (s *Set) Begin() {
	if s == nil {
		return
	}
	at := now()
	if last := s.asked.Swap(at); last != 0 && at-last >= int64(IdleTime) {
		s.closeThose(func(c *conn) bool { return at-c.came.Load() >= int64(IdleTime) })
	}
}

// Leave is called when a try has had no response for [TryTimeout]. It closes the connections from which nothing came
// for as long, whether a request waits on them or not; but not those on which the first that waits has waited for less.
func (s *Set) Leave() {
	if s == nil {
		return
	}
	at := now()
	s.closeThose(func(c *conn) bool {
		waits := c.waits.Load()
		return at-c.came.Load() >= int64(young) && (waits == 0 || at-waits >= int64(young))
	})
}

// Guard calls [Set.Leave] each time that [TryTimeout] has passed, until it is stopped: for requests that share
// connections, and that their client ends when theirs is closed. A nil set has none.
func (s *Set) Guard() (stop func()) {
	if s == nil {
		return func() {}
	}
	g := &guard{set: s}
	g.mu.Lock() // or the function might look for the timer before it is there
	defer g.mu.Unlock()
	g.timer = time.AfterFunc(TryTimeout, g.leave)
	return g.stop
}

type guard struct {
	set     *Set
	mu      sync.Mutex
	timer   *time.Timer
	stopped bool
}

func (g *guard) leave() {
	g.set.Leave()
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.stopped {
		g.timer.Reset(TryTimeout)
	}
}

func (g *guard) stop() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.stopped = true
	g.timer.Stop()
}

func (s *Set) closeThose(dead func(*conn) bool) {
	s.mu.Lock()
	var leave []*conn
	for c := range s.open {
		if dead(c) {
			leave = append(leave, c)
		}
	}
	s.mu.Unlock()
	for _, c := range leave {
		c.left.Store(true)
		_ = c.Close() // its client is told by the next read or write
	}
}

func now() int64 { return time.Now().UnixNano() }

// conn is a connection that notes when something came on it and since when something is waited for.
type conn struct {
	net.Conn
	set   *Set
	came  atomic.Int64
	waits atomic.Int64 // since something was sent and nothing came; 0 if nothing was
	left  atomic.Bool  // the set closed it
}

func (c *conn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if n > 0 {
		c.waits.Store(0)
		c.came.Store(now())
	}
	return n, err
}

func (c *conn) Write(b []byte) (int, error) {
	first := c.waits.CompareAndSwap(0, now())
	n, err := c.Conn.Write(b)
	if err != nil && n == 0 && first {
		c.waits.Store(0)
		err = c.unsent(err)
	}
	return n, err
}

// SetDeadline and its kin are what clients call before they send.
func (c *conn) SetDeadline(t time.Time) error { return c.unsent(c.Conn.SetDeadline(t)) }

func (c *conn) SetReadDeadline(t time.Time) error { return c.unsent(c.Conn.SetReadDeadline(t)) }

func (c *conn) SetWriteDeadline(t time.Time) error { return c.unsent(c.Conn.SetWriteDeadline(t)) }

// unsent says of an error that the set closed the connection, where no request waits on it.
func (c *conn) unsent(err error) error {
	if err == nil || !c.left.Load() || c.waits.Load() != 0 {
		return err
	}
	return fmt.Errorf("%w: %w", ErrLeft, err)
}

func (c *conn) Close() error {
	c.set.mu.Lock()
	delete(c.set.open, c)
	c.set.mu.Unlock()
	return c.Conn.Close()
}

// SyscallConn lets clients ask the system whether the other side has closed it.
func (c *conn) SyscallConn() (syscall.RawConn, error) {
	if raw, ok := c.Conn.(syscall.Conn); ok {
		return raw.SyscallConn()
	}
	return nil, errors.New("the connection is not one of the system's")
}
