package cluster

import (
	"bufio"
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/leasehold-dev/leasehold/contracts"
	"github.com/leasehold-dev/leasehold/internal/backoff"
)

// HandlerOptions are the settings of [NewHandler]. Identity is required, and one of Secret and Trust.
type HandlerOptions struct {
	// Identity says which identity a request is for. It is asked where the request arrives first. Without ok the
	// response is 404.
	Identity func(*http.Request) (id Identity, ok bool)

	// Need says what the identity needs of the member that hosts it. nil is nothing.
	Need func(*http.Request) *Need

	// Caller names the caller of a request, such as the user that a session belongs to. It is asked where the request
	// arrives first, and what it says reaches the member that serves it, as Call.Caller: authentication is needed there
	// alone. nil names no one.
	Caller func(*http.Request) string

	// Secret is what all members of the cluster share, of 32 bytes or more. A forwarded request is signed with it, and a
	// member refuses one that is not. Without it, and without Trust, everyone who reaches a member could say who a caller
	// is. The signature covers the cluster, where the request comes from and goes to, the identity, the caller, the
	// method, the address and the X-Forwarded headers. It covers neither other headers nor the body, and hides nothing:
	// between machines whose network others can read, set a Transport with TLS.
	//
	// A response counts only with a proof of who knows the secret, as all members do. Nothing of another one reaches the
	// caller. Before a request is sent to an address that has given no such response for 2 s, it is asked for one, by a
	// HEAD request of the same path with nothing of the caller's: what stands in front of the handler must let that
	// through. A member of another cluster, or one that has left, is not believed either.
	Secret []byte

	// Trust, instead of Secret, reports whether a request comes from a member, for instance by the certificate of its
	// client (mutual TLS, with a Transport that presents one, and checks that of the server before it sends anything). It
	// must not go by what everyone can send.
	Trust func(*http.Request) bool

	// Transport sends requests to members. nil is one that gives up connecting after 2 s and uses no proxy.
	Transport http.RoundTripper

	// Scheme is that of addresses of members without one; empty means http.
	Scheme string

	// ForwardedFor: X-Forwarded-For, -Host and -Proto of requests that arrive are those of a proxy in front of all
	// members, which replaces what its clients send. They are passed on; otherwise they are dropped.
	ForwardedFor bool

	// Wait is for how long a request is kept that no member serves so far: it should be longer than the lease of a
	// member, so that the death of one is an error for no one. 0 means 15 s. After that, or after Tries, which is 30 if
	// it is 0, the response is 503.
	Wait  time.Duration
	Tries int

	// Concurrent: requests for one identity may be served at the same time. Otherwise they are served one after the other,
	// in the order in which they came to its member: see [Handler].
	Concurrent bool

	// Queue is how many requests may wait on a member for the turn of one identity. The response to more is 503. 0 means
	// 100.
	Queue int

	// CallWithin is for how long a request may have the turn of its identity: then its context ends. One that has not
	// returned [Options.DeactivateWithin] after its context has ended is an event, [Abandoned], and its activation ends
	// without it. It does not bound requests that have ended their turn. 0 means a minute.
	CallWithin time.Duration

	// Body is how much of a request's body is kept, so that it can be sent again. Once a member has read more of it, the
	// request is sent to no other. 0 means 64 KiB, and less than 0 nothing.
	Body int
}

// Handler is an [http.Handler] that serves each request on the member that has its identity: here, or on another one to
// which it is forwarded. Streams and upgraded connections, such as WebSockets, pass through it.
//
// A request is tried again, elsewhere or after a pause, when no member has begun to serve it: the member said that the
// identity is not there (any more), or could not be connected to. If the connection broke while the member worked on
// it, that is so only for requests that can be repeated: GET, HEAD, OPTIONS and TRACE, and those with an
// Idempotency-Key. Nothing is tried again once a part of the response was sent, or more of the body was read than
// [HandlerOptions.Body]. A member that hangs, and is not in the cluster any more, is left like one whose connection
// broke; what can be repeated is then tried for [HandlerOptions.Wait] once more.
//
// Requests for one identity are served one after the other, in the order in which they came to its member. So what its
// activation has needs no lock of its own. One that waits for its turn for [HandlerOptions.Wait], or finds
// [HandlerOptions.Queue] others waiting, is refused (503) without having been begun. When the activation moves
// meanwhile, those that wait go after it, in any order. A request that asks for its own identity through the handler
// waits for itself, until one of them is given up. A connection that is upgraded has no turn any more, and a stream
// ends it by [Call.EndTurn]; both get another one by [Call.Turn].
//
// A forwarded request is served where it arrives or not at all: it is forwarded no further, so that it goes in no loop.
// A request of which a header says that it was forwarded, and that does not come from a member, is refused (403).
//
// What is served here is held ([Member.Hold]): it is not idle, its context ends with the activation, and [CallOf] says
// what the handler needs to know.
type Handler struct {
	m       *Member
	l       *Locator
	inner   http.Handler
	o       HandlerOptions
	forward *httputil.ReverseProxy

	mu        sync.Mutex
	doubts    map[string]time.Time // by member, when it was asked about last
	proofs    map[place]time.Time  // when a member proved last that it is there
	questions map[place]*question
}

// NewHandler returns a handler that serves with inner what the member has. Without a member (nil) it forwards
// everything, as in front of a cluster; inner may be nil then.
func NewHandler(m *Member, l *Locator, inner http.Handler, o HandlerOptions) (*Handler, error) {
	o.Wait, o.Tries = cmp.Or(o.Wait, 15*time.Second), cmp.Or(o.Tries, 30)
	o.Body, o.Scheme = max(cmp.Or(o.Body, 64<<10), 0), cmp.Or(o.Scheme, "http")
	o.Queue, o.CallWithin = cmp.Or(o.Queue, 100), cmp.Or(o.CallWithin, time.Minute)
	switch {
	case l == nil || o.Identity == nil || m != nil && inner == nil:
		return nil, errors.New("a Handler needs a Locator, Options.Identity, and for a Member what serves")
	case len(o.Secret) == 0 && o.Trust == nil:
		return nil, errors.New("a Handler needs Options.Secret or Options.Trust, to know the requests of members")
	case len(o.Secret) > 0 && len(o.Secret) < 32:
		return nil, errors.New("Options.Secret must have 32 bytes or more")
	case o.Wait < 0 || o.Tries < 0 || o.Queue < 0 || o.CallWithin < 0:
		return nil, errors.New("Options.Wait, Tries, Queue and CallWithin must not be negative")
	}
	if o.Transport == nil {
		o.Transport = &http.Transport{
			DialContext: (&net.Dialer{Timeout: 2 * time.Second}).DialContext, TLSHandshakeTimeout: 2 * time.Second,
			DisableCompression: true, MaxIdleConnsPerHost: 64, IdleConnTimeout: time.Minute,
		}
	}
	h := &Handler{m: m, l: l, inner: inner, o: o, doubts: map[string]time.Time{}, proofs: map[place]time.Time{},
		questions: map[place]*question{}}
	h.forward = &httputil.ReverseProxy{
		Transport: through{h}, Rewrite: h.rewrite, ErrorHandler: failedTry,
		ErrorLog: log.New(io.Discard, "", 0), // errors are events
	}
	return h, nil
}

// Call is what a [Handler] knows of a request that it serves.
type Call struct {
	Activation

	Caller string          // as Options.Caller named it
	From   string          // the member that forwarded the request; empty if it arrived here
	Ending <-chan struct{} // closed when the activation is to end: finish soon. An upgraded connection should close then

	turn *callTurn
}

type callKey struct{}

// CallOf returns the call of a request that a [Handler] serves, by its context.
func CallOf(ctx context.Context) (Call, bool) {
	c, ok := ctx.Value(callKey{}).(Call)
	return c, ok
}

// headerHop is a header of a forwarded request: a hop, and what proves that a member wrote it.
const headerHop = "Leasehold-Forward"

// hop is what a member tells another one with a request.
type hop struct {
	Ask         bool   `json:"ask,omitempty"` // whether the member is there, and for nothing else
	Cluster     string `json:"cluster"`
	To          string `json:"to"`
	Incarnation int64  `json:"incarnation"`
	Epoch       int64  `json:"epoch"` // by which the sender found it
	From        string `json:"from,omitempty"`
	Kind        string `json:"kind"`
	ID          string `json:"id"`
	Need        *Need  `json:"need,omitempty"`
	Caller      string `json:"caller,omitempty"`
	LeftMs      int64  `json:"left_ms,omitempty"` // of the time that the sender's context has; 0 is no limit
	WaitMs      int64  `json:"wait_ms,omitempty"` // for its turn
	Nonce       string `json:"nonce"`

	payload string // the hop as it is sent
}

// seal makes the hop as it is sent, which does not change any more.
func (p *hop) seal() error {
	text, err := json.Marshal(p)
	p.payload = base64.RawURLEncoding.EncodeToString(text)
	return err
}

// trial is one try to forward a request.
type trial struct {
	hop    hop
	target *url.URL
	err    error
}

type trialKey struct{}

func trialOf(ctx context.Context) *trial {
	t, _ := ctx.Value(trialKey{}).(*trial)
	return t
}

// sign is what proves that a hop of a request comes from a member.
func (h *Handler) sign(payload string, r *http.Request, uri string) []byte {
	mac := hmac.New(sha256.New, h.o.Secret)
	fmt.Fprintf(mac, "leasehold forward 1\n%q\n%q\n%q\n", payload, r.Method, uri)
	for _, name := range forwarded {
		fmt.Fprintf(mac, "%q\n", r.Header.Values(name))
	}
	return mac.Sum(nil)
}

var forwarded = []string{"X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto"}

// rewrite makes the request to another member.
func (h *Handler) rewrite(p *httputil.ProxyRequest) {
	t := trialOf(p.In.Context())
	p.Out.URL.Scheme, p.Out.URL.Host, p.Out.Host = t.target.Scheme, t.target.Host, p.In.Host
	p.Out.URL.RawQuery = p.In.URL.RawQuery // as it came: it is no proxy that the query is meant for
	if h.o.ForwardedFor {
		for _, name := range forwarded {
			if v := p.In.Header.Values(name); len(v) > 0 {
				p.Out.Header[name] = slices.Clone(v)
			}
		}
	}
	if host, _, err := net.SplitHostPort(p.In.RemoteAddr); err == nil {
		p.Out.Header.Set("X-Forwarded-For", strings.Join(append(p.Out.Header.Values("X-Forwarded-For"), host), ", "))
	}
	if p.Out.Header.Get("X-Forwarded-Host") == "" {
		p.Out.Header.Set("X-Forwarded-Host", p.In.Host)
	}
	if p.Out.Header.Get("X-Forwarded-Proto") == "" {
		p.Out.Header.Set("X-Forwarded-Proto", map[bool]string{false: "http", true: "https"}[p.In.TLS != nil])
	}
	h.signed(p.Out, &t.hop)
}

// signed makes a request one of a member.
func (h *Handler) signed(r *http.Request, p *hop) {
	proof := ""
	if len(h.o.Secret) > 0 {
		proof = base64.RawURLEncoding.EncodeToString(h.sign(p.payload, r, r.URL.RequestURI()))
	}
	r.Header.Set(headerHop, p.payload+"."+proof)
}

// hopOf is the hop of a request that a member forwarded; nil without one. The error is of one that no member wrote.
func (h *Handler) hopOf(r *http.Request) (*hop, error) {
	values := r.Header.Values(headerHop)
	if len(values) == 0 {
		return nil, nil //nolint:nilnil // most requests have none
	}
	payload, proof, _ := strings.Cut(values[0], ".")
	p := hop{payload: payload}
	text, err := base64.RawURLEncoding.DecodeString(payload)
	if err != nil || json.Unmarshal(text, &p) != nil {
		return nil, errNoMember
	}
	if len(h.o.Secret) > 0 {
		mac, err := base64.RawURLEncoding.DecodeString(proof)
		if err != nil || len(values) > 1 || !hmac.Equal(mac, h.sign(payload, r, r.RequestURI)) {
			return nil, fmt.Errorf("%w: it names %q, whose HandlerOptions.Secret differs, or it is forged", errNoMember, p.From)
		}
	} else if !h.o.Trust(r) {
		return nil, fmt.Errorf("%w: it names %q, and HandlerOptions.Trust says no", errNoMember, p.From)
	}
	return &p, nil
}

// ErrNotServed is the error of [Forwarded] when the other member did not serve the request: the identity is not there.
var ErrNotServed = errors.New("the member did not serve the request")

var (
	errNoMember   = errors.New("the request says that a member forwarded it, and no member has")
	errGone       = errors.New("the member to which the request was forwarded is not in the cluster any more")
	errNoAddress  = errors.New("the member has no address")
	errBodyIsGone = errors.New("the body was sent already, and is too large to be sent again")
)

// failedTry takes the error of a try down, in place of a response.
func failedTry(_ http.ResponseWriter, r *http.Request, err error) { trialOf(r.Context()).err = err }

// ServeHTTP implements [http.Handler].
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p, err := h.hopOf(r)
	if err != nil {
		h.l.failed(Event{}, "forwarded request", err)
		w.Header().Set(headerAnswer, answerRefused)
		http.Error(w, errNoMember.Error(), http.StatusForbidden)
		return
	}
	if p != nil {
		h.arrived(w, r, p)
		return
	}
	id, ok := h.o.Identity(r)
	if !ok {
		http.NotFound(w, r)
		return
	}
	q := &quest{id: id}
	if h.o.Need != nil {
		q.need = h.o.Need(r)
	}
	if h.o.Caller != nil {
		q.caller = h.o.Caller(r)
	}
	h.find(w, r, q)
}

// arrived serves a request that a member has forwarded, or says that it is not served here.
func (h *Handler) arrived(w http.ResponseWriter, r *http.Request, p *hop) {
	ctx := r.Context()
	if p.LeftMs > 0 {
		limited, cancel := context.WithTimeout(ctx, time.Duration(p.LeftMs)*time.Millisecond)
		defer cancel()
		ctx = limited
	}
	err := ErrNotServed
	answer := h.answerTo(p, answerServed)
	w.Header().Set(headerAnswer, answer)
	if h.m != nil && p.Cluster == h.l.provider.Cluster() && p.To == h.m.name && p.Incarnation == h.m.Incarnation() {
		if p.Ask {
			w.WriteHeader(http.StatusNoContent)
			return
		}
		wait := h.o.Wait
		if p.WaitMs > 0 {
			wait = min(wait, time.Duration(p.WaitMs)*time.Millisecond)
		}
		waiting, cancel := context.WithTimeout(ctx, wait)
		defer cancel()
		var turn *callTurn
		if turn, err = h.take(ctx, waiting, Identity{p.Kind, p.ID}, p.Need); err == nil {
			h.serve(&callWriter{ResponseWriter: w, turn: turn, answer: answer}, r.WithContext(ctx),
				Call{Caller: p.Caller, From: cmp.Or(p.From, "a client")})
			return
		}
	}
	if again(err) {
		w.Header().Set(headerAnswer, h.answerTo(p, answerNotHere))
		http.Error(w, "the identity is not here", http.StatusMisdirectedRequest)
		return
	}
	h.refuse(w, r, err)
}

// again reports whether an identity may be served after a pause, or elsewhere, after an error of Serve or of a locator.
func again(err error) bool {
	_, host := errors.AsType[*FailedError](err)
	_, busy := errors.AsType[*BusyError](err)
	_, away := errors.AsType[*NotHereError](err)
	return away || !host && !busy && !contracts.Final(err)
}

// take holds an identity here, and waits for its turn for as long as waiting lasts.
func (h *Handler) take(ctx, waiting context.Context, id Identity, need *Need) (*callTurn, error) {
	held, err := h.m.Hold(ctx, id, need)
	if err != nil {
		return nil, err
	}
	turn := &callTurn{held: held}
	if !h.o.Concurrent {
		if turn.end, err = held.turn(waiting, held.Ending(), h.o.Queue); err != nil {
			held.Release()
			return nil, err
		}
	}
	return turn, nil
}

// serve serves a request here.
func (h *Handler) serve(w *callWriter, r *http.Request, c Call) {
	turn, held := w.turn, w.turn.held
	defer held.Release()
	ctx, cancel := held.Context(r.Context())
	defer cancel()
	ctx, over := turn.bound(ctx, h.o.CallWithin)
	defer over()
	defer turn.pass()
	c.Activation, c.Ending, c.turn = held.Activation, held.Ending(), turn
	if !h.o.Concurrent { // the one before may have stored a state meanwhile
		c.Activation = h.m.seen(held.a)
	}
	r.Header.Del(headerHop)
	h.inner.ServeHTTP(w, r.WithContext(context.WithValue(ctx, callKey{}, c)))
	w.prove()
}

// pauses are those between the tries of a request: some 18 s for 30 tries.
var pauses = backoff.Policy{First: 20 * time.Millisecond, Max: time.Second, EqualJitter: true}

// quest is a request for which a member is looked for.
type quest struct {
	id      Identity
	need    *Need
	caller  string
	waiting context.Context //nolint:containedctx // until when it may be tried
	body    *replay
	w       *answer
	began   time.Time
	first   error // of the first try
}

// find serves a request here or elsewhere.
func (h *Handler) find(w http.ResponseWriter, r *http.Request, q *quest) {
	q.began = time.Now()
	q.body, q.w = &replay{from: r.Body, most: h.o.Body}, &answer{ResponseWriter: w}
	err := h.tries(r, q)
	if errors.Is(err, errGone) && q.repeatable(r, err) { // its time went by while it was with a member that hung
		err = h.tries(r, q)
	}
	if err != nil {
		h.refuse(w, r, err)
	}
}

// tries tries to serve a request until its time is up, or it was with a member that hung. It returns why it was not.
func (h *Handler) tries(r *http.Request, q *quest) error {
	waiting, cancel := context.WithTimeout(r.Context(), h.o.Wait)
	defer cancel()
	q.waiting = waiting
	for try := 1; ; try++ {
		err := h.try(r, q)
		if err == nil {
			return nil
		}
		if q.w.begun {
			panic(http.ErrAbortHandler) // the caller must not take what it has for the whole
		}
		q.first = cmp.Or(q.first, err)
		switch {
		case r.Context().Err() != nil:
			return context.Cause(r.Context())
		case try >= h.o.Tries, errors.Is(err, errGone), !q.repeatable(r, err), !again(err),
			!sleep(waiting, max(pauses.Delay(try-1), min(contracts.RetryAfter(err), time.Second))):
			return err
		}
	}
}

// served tells the observer of a request that was not served at once.
func (h *Handler) served(q *quest) {
	if q.first != nil {
		h.l.emit(Event{What: FailedOver, Identity: q.id, Took: time.Since(q.began), Err: q.first})
	}
}

// brokenError is the error of a try after which the member may have begun to serve the request.
type brokenError struct{ error }

func (e brokenError) Unwrap() error { return e.error }

// repeatable reports whether a request can be sent again after an error.
func (q *quest) repeatable(r *http.Request, err error) bool {
	_, broken := errors.AsType[brokenError](err)
	switch {
	case q.body.more.Load():
		return false
	case !broken:
		return true
	}
	switch r.Method {
	case http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace:
		return true
	default:
		return r.Header.Get("Idempotency-Key") != ""
	}
}

// try serves a request once, here or elsewhere.
func (h *Handler) try(r *http.Request, q *quest) error {
	here := h.m != nil && h.m.serves(q.id)
	var where Location
	if !here {
		var err error
		if where, err = h.l.Locate(q.waiting, q.id, q.need); err != nil {
			return err
		}
		here = h.m != nil && where.Member == h.m.name
	}
	if r.Body != nil && r.Body != http.NoBody {
		r = r.WithContext(r.Context())
		body := &reading{of: q.body}
		defer body.Close() //nolint:errcheck // it has no error
		r.Body, r.GetBody = body, q.body.again
	}
	if !here {
		err := h.send(r, q, where)
		if err != nil {
			h.l.Forget(where)
		}
		return err
	}
	turn, err := h.take(q.waiting, q.waiting, q.id, q.need)
	if err != nil {
		h.l.Forget(where)
		return err
	}
	h.served(q)
	h.serve(&callWriter{ResponseWriter: q.w.ResponseWriter, turn: turn}, r, Call{Caller: q.caller})
	return nil
}

// send forwards a request once.
func (h *Handler) send(r *http.Request, q *quest, where Location) error {
	target, err := h.target(where)
	if err != nil {
		return err
	}
	t := &trial{target: target, hop: hop{
		Cluster: h.l.provider.Cluster(), To: where.Member, Incarnation: where.Incarnation, Epoch: where.Epoch,
		Kind: q.id.Kind, ID: q.id.ID, Need: q.need, Caller: q.caller, Nonce: rand.Text(),
	}}
	if h.m != nil {
		t.hop.From = h.m.name
	}
	if end, ok := r.Context().Deadline(); ok {
		t.hop.LeftMs = max(1, time.Until(end).Milliseconds())
	}
	if end, ok := q.waiting.Deadline(); ok {
		t.hop.WaitMs = max(1, time.Until(end).Milliseconds())
	}
	if err := t.hop.seal(); err != nil {
		return err
	}
	started := time.Now()
	if err := h.prove(q.waiting, t, r); err != nil { // nothing of the request was sent
		h.l.emit(Event{What: Forwarded, Identity: q.id, Token: where.Token, Peer: where.Member, Took: time.Since(started),
			Err: err})
		return err
	}
	ctx, cancel := context.WithCancelCause(context.WithValue(r.Context(), trialKey{}, t))
	defer cancel(nil)
	sent := time.Now()
	var answered atomic.Bool
	defer h.watch(where, cancel, func() {
		if !answered.Load() && time.Since(sent) >= doubtAfter {
			h.doubt(ctx, q, where.Member)
		}
	})()
	told := sync.OnceFunc(func() {
		answered.Store(true)
		h.l.emit(Event{What: Forwarded, Identity: q.id, Token: where.Token, Peer: where.Member, Took: time.Since(sent),
			Err: t.err})
		if t.err == nil {
			h.served(q)
		}
	})
	q.w.first, q.w.trusts = told, func(header http.Header) bool { return h.verdict(&t.hop, header) == answerServed }
	h.forward.ServeHTTP(q.w, r.WithContext(ctx))
	if t.err != nil && ctx.Err() != nil {
		t.err = context.Cause(ctx)
	}
	told()
	if t.err != nil && !errors.Is(t.err, ErrNotServed) {
		h.disprove(t.place())
	}
	dial, ok := errors.AsType[*net.OpError](t.err)
	if t.err == nil || errors.Is(t.err, ErrNotServed) || ok && dial.Op == "dial" {
		return t.err
	}
	return brokenError{t.err}
}

// target is where a member is reached.
func (h *Handler) target(where Location) (*url.URL, error) {
	address := where.Address
	if address == "" {
		return nil, fmt.Errorf("%w: %s", errNoAddress, where.Member)
	}
	if !strings.Contains(address, "://") {
		address = h.o.Scheme + "://" + address
	}
	u, err := url.Parse(address)
	if err != nil {
		return nil, fmt.Errorf("the address of %s: %w", where.Member, err)
	}
	return u, nil
}

// lives reports whether an incarnation is in the cluster, as far as the locator knows.
func (l *Locator) lives(member string, incarnation int64) bool {
	v := l.view.Load()
	return v == nil || v.members == nil || v.members[member].Incarnation == incarnation
}

// goneGrace is for how long a response of a member that has left, or was evicted, may still come.
const goneGrace = 5 * time.Second

// doubtAfter is how long a member may take to begin its response until it is asked whether it lives: the request that
// finds out where the identity is evicts a member whose lease has ended.
const doubtAfter = 4 * time.Second

// doubt asks where an identity is that a member has for long, once in each Refresh for all that it has.
func (h *Handler) doubt(ctx context.Context, q *quest, member string) {
	now := time.Now()
	h.mu.Lock()
	for m, at := range h.doubts {
		if now.Sub(at) >= h.l.o.Refresh {
			delete(h.doubts, m)
		}
	}
	_, asked := h.doubts[member]
	if !asked {
		h.doubts[member] = now
	}
	h.mu.Unlock()
	if !asked {
		go func() { _, _ = h.l.join(ctx, want{q.id, q.need.key()}, q.need) }() // what is found is remembered
	}
}

// watch ends a forwarded request some time after its member is gone: a process that hangs closes no connection. Before
// that, it calls lives in each Refresh.
func (h *Handler) watch(where Location, cancel context.CancelCauseFunc, lives func()) (stop func()) {
	var mu sync.Mutex
	var timer *time.Timer
	stopped, gone := false, false
	next := func() {
		mu.Lock()
		defer mu.Unlock()
		switch {
		case stopped:
			return
		case h.l.lives(where.Member, where.Incarnation):
			gone = false
			lives()
		case gone:
			cancel(errGone)
			return
		default:
			gone = true
			timer.Reset(goneGrace)
			return
		}
		timer.Reset(h.l.o.Refresh)
	}
	mu.Lock()
	defer mu.Unlock()
	timer = time.AfterFunc(h.l.o.Refresh, next)
	return func() {
		mu.Lock()
		defer mu.Unlock()
		stopped = true
		timer.Stop()
	}
}

// refuse responds that a request is not served.
func (h *Handler) refuse(w http.ResponseWriter, r *http.Request, err error) {
	code, after := http.StatusServiceUnavailable, time.Second
	failed, host := errors.AsType[*FailedError](err)
	_, broken := errors.AsType[brokenError](err)
	switch {
	case host:
		after = max(after, failed.After)
	case r.Context().Err() != nil || broken && errors.Is(err, errGone):
		code = http.StatusGatewayTimeout
	case broken:
		code = http.StatusBadGateway
	case contracts.Final(err) && errors.Is(err, contracts.CodeInvalidArgument):
		code = http.StatusBadRequest
	}
	if code == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", strconv.FormatInt(int64((after+time.Second-1)/time.Second), 10))
	}
	if r.Context().Err() == nil {
		h.l.failed(Event{}, "request", err)
	}
	why := "the identity could not be reached"
	if _, busy := errors.AsType[*BusyError](err); busy {
		why = "the identity is busy"
	}
	http.Error(w, http.StatusText(code)+": "+why, code)
}

// answer knows whether a part of a response was sent.
type answer struct {
	http.ResponseWriter

	begun bool
	first func() // called before

	trusts func(http.Header) bool // whether a member sent what has this header
}

func (a *answer) begin() {
	if !a.begun {
		a.begun = true
		a.first()
	}
}

func (a *answer) WriteHeader(status int) {
	switch {
	case status >= 200 || status == http.StatusSwitchingProtocols:
		a.begin()
	case !a.trusts(a.Header()): // of an interim response nothing else has been looked at
		return
	default:
		a.Header().Del(headerAnswer)
	}
	a.ResponseWriter.WriteHeader(status)
}

func (a *answer) Write(p []byte) (int, error) {
	a.begin()
	return a.ResponseWriter.Write(p)
}

// Unwrap is for [http.ResponseController].
func (a *answer) Unwrap() http.ResponseWriter { return a.ResponseWriter }

// FlushError implements what [http.ResponseController] asks for.
func (a *answer) FlushError() error {
	a.begin()
	return http.NewResponseController(a.ResponseWriter).Flush()
}

// Hijack implements [http.Hijacker].
func (a *answer) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	a.begin()
	return http.NewResponseController(a.ResponseWriter).Hijack()
}

// replay is the body of a request, of which a part is kept, so that it can be read again from the beginning.
type replay struct {
	from io.ReadCloser
	most int

	more atomic.Bool // than is kept was read

	mu   sync.Mutex
	kept []byte
	read int   // of the body so far
	err  error // that ended it
}

// reading is the body from its beginning. One that was closed reads nothing more, but what it was reading is kept.
type reading struct {
	of     *replay
	at     int // with of.mu
	closed atomic.Bool
}

// again is what [http.Request.GetBody] is to be.
func (b *replay) again() (io.ReadCloser, error) {
	if b.more.Load() {
		return nil, errBodyIsGone
	}
	return &reading{of: b}, nil
}

// Read implements [io.Reader].
func (v *reading) Read(p []byte) (int, error) {
	b := v.of
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case v.closed.Load():
		return 0, http.ErrBodyReadAfterClose
	case v.at < len(b.kept):
		n := copy(p, b.kept[v.at:])
		v.at += n
		return n, nil
	case v.at < b.read:
		return 0, errBodyIsGone
	case b.err != nil:
		return 0, b.err
	}
	n, err := b.from.Read(p)
	b.err = err
	if b.read += n; b.read > b.most {
		b.more.Store(true)
	} else {
		b.kept = append(b.kept, p[:n]...)
	}
	v.at += n
	return n, err
}

// Close ends the reading, and does not wait for it. The body itself stays open: the server closes it.
func (v *reading) Close() error {
	v.closed.Store(true)
	return nil
}
