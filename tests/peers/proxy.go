package main

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
)

// proxy stands between a client and a server while requests and bytes are counted, while the server is to be away, or
// requests are to meet faults, and only then.
type proxy struct {
	injector

	listener net.Listener
	to       string
	// how often a client began to speak: on a connection that carries one request at a time, the requests
	turns     atomic.Int64
	sent, got atomic.Int64 // bytes of clients and of the server
	mu        sync.Mutex
	conns     []net.Conn
	isAway    bool // connections end at once
	running   sync.WaitGroup
}

func newProxy(ctx context.Context, to string) (*proxy, error) {
	var config net.ListenConfig
	l, err := config.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &proxy{listener: l, to: to}
	p.running.Go(func() { p.accept(ctx) })
	return p, nil
}

func (p *proxy) accept(ctx context.Context) {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return // closed
		}
		var d net.Dialer
		server, err := d.DialContext(ctx, "tcp", p.to)
		if err != nil {
			_ = client.Close()
			continue
		}
		p.mu.Lock()
		p.conns = append(p.conns, client, server)
		if p.isAway {
			_, _ = client.Close(), server.Close()
		}
		p.mu.Unlock()
		var asked atomic.Bool
		c := &carried{client: client, server: server}
		p.running.Go(func() {
			carry(server, client, func(said []byte) bool {
				p.sent.Add(int64(len(said)))
				if !asked.Swap(true) {
					p.turns.Add(1)
				}
				return p.request(ctx, c, said)
			})
		})
		p.running.Go(func() {
			carry(client, server, func(said []byte) bool {
				p.got.Add(int64(len(said)))
				asked.Store(false)
				c.answered()
				if f := c.later.Swap(nil); f != nil {
					f.wait(ctx)
				}
				return !c.mute.Load()
			})
		})
	}
}

// carry copies what one side says to the other, if pass, which is asked before it arrives, lets it.
func carry(to, from net.Conn, pass func(said []byte) bool) {
	defer to.Close()
	buf := make([]byte, 64<<10)
	for {
		n, err := from.Read(buf)
		if n > 0 {
			if pass(buf[:n]) {
				if _, err := to.Write(buf[:n]); err != nil {
					return
				}
			}
		}
		if err != nil {
			return
		}
	}
}

// away has all connections end, and new ones too until it is called again.
func (p *proxy) away(is bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.isAway = is
	if is {
		for _, c := range p.conns {
			_ = c.Close()
		}
	}
}

func (p *proxy) close() {
	_ = p.listener.Close()
	p.away(true)
	p.running.Wait()
}
