// Package conformancetest runs the scripts of contracts/conformance against a Go client, in a bubble of synctest: time
// passes as fast as it can, and nothing depends on how fast the machine is.
package conformancetest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leasehold-dev/leasehold/client"
	"github.com/leasehold-dev/leasehold/contracts/conformance"
	"github.com/leasehold-dev/leasehold/internal/term"
)

// base is the URL at which the player is, without a network.
const base = "http://127.0.0.1"

// Env is what a client under test is made with.
type Env struct {
	Client conformance.Client
	HTTP   *http.Client // reaches the player
	Clock  *Clock
}

// Dial returns a client of the server that the player is. It sends each request once: what sends it again is what the
// scripts are about.
func (e Env) Dial(t *testing.T) *client.Client {
	t.Helper()
	o := client.Options{HTTP: e.HTTP, Tries: 1}
	if e.Client.Token != "" {
		o.Token = func(context.Context) (string, error) { return e.Client.Token, nil }
	}
	c, err := client.New(base, &o)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// Call is an operation that a program asks of a client.
type Call struct {
	Op      string
	Key     string
	Keys    []string
	Count   int
	Of      any // what an earlier call obtained
	Options conformance.Options
	HTTP    *conformance.HTTP

	// Work is that of do and of once, and the handler of handle. It returns when the script says so: a text, or a
	// [conformance.Response] in JSON.
	Work func(ctx context.Context, value map[string]any) (string, error)
}

// Obtained is what a call has come to.
type Obtained struct {
	Handle  any             // for Call.Of
	Context context.Context //nolint:containedctx // it ends when the handle is lost; nil if it cannot be
	Value   map[string]any  // for people and scripts
}

// Program is a client under test, in the terms of the scripts.
type Program interface {
	// Do does an operation until it has ended.
	Do(ctx context.Context, c Call) (Obtained, error)

	// Describe says what an error is: its class, and the code if it has one.
	Describe(err error) map[string]any
}

// Run runs all scripts of an area. open makes the client for one of them.
func Run(t *testing.T, area conformance.Area, open func(*testing.T, Env) Program) {
	t.Helper()
	all, err := conformance.Scripts()
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range all {
		if s.Area != area {
			continue
		}
		t.Run(s.Name, func(t *testing.T) {
			for _, f := range Play(t, s, open, nil).Failures {
				t.Error(f)
			}
		})
	}
}

// Play runs one script. meddle changes what the client is made with, and so makes it a faulty one; nil leaves it alone.
func Play(t *testing.T, s *conformance.Script, open func(*testing.T, Env) Program,
	meddle func(*Env)) (v conformance.Outcome) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Until(conformance.Start))
		run := conformance.NewRun(s, base)
		p := &player{script: s, run: run, clock: &Clock{start: time.Now()}, calls: map[string]*call{}}
		e := Env{Client: s.Client, HTTP: &http.Client{Transport: handler{run}}, Clock: p.clock}
		if s.Client.Refused {
			e.HTTP.Transport = transport(refused)
		}
		if meddle != nil {
			meddle(&e)
		}
		p.program = open(t, e)
		defer func() {
			for _, c := range p.calls {
				c.end()
			}
			if c, ok := p.program.(io.Closer); ok {
				_ = c.Close()
			}
			time.Sleep(time.Hour) // what is under way in the background ends by itself
		}()
		for i := range s.Steps {
			if err := p.step(t.Context(), i); err != nil {
				break // it is in the outcome
			}
		}
		synctest.Wait()
		v = run.End()
	})
	return v
}

// player runs one script.
type player struct {
	script  *conformance.Script
	run     *conformance.Run
	clock   *Clock
	program Program
	calls   map[string]*call
}

// call is one that was begun.
type call struct {
	cancel context.CancelFunc
	done   chan struct{} // closed when it has ended
	got    Obtained
	err    error

	began  chan map[string]any // when its work has begun
	mu     sync.Mutex
	work   context.Context //nolint:containedctx // of its work, or of what was obtained
	stop   context.CancelFunc
	result chan worked // when its work is to return
}

type worked struct {
	value string
	err   error
}

// end ends a call that a failed run has left. Its work returns.
func (c *call) end() {
	c.cancel()
	select {
	case c.result <- worked{err: errOver}:
	default:
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stop != nil {
		c.stop()
	}
}

var errOver = errors.New("the run is over")

// step does the runner's part of a step, and then the player's.
func (p *player) step(ctx context.Context, i int) error {
	s := &p.script.Steps[i]
	o := conformance.Observed{}
	var err error
	synctest.Wait()
	switch s.Kind() {
	case "call":
		err = p.begin(ctx, s)
	case "cancel":
		p.calls[s.Cancel].cancel()
	case "return":
		p.calls[s.Return].result <- returned(s)
	case "began":
		o.Error, err = encode(map[string]any{"class": "failed", "detail": "its work has not begun"})
		if v, ok := received(p, s, p.calls[s.Began].began); ok {
			o.Error = nil
			o.Value, err = encode(v)
		}
	case "result":
		o, err = p.result(s)
	case "held", "lost":
		o = p.lost(s)
	case "pass":
		time.Sleep(seconds(s.Pass))
	case "freeze":
		p.clock.freeze(seconds(s.Freeze), s.Clocks == "wall")
	case "set":
		p.clock.set(seconds(s.Set))
	case "request":
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, p.time(s))
		defer cancel()
	}
	if err != nil {
		return err
	}
	synctest.Wait()
	err = p.run.Step(ctx, i, o)
	synctest.Wait()
	return err
}

func returned(s *conformance.Step) (w worked) {
	if s.Error != nil {
		var text string
		_ = json.Unmarshal(s.Error, &text)
		return worked{err: &WorkError{text}}
	}
	if json.Unmarshal(s.Value, &w.value) != nil {
		w.value = string(s.Value)
	}
	return w
}

// WorkError is the failure of a work, as the script says.
type WorkError struct{ text string }

func (e *WorkError) Error() string { return e.text }

func seconds(n float64) time.Duration { return time.Duration(n * float64(time.Second)) }

// time is in which a step must have happened.
func (p *player) time(s *conformance.Step) time.Duration {
	if s.Before > 0 {
		return time.Until(conformance.Start.Add(seconds(s.Before))) - p.clock.ahead() - time.Nanosecond
	}
	return seconds(s.Within)
}

// received waits for something for as long as a step allows. What has happened already is in time.
func received[T any](p *player, s *conformance.Step, from <-chan T) (v T, ok bool) {
	synctest.Wait()
	select {
	case v = <-from:
		return v, true
	default:
	}
	select {
	case v = <-from:
		return v, true
	case <-time.After(p.time(s)):
		return v, false
	}
}

// begin begins a call.
func (p *player) begin(ctx context.Context, s *conformance.Step) error {
	o, err := s.CallOptions()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	c := &call{cancel: cancel, done: make(chan struct{}), began: make(chan map[string]any, 1),
		result: make(chan worked, 1)}
	p.calls[s.As] = c
	request := Call{Op: s.Call, Key: s.Key, Keys: s.Keys, Count: max(1, s.Count), Options: o,
		HTTP: s.HTTP}
	if s.Of != "" {
		request.Of = p.calls[s.Of].got.Handle
	}
	request.Work = func(ctx context.Context, value map[string]any) (string, error) {
		child, cancel := context.WithCancel(ctx)
		defer cancel()
		c.mu.Lock()
		c.work = child
		c.mu.Unlock()
		c.began <- value
		w := <-c.result
		return w.value, w.err
	}
	go func() {
		defer close(c.done)
		c.got, c.err = p.program.Do(ctx, request)
		if c.got.Context != nil {
			c.mu.Lock()
			c.work, c.stop = context.WithCancel(c.got.Context) // it ends when the holder is told, not when someone asks
			c.mu.Unlock()
		}
	}()
	return nil
}

// result is what a call has come to.
func (p *player) result(s *conformance.Step) (o conformance.Observed, err error) {
	c := p.calls[s.Result]
	if _, ok := received(p, s, c.done); !ok {
		o.Error, err = encode(map[string]any{"class": "pending", "detail": "the call has not ended"})
		return o, err
	}
	if c.err != nil {
		d := p.program.Describe(c.err)
		d["text"] = c.err.Error()
		o.Error, err = encode(d)
		return o, err
	}
	o.Value, err = encode(c.got.Value)
	return o, err
}

// lost is whether the holder was told of a loss.
func (p *player) lost(s *conformance.Step) (o conformance.Observed) {
	c := p.calls[s.Held+s.Lost]
	c.mu.Lock()
	work := c.work
	c.mu.Unlock()
	if work == nil {
		return o
	}
	if s.Lost != "" {
		received(p, s, work.Done())
	}
	if work.Err() == nil {
		return o
	}
	d := p.program.Describe(context.Cause(work))
	o.Lost = d["class"] == "lost"
	if code, ok := d["code"]; ok {
		o.Code = fmt.Sprint(code)
	}
	return o
}

func encode(v any) (json.RawMessage, error) { return json.Marshal(v) }

// Clock is the clocks of the process under test: those of the bubble, and how far they have gone on while it was
// frozen.
type Clock struct {
	start time.Time

	mu              sync.Mutex
	monotonic, wall time.Duration // ahead of the bubble's
}

// Moment reads both clocks.
func (c *Clock) Moment() term.Moment {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	return term.On(now.Add(c.monotonic).Round(0), now.Add(c.wall).Round(0))
}

// Wall is the wall clock.
func (c *Clock) Wall() time.Time { return c.Moment().Wall() }

// Monotonic is the monotonic clock.
func (c *Clock) Monotonic() time.Duration { return c.Moment().Time().Sub(c.start.Round(0)) }

// ahead is how much later it is than the bubble's timers say.
func (c *Clock) ahead() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.monotonic
}

func (c *Clock) freeze(d time.Duration, wallOnly bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.wall += d
	if !wallOnly {
		c.monotonic += d
	}
}

func (c *Clock) set(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.wall += d
}

// refused is what a port says that nothing listens on.
func refused(*http.Request) (*http.Response, error) {
	return nil, &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
}

// handler is a server without a network, so that it can be in a bubble. A connection that the server breaks off is an
// error, as it is over a network.
type handler struct{ http.Handler }

func (h handler) RoundTrip(q *http.Request) (*http.Response, error) {
	done := make(chan *recorder, 1)
	go func() {
		w := &recorder{header: http.Header{}, status: http.StatusOK}
		defer func() {
			if p := recover(); p != nil {
				if p != http.ErrAbortHandler { //nolint:errorlint // a value of panic
					panic(p)
				}
				w.broken = true
			}
			done <- w
		}()
		h.ServeHTTP(w, q)
	}()
	select {
	case w := <-done:
		return w.response(q)
	case <-q.Context().Done():
		return nil, q.Context().Err()
	}
}

// recorder is what a handler has written.
type recorder struct {
	header http.Header
	status int
	body   bytes.Buffer
	sent   bool
	broken bool // then the connection ended
}

func (w *recorder) Header() http.Header         { return w.header }
func (w *recorder) WriteHeader(status int)      { w.status, w.sent = status, true }
func (w *recorder) Write(b []byte) (int, error) { w.sent = true; return w.body.Write(b) }
func (w *recorder) Flush()                      {}

func (w *recorder) response(q *http.Request) (*http.Response, error) {
	if w.broken && !w.sent {
		return nil, &net.OpError{Op: "read", Net: "tcp", Err: syscall.ECONNRESET}
	}
	var body io.Reader = &w.body
	if w.broken {
		body = io.MultiReader(body, cut{})
	}
	return &http.Response{
		Status: fmt.Sprintf("%d %s", w.status, http.StatusText(w.status)), StatusCode: w.status, Proto: "HTTP/1.1",
		ProtoMajor: 1, ProtoMinor: 1,
		Header: w.header, Body: io.NopCloser(body), ContentLength: -1, Request: q,
	}, nil
}

// cut is the end of a response that has no end.
type cut struct{}

func (cut) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }
