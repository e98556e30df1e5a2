package conformance

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Run plays the server's part of a script, and judges the client's. As an [http.Handler] it is the server: requests
// wait until the runner reaches their step. Its methods may be called from several goroutines at once.
type Run struct {
	script *Script
	base   string

	mu       sync.Mutex
	waiting  []*exchange          // requests that no step has asked for yet
	arrived  chan struct{}        // closed when one is added, and made anew
	held     map[string]*exchange // answers that are held, by the name of Deliver
	repeats  map[string]*Step     // what may come any number of times, by the name of Stop
	known    memory
	next     int  // the step that is to come
	clock    span // what the client's wall clock may say now, whether or not it follows a step "set" or "freeze"
	failures []string
	over     chan struct{} // closed at the end
}

// exchange is a request, and what is decided about it.
type exchange struct {
	request request
	header  http.Header
	broken  string // what is wrong with the request as such
	given   chan decision
	reply   decision      // of one that is held
	gone    chan struct{} // closed when the answer has been written
}

// decision is what becomes of a request.
type decision struct {
	response response
	fault    Fault
}

// NewRun begins to play a script. base is the base URL that the client is given, for answers that name it.
func NewRun(s *Script, base string) *Run {
	return &Run{script: s, base: base, arrived: make(chan struct{}), held: map[string]*exchange{},
		repeats: map[string]*Step{}, known: memory{}, clock: span{Start, Start}, over: make(chan struct{})}
}

// ServeHTTP is the server of the run.
func (r *Run) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	e := read(q)
	defer close(e.gone)
	r.arrive(e)
	select {
	case d := <-e.given:
		d.write(w)
	case <-r.over:
		panic(http.ErrAbortHandler)
	case <-q.Context().Done(): // the client has given it up
		panic(http.ErrAbortHandler)
	}
}

// arrive lets a request wait for its step, unless it is one that repeats.
func (r *Run) arrive(e *exchange) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range r.repeats {
		if r.again(s, e) {
			return
		}
	}
	r.waiting = append(r.waiting, e)
	close(r.arrived)
	r.arrived = make(chan struct{})
}

// again treats a request that repeats, if it is one of this step. It is called with r.mu held.
func (r *Run) again(s *Step, e *exchange) bool {
	if !r.asks(s, e.request) {
		return false
	}
	d, differs := r.decide(s, e)
	for _, what := range differs {
		r.failures = append(r.failures, fmt.Sprintf("a request of %q: %s", s.Repeat, what))
	}
	if len(differs) == 0 && d.fault != Hang {
		e.given <- d
	}
	return true
}

// repeat lets requests of a step come, those that wait already included.
func (r *Run) repeat(s *Step) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.repeats[s.Repeat] = s
	r.waiting = slices.DeleteFunc(r.waiting, func(e *exchange) bool { return r.again(s, e) })
}

const maxRequest = 1 << 20

// read reads a request.
func read(q *http.Request) *exchange {
	e := &exchange{
		request: request{method: q.Method, path: q.URL.EscapedPath()}, header: q.Header, given: make(chan decision, 1),
		gone: make(chan struct{}),
	}
	if sent := q.Header.Get("Leasehold-Path"); strings.Contains(e.request.path, "%") && sent != e.request.path {
		e.broken = fmt.Sprintf("its header Leasehold-Path is %q, and its path is %s", sent, e.request.path)
		return e
	}
	if q.URL.RawQuery != "" {
		e.request.path += "?" + q.URL.RawQuery
	}
	text, err := io.ReadAll(io.LimitReader(q.Body, maxRequest))
	switch {
	case err != nil:
		e.broken = "its body cannot be read: " + err.Error()
		return e
	case len(text) == 0:
		return e
	}
	v, err := decode(text)
	body, ok := v.(map[string]any)
	switch {
	case err != nil:
		e.broken = "its body is not JSON: " + err.Error()
	case !ok:
		e.broken = "its body is not a JSON object"
	}
	e.request.body = body
	return e
}

// write gives the answer, or what is left of it.
func (d decision) write(w http.ResponseWriter) {
	if d.fault == RequestLost {
		panic(http.ErrAbortHandler)
	}
	w.Header()["Date"] = nil // the time is the script's: the date of this machine would be a wrong one
	for k, v := range d.response.headers {
		w.Header().Set(k, v)
	}
	if d.response.contentType != "" {
		w.Header().Set("Content-Type", d.response.contentType)
	}
	if d.response.status != http.StatusNoContent {
		w.Header().Set("Content-Length", strconv.Itoa(len(d.response.body)))
	}
	w.WriteHeader(d.response.status)
	if d.fault == AnswerLost {
		_, _ = w.Write(d.response.body[:len(d.response.body)/2])
		if f, ok := w.(http.Flusher); ok {
			f.Flush()
		}
		panic(http.ErrAbortHandler)
	}
	_, _ = w.Write(d.response.body)
}

// Waiting is how many requests have arrived that no step has asked for yet.
func (r *Run) Waiting() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.waiting)
}

// Arrival returns when a request waits that no step has asked for yet. The error is the context's.
func (r *Run) Arrival(ctx context.Context) error {
	for {
		r.mu.Lock()
		n, arrived := len(r.waiting), r.arrived
		r.mu.Unlock()
		if n > 0 {
			return nil
		}
		select {
		case <-arrived:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Observed is what the runner has seen in a step.
type Observed struct {
	Value json.RawMessage `json:"value,omitempty"` // of a result, and of the beginning of a work
	Error json.RawMessage `json:"error,omitempty"` // of a result
	Lost  bool            `json:"lost,omitempty"`  // with Held and Lost: whether the loss has been signalled
	Code  string          `json:"code,omitempty"`  // with Lost: the code of the loss
}

// Step takes a step: the next one, after the runner has done its part. A step Request gives the request that waits its
// answer, and returns when it has been written; until the context ends it waits for the request. The error says in what
// the client's behaviour is not that of the script; the run has failed then.
func (r *Run) Step(ctx context.Context, i int, o Observed) error {
	if err := r.enter(i); err != nil {
		return err
	}
	s := &r.script.Steps[i]
	switch s.Kind() {
	case "request":
		if s.Repeat != "" {
			r.repeat(s)
			return nil
		}
		if err := r.Arrival(ctx); err != nil {
			return r.fail(i, "no request was sent, want "+s.Request)
		}
		return r.exchange(i, s)
	case "deliver":
		r.mu.Lock()
		e := r.held[s.Deliver]
		delete(r.held, s.Deliver)
		r.mu.Unlock()
		if e == nil {
			return r.fail(i, "no answer is held")
		}
		e.given <- e.reply
		<-e.gone
	case "stop":
		r.mu.Lock()
		delete(r.repeats, s.Stop)
		r.mu.Unlock()
	case "held":
		if o.Lost {
			return r.fail(i, fmt.Sprintf("%s is lost (%s), want it held", s.Held, o.Code))
		}
	case "lost":
		switch {
		case !o.Lost:
			return r.fail(i, s.Lost+" is not lost, or its holder has not been told")
		case s.Code != "" && s.Code != o.Code:
			return r.fail(i, fmt.Sprintf("%s is lost with the code %q, want %q", s.Lost, o.Code, s.Code))
		}
	case "result", "began":
		return r.result(i, s, o)
	}
	if s.Kind() == "pass" {
		return r.quiet(i)
	}
	return nil
}

// enter checks that steps are taken in their order.
func (r *Run) enter(i int) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if i != r.next || i >= len(r.script.Steps) {
		return fmt.Errorf("step %d: the next one is %d of %d", i, r.next, len(r.script.Steps))
	}
	if len(r.failures) > 0 {
		return errors.New(strings.Join(r.failures, "\n"))
	}
	r.next++
	r.pass(&r.script.Steps[i])
	return nil
}

// pass lets the time of a step pass. A client whose clock the runner cannot set, or stop, keeps the time that it has.
func (r *Run) pass(s *Step) {
	seconds := func(n float64) time.Duration { return time.Duration(n * float64(time.Second)) }
	r.clock.from = r.clock.from.Add(seconds(s.Pass + min(0, s.Set)))
	r.clock.to = r.clock.to.Add(seconds(s.Pass + s.Freeze + max(0, s.Set) + s.Within))
	if before := Start.Add(seconds(s.Before)); before.After(r.clock.to) {
		r.clock.to = before
	}
}

// quiet fails if a request was sent that the script does not have.
func (r *Run) quiet(i int) error {
	r.mu.Lock()
	var sent []string
	for _, e := range r.waiting {
		sent = append(sent, "a request was sent that the script does not have here: "+e.request.String())
	}
	r.mu.Unlock()
	if len(sent) > 0 {
		return r.fail(i, sent...)
	}
	return nil
}

// exchange judges the request that waits, and decides what becomes of it.
func (r *Run) exchange(i int, s *Step) error {
	r.mu.Lock()
	e := r.waiting[0]
	r.waiting = r.waiting[1:]
	d, differs := r.decide(s, e)
	if s.Hold != "" {
		e.reply, r.held[s.Hold] = d, e
	}
	r.mu.Unlock()
	switch {
	case len(differs) > 0:
		return r.fail(i, differs...)
	case s.Hold != "" || d.fault == Hang:
		return nil
	}
	e.given <- d
	<-e.gone
	return nil
}

// decide says what becomes of a request, or in what it is not that of the step. It is called with r.mu held.
func (r *Run) decide(s *Step, e *exchange) (d decision, differs []string) {
	if differs = r.judge(s, e); len(differs) > 0 {
		return d, differs
	}
	d = decision{fault: s.Fault, response: response{status: http.StatusOK, contentType: "application/json",
		body: []byte("{}")}}
	if s.Answer == nil {
		return d, nil
	}
	var err error
	if d.response, err = s.Answer.response(e.request, r.base); err != nil {
		differs = []string{err.Error()}
	}
	return d, differs
}

// asks reports whether a request has the method and the path of a step. What is escaped in a path without need does not
// matter.
func (r *Run) asks(s *Step, got request) bool {
	method, path, _ := strings.Cut(s.Request, " ")
	path, query, _ := strings.Cut(path, "?")
	gotPath, gotQuery, _ := strings.Cut(got.path, "?")
	return method == got.method && r.sameQuery(query, gotQuery) && slices.Equal(segments(path), segments(gotPath))
}

// sameQuery reports whether a query has the parameters of a pattern, in any order, and no others.
func (r *Run) sameQuery(pattern, got string) bool {
	want, err1 := url.ParseQuery(pattern)
	have, err2 := url.ParseQuery(got)
	if err1 != nil || err2 != nil {
		return false
	}
	for name, values := range have {
		if len(values) != 1 || !want.Has(name) {
			return false
		}
	}
	m := matcher{known: r.known}
	for name := range want {
		p, v := want.Get(name), have.Get(name)
		special := strings.HasPrefix(p, "$")
		if special && len(m.special(name, p, json.Number(v), have.Has(name))) > 0 || !special && (!have.Has(name) || p != v) {
			return false
		}
	}
	return true
}

// segments are the parts of a path, not escaped.
func segments(path string) []string {
	parts := strings.Split(path, "/")
	for i, p := range parts {
		if s, err := url.PathUnescape(p); err == nil {
			parts[i] = s
		}
	}
	return parts
}

// judge compares a request with that of a step.
func (r *Run) judge(s *Step, e *exchange) (differs []string) {
	if !r.asks(s, e.request) {
		return []string{fmt.Sprintf("the request is %s, want %s", e.request, s.Request)}
	}
	if e.broken != "" {
		return []string{e.broken}
	}
	if e.request.body != nil && !strings.HasPrefix(e.header.Get("Content-Type"), "application/json") {
		differs = append(differs, fmt.Sprintf("Content-Type is %q, want application/json", e.header.Get("Content-Type")))
	}
	if t := r.script.Client.Token; t != "" && e.header.Get("Authorization") != "Bearer "+t {
		differs = append(differs, fmt.Sprintf("Authorization is %q, want %q", e.header.Get("Authorization"), "Bearer "+t))
	}
	m := matcher{known: r.known, of: e.request}
	for k, p := range s.Headers {
		differs = append(differs, m.match("header "+k, p, e.header.Get(k), e.header.Get(k) != "")...)
	}
	if s.Body == nil {
		return differs
	}
	pattern, err := decode(s.Body)
	if err != nil {
		return []string{err.Error()}
	}
	m.strict = true
	if e.request.grants() {
		m.ends = &span{r.clock.from, r.clock.to.Add(time.Hour)} // no server takes one that is further away
	}
	var body any = e.request.body
	return append(differs, m.match("body", pattern, body, e.request.body != nil)...)
}

// result compares what a call, or the beginning of its work, has come to.
func (r *Run) result(i int, s *Step, o Observed) error {
	if s.Error != nil && o.Error == nil {
		return r.fail(i, fmt.Sprintf("%s%s is %s, want the error %s", s.Result, s.Began, orNothing(o.Value), s.Error))
	}
	if s.Error == nil && o.Error != nil {
		return r.fail(i, fmt.Sprintf("%s%s is the error %s, want %s", s.Result, s.Began, o.Error, orNothing(s.Value)))
	}
	want, got := s.Value, o.Value
	if s.Error != nil {
		want, got = s.Error, o.Error
	}
	if want == nil {
		return nil
	}
	pattern, err1 := decode(want)
	v, err2 := decode(orNothing(got))
	if err := errors.Join(err1, err2); err != nil {
		return r.fail(i, err.Error())
	}
	r.mu.Lock()
	differs := matcher{known: r.known}.match(s.Result+s.Began, pattern, v, true)
	r.mu.Unlock()
	if len(differs) > 0 {
		return r.fail(i, differs...)
	}
	return nil
}

func orNothing(v json.RawMessage) json.RawMessage {
	if v == nil {
		return json.RawMessage("null")
	}
	return v
}

// fail notes what went wrong in a step.
func (r *Run) fail(i int, whats ...string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	errs := make([]error, 0, len(whats))
	for _, what := range whats {
		at := fmt.Sprintf("steps[%d] (%s): %s", i, r.script.Steps[i].Kind(), what)
		r.failures = append(r.failures, at)
		errs = append(errs, errors.New(at))
	}
	return errors.Join(errs...)
}

// Outcome is how a run ended.
type Outcome struct {
	Passed   bool     `json:"passed"`
	Failures []string `json:"failures"` // in what the client's behaviour was not that of the script
}

// End ends the run: requests that wait get no answer. A script of which not all steps were taken has failed, as has one
// with a request too many.
func (r *Run) End() Outcome {
	r.mu.Lock()
	defer r.mu.Unlock()
	select {
	case <-r.over:
	default:
		for _, e := range r.waiting {
			r.failures = append(r.failures, fmt.Sprintf("at the end: a request was sent that the script does not have: %s",
				e.request))
		}
		if r.next < len(r.script.Steps) && len(r.failures) == 0 {
			r.failures = append(r.failures, fmt.Sprintf("steps[%d]: the run ended before this step", r.next))
		}
		close(r.over)
	}
	return Outcome{Passed: len(r.failures) == 0, Failures: append([]string{}, slices.Clone(r.failures)...)}
}
