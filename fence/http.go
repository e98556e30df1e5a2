package fence

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/leasehold-dev/leasehold/contracts"
	"github.com/leasehold-dev/leasehold/internal/term"
)

// Header carries the fencing token of a request, as a decimal number, and SubjectHeader what it is one of, with
// anything but printable ASCII percent-encoded, unless the options name others.
const (
	Header        = "Leasehold-Fencing-Token"
	SubjectHeader = "Leasehold-Fencing-Subject"
)

// HandlerOptions are the settings of [NewHandler]. The zero value works.
type HandlerOptions struct {
	Header        string           // "" is [Header]
	SubjectHeader string           // "" is [SubjectHeader]
	AllowNone     bool             // lets requests without a token pass, unchecked
	Now           func() time.Time // the time, for [MaxAhead]; nil means time.Now

	// OnError is called with each request that does not pass, for logs: a *contracts.Error, with what the store said as
	// its cause. nil: no calls.
	OnError func(*http.Request, error)
}

// NewHandler returns a handler that passes on the requests whose lease the store lets pass for the resource, which the
// function names for each request; [From] has the lease then. The others are answered with a problem document
// (application/problem+json):
//
//	400 INVALID_ARGUMENT   a header is missing, occurs twice, is no token, or is one that no lock has given; it names the header
//	409 STALE_TOKEN        a higher token was seen, highest_token: the sender has lost the lock and must stop
//	409 OTHER_SUBJECT      tokens of another lock or run were seen, with which this one has no order
//	429 LOCK_LIMIT         the store keeps no more resources
//	503 UNAVAILABLE        the store did not say; nothing was done
//
// The token is compared before the handler runs. If the handler writes to a database, let it compare there, too, in the
// transaction: two requests can pass one after the other and write the other way round.
//
// Tokens are no secrets and prove nothing: authenticate callers before, since one that may write can also send a token
// that is too high, up to [MaxAhead].
func NewHandler(next http.Handler, s Store, resource func(*http.Request) string, o *HandlerOptions) http.Handler {
	h := &handler{next: next, store: s, resource: resource, token: Header, subject: SubjectHeader}
	if o != nil {
		h.token, h.subject = cmp.Or(o.Header, h.token), cmp.Or(o.SubjectHeader, h.subject)
		h.rule = rule{o.AllowNone, o.Now}
		h.onError = o.OnError
	}
	return h
}

type handler struct {
	next     http.Handler
	store    Store
	resource func(*http.Request) string
	token    string // the name of its header
	subject  string
	rule     rule
	onError  func(*http.Request, error)
}

// ServeHTTP implements [http.Handler].
func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	l, err := h.check(r)
	if err != nil {
		e := rejection(err)
		if h.onError != nil {
			h.onError(r, e)
		}
		writeProblem(w, e)
		return
	}
	if l.Token != 0 {
		r = r.WithContext(With(r.Context(), l))
	}
	h.next.ServeHTTP(w, r)
}

// check returns the lease of a request that may pass, the zero one if it needs none.
func (h *handler) check(r *http.Request) (l Lease, err error) {
	if l.Token, err = readToken(r.Header, h.token); err != nil {
		return l, err
	}
	if l.Subject, err = readSubject(r.Header, h.subject); err != nil {
		return l, err
	}
	compare, err := h.rule.check(l)
	if err != nil {
		return l, h.named(err)
	}
	if !compare {
		return Lease{}, nil
	}
	return l, h.store.Check(r.Context(), h.resource(r), l)
}

// readToken reads the header; 0 means that there is none.
func readToken(h http.Header, name string) (int64, error) {
	values := h.Values(name)
	if len(values) == 0 {
		return 0, nil
	}
	token, err := strconv.ParseInt(values[0], 10, 64)
	if err != nil || token == 0 || len(values) > 1 || strings.Trim(values[0], "0123456789") != "" {
		return 0, invalid(name, "must be one decimal number: the fencing token of the lock")
	}
	return token, nil
}

// readSubject reads the header; "" means that there is none.
func readSubject(h http.Header, name string) (string, error) {
	values := h.Values(name)
	if len(values) == 0 {
		return "", nil
	}
	subject, err := url.PathUnescape(values[0])
	if err != nil || len(values) > 1 {
		return "", invalid(name, "must be one percent-encoded text: what the fencing token is one of")
	}
	return subject, nil
}

// subjectText is a subject as a header has it.
func subjectText(subject string) string {
	return strings.ReplaceAll(url.PathEscape(subject), "%2F", "/")
}

// named is an error about the lease that names the header instead.
func (h *handler) named(err error) error {
	e, ok := errors.AsType[*contracts.Error](err)
	if !ok {
		return err
	}
	header, known := map[string]string{"fencing_token": h.token, "subject": h.subject}[e.Field]
	if !known {
		return err
	}
	n := *e
	n.Field, n.Detail = header, header+strings.TrimPrefix(e.Detail, e.Field)
	if errors.Is(err, ErrNoToken) {
		n.Detail = header + " is missing: send the fencing token of the lock"
	}
	return &n
}

// rejection is what the caller sees of an error of the store.
func rejection(err error) *contracts.Error {
	for _, code := range []contracts.Code{contracts.CodeStaleToken, contracts.CodeOtherSubject,
		contracts.CodeInvalidArgument, contracts.CodeLockLimit} {
		if !errors.Is(err, code) {
			continue
		}
		e, ok := errors.AsType[*contracts.Error](err)
		if !ok {
			return contracts.Errorf(code, "%v", err)
		}
		// of a store of one's own: without a status there is no response
		if info, known := e.Code.Info(); e.Status == 0 && known {
			n := *e
			n.Title, n.Status, n.Retryable = info.Title, info.Status, info.Retryable
			return &n
		}
		return e
	}
	e := contracts.Errorf(contracts.CodeUnavailable,
		"the fencing token could not be checked, and nothing was done; try again")
	e.Cause = err
	return e
}

func writeProblem(w http.ResponseWriter, e *contracts.Error) {
	body, err := json.Marshal(e.Problem())
	if err != nil {
		panic(err) // texts and numbers
	}
	w.Header().Set("Content-Type", "application/problem+json")
	w.Header().Set("Cache-Control", "no-store")
	if e.RetryAfter > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int(math.Ceil(e.RetryAfter.Seconds()))))
	}
	w.WriteHeader(e.Status)
	_, _ = w.Write(append(body, '\n'))
}

// Transport sends the fencing token of each request's context along, and its subject, in two headers: see [From]. A
// request whose lock is lost is not sent; the error is the cause, locks.ErrLost or once.ErrLost. This is checked when
// the request is sent, and again by [NewHandler] at the other end.
type Transport struct {
	Base          http.RoundTripper // nil is [http.DefaultTransport]
	Header        string            // "" is [Header]
	SubjectHeader string            // "" is [SubjectHeader]
	AllowNone     bool              // sends requests without a token, too; otherwise the error is an [ErrNoToken]
}

var _ http.RoundTripper = (*Transport)(nil)

// RoundTrip implements [http.RoundTripper].
func (t *Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	out, err := t.fenced(r)
	if err != nil {
		if r.Body != nil {
			_ = r.Body.Close()
		}
		return nil, err
	}
	base := t.Base
	if base == nil {
		base = http.DefaultTransport
	}
	return base.RoundTrip(out)
}

// fenced is the request with the header.
func (t *Transport) fenced(r *http.Request) (*http.Request, error) {
	if err := term.Check(r.Context()); err != nil {
		return nil, err
	}
	l, ok := From(r.Context())
	switch {
	case ok && l.Token > 0:
		if err := checkSubject(l); err != nil {
			return nil, fmt.Errorf("fence: %s %s: %w", r.Method, r.URL.Redacted(), err)
		}
		out := r.Clone(r.Context())
		out.Header.Set(cmp.Or(t.Header, Header), strconv.FormatInt(l.Token, 10))
		out.Header.Set(cmp.Or(t.SubjectHeader, SubjectHeader), subjectText(l.Subject))
		return out, nil
	case t.AllowNone:
		return r, nil
	default:
		return nil, fmt.Errorf("fence: %s %s: %w: use the context of the lock, or fence.With", r.Method,
			r.URL.Redacted(), ErrNoToken)
	}
}

// CloseIdleConnections closes those of Base.
func (t *Transport) CloseIdleConnections() {
	if c, ok := t.Base.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	} else if t.Base == nil {
		http.DefaultClient.CloseIdleConnections()
	}
}
