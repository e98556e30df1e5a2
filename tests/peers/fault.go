package main

import (
	"context"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// kind is what happens to a request.
type kind string

const (
	requestLost kind = "request-lost" // the connection ends before the request arrives
	answerLost  kind = "answer-lost"  // it is carried out; the connection ends before the response arrives
	throttled   kind = "throttled"    // the server says that it has too much to do, and does nothing
	copied      kind = "copied"       // it is carried out, and a copy once more when it is sent
	late        kind = "late"         // it arrives when it is sent; there is no response
	answerLate  kind = "answer-late"  // it is carried out; the response arrives when it is sent
)

// fault is met by one request.
type fault struct {
	kind    kind
	match   string        // what the request contains; empty is any. A request that only reads meets nothing.
	says    string        // the response, if it is throttled
	met     chan struct{} // closed when a request met it
	goOn    chan struct{} // closed to have sent what is held back
	sent    chan struct{} // closed when that was carried out
	request []byte        // to be copied
}

func newFault(k kind, match, says string) *fault {
	return &fault{
		kind: k, match: match, says: says,
		met: make(chan struct{}), goOn: make(chan struct{}), sent: make(chan struct{}),
	}
}

func (f *fault) wait(ctx context.Context) {
	select {
	case <-f.goOn:
	case <-ctx.Done():
	}
}

// injector has the fault that the next request meets.
type injector struct {
	lock sync.Mutex
	next *fault
}

func (i *injector) arm(f *fault) {
	i.lock.Lock()
	defer i.lock.Unlock()
	i.next = f
}

func (i *injector) take(request string) *fault {
	i.lock.Lock()
	defer i.lock.Unlock()
	f := i.next
	if f == nil || !strings.Contains(request, f.match) || strings.Contains(request, "DynamoDB_20120810.GetItem") {
		return nil
	}
	i.next = nil
	close(f.met)
	return f
}

// settle is how long a request has to be carried out before its connection ends. It takes a few milliseconds.
const settle = 300 * time.Millisecond

// carried is a connection through a proxy.
type carried struct {
	client, server net.Conn
	mute           atomic.Bool           // what the server says is dropped
	later          atomic.Pointer[fault] // the next response waits for it
	mu             sync.Mutex
	turn           []byte // what the client said since the last response
	copied         *fault // which is to have the whole of it
}

// answered ends a turn.
func (c *carried) answered() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.copied != nil {
		c.copied.request, c.copied = c.turn, nil
	}
	c.turn = nil
}

func (c *carried) end() { _, _ = c.client.Close(), c.server.Close() }

// request has a request meet the fault that is armed. It returns whether the server is to have it.
func (p *proxy) request(ctx context.Context, c *carried, said []byte) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.turn = append(c.turn, said...) // a request may come in pieces
	f := p.take(string(c.turn))
	if f == nil {
		return true
	}
	switch f.kind {
	case requestLost:
		c.end()
		return false
	case answerLost:
		c.mute.Store(true)
		time.AfterFunc(settle, c.end)
	case throttled:
		_, _ = c.client.Write([]byte(f.says))
		if strings.HasPrefix(f.says, "HTTP") {
			c.end() // what the server has is the head of a request
		}
		return false
	case copied:
		c.copied = f
		p.running.Go(func() {
			f.wait(ctx)
			p.send(ctx, f.request)
			close(f.sent)
		})
	case late:
		f.wait(ctx) // meanwhile nothing looks whether the client is still there
		_, _ = c.server.Write(said)
		time.Sleep(settle)
		close(f.sent)
		return false
	case answerLate:
		close(f.sent)
		c.later.Store(f)
	}
	return true
}

// send sends a request on a connection of its own, and waits for the response.
func (p *proxy) send(ctx context.Context, request []byte) {
	var d net.Dialer
	c, err := d.DialContext(ctx, "tcp", p.to)
	if err != nil {
		return
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(10 * settle))
	if _, err := c.Write(request); err == nil {
		_, _ = c.Read(make([]byte, 1024))
	}
}

// call has a call of gRPC meet the fault: many share a connection there, so that a proxy would have all of them meet
// it. The errors are those that gRPC has for what happened.
func (i *injector) call(ctx context.Context, method string, invoke func(context.Context) error) error {
	f := i.take(method)
	if f == nil {
		return invoke(ctx)
	}
	lost := status.Error(codes.Unavailable, "error reading from server: EOF")
	send := func() {
		<-f.goOn
		_ = invoke(context.WithoutCancel(ctx))
		close(f.sent)
	}
	switch f.kind {
	case requestLost:
		return lost
	case throttled:
		return status.Error(codes.ResourceExhausted, f.says)
	case late:
		go send()
		<-ctx.Done()
		return status.FromContextError(ctx.Err()).Err()
	case answerLost:
		_ = invoke(ctx)
		return lost
	case copied:
		err := invoke(ctx)
		go send()
		return err
	case answerLate:
		err := invoke(ctx)
		close(f.sent)
		f.wait(ctx)
		return err
	}
	return invoke(ctx)
}
