package demo

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/leasehold-dev/leasehold/client"
	"github.com/leasehold-dev/leasehold/contracts"
)

const (
	pageTenant = "default" // the one that the console shows first
	accountKey = "account" // of the lock, and of the fence
	ttl        = 3 * time.Second
	workFor    = 900 * time.Millisecond // under the lock, before a worker reads and writes
	retry      = 300 * time.Millisecond
)

// errInputEnded ends a worker: the demonstration is gone.
var errInputEnded = errors.New("standard input ended")

// pay is a worker process of the page: it takes its turn under the lock for as long as its standard input is open, on
// which each line is what its clock is off by, in milliseconds.
//
// It does what many programs do: it does not look whether it still has the lock before it writes, because it asked a
// moment ago; and if it receives no response, it does its turn again.
func pay(ctx context.Context, server, name string, in io.Reader) error {
	c, err := client.New(server, nil)
	if err != nil {
		return err
	}
	ctx, end := context.WithCancelCause(ctx)
	w := &payer{
		name: name, server: server, locks: c.LockAPI(),
		// A connection that was idle while this process was frozen may be closed.
		http: &http.Client{Transport: &http.Transport{DisableKeepAlives: true}},
	}
	ended := input(in, func(line string) {
		if ms, err := strconv.ParseInt(line, 10, 64); err == nil {
			w.skew.Store(ms)
		}
	})
	go func() {
		<-ended
		end(errInputEnded)
	}()
	for ctx.Err() == nil {
		if err := w.turn(ctx); err != nil {
			pause(ctx, retry)
		}
	}
	if cause := context.Cause(ctx); !errors.Is(cause, errInputEnded) {
		return cause
	}
	return nil
}

type payer struct {
	name, server string
	locks        *client.LockAPI
	http         *http.Client
	skew         atomic.Int64 // milliseconds
}

// turn waits for the lock, and pays into the account under it.
func (w *payer) turn(ctx context.Context) error {
	l, err := w.locks.Acquire(ctx, pageTenant, accountKey, contracts.AcquireRequest{
		OwnerID: w.name, TTLSeconds: int64(ttl / time.Second), WaitSeconds: 20, Fair: true,
	})
	if err != nil {
		return err
	}
	mine := write{Worker: w.name, Turn: rand.Text(), Token: l.FencingToken}
	w.insist(ctx, func() error {
		return w.post(ctx, "begin", begin{Worker: w.name, Token: mine.Token, LeaseMs: l.Remaining().Milliseconds()}, nil)
	})
	pause(ctx, workFor)
	w.insist(ctx, func() error { return w.pay(ctx, mine) })
	_, err = w.locks.Release(ctx, pageTenant, accountKey, contracts.ReleaseRequest{OwnerID: w.name, FencingToken: l.FencingToken})
	return err
}

// insist does something again until it is known to be done, as many programs do.
func (*payer) insist(ctx context.Context, do func() error) {
	for ctx.Err() == nil && do() != nil {
		pause(ctx, retry)
	}
}

// pay reads both accounts and writes both. The error says that the worker does not know whether it has.
func (w *payer) pay(ctx context.Context, mine write) error {
	var seen balances
	if err := w.post(ctx, "read", read{Worker: w.name}, &seen); err != nil {
		return err
	}
	mine.Round, mine.Unfenced, mine.Fenced = seen.Round, seen.Unfenced, seen.Fenced
	mine.Clock = time.Now().UnixMilli() + w.skew.Load()
	return w.post(ctx, "write", mine, nil)
}

// post sends one request to the account.
func (w *payer) post(ctx context.Context, what string, body, into any) error {
	status, err := post(ctx, w.http, w.server+accountPath+what, nil, body, into)
	if err == nil && status != http.StatusOK {
		err = fmt.Errorf("the account responded %d", status)
	}
	return err
}
