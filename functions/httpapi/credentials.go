package httpapi

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"
)

const (
	// askAgain is how often it is asked who sent the requests that wait: so often that those of a token that was removed
	// end within a second.
	askAgain = 500 * time.Millisecond

	// askWithin is how long one round of that may wait for the keys of an issuer, all requests together. Who cannot be
	// verified meanwhile waits on, and is asked before anything is granted to it.
	askWithin = 100 * time.Millisecond

	// askLoad is how many times longer than a round the pause after it is at the least: a signature takes 0.1 ms.
	askLoad = 19

	// justAsked is for how long the answer for a request holds that has not waited yet.
	justAsked = 100 * time.Millisecond
)

// credentials asks again who sent the requests that wait: credentials can expire or be revoked meanwhile, or become
// those of a caller with other rights. Each step that may grant something asks before it, and every half a second all
// are asked, so that waits end that will be granted nothing.
type credentials struct {
	identify  func(*http.Request) (Caller, error)
	challenge string // see Identity.Challenge

	mu    sync.Mutex
	waits map[*wait]bool
	next  *time.Timer // when they are asked; nil: none waits
}

// wait is a request that waits, with its caller as it was when the request came.
type wait struct {
	of      *credentials
	request *http.Request
	caller  Caller
	asked   time.Time

	mu    sync.Mutex
	steps int   // under way: they are not cut off, so that what they do is known
	why   error // the caller is no longer who it was
	end   context.CancelCauseFunc
}

type waitKey struct{}

// begin notes that a request waits, until ended is called. The context ends when its caller is no longer who it was;
// the steps of the wait have it.
func (s *credentials) begin(ctx context.Context, r *http.Request, c Caller) (context.Context, *wait) {
	w := &wait{of: s, request: r, caller: c, asked: noteOf(r).begin}
	ctx, w.end = context.WithCancelCause(context.WithValue(ctx, waitKey{}, w))
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.next == nil {
		s.waits, s.next = map[*wait]bool{}, time.AfterFunc(askAgain, s.askAll)
	}
	s.waits[w] = true
	return ctx, w
}

// ended notes that a request does not wait any more.
func (w *wait) ended() {
	w.end(nil)
	w.of.mu.Lock()
	defer w.of.mu.Unlock()
	delete(w.of.waits, w)
	if len(w.of.waits) == 0 && w.of.next != nil {
		w.of.next.Stop()
		w.of.next = nil
	}
}

// askAll asks who sent the requests that wait, and does so again as long as some wait.
func (s *credentials) askAll() {
	s.mu.Lock()
	all, own := slices.Collect(maps.Keys(s.waits)), s.next
	s.mu.Unlock()
	begun := time.Now()
	for _, w := range all {
		ctx, cancel := context.WithDeadline(w.request.Context(), begun.Add(askWithin))
		_ = w.ask(ctx) // it ends the wait, where that is certain
		cancel()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.next != nil && s.next == own {
		s.next.Reset(max(askAgain, askLoad*time.Since(begun)))
	}
}

// ask asks who sent a request. The error says that its caller is not known to be who it was.
func (w *wait) ask(ctx context.Context) error {
	c, err := w.of.identify(w.request.WithContext(ctx))
	switch {
	case err != nil:
	case c.Subject != w.caller.Subject || c.Tenant != w.caller.Tenant:
		err = &identityError{Unauthenticated("the credentials are those of another subject or tenant than when the request came"),
			w.of.challenge}
	case !w.caller.Until.IsZero() && !time.Now().Before(w.caller.Until):
		err = &identityError{Unauthenticated("the credentials expired at %s, while the request waited",
			w.caller.Until.UTC().Format(time.RFC3339)), w.of.challenge}
	}
	if errors.Is(err, ErrUnauthenticated) || errors.Is(err, ErrForbidden) {
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.why == nil {
			w.why = err
		}
		if w.steps == 0 {
			w.end(w.why)
		}
	}
	return err
}

// step does something that may grant the request what it waits for, if its caller is still who it was.
func (w *wait) step(ctx context.Context, do func() error) error {
	if first := w.asked; first.IsZero() || time.Since(first) >= justAsked {
		if err := w.ask(ctx); err != nil {
			return err
		}
	}
	w.asked = time.Time{}
	w.mu.Lock()
	w.steps++
	w.mu.Unlock()
	defer func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.steps--; w.why != nil {
			w.end(w.why)
		}
	}()
	return do()
}

// rejected is why a wait ended without anything granted, if that is because its caller is no longer who it was.
func (w *wait) rejected() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.why
}
