// Package connstest is a network in memory whose connections can go dead, as those of a network do that drops packets:
// nothing that is sent on them arrives, nothing comes, and nothing says so. In a bubble of testing/synctest its tests
// take no time, and say exactly how much would have passed.
package connstest

import (
	"context"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// latency is the time from one side to the other. A response never comes before its request has been sent altogether:
// clients give up a connection on which that happens.
const latency = time.Millisecond

// Network connects a client, which uses Dial, with a server, to which it is a listener. Make one with [New].
type Network struct {
	dialed chan net.Conn // the servers' sides
	closed chan struct{}
	close  sync.Once

	mu   sync.Mutex
	ways []*way
	all  bool // connections that are made now are dead, too
	made int
}

// way is a connection, with what carries between its two sides.
type way struct {
	ends [4]net.Conn
	dead atomic.Bool
}

var errClosed = errors.New("the network is closed")

// New is a network that works.
func New() *Network { return &Network{dialed: make(chan net.Conn), closed: make(chan struct{})} }

// Dial makes a connection with the server.
func (n *Network) Dial(ctx context.Context, _, _ string) (net.Conn, error) {
	client, near := net.Pipe()
	far, server := net.Pipe()
	w := &way{ends: [4]net.Conn{client, near, far, server}}
	n.mu.Lock()
	w.dead.Store(n.all)
	n.ways = append(n.ways, w)
	n.made++
	n.mu.Unlock()
	go n.carry(w, near, far)
	go n.carry(w, far, near)
	select {
	case n.dialed <- server:
		return client, nil
	case <-ctx.Done():
		return nil, errors.Join(ctx.Err(), client.Close(), server.Close())
	case <-n.closed:
		return nil, errors.Join(errClosed, client.Close(), server.Close())
	}
}

// packet is what one side sent at once, or why it sends nothing more.
type packet struct {
	bytes []byte
	err   error
	due   time.Time // on the other side
}

// carry takes what one side sends at once: a sender may hold a mutex meanwhile, and where others wait for that, the
// clock of a bubble does not move.
func (n *Network) carry(w *way, from, to net.Conn) {
	sent, over := make(chan packet, 64), make(chan struct{})
	go func() {
		defer close(over)
		n.deliver(w, sent, from, to)
	}()
	for {
		buf := make([]byte, 32<<10)
		got, err := from.Read(buf)
		select {
		case sent <- packet{buf[:got], err, time.Now().Add(latency)}:
		case <-over:
			return
		}
		if err != nil {
			return
		}
	}
}

// deliver brings what was sent to the other side, or nowhere. Of a connection that is dead nobody learns that the other
// side has closed it.
func (n *Network) deliver(w *way, sent <-chan packet, from, to net.Conn) {
	for p := range sent {
		select {
		case <-time.After(time.Until(p.due)):
		case <-n.closed: // whoever closes the network may hold what keeps the clock from moving
		}
		err := p.err
		if w.dead.Load() {
			if err != nil {
				return
			}
			continue
		}
		if err == nil {
			_, err = to.Write(p.bytes)
		}
		if err != nil {
			_, _ = from.Close(), to.Close()
			return
		}
	}
}

// Cut lets the connections that are open go dead, and if all is set also those that are made until it is called again.
func (n *Network) Cut(all bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.all, n.made = all, 0
	for _, w := range n.ways {
		w.dead.Store(true)
	}
}

// Heal lets connections that are made from now on work. Dead ones stay dead.
func (n *Network) Heal() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.all = false
}

// Made is how many connections were made since the last Cut.
func (n *Network) Made() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.made
}

// Accept implements [net.Listener].
func (n *Network) Accept() (net.Conn, error) {
	select {
	case c := <-n.dialed:
		return c, nil
	case <-n.closed:
		return nil, net.ErrClosed
	}
}

// Addr implements [net.Listener].
func (n *Network) Addr() net.Addr { return n }

// Network implements [net.Addr].
func (*Network) Network() string { return "memory" }

// String implements [net.Addr].
func (*Network) String() string { return "memory" }

// Close closes all connections, dead ones as well.
func (n *Network) Close() error {
	n.close.Do(func() { close(n.closed) })
	n.mu.Lock()
	for _, w := range n.ways {
		for _, end := range w.ends {
			_ = end.Close()
		}
	}
	n.ways = nil
	n.mu.Unlock()
	return nil
}

var _ net.Listener = (*Network)(nil)
