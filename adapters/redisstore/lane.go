package redisstore

import (
	"context"
	"crypto/tls"
	"net"
	"sync"

	sdk "github.com/redis/go-redis/v9"
)

// lane is a connection for one request at a time, which a caller sends and whose response it reads itself: through another goroutine each would
// take two switches more, and wake up threads. The library ends a wait at a deadline but not when a context is canceled. So the lane breaks its
// connection off then, which no one shares.
type lane struct {
	client *sdk.Client

	mu    sync.Mutex
	conn  net.Conn // the latest one
	ended bool     // the context of the request has ended: no connection is made any more
}

// laneMaker returns what makes lanes to where the options lead, which were read before without an error.
func laneMaker(o Options) func() *lane {
	return func() *lane {
		settings, err := o.settings()
		if err != nil {
			panic(err)
		}
		return newLane(settings)
	}
}

// newLane returns a lane to where the settings lead. They are its own.
func newLane(settings *sdk.Options) *lane {
	l := &lane{}
	settings.PoolSize, settings.MinIdleConns, settings.MaxActiveConns = 1, 0, 0
	settings.Dialer = l.dialer(settings)
	l.client = sdk.NewClient(settings)
	return l
}

// dialer is the library's own, but that it listens to the context with TLS, too, and that the lane knows the connection.
func (l *lane) dialer(settings *sdk.Options) func(ctx context.Context, network, addr string) (net.Conn, error) {
	config := settings.TLSConfig
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		dial := sdk.NewDialer(settings)
		if config != nil {
			dial = (&tls.Dialer{NetDialer: &net.Dialer{Timeout: settings.DialTimeout}, Config: config}).DialContext
		}
		conn, err := dial(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.ended {
			_ = conn.Close() // nothing was sent
			return nil, context.Canceled
		}
		l.conn = conn
		return conn, nil
	}
}

// send sends a command and waits for its response or for the end of the context. usable is false if the connection was broken off: the lane is to be
// closed then.
func (l *lane) send(ctx context.Context, cmd once) (usable bool) {
	stop := context.AfterFunc(ctx, l.end)
	_ = l.client.Process(ctx, cmd) // the command has the error
	return stop()
}

// end breaks the connection off.
func (l *lane) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ended = true
	if l.conn != nil {
		_ = l.conn.Close() // the request fails by it
	}
}

func (l *lane) close() error { return l.client.Close() }
