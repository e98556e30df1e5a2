package idempotency

import (
	"context"
	"errors"
	"net/http"
	"reflect"
	"sync/atomic"

	"github.com/leasehold-dev/leasehold/internal/lease"
)

// StoreOutcome is the default of Options.Store, and safe for effects: what came of a handler that began is stored,
// also 5xx and a panic, because no one knows what it did before. Not stored is only what says that nothing was done:
// 425, 429, 409 and 503 with Retry-After, which say that the same request may succeed later, and any response of a
// handler that called [NothingDone].
func StoreOutcome(status int, header http.Header) bool {
	switch status {
	case http.StatusTooEarly, http.StatusTooManyRequests:
		return false
	case http.StatusConflict, http.StatusServiceUnavailable:
		return header.Get("Retry-After") == ""
	default:
		return true
	}
}

// StoreSuccess is a value of Options.Store: it stores what is an answer and leaves the key free after what may be
// another response next time: 401, 408, 409 with Retry-After, 425, 429, 5xx and a panic. It is for handlers that have
// no effect when they fail, such as those whose only effect is one transaction: of others a retry repeats the effect.
// Put an [http.TimeoutHandler] around the middleware, not into it: in it, its 503 is stored, because its handler goes
// on.
func StoreSuccess(status int, header http.Header) bool {
	switch status {
	case http.StatusConflict:
		return header.Get("Retry-After") == ""
	case http.StatusUnauthorized, http.StatusRequestTimeout, http.StatusTooEarly, http.StatusTooManyRequests:
		return false
	default:
		return status < http.StatusInternalServerError
	}
}

// goesOn reports whether a handler still works although it has responded: an [http.TimeoutHandler] responds 503 beside
// the handler in it. That is an outcome, whatever Options.Store says: with a free key a retry would run beside the
// first.
func goesOn(h http.Handler, status int) bool {
	return status == http.StatusServiceUnavailable && reflect.TypeOf(h) == timeoutHandler
}

var timeoutHandler = reflect.TypeOf(http.TimeoutHandler(nil, 0, ""))

// ProxyError is an ErrorHandler of [net/http/httputil.ReverseProxy]. It responds 502, and says [NothingDone] of a
// request that was not sent, because there was no connection to the server behind it: its key is free, and a retry is
// sent. What was sent and has no response is an outcome, as the proxy's own 502 is.
func ProxyError(w http.ResponseWriter, r *http.Request, err error) {
	if lease.NeverSent(err) {
		NothingDone(r)
	}
	w.WriteHeader(http.StatusBadGateway)
}

// ErrNested is what Options.Warn receives, once, if a handler behind a middleware comes to it, or to one of the same
// name, again with the same key. The inner one lets the request pass; one of the two can go, or have another name.
var ErrNested = errors.New("idempotency: a middleware is behind another one of the same name: the inner one does nothing")

// within reports whether a request is within a run already.
func within(r *http.Request, id string) bool {
	n, _ := r.Context().Value(nothingKey{}).(*nothing)
	for ; n != nil; n = n.outer {
		if n.id == id {
			return true
		}
	}
	return false
}

// nothing is the word of a handler that it did nothing.
type nothing struct {
	id    string // of the run
	said  atomic.Bool
	outer *nothing // of a middleware around this one
}

// nothingKey is that of the handler's *nothing in its context.
type nothingKey struct{}

// NothingDone says, from within a handler, that it had no effect and will have none: its response is sent and not
// stored, whatever Options.Store says, and the key is free for another run. r is the handler's request, or one with a
// context that was made of its. Of a request without a key it changes nothing.
func NothingDone(r *http.Request) {
	n, _ := r.Context().Value(nothingKey{}).(*nothing)
	for ; n != nil; n = n.outer {
		n.said.Store(true)
	}
}

// withNothing is a context in which a handler can say so.
func withNothing(ctx context.Context, id string) (context.Context, *nothing) {
	outer, _ := ctx.Value(nothingKey{}).(*nothing)
	n := &nothing{id: id, outer: outer}
	return context.WithValue(ctx, nothingKey{}, n), n
}
