package redisstore

import (
	"context"
	"errors"
	"sync"

	sdk "github.com/redis/go-redis/v9"
)

// Bounds of a [line].
const (
	flights  = 8   // connections that it uses at once: fewer callers than that do not wait for each other while the server syncs
	mostSent = 128 // requests in a flight
)

// line sends the requests of many callers together. A request goes out at once while a connection of the line is free, by its caller; those that come
// meanwhile wait for the next, and share its way to the server and back. One caller alone waits for nothing, and many cost the
// server and this process one system call for all of them.
//
// Requests that are sent together are independent of each other: each gets its own answer, none is tried again because of another, and if
// the connection breaks, the outcome of each is unknown as if it had been sent alone.
type line struct {
	client  sdk.UniversalClient
	newLane func() *lane // nil if callers cannot have a connection: that of a cluster is chosen by the library, that of a caller's client is the client's
	mu      sync.Mutex
	waiting []*request
	flying  int
	lanes   []*lane // that no request uses
}

// request is a command on its way.
type request struct {
	ctx  context.Context //nolint:containedctx // of the caller, who may leave before the request does
	cmd  once
	done chan struct{}
}

// send sends a command and waits for its response or for the end of the context. A request whose caller has left before it was sent is
// not sent any more.
func (l *line) send(ctx context.Context, command []any) (any, error) {
	cmd := once{sdk.NewCmd(ctx, command...)}
	l.mu.Lock()
	if l.newLane != nil && l.flying < flights && len(l.waiting) == 0 {
		l.flying++
		by := l.take()
		l.mu.Unlock()
		l.back(by, by.send(ctx, cmd))
		return cmd.answer(ctx)
	}
	r := &request{ctx: ctx, cmd: cmd, done: make(chan struct{})}
	l.waiting = append(l.waiting, r)
	if l.flying < flights {
		l.flying++
		go l.fly()
	}
	l.mu.Unlock()
	select {
	case <-r.done:
		return cmd.answer(ctx)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// take returns a lane that is free. l.mu is held.
func (l *line) take() *lane {
	n := len(l.lanes)
	if n == 0 {
		return l.newLane()
	}
	free := l.lanes[n-1] // the one that was used last, so that the server closes those that are too many
	l.lanes = l.lanes[:n-1]
	return free
}

// back ends the flight of a request that its caller sent. Requests that came meanwhile fly on in its place.
func (l *line) back(by *lane, usable bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if usable {
		l.lanes = append(l.lanes, by)
	} else {
		_ = by.close() // what was sent on it has ended
	}
	if len(l.waiting) > 0 {
		go l.fly()
	} else {
		l.flying--
	}
}

// close closes the connections that are the line's own. No request is on its way.
func (l *line) close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	var errs []error
	for _, free := range l.lanes {
		errs = append(errs, free.close())
	}
	l.lanes = nil
	return errors.Join(errs...)
}

// fly sends what waits until nothing does.
func (l *line) fly() {
	for {
		flight := l.board()
		if len(flight) == 0 {
			return
		}
		// The callers' contexts end the calls, and not the connection, which others use as well. It has a time limit of its own.
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
			if r.ctx.Err() == nil {
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
