package idempotency

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"log/slog"
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

// Options are the settings of [New]. The zero value works but for the name.
type Options struct {
	// Name is what the middleware is in front of, such as "payments". It is required: a key belongs to the middlewares of
	// one name, scope and gate. A gateway and the service behind it have two names, so that a key which is passed on is
	// two keys; processes of one service have one, which stays as it is.
	Name string

	// Required rejects requests without a key. Otherwise they reach the handler as they are.
	Required bool

	// Methods are those whose requests can have a key; requests of other methods reach the handler as they are. nil means
	// POST and PATCH.
	Methods []string

	// Headers are fields of the request that belong to its payload, beside method, path, query, host and body: a request
	// with the same key and another value of one of them is another request. Host and fields of the connection cannot be
	// among them.
	Headers []string

	// IgnoreHost leaves the host out of what is compared: for a service that clients and proxies call by several names,
	// all of which mean the same. Default ports (80, 443) are never compared.
	IgnoreHost bool

	// Payload returns what of the body is compared, such as without the time at which it was sent. nil compares all of it,
	// of a form its fields and files. What it leaves out may differ between two requests of which the second gets the
	// response to the first. Programs of one service whose Payload differs refuse each other's retries with 422.
	Payload func(r *http.Request, body []byte) []byte

	// Replay are header fields of the response that are stored beside those that always are: Cache-Control,
	// Content-Disposition, Content-Encoding, Content-Language, Content-Type, ETag, Last-Modified, Link, Location,
	// Retry-After and Vary. Later callers get no others.
	Replay []string

	// Store says which responses are stored; the others leave the key free for another run of the handler. It is asked
	// with status 500 and no header if the handler panicked, or wrote nothing. nil means [StoreOutcome]; see
	// [StoreSuccess], too. Requests that waited in this process share what came of the run that they waited for, stored or
	// not.
	Store func(status int, header http.Header) bool

	// TTL is how long a run outlives its process: whole seconds, at least one. The lock of a run is refreshed every fifth
	// of it. 0 means DefaultTTL.
	TTL time.Duration

	// Wait is how long a request waits for the response of the one that is under way with its key; then it gets 409. 0
	// does not wait, nil means DefaultWait.
	Wait *time.Duration

	// MaxBody bounds the bytes of a request's body, which is held in memory; more is 413. 0 means DefaultMaxBody.
	MaxBody int64

	// Owner is the name of this process, for people who look at runs; empty means host name and process ID.
	Owner string

	// Warn receives what callers are not told, or not in full: a response that was too large, or could not be stored, a
	// gate that fails, a panic with its stack (a [once.PanicError]). It may be called from several goroutines at once. nil
	// writes it with [slog.Default], as a warning, a panic as an error.
	Warn func(r *http.Request, err error)
}

// always are the header fields of a response that are stored.
var always = []string{
	"Cache-Control", "Content-Disposition", "Content-Encoding", "Content-Language", "Content-Type", "Etag",
	"Last-Modified", "Link",
	"Location", "Retry-After", "Vary",
}

// Middleware makes requests take effect once. It may be used by several goroutines at once, and for several handlers.
type Middleware struct {
	gate  once.Gate
	scope func(*http.Request) string
	o     Options

	nested sync.Once // ErrNested is said

	mu      sync.Mutex
	flights map[string]*flight // by run and fingerprint
	unkept  map[string]*unkept // by run
}

// New returns the middleware on a gate of runs that are made when they are begun: client.Runs, or direct.Runs.
//
// scope says whose request it is, such as the account that authentication found: keys of different scopes are different
// keys, so that no caller gets the response to another one. An API with one caller returns a constant.
func New(gate once.Gate, scope func(*http.Request) string, o *Options) (*Middleware, error) {
	m := &Middleware{gate: gate, scope: scope, flights: make(map[string]*flight), unkept: make(map[string]*unkept)}
	if o != nil {
		m.o = *o
	}
	switch {
	case gate == nil:
		return nil, errors.New("idempotency: the gate is nil")
	case scope == nil:
		return nil, errors.New(
			"idempotency: scope is nil: say whose a request is, so that no caller gets the response to another one")
	case m.o.Name == "":
		return nil, errors.New(
			"idempotency: Options.Name is empty: say what the middleware is in front of, so that a key which is passed on to " +
				"another service is not taken for this one's")
	case m.o.TTL < 0 || m.o.TTL%time.Second != 0 || m.o.TTL > once.MaxTTL:
		return nil, fmt.Errorf("idempotency: Options.TTL is %v: must be whole seconds from 1s to %v", m.o.TTL, once.MaxTTL)
	case m.o.Wait != nil && *m.o.Wait < 0:
		return nil, fmt.Errorf("idempotency: Options.Wait is %v: must not be negative; 0 does not wait", *m.o.Wait)
	case m.o.MaxBody < 0:
		return nil, fmt.Errorf("idempotency: Options.MaxBody is %d: must not be negative", m.o.MaxBody)
	}
	m.o.TTL, m.o.MaxBody = cmp.Or(m.o.TTL, DefaultTTL), cmp.Or(m.o.MaxBody, DefaultMaxBody)
	m.o.Wait = cmp.Or(m.o.Wait, new(DefaultWait))
	if m.o.Methods == nil {
		m.o.Methods = []string{http.MethodPost, http.MethodPatch}
	}
	if m.o.Store == nil {
		m.o.Store = StoreOutcome
	}
	if m.o.Warn == nil {
		m.o.Warn = logged
	}
	m.o.Headers = canonical(m.o.Headers)
	if err := checkHeaders(m.o.Headers); err != nil {
		return nil, err
	}
	m.o.Replay = canonical(slices.Concat(always, m.o.Replay))
	return m, nil
}

// logged is what becomes of warnings by default.
func logged(r *http.Request, err error) {
	level := slog.LevelWarn
	if errors.As(err, new(*once.PanicError)) { // the server logs the stack of its own goroutine
		level = slog.LevelError
	}
	slog.Log(r.Context(), level, "idempotency", "method", r.Method, "path", r.URL.Path, "err", err)
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

// Wrap returns a handler that runs next once for each key. If next is one of a middleware of the same name, the log of
// package slog says so at once; what lies between them hides it until the first request: see [ErrNested].
func (m *Middleware) Wrap(next http.Handler) http.Handler {
	if inner, ok := next.(*wrapped); ok && inner.m.o.Name == m.o.Name {
		slog.Warn(ErrNested.Error(), "name", m.o.Name)
	}
	return &wrapped{m, next}
}

// wrapped is a handler behind a middleware.
type wrapped struct {
	m    *Middleware
	next http.Handler
}

// ServeHTTP implements [http.Handler].
func (h *wrapped) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	m, next := h.m, h.next
	if !slices.Contains(m.o.Methods, r.Method) {
		next.ServeHTTP(w, r)
		return
	}
	k, given, err := key(r.Header)
	switch {
	case err != nil:
		problem{Status: http.StatusBadRequest, Code: CodeKeyInvalid, Title: "invalid idempotency key",
			Detail: Header + " " + err.Error()}.send(w)
	case !given && m.o.Required:
		problem{
			Status: http.StatusBadRequest, Code: CodeKeyRequired, Title: "idempotency key is missing",
			Detail: "this request needs the header " + Header +
				": make up a key, such as a UUID, and send it again with each retry",
		}.send(w)
	case !given:
		next.ServeHTTP(w, r)
	default:
		m.keyed(w, r, next, k)
	}
}

// keyed serves a request with a key.
func (m *Middleware) keyed(w http.ResponseWriter, r *http.Request, next http.Handler, key string) {
	if r.Body == nil { // net/http gives every request one
		r.Body = http.NoBody
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, m.o.MaxBody))
	if err != nil {
		unreadable(err).send(w)
		return
	}
	r.Body = reader(body) // for middleware outside, when the handler has returned
	p, err := m.newPrint(r, body)
	if err != nil {
		m.o.Warn(r, err)
		problem{
			Status: http.StatusInternalServerError, Code: CodeBodyConsumed, Title: "body was read before",
			Detail: "middleware of this server has read the body, so that requests cannot be told apart; this one did not run",
		}.send(w)
		return
	}
	scope := m.scoped(r, body)
	if scope == "" {
		m.o.Warn(r, ErrEmptyScope)
		problem{
			Status: http.StatusInternalServerError, Code: CodeScopeEmpty, Title: "caller is not known",
			Detail: "this server did not find out whose request this is; it did not run",
		}.send(w)
		return
	}
	id := runID(m.o.Name, scope, key)
	if within(r, id) { // the outer one stores what comes of it
		m.nested.Do(func() { m.o.Warn(r, ErrNested) })
		next.ServeHTTP(w, r)
		return
	}
	c := &call{Middleware: m, w: w, r: r, next: next, body: body, id: id, print: p,
		key: key, until: time.Now().Add(*m.o.Wait)}
	c.serve()
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

// call is one request with a key.
type call struct {
	*Middleware

	w     http.ResponseWriter
	r     *http.Request
	next  http.Handler
	body  []byte
	key   string
	id    string
	print fingerprint
	until time.Time // it waits for others
	spent bool      // its handler ran, and lost its lock to another process
}

// refused is the problem of an error of the gate.
func (c *call) refused(err error) problem {
	if errors.Is(err, contracts.CodeRunDiffers) {
		return reused()
	}
	if contracts.Final(err) {
		return c.fault(err)
	}
	c.o.Warn(c.r, err)
	return c.unavailable()
}

// reused is the problem of a key that was used for another request.
func reused() problem {
	return problem{
		Status: http.StatusUnprocessableEntity, Code: CodeKeyReused, Title: "idempotency key used before",
		Detail: "this key was used before for another request (method, path, query, host, headers or body): " +
			"use a new key for a new request",
	}
}

// fault is the problem of what an operator has to look at.
func (c *call) fault(err error) problem {
	c.o.Warn(c.r, err)
	return problem{
		Status: http.StatusInternalServerError, Code: CodeInternal, Title: "idempotency cannot be ensured",
		Detail: "the server's log has the reason; this request did not run",
	}
}

// unavailable is the problem of a gate that does not respond, and of a request that ended before it did.
func (c *call) unavailable() problem {
	if c.spent {
		return lost()
	}
	return problem{
		Status: http.StatusServiceUnavailable, Code: CodeUnavailable, Title: "idempotency cannot be ensured just now",
		Retryable: true,
		Detail:    "this request did not run: send it again, with the same key", retryAfter: time.Second,
	}
}

// running is the problem of a request of which the gate, or this process, says that it is being carried out.
func running(retryAfter time.Duration) problem {
	return problem{
		Status: http.StatusConflict, Code: CodeRunning, Title: "request is under way", Retryable: true,
		retryAfter: retryAfter,
		Detail:     "a request with this key is being carried out: send it again, with the same key, and get its response",
	}
}

// lost is the problem of a request whose handler ran, and whose lock went to another process, which left no response.
func lost() problem {
	return problem{
		Status: http.StatusServiceUnavailable, Code: CodeLost, Title: "request was interrupted", Retryable: true,
		Detail: "this request began and was interrupted, and its response was not stored: send it again, with the same key",
	}
}

// broken is the problem in place of the response of a handler that panicked.
func broken(stored bool) problem {
	if stored {
		return problem{
			Status: http.StatusInternalServerError, Code: CodeFailed, Title: "request failed",
			Detail: "the request began and broke off, and is not carried out again; find out what it did before you send it " +
				"under another key",
		}
	}
	return problem{
		Status: http.StatusInternalServerError, Code: CodeFailed, Title: "request failed", Retryable: true,
		Detail: "the request began and broke off: send it again, with the same key",
	}
}

// missing is the problem in place of the response of a handler that wrote none.
func missing(stored bool) problem {
	p := problem{
		Status: http.StatusInternalServerError, Code: CodeMissing, Title: "response is missing",
		Detail: "the request was carried out and left no response, as this server's framework sent it past the middleware, " +
			"or sent none",
	}
	if stored {
		p.Detail += "; find out what it did before you send it under another key"
	} else {
		p.Detail, p.Retryable = p.Detail+": send it again, with the same key", true
	}
	return p
}
