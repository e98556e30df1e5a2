package cluster

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"
)

// BusyError is the error of a call that did not get the turn of its identity: too many waited before it, or it waited
// for as long as it might. It was not begun.
type BusyError struct {
	Identity Identity
	Waiting  int // calls that wait for their turn
	Err      error
}

func (e *BusyError) Error() string {
	return fmt.Sprintf("%s/%s is busy, and %d calls wait: %v", e.Identity.Kind, e.Identity.ID, e.Waiting, e.Err)
}

// RetryAfter is for [contracts.RetryAfter].
func (e *BusyError) RetryAfter() time.Duration { return time.Second }

// Unwrap returns Err.
func (e *BusyError) Unwrap() error { return e.Err }

var (
	errLineFull = errors.New("no more may wait")
	errEnding   = errors.New("the activation is to end")
	errLong     = errors.New("the call had the turn of its identity for too long")
)

// turns are those of an activation: one at a time, in the order in which they were asked for.
type turns struct {
	mu   sync.Mutex
	busy bool
	line []chan struct{} // of those who wait: closed when it is their turn
}

// take waits for a turn, which pass ends. At most so many may wait; 0 is no limit. It gives up when a context ends,
// with its cause, or when gone is closed, with errEnding.
func (t *turns) take(ctx, of context.Context, gone <-chan struct{}, most int) error {
	t.mu.Lock()
	switch {
	case !t.busy:
		t.busy = true
		t.mu.Unlock()
		return nil
	case most > 0 && len(t.line) >= most:
		t.mu.Unlock()
		return errLineFull
	}
	mine := make(chan struct{})
	t.line = append(t.line, mine)
	t.mu.Unlock()
	var err error
	select {
	case <-mine:
		return nil
	case <-gone:
		err = errEnding
	case <-of.Done():
		err = context.Cause(of)
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	t.mu.Lock()
	at := slices.Index(t.line, mine)
	if at >= 0 {
		t.line = slices.Delete(t.line, at, at+1)
	}
	t.mu.Unlock()
	if at < 0 { // it was given the turn meanwhile
		t.pass()
	}
	return err
}

// pass gives a turn to the one that has waited longest.
func (t *turns) pass() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.line) == 0 {
		t.busy = false
		return
	}
	close(t.line[0])
	t.line = slices.Delete(t.line, 0, 1)
}

// waiting is how many wait.
func (t *turns) waiting() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.line)
}

// Turn waits until nothing else has the turn of the activation, for as long as ctx lasts and the activation is not
// lost. Turns come in the order in which they were asked for, those of a [Handler] among them. end ends the turn; only
// its first call counts. Who has the turn and asks for another one waits for itself.
func (h *Held) Turn(ctx context.Context) (end func(), err error) { return h.turn(ctx, nil, 0) }

// turn is Turn for one of at most so many that wait, until gone is closed. The error is a [NotHereError] if the
// activation ends, and a [BusyError] if the turn did not come.
func (h *Held) turn(ctx context.Context, gone <-chan struct{}, most int) (end func(), err error) {
	t := &h.a.turns
	err = t.take(ctx, h.a.ctx, gone, most)
	switch {
	case err == nil:
		return sync.OnceFunc(t.pass), nil
	case errors.Is(err, errEnding), h.a.ctx.Err() != nil:
		return nil, notHere(h.Identity, err)
	default:
		return nil, &BusyError{h.Identity, t.waiting(), err}
	}
}

// callTurn is the turn of a call of a [Handler].
type callTurn struct {
	held *Held

	mu    sync.Mutex
	end   func() // nil: the call has no turn, or not any more
	timer *time.Timer
	over  func() bool // no one waits any more for the call to return, when its context has ended
}

// bound makes a context of one for a call: that of a call which has its turn for too long ends. If the call keeps the
// turn still when its context has ended, whatever for, and does not return within the time that the host has, its
// activation ends without it: the identity is free, and its token protects it.
func (t *callTurn) bound(ctx context.Context, within time.Duration) (context.Context, context.CancelFunc) {
	limited, cancel := context.WithCancelCause(ctx)
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.end != nil {
		t.timer = time.AfterFunc(within, func() { cancel(fmt.Errorf("%w: %v", errLong, within)) })
		t.over = context.AfterFunc(limited, t.overdue)
	}
	return limited, func() { cancel(nil) }
}

// overdue begins the time that a call has to return after its context has ended.
func (t *callTurn) overdue() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.end != nil {
		t.timer.Stop()
		t.timer = time.AfterFunc(t.held.m.o.DeactivateWithin, t.abandon)
	}
}

// abandon ends the activation of a call that does not return.
func (t *callTurn) abandon() {
	t.mu.Lock()
	kept := t.end != nil
	t.mu.Unlock()
	if !kept {
		return
	}
	m, a := t.held.m, t.held.a
	//nolint:err113 // for people
	err := fmt.Errorf("a request did not return within %v after its end", m.o.DeactivateWithin)
	if cause := context.Cause(a.ctx); cause != nil {
		err = fmt.Errorf("%w: %w", cause, err)
	}
	m.emit(Event{What: Abandoned, Incarnation: a.life.number, Identity: a.Identity, Token: m.seen(a).Token, Err: err})
	m.spawn(a.life, func() { m.finish(a.life.Context(), a, err, nil) })
}

// pass ends the turn, once.
func (t *callTurn) pass() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.end == nil {
		return
	}
	t.timer.Stop()
	t.over()
	t.end()
	t.end = nil
}

// has reports whether the call has its turn still.
func (t *callTurn) has() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.end != nil
}

// EndTurn ends the turn of the call before it returns, so that others are served meanwhile: a stream of events ends it
// when it has begun. From then on the call may take as long as it likes, and what it shares with others it changes in
// another turn, or with a lock. A connection that is upgraded (hijacked) has no turn from then on.
func (c Call) EndTurn() {
	if c.turn != nil {
		c.turn.pass()
	}
}

// Turn waits for another turn of the identity, for instance for one message of an upgraded connection, for as long as
// ctx lasts. end ends it; only its first call counts. While the call has its own turn, Turn returns at once, and end
// does nothing.
func (c Call) Turn(ctx context.Context) (end func(), err error) {
	switch {
	case c.turn == nil:
		return nil, fmt.Errorf("%w: the call is none of a Handler", ErrNotRunning)
	case c.turn.has():
		return func() {}, nil
	default:
		return c.turn.held.Turn(ctx)
	}
}

// callWriter is where a call writes its response. A connection that it takes over does not keep its turn. One that came
// by way of another member has the proof of this one.
type callWriter struct {
	http.ResponseWriter

	turn   *callTurn
	answer string // empty if it came by no member
	begun  bool   // the header is written
}

// prove sets the proof: the last word is not the handler's.
func (w *callWriter) prove() {
	if w.answer != "" && !w.begun {
		w.Header().Set(headerAnswer, w.answer)
	}
}

// WriteHeader implements [http.ResponseWriter].
func (w *callWriter) WriteHeader(status int) {
	w.prove()
	w.begun = w.begun || status >= 200 || status == http.StatusSwitchingProtocols
	w.ResponseWriter.WriteHeader(status)
}

// Write implements [http.ResponseWriter].
func (w *callWriter) Write(p []byte) (int, error) {
	w.begin()
	return w.ResponseWriter.Write(p)
}

func (w *callWriter) begin() {
	w.prove()
	w.begun = true
}

// Unwrap is for [http.ResponseController].
func (w *callWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// Flush implements [http.Flusher].
func (w *callWriter) Flush() { _ = w.FlushError() }

// FlushError implements what [http.ResponseController] asks for.
func (w *callWriter) FlushError() error {
	w.begin()
	return http.NewResponseController(w.ResponseWriter).Flush()
}

// ReadFrom implements [io.ReaderFrom]: a file goes the shortest way.
func (w *callWriter) ReadFrom(r io.Reader) (int64, error) {
	w.begin()
	return io.Copy(w.ResponseWriter, r)
}

// Hijack implements [http.Hijacker].
func (w *callWriter) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, both, err := http.NewResponseController(w.ResponseWriter).Hijack()
	if err != nil {
		return conn, both, err
	}
	w.turn.pass()
	if w.answer != "" && !w.begun {
		first := proving(conn, w.answer)
		both.Writer.Reset(first)
		conn = first
	}
	w.begun = true
	return conn, both, nil
}
