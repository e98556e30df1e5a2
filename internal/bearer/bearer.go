// Package bearer sends requests with bearer tokens that a function gets, and that may be replaced while a program runs:
// one rule for the client of a server and for the target of a worker.
//
// The function is called for each request, and again when the token of a request was rejected; a request is sent again
// with another token then. Requests that need a token while the function is at work share what it returns, and each
// waits no longer than it may: a function that never returns costs one goroutine.
package bearer

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// rejectedKey is the key of [Rejected].
type rejectedKey struct{}

// Rejected reports, in a call of a function that gets tokens, whether the token that it returned before was rejected.
func Rejected(ctx context.Context) bool { return ctx.Value(rejectedKey{}) != nil }

// tried is how many tokens a request is sent with at most: one may be replaced again while the server lets the request
// wait.
const tried = 3

// callTime bounds one call of the function. It is longer than a try of a request: those that follow it share the call.
const callTime = time.Minute

// Error is the error of a token that could not be had. Its request was not sent.
type Error struct {
	Err   error
	Ended bool // the request's context did, before the function returned
}

func (e *Error) Error() string { return fmt.Sprintf("get a token: %v", e.Err) }

// Unwrap returns Err.
func (e *Error) Unwrap() error { return e.Err }

// NeverSent is for package lease.
func (*Error) NeverSent() bool {
	return true
}

// Source is where tokens come from. It may be used by several goroutines at once.
type Source struct {
	get func(context.Context) (string, error)

	mu   sync.Mutex
	last *call // that is under way; nil: none
}

// call is one of the function.
type call struct {
	again bool          // a token was rejected
	done  chan struct{} // closed when it has returned
	token string
	err   error
}

// New returns the source of a function. Its context has neither a value nor the deadline of a request, because what it
// returns may be that of several; it ends after a minute.
func New(get func(context.Context) (string, error)) *Source { return &Source{get: get} }

// Send sends a request with a token, and again with another one if that was rejected and there is one. The error is an
// [*Error], or that of send, which is not called any more then. A nil Source has no token: the request is sent once.
func (s *Source) Send(ctx context.Context, send func(token string) (rejected bool, err error)) error {
	if s == nil {
		_, err := send("")
		return err
	}
	token, err := s.ask(ctx, false)
	if err != nil {
		return err
	}
	for n := 1; ; n++ {
		rejected, err := send(token)
		if err != nil || !rejected || n == tried {
			return err
		}
		other, err := s.ask(ctx, true)
		if err != nil || other == token {
			return nil //nolint:nilerr // the rejection says more
		}
		token = other
	}
}

// ask asks for a token, after one that was rejected or not. It returns when the context ends, also if the function does
// not.
func (s *Source) ask(ctx context.Context, again bool) (string, error) {
	for {
		c := s.begin(again)
		select {
		case <-c.done:
		case <-ctx.Done():
			return "", &Error{context.Cause(ctx), true}
		}
		switch {
		case again && !c.again: // what it returned may be the token that was rejected
		case c.err != nil:
			return "", &Error{c.err, false}
		default:
			return c.token, nil
		}
	}
}

// begin calls the function, unless it is at work.
func (s *Source) begin(again bool) *call {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.last != nil {
		return s.last
	}
	c := &call{again: again, done: make(chan struct{})}
	s.last = c
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), callTime)
		defer cancel()
		if again {
			ctx = context.WithValue(ctx, rejectedKey{}, true)
		}
		c.token, c.err = s.get(ctx)
		s.mu.Lock()
		s.last = nil
		s.mu.Unlock()
		close(c.done)
	}()
	return c
}
