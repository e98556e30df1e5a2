package client_test

import (
	"context"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leasehold-dev/leasehold/client"
	"github.com/leasehold-dev/leasehold/contracts"
)

// pipes is a listener for connections in memory.
type pipes struct {
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error {
	p.once.Do(func() { close(p.done) })
	return nil
}

func (*pipes) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 8080} }

// gone is a connection to a server that is gone without a word, once it is frozen: nothing comes, and what is sent
// arrives nowhere.
type gone struct {
	net.Conn

	frozen *atomic.Bool
	closed chan struct{}
	once   sync.Once
}

func (c *gone) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if !c.frozen.Load() {
		return n, err
	}
	<-c.closed
	return 0, net.ErrClosed
}

func (c *gone) Write(p []byte) (int, error) {
	if c.frozen.Load() {
		return len(p), nil
	}
	return c.Conn.Write(p)
}

func (c *gone) Close() error {
	c.once.Do(func() { close(c.closed) })
	return c.Conn.Close()
}

// TestConnectionOfHTTP2ToAServerThatIsGone: all requests to a server are on one connection. When the server is gone
// without a word, they are on another one after the first try of 2 s; the one whose response is held for longer after
// six: three without a byte, and three for the answer to a ping.
func TestConnectionOfHTTP2ToAServerThatIsGone(t *testing.T) {
	common, ok := http.DefaultTransport.(*http.Transport)
	if !ok {
		t.Fatalf("%T", http.DefaultTransport)
	}
	defer func() { http.DefaultTransport = common }()
	synctest.Test(t, func(t *testing.T) {
		l := &pipes{conns: make(chan net.Conn), done: make(chan struct{})}
		over := &http.Protocols{}
		over.SetUnencryptedHTTP2(true)
		s := &http.Server{
			Protocols: over, ReadHeaderTimeout: time.Minute,
			Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				_, _ = w.Write([]byte(`{"tenant_id":"acme","lock_key":"k","lease_id":"l1","owner_id":"ann","state":"ACTIVE",` +
					`"fencing_token":1767225600000000,"acquired_at":"2000-01-01T00:00:00.000Z",` +
					`"expires_at":"2000-01-01T00:00:30.000Z","remaining_ms":30000,"ttl_seconds":30,"metadata":{},` +
					`"replayed":false}`))
			}),
		}
		go func() { _ = s.Serve(l) }()
		var opened atomic.Int64
		frozen := &atomic.Bool{} // of the first connection
		network := common.Clone()
		network.Proxy, network.Protocols = nil, over
		network.DialContext = func(context.Context, string, string) (net.Conn, error) {
			here, there := net.Pipe()
			l.conns <- there
			if opened.Add(1) == 1 {
				return &gone{Conn: here, frozen: frozen, closed: make(chan struct{})}, nil
			}
			return here, nil
		}
		http.DefaultTransport = network
		c, err := client.New("http://127.0.0.1:8080", nil)
		if err != nil {
			t.Fatal(err)
		}
		get := func() {
			if lock, err := c.Locks().Get(t.Context(), "acme", "k"); err != nil || lock.State != contracts.StateActive {
				t.Errorf("%+v, %v", lock, err)
			}
		}
		get()
		frozen.Store(true)
		began := time.Now()
		const pause = 200 * time.Millisecond // before the next try, at most
		var all sync.WaitGroup
		all.Go(func() {
			if _, err := c.Locks().Acquire(t.Context(), "acme", "k", contracts.AcquireRequest{
				OwnerID: "ann", RequestID: "r1", TTLSeconds: 30, WaitSeconds: 20,
			}); err != nil {
				t.Error(err)
			}
			if took := time.Since(began); took > 6*time.Second+pause {
				t.Errorf("the response that is held: after %v", took)
			}
		})
		const callers = 30
		for range callers {
			all.Go(func() {
				get()
				if took := time.Since(began); took > 2*time.Second+pause {
					t.Errorf("after %v", took)
				}
			})
		}
		all.Wait()
		if n := opened.Load(); n != 2 {
			t.Errorf("%d connections for %d requests", n, callers+2)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		synctest.Wait()
	})
}
