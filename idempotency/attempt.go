package idempotency

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"runtime/debug"
	"sync"
	"time"

	"github.com/leasehold-dev/leasehold/contracts"
	"github.com/leasehold-dev/leasehold/once"
)

// Bounds of the time in which a gate must respond before the handler begins, counted from the first request to which it
// did not. A gate that says that another process has the run has responded: only then does Options.Wait count.
const (
	awayTime   = 1500 * time.Millisecond // it refuses connections, or responds with errors that may pass
	frozenTime = 2500 * time.Millisecond // it does not respond at all: 503 within three seconds
)

// errGone is why a run does not begin: the caller hung up, or the request's deadline has passed.
var errGone = errors.New("the request ended before its handler began")

// errFrozen is why a run does not begin: the gate does not respond.
var errFrozen = fmt.Errorf("the gate has not responded for %v", frozenTime)

// errSpent ends a run before its handler begins, because it ran for this request before.
var errSpent = errors.New("the handler ran for this request before")

// notStoredError is the failure of a run whose response is not stored.
type notStoredError int

func (e notStoredError) Error() string {
	return fmt.Sprintf("the handler responded %d, which is not stored", int(e))
}

// attempt is one try at a run: it asks the gate, and runs the handler if that grants it. It is the gate for once.Run,
// so that it knows when the gate responds. A request that is responded to before its handler began leaves the attempt:
// once.Run then gives up, in the background, what it has asked for.
type attempt struct {
	once.Gate

	cancel context.CancelCauseFunc // ends the run
	left   chan struct{}           // closed when the request has left
	spent  bool                    // the handler does not run

	mu      sync.Mutex
	call    *call       // nil once the request has left
	flight  *flight     // nil then
	begun   bool        // the handler has begun, and the request cannot leave any more
	cause   error       // why it left
	since   time.Time   // when the first request was sent to which the gate did not respond
	timer   *time.Timer // ends the attempt; nil while no response is due
	trouble error       // of the latest request

	// what came of it, for the request once the run is over
	out     once.Outcome
	err     error
	outcome *outcome // nil if the handler did not run
}

// outcome is what came of a handler.
type outcome struct {
	rec      *recorder // its response, or the problem in place of one
	panicked *once.PanicError
	missing  bool // it returned and has written nothing
	store    bool
	text     string // what is stored
	shared   record // what requests get that have waited
}

// run asks the gate and carries out what it says.
func (a *attempt) run(ctx context.Context, id string, o *once.Options) {
	o.Warn = a.warn
	a.out, a.err = once.Run(ctx, a, id, a.work, o)
}

// warn drops what concerns a request that has left: it may be over.
func (a *attempt) warn(err error) {
	a.mu.Lock()
	c := a.call
	a.mu.Unlock()
	if c != nil {
		c.o.Warn(c.r, err)
	}
}

// leave ends the attempt, unless the handler has begun.
func (a *attempt) leave(cause error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.call == nil || a.begun {
		return
	}
	if a.timer != nil {
		a.timer.Stop()
	}
	if a.trouble != nil {
		cause = fmt.Errorf("%w; then: %w", a.trouble, cause)
	}
	a.call, a.flight, a.cause = nil, nil, cause // its memory is not held any longer
	close(a.left)
	a.cancel(cause)
}

// begin is the call whose handler may begin; nil if the request has left.
func (a *attempt) begin() *call {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.call == nil {
		return nil
	}
	a.begun = true
	a.call.known(a.flight, true)
	return a.call
}

// Acquire asks the gate, and watches how long that takes.
func (a *attempt) Acquire(ctx context.Context, r once.Acquire) (once.Grant, error) {
	a.asked()
	g, err := a.Gate.Acquire(ctx, r)
	a.answered(g, err)
	return g, err
}

// asked begins to count, unless an earlier request has no response.
func (a *attempt) asked() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.call != nil && a.timer == nil {
		a.since = time.Now()
		a.timer = time.AfterFunc(frozenTime, func() { a.leave(errFrozen) })
	}
}

// answered ends the count, or shortens it.
func (a *attempt) answered(g once.Grant, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case a.call == nil:
	case err == nil || contracts.Final(err):
		a.timer.Stop()
		a.timer, a.trouble = nil, nil
		a.call.known(a.flight, err == nil && !g.Acquired && g.Reason == contracts.SkipLocked)
	default:
		a.trouble = err
		a.call.known(a.flight, false)
		a.timer.Reset(max(0, time.Until(a.since.Add(awayTime))))
	}
}

// work runs the handler.
func (a *attempt) work(ctx context.Context, _ once.Lock) (string, error) {
	if a.spent {
		return "", once.Uncounted(errSpent)
	}
	c := a.begin()
	if c == nil {
		return "", errGone
	}
	a.outcome = c.perform(ctx)
	if !a.outcome.store {
		return "", notStoredError(a.outcome.rec.status)
	}
	return a.outcome.text, nil
}

// perform runs the handler, and says what came of it.
func (c *call) perform(ctx context.Context) *outcome {
	ctx, nothing := withNothing(ctx, c.id)
	r := c.r.WithContext(ctx)
	r.Body = reader(c.body)
	if r.MultipartForm == nil {
		defer removeFiles(r)
	}
	o := &outcome{rec: &recorder{header: c.w.Header().Clone()}}
	o.panicked = ended(func() { c.next.ServeHTTP(o.rec, r) })
	o.missing = o.panicked == nil && o.rec.status == 0
	if o.panicked == nil && !o.missing {
		o.rec.end()
		o.store = !nothing.said.Load() && (c.o.Store(o.rec.status, o.rec.sent) || goesOn(c.next, o.rec.status))
	} else {
		o.store = !nothing.said.Load() && c.o.Store(http.StatusInternalServerError, http.Header{})
		o.rec = &recorder{header: http.Header{}}
		if o.missing {
			c.o.Warn(c.r, ErrNoResponse)
			missing(o.store).send(o.rec)
		} else {
			broken(o.store).send(o.rec)
		}
		o.rec.end()
	}
	var whole bool
	if o.text, o.shared, whole = newRecord(o.rec, c.o.Replay, c.print.parts); o.store && !whole {
		c.o.Warn(c.r, fmt.Errorf(
			"the response of %d bytes is too large to be stored: callers that send the request again get 409", o.shared.Bytes))
	}
	return o
}

// ended runs a handler in a goroutine of its own, which it may end, and returns its panic.
func ended(handler func()) (p *once.PanicError) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		returned := false
		defer func() {
			if !returned {
				p = &once.PanicError{Value: recover(), Stack: debug.Stack()}
				if p.Value == nil {
					p.Value = errors.New("the handler ended its goroutine (runtime.Goexit)")
				}
			}
		}()
		handler()
		returned = true
	}()
	<-done
	return p
}

// first asks the gate, and does what it says.
func (c *call) first(f *flight, wait time.Duration) {
	// Until the handler begins, the caller's end and a gate that does not respond end the run. After that only a
	// deadline does.
	ctx, stop := context.WithoutCancel(c.r.Context()), context.CancelFunc(func() {})
	if deadline, ok := c.r.Context().Deadline(); ok {
		ctx, stop = context.WithDeadline(ctx, deadline)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	a := &attempt{Gate: c.gate, cancel: cancel, left: make(chan struct{}), call: c, flight: f, spent: c.spent}
	unwatch := context.AfterFunc(c.r.Context(), func() { a.leave(errGone) })
	defer unwatch()
	done := make(chan struct{})
	id, o := c.id, &once.Options{Owner: c.o.Owner, TTL: c.o.TTL, Wait: wait, Fingerprint: c.print.gate}
	go func() { // it may outlast the request: see attempt
		defer close(done)
		defer stop()
		defer cancel(nil)
		a.run(ctx, id, o)
	}()
	select {
	case <-done:
	case <-a.left:
	}
	select {
	case <-a.left:
		c.leaves(f, a.cause)
	default:
		c.over(f, a)
	}
}

// leaves responds to a request that has left its attempt.
func (c *call) leaves(f *flight, cause error) {
	p := c.unavailable()
	if !errors.Is(cause, errGone) {
		c.o.Warn(c.r, cause)
		f.problem = &p
	}
	c.land(f)
	p.send(c.w)
}

// over responds when the run is over.
func (c *call) over(f *flight, a *attempt) {
	if a.outcome == nil {
		c.skipped(f, a)
		return
	}
	o, kept := a.outcome, a.out.Status == once.Ready
	if o.store && !kept {
		err := a.out.Err
		switch {
		case once.IsLost(err) && o.panicked == nil:
			c.o.Warn(c.r, fmt.Errorf("the lock was lost to another process; the handler ran here as well: %w", err))
			c.land(f)
			c.spent = true
			c.serve() // what became of it is with the other one
			return
		case once.IsLost(err):
			c.land(f) // what became of it is with another process
			f = nil
		case a.out.Storing != nil:
			c.keep(a.out.Storing, &o.shared)
			c.o.Warn(c.r, fmt.Errorf("the response was sent and is not stored yet; until it is, the handler may run again in "+
				"another process: %w", err))
		default:
			c.o.Warn(c.r, fmt.Errorf("the response was sent and not stored; the handler may run again: %w", err))
		}
	}
	if f != nil {
		f.response = &o.shared
		c.land(f)
	}
	if o.panicked != nil {
		c.o.Warn(c.r, fmt.Errorf("%w\n%s", o.panicked, o.panicked.Stack))
		panic(o.panicked.Value) // in the goroutine of the server, which knows what to do
	}
	if w, ok := c.w.(interface{ Written() bool }); ok && o.missing && w.Written() {
		return // the framework's writer, which has sent what went past
	}
	o.rec.send(c.w)
}

// skipped responds to a request whose handler did not run.
func (c *call) skipped(f *flight, a *attempt) {
	var p problem
	switch {
	case a.err != nil:
		p = c.refused(a.err)
	case a.out.Status == once.AlreadyFinished:
		kept, err := readRecord(a.out.Result)
		switch {
		case err != nil:
			p = c.fault(err)
		case c.print.differs(kept.Parts):
			p = reused()
		default:
			f.response = &kept
			c.land(f)
			kept.replay(c.w)
			return
		}
	case a.out.Status == once.AlreadyFailed:
		c.o.Warn(c.r, a.out.Err)
		p = problem{
			Status: http.StatusInternalServerError, Code: CodeGivenUp, Title: "request was given up",
			Detail: "the processes that carried this request out died again and again; find out what it did before you send it under another key",
		}
	case a.out.Status == once.Unknown:
		p = c.fault(errors.New("the gate does not make runs: use client.Runs or direct.Runs"))
	case a.out.Status == once.Locked:
		c.land(f) // others may have more time to wait
		running(min(a.out.RetryAfter, 5*time.Second)).send(c.w)
		return
	case errors.Is(a.out.Err, errSpent):
		c.land(f)
		lost().send(c.w)
		return
	default: // Store or Warn of the options panicked, or the request's deadline has passed
		c.o.Warn(c.r, a.out.Err)
		c.land(f)
		if broken, ok := errors.AsType[*once.PanicError](a.out.Err); ok {
			panic(broken.Value)
		}
		c.unavailable().send(c.w)
		return
	}
	f.problem = &p
	c.land(f)
	p.send(c.w)
}
