package idempotency

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/leasehold-dev/leasehold/contracts"
	"github.com/leasehold-dev/leasehold/once"
)

// Defaults of [Options].
const (
	DefaultTTL     = 30 * time.Second
	DefaultWait    = 10 * time.Second
	DefaultMaxBody = 1 << 20
)

// Options are the settings of [New]. The zero value works.
type Options struct {
	// Name tells middlewares apart that use one gate: a key belongs to one of them. It may be empty.
	Name string

	// Required rejects requests without a key. Otherwise they reach the handler as they are.
	Required bool

	// Methods are those whose requests can have a key; requests of other methods reach the handler as they are. nil means
	// POST and PATCH.
	Methods []string

	// Headers are fields of the request that belong to its payload, beside method, path, query and body: a request with
	// the same key and another value of one of them is another request.
	Headers []string

	// Replay are header fields of the response that are stored beside those that always are: Cache-Control,
	// Content-Disposition, Content-Encoding, Content-Language, Content-Type, ETag, Last-Modified, Link, Location,
	// Retry-After and Vary. Later callers get no others.
	Replay []string

	// Store says which responses are stored; the others leave the key free for another run. nil means all but 401, 408,
	// 425, 429 and 5xx. A panic is never stored.
	Store func(status int, header http.Header) bool

	// TTL is how long a run outlives its process: whole seconds, at least one. The lock of a run is refreshed every fifth
	// of it. 0 means DefaultTTL.
	TTL time.Duration

	// Wait is how long a request waits for the response of the one that is under way with its key; then it gets 409. 0
	// means DefaultWait; a negative time is no wait.
	Wait time.Duration

	// MaxBody bounds the bytes of a request's body, which is held in memory; more is 413. 0 means DefaultMaxBody.
	MaxBody int64

	// Owner is the name of this process, for people who look at runs; empty means host name and process ID.
	Owner string

	// Warn receives what callers are not told, or not in full: a response that was too large, or could not be stored, a
	// gate that fails, a panic with its stack (a [once.PanicError]). It may be called from several goroutines at once. nil
	// drops it.
	Warn func(r *http.Request, err error)
}

// always are the header fields of a response that are stored.
var always = []string{
	"Cache-Control", "Content-Disposition", "Content-Encoding", "Content-Language", "Content-Type", "Etag",
	"Last-Modified", "Link",
	"Location", "Retry-After", "Vary",
}

// beginTime is how long the gate may take, beside the time in which the request waits for another.
const beginTime = 5 * time.Second

// Middleware makes requests take effect once. It may be used by several goroutines at once, and for several handlers.
type Middleware struct {
	gate  once.Gate
	scope func(*http.Request) string
	o     Options

	mu      sync.Mutex
	flights map[string]*flight // by run and fingerprint
}

// flight is a request of this process that asks the gate; others with the same key and payload wait for it.
type flight struct {
	done     chan struct{}
	response *record  // nil: none was stored
	problem  *problem // what all of them get
}

// New returns the middleware on a gate of runs that are made when they are begun: client.Runs, or direct.Runs.
//
// scope says whose request it is, such as the account that authentication found: keys of different scopes are different
// keys, so that no caller gets the response to another one. An API with one caller returns a constant. Options may be
// nil.
func New(gate once.Gate, scope func(*http.Request) string, o *Options) (*Middleware, error) {
	m := &Middleware{gate: gate, scope: scope, flights: make(map[string]*flight)}
	if o != nil {
		m.o = *o
	}
	switch {
	case gate == nil:
		return nil, errors.New("idempotency: the gate is nil")
	case scope == nil:
		return nil, errors.New(
			"idempotency: scope is nil: say whose a request is, so that no caller gets the response to another one")
	case m.o.TTL < 0 || m.o.TTL%time.Second != 0 || m.o.TTL > once.MaxTTL:
		return nil, fmt.Errorf("idempotency: Options.TTL is %v: must be whole seconds from 1s to %v", m.o.TTL, once.MaxTTL)
	case m.o.MaxBody < 0:
		return nil, fmt.Errorf("idempotency: Options.MaxBody is %d: must not be negative", m.o.MaxBody)
	}
	m.o.TTL, m.o.MaxBody = cmp.Or(m.o.TTL, DefaultTTL), cmp.Or(m.o.MaxBody, DefaultMaxBody)
	m.o.Wait = max(0, cmp.Or(m.o.Wait, DefaultWait))
	if m.o.Methods == nil {
		m.o.Methods = []string{http.MethodPost, http.MethodPatch}
	}
	if m.o.Store == nil {
		m.o.Store = stored
	}
	if m.o.Warn == nil {
		m.o.Warn = func(*http.Request, error) {}
	}
	m.o.Headers = canonical(m.o.Headers)
	m.o.Replay = canonical(slices.Concat(always, m.o.Replay))
	return m, nil
}

// canonical is a sorted list of header names, each once.
func canonical(names []string) []string {
	out := make([]string, len(names))
	for i, n := range names {
		out[i] = http.CanonicalHeaderKey(n)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// stored is the default of Options.Store. What may be another response next time is not stored.
func stored(status int, _ http.Header) bool {
	switch status {
	case http.StatusUnauthorized, http.StatusRequestTimeout, http.StatusTooEarly, http.StatusTooManyRequests:
		return false
	default:
		return status < http.StatusInternalServerError
	}
}

// Wrap returns a handler that runs next once for each key.
func (m *Middleware) Wrap(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !slices.Contains(m.o.Methods, r.Method) {
			next.ServeHTTP(w, r)
			return
		}
		k, given, err := key(r.Header)
		switch {
		case err != nil:
			problem{Status: http.StatusBadRequest, Code: CodeKeyInvalid, Title: "invalid idempotency key",
				Detail: Header + " " + err.Error()}.send(w)
			return
		case !given && m.o.Required:
			problem{
				Status: http.StatusBadRequest, Code: CodeKeyRequired, Title: "idempotency key is missing",
				Detail: "this request needs the header " + Header +
					": make up a key, such as a UUID, and send it again with each retry",
			}.send(w)
			return
		case !given:
			next.ServeHTTP(w, r)
			return
		}
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, m.o.MaxBody))
		if err != nil {
			unreadable(err).send(w)
			return
		}
		c := &call{Middleware: m, w: w, r: r, next: next, body: body, id: hash(m.o.Name, m.scope(r), k),
			print: m.fingerprint(r, body)}
		c.serve()
	})
}

// unreadable is the problem of a body that could not be read.
func unreadable(err error) problem {
	if e, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return problem{
			Status: http.StatusRequestEntityTooLarge, Code: CodeTooLarge, Title: "body too large",
			Detail: fmt.Sprintf("a request with %s has at most %d bytes", Header, e.Limit),
		}
	}
	return problem{Status: http.StatusBadRequest, Code: CodeIncomplete, Title: "body is incomplete",
		Detail: "the body ended before it was whole"}
}

// fingerprint says what a request is about.
func (m *Middleware) fingerprint(r *http.Request, body []byte) string {
	parts := []string{r.Method, r.URL.EscapedPath(), r.URL.RawQuery, string(body)}
	for _, name := range m.o.Headers {
		parts = append(parts, name)
		parts = append(parts, r.Header.Values(name)...)
	}
	return hash(parts...)
}

// hash is a SHA-256 in base64url. Each part is preceded by its length, so that no two lists of parts are hashed alike.
func hash(parts ...string) string {
	h := sha256.New()
	for _, p := range parts {
		h.Write(binary.AppendUvarint(nil, uint64(len(p))))
		h.Write([]byte(p))
	}
	return base64.RawURLEncoding.EncodeToString(h.Sum(nil))
}

// call is one request with a key.
type call struct {
	*Middleware

	w         http.ResponseWriter
	r         *http.Request
	next      http.Handler
	body      []byte
	id, print string
}

// serve asks the gate, or waits for another request of this process that does.
func (c *call) serve() {
	until := time.Now().Add(c.o.Wait)
	for {
		f, first := c.join()
		if first {
			c.first(f, max(0, time.Until(until)))
			return
		}
		timer := time.NewTimer(time.Until(until))
		select {
		case <-f.done:
		case <-timer.C:
			running(time.Second).send(c.w)
			return
		case <-c.r.Context().Done():
			timer.Stop()
			unavailable().send(c.w) // no one reads it, unless the request had a deadline
			return
		}
		timer.Stop()
		switch {
		case f.response != nil:
			f.response.replay(c.w)
			return
		case f.problem != nil:
			f.problem.send(c.w)
			return
		}
	}
}

// join returns the request that asks the gate about this run; it may be this one.
func (c *call) join() (f *flight, first bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	name := c.id + c.print
	if f := c.flights[name]; f != nil {
		return f, false
	}
	f = &flight{done: make(chan struct{})}
	c.flights[name] = f
	return f, true
}

// complete lets those go that wait for a flight.
func (c *call) complete(f *flight) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.flights, c.id+c.print)
	close(f.done)
}

// notStoredError is the failure of a run whose response is not stored.
type notStoredError int

func (e notStoredError) Error() string {
	return fmt.Sprintf("the handler responded %d, which is not stored", int(e))
}

// errLeft is why a run does not begin: the caller hung up, or the gate took too long.
var errLeft = errors.New("the request ended before its handler began")

// first asks the gate, and does what it says.
func (c *call) first(f *flight, wait time.Duration) {
	landed := false
	land := func() {
		if !landed {
			landed = true
			c.complete(f)
		}
	}
	defer land()

	// Until the handler begins, the caller's end and a gate that hangs end the run. After that only a deadline does.
	ctx := context.WithoutCancel(c.r.Context())
	if deadline, ok := c.r.Context().Deadline(); ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, deadline)
		defer cancel()
	}
	ctx, leave := context.WithCancelCause(ctx)
	defer leave(nil)
	asking, asked := context.WithTimeout(c.r.Context(), wait+beginTime)
	defer asked()
	begun := context.AfterFunc(asking, func() { leave(errLeft) })

	var (
		rec  *recorder // once the handler has returned
		kept record
	)
	out, err := once.Run(ctx, c.gate, c.id, func(ctx context.Context, _ once.Lock) (string, error) {
		if !begun() {
			return "", errLeft
		}
		asked()
		r := c.r.WithContext(ctx)
		r.Body = io.NopCloser(bytes.NewReader(c.body))
		writing := &recorder{header: c.w.Header().Clone()}
		c.next.ServeHTTP(writing, r)
		writing.end()
		rec = writing
		if !c.o.Store(rec.status, rec.sent) {
			return "", notStoredError(rec.status)
		}
		text, response, whole := newRecord(rec, c.o.Replay)
		if kept = response; !whole {
			c.o.Warn(c.r, fmt.Errorf(
				"the response of %d bytes is too large to be stored: callers that send the request again get 409", kept.Bytes))
		}
		return text, nil
	}, &once.Options{
		Owner: c.o.Owner, TTL: c.o.TTL, Wait: wait, Fingerprint: c.print,
		Warn: func(err error) { c.o.Warn(c.r, err) },
	})

	if p, ok := errors.AsType[*once.PanicError](out.Err); ok && rec == nil && out.Status != once.Lost {
		c.o.Warn(c.r, fmt.Errorf("%w\n%s", p, p.Stack))
		land()
		panic(p.Value) // in the goroutine of the server, which knows what to do
	}
	switch {
	case err != nil:
		f.problem = c.refused(err)
	case out.Status == once.Ready:
		f.response = &kept
		land()
		rec.send(c.w)
		return
	case out.Status == once.AlreadyFinished:
		if kept, err = readRecord(out.Result); err == nil {
			f.response = &kept
			land()
			kept.replay(c.w)
			return
		}
		f.problem = c.fault(err)
	case out.Status == once.AlreadyFailed:
		c.o.Warn(c.r, out.Err)
		f.problem = &problem{
			Status: http.StatusInternalServerError, Code: CodeGivenUp, Title: "request was given up",
			Detail: "the processes that carried this request out died again and again; find out what it did before you send it under another key",
		}
	case out.Status == once.Unknown:
		f.problem = c.fault(errors.New("the gate does not make runs: use client.Runs or direct.Runs"))
	case out.Status == once.Lost:
		c.o.Warn(c.r, out.Err)
		land()
		running(time.Second).send(c.w)
		return
	case rec != nil: // not stored, by choice or because the gate failed
		if _, byChoice := errors.AsType[notStoredError](out.Err); !byChoice {
			c.o.Warn(c.r, fmt.Errorf("the response was sent and not stored; the handler may run again: %w", out.Err))
		}
		land()
		rec.send(c.w)
		return
	case out.Status == once.Locked:
		land()
		running(min(out.RetryAfter, beginTime)).send(c.w)
		return
	default: // the caller hung up, or the gate took too long
		if c.r.Context().Err() == nil {
			c.o.Warn(c.r, out.Err)
		}
		land()
		unavailable().send(c.w)
		return
	}
	land()
	f.problem.send(c.w)
}

// refused is the problem of an error of the gate.
func (c *call) refused(err error) *problem {
	if errors.Is(err, contracts.CodeRunDiffers) {
		return &problem{
			Status: http.StatusUnprocessableEntity, Code: CodeKeyReused, Title: "idempotency key used before",
			Detail: "this key was used before for another request (method, path, query, headers or body): use a new key for a new request",
		}
	}
	if contracts.Final(err) {
		return c.fault(err)
	}
	c.o.Warn(c.r, err)
	p := unavailable()
	return &p
}

// fault is the problem of what an operator has to look at.
func (c *call) fault(err error) *problem {
	c.o.Warn(c.r, err)
	return &problem{
		Status: http.StatusInternalServerError, Code: CodeInternal, Title: "idempotency cannot be ensured",
		Detail: "the server's log has the reason; this request did not run",
	}
}

func unavailable() problem {
	return problem{
		Status: http.StatusServiceUnavailable, Code: CodeUnavailable, Title: "idempotency cannot be ensured just now",
		Retryable: true,
		Detail:    "this request did not run: send it again, with the same key", retryAfter: time.Second,
	}
}

func running(retryAfter time.Duration) problem {
	return problem{
		Status: http.StatusConflict, Code: CodeRunning, Title: "request is under way", Retryable: true,
		retryAfter: retryAfter,
		Detail:     "a request with this key is being carried out: send it again, with the same key, and get its response",
	}
}
