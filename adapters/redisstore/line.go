package redisstore

import (
	"context"
	"sync"

	sdk "github.com/redis/go-redis/v9"

	"github.com/leasehold-dev/leasehold/internal/conns"
	"github.com/leasehold-dev/leasehold/repo/docstore"
)

// Bounds of a [line].
const (
	// connections that it uses at once: fewer callers than that do not wait for each other while the server syncs
	flights  = 8
	mostSent = 128 // requests in a flight
)

// line sends the requests of many callers together. A request goes out at once while a connection of the line is free;
// those that come meanwhile wait for the next, and share its way to the server and back. One caller alone waits for
// nothing, and many cost the server and this process one system call for all of them.
//
// Requests that are sent together are independent of each other: each gets its own answer, none is tried again because
// of another, and if the connection breaks, the outcome of each is unknown as if it had been sent alone.
type line struct {
	client  sdk.UniversalClient
	conns   *conns.Set
	mu      sync.Mutex
	waiting []*request
	flying  int
}

// request is a command on its way.
type request struct {
	ctx  context.Context //nolint:containedctx // of the caller, who may leave before the request does
	cmd  once
	done chan struct{}
}

// send sends a command and waits for its response or for the end of the context. A request whose caller has left before
// it was sent is not sent any more.
func (l *line) send(ctx context.Context, command []any) (any, error) {
	r := &request{ctx: ctx, cmd: once{sdk.NewCmd(ctx, command...)}, done: make(chan struct{})}
	l.mu.Lock()
	l.waiting = append(l.waiting, r)
	if l.flying < flights {
		l.flying++
		go l.fly()
	}
	l.mu.Unlock()
	select {
	case <-r.done:
		if err := r.cmd.Err(); err != nil {
			return nil, ended(ctx, err)
		}
		return r.cmd.Val(), nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// fly sends what waits until nothing does.
func (l *line) fly() {
	for {
		flight := l.board()
		if len(flight) == 0 {
			return
		}
		// The callers' contexts end the calls, and not the connection, which others use as well. It has a time limit of its
		// own.
		ctx := context.WithoutCancel(flight[0].ctx)
		if len(flight) == 1 {
			_ = l.client.Process(ctx, flight[0].cmd) // the command has the error
		} else {
			p := l.client.Pipeline()
			for _, r := range flight {
				_ = p.Process(ctx, r.cmd) // it is only noted
			}
			_, _ = p.Exec(ctx) // each command has its own error
		}
		if silent(flight[0].cmd.Err()) {
			l.conns.Leave() // before the next flight takes one of them
		}
		for _, r := range flight {
			close(r.done)
		}
	}
}

// board takes the requests of the next flight; none, and one flight less, if no caller waits.
func (l *line) board() []*request {
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(l.waiting) > 0 {
		n := min(len(l.waiting), mostSent)
		flight := make([]*request, 0, n)
		for _, r := range l.waiting[:n] {
			if docstore.Gone(r.ctx) == nil {
				flight = append(flight, r)
			}
		}
		clear(l.waiting[:n])
		if l.waiting = l.waiting[n:]; len(l.waiting) == 0 {
			l.waiting = nil
		}
		if len(flight) > 0 {
			return flight
		}
	}
	l.flying--
	return nil
}
