package httpapi

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"net/http"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"github.com/leasehold-dev/leasehold/contracts"
	"github.com/leasehold-dev/leasehold/functions/metrics"
	"github.com/leasehold-dev/leasehold/functions/telemetry"
)

const requestIDHeader = "X-Request-Id"

// Headers that are the same in each response: their values are made once, and are never changed.
var (
	nosniff = []string{"nosniff"} // a browser must not take a lock's name for a page
	noStore = []string{"no-store"}

	closeConnection = []string{"close"}
)

// withRequestID names every exchange, by its caller's ID if there is a usable one, so that a response and a log line
// can be brought together.
func withRequestID(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		id := r.Header.Get(requestIDHeader)
		if id == "" || len(id) > 128 ||
			strings.Trim(id, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._:-") != "" {
			id = rand.Text()
		}
		h := w.Header()
		h[requestIDHeader] = []string{id}
		h["X-Content-Type-Options"] = nosniff
		next.ServeHTTP(w, r)
	})
}

// exchangeLog is what the layers of one exchange tell its log line.
type exchangeLog struct {
	begin   time.Time
	writer  http.ResponseWriter
	ctx     context.Context //nolint:containedctx // of the request, without the time limit of its work
	code    contracts.Code
	detail  string // for the caller
	err     error
	caller  Caller
	known   bool   // the caller was identified
	unknown bool   // it was rejected before that
	party   party  // for whom the request counts where callers share something
	action  string // Route.Audit
	frame   *frame // that handles the request; nil in no exchange
	whole   bool   // the body of the request was read to its end, or will not arrive

	event     contracts.AuditEvent   // what the endpoint says in it
	apart     []contracts.AuditEvent // of a command on several locks: one for each
	body      any                    // a pointer to what the request asked for; nil if it has no body
	ownerID   string                 // the owner of the body, as the caller wrote it
	request   *http.Request          // with the values of its path; nil if the path is that of no endpoint
	requestID string                 // see withRequestID

	facts   metrics.Facts
	route   *Route           // nil: the path is that of no endpoint
	tenant  string           // that the path names
	problem *contracts.Error // that was sent
	skipped string           // why a run was not granted, which is no error: locked, already_finished
	aborted bool             // a panic cut the connection
	unclear error            // the path may not be the one that was meant
}

// within is the context of a request that may take longer than others: so long, from when it began.
func (n *exchangeLog) within(bound time.Duration) (context.Context, context.CancelFunc) {
	n.sendAfter(bound)
	return context.WithDeadline(n.ctx, n.begin.Add(bound))
}

// bodies is the bound of bodies that are read, and how long one may take.
func (n *exchangeLog) bodies() (limit *bound, within time.Duration) {
	if n.frame == nil {
		return nil, bodyTime
	}
	return n.frame.bodies, min(bodyTime, n.frame.timeout/2)
}

// sendAfter leaves the response some time to be sent after work that may take so long. The server's own limit counts
// from the request on, and leaves that after short work. A writer without such a limit needs nothing.
func (n *exchangeLog) sendAfter(bound time.Duration) {
	if bound > sendTime/2 && n.writer != nil {
		_ = http.NewResponseController(n.writer).SetWriteDeadline(n.begin.Add(bound + sendTime))
	}
}

type noteKey struct{}

func noteOf(r *http.Request) *exchangeLog {
	if n, ok := r.Context().Value(noteKey{}).(*exchangeLog); ok {
		return n
	}
	return &exchangeLog{}
}

// withLog follows each request from its begin to its end: its trace, its line in the log, its audit event, and the time
// limit of its work.
func (f *frame) withLog(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n := &exchangeLog{begin: time.Now(), writer: w, aborted: true, requestID: w.Header().Get(requestIDHeader), frame: f}
		n.sendAfter(f.timeout)
		r, n.unclear = f.meant(r)
		ctx, end := telemetry.Incoming(r.Context(), r.Header), endNothing
		if f.traces != nil {
			ctx, end = f.traces.Serve(ctx, r)
		}
		n.ctx = context.WithValue(ctx, noteKey{}, n)
		f.metrics.Begin(n.ctx, r.Method, r.TLS != nil)
		s := &statusWriter{ResponseWriter: w, status: http.StatusOK, leaving: f.leaving, request: r, note: n}
		defer func() { // also after a panic that cuts the connection
			took, requestID := time.Since(n.begin), n.requestID
			f.outcomes.remember(r, n, s.status, took, requestID)
			if !f.fold(n.ctx, r, n) {
				f.writeAudit(n.ctx, r, n, requestID)
				f.writeLine(r, n, s.status, took, requestID)
			}
			f.measure(r, n, s.status, took)
			if f.traces != nil {
				end(telemetry.Served{Route: n.path(), Tenant: n.tenant, Request: requestID, Status: s.status,
					Outcome: n.outcome(s.status)})
			}
		}()
		ctx, cancel := context.WithTimeout(n.ctx, f.timeout) // so that a store that hangs becomes a response
		defer cancel()
		next.ServeHTTP(s, r.WithContext(ctx))
		s.begin()
		n.aborted = false
	})
}

func endNothing(telemetry.Served) {}

// measure feeds the metrics with an exchange that ended.
func (f *frame) measure(r *http.Request, n *exchangeLog, status int, took time.Duration) {
	if f.metrics == nil {
		return
	}
	f.metrics.End(n.ctx, &metrics.Request{
		Method: r.Method, TLS: r.TLS != nil, Route: n.path(), Operation: n.operation(), Tenant: n.tenant, Status: status,
		Outcome: n.outcome(status), Aborted: n.aborted, Took: took, Facts: n.facts,
	})
}

// operation is what the request counts as; empty if it counts as none.
func (n *exchangeLog) operation() string {
	if n.route == nil {
		return n.action
	}
	return cmp.Or(n.route.Operation, n.route.Audit, n.action)
}

// statusWriter remembers the status that was sent, and ends connections to a server that is about to stop, and those on
// which a body does not arrive.
type statusWriter struct {
	http.ResponseWriter
	status  int
	sent    bool
	leaving <-chan struct{} // see Options.Leaving
	request *http.Request
	note    *exchangeLog // of the request
}

// begin is called before the header is sent. A connection ends with a response, and not while it is idle: a request
// could be on its way to the server.
func (w *statusWriter) begin() {
	if w.sent {
		return
	}
	w.sent = true
	w.note.dropRest(w.ResponseWriter, w.request)
	if closed(w.leaving) {
		w.Header()["Connection"] = closeConnection
	}
}

func (w *statusWriter) WriteHeader(status int) {
	if !w.sent {
		w.status = status
	}
	w.begin()
	w.ResponseWriter.WriteHeader(status)
}

func (w *statusWriter) Write(b []byte) (int, error) {
	w.begin()
	return w.ResponseWriter.Write(b)
}

// closed reports whether a channel that nothing is sent to is closed.
func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// Unwrap lets [http.ResponseController] reach the writer below.
func (w *statusWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// recoverPanics turns a panic into INTERNAL and a log line with the stack; the server continues.
func (f *frame) recoverPanics(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			p := recover()
			if p == nil {
				return
			}
			if err, ok := p.(error); ok && errors.Is(err, http.ErrAbortHandler) {
				panic(p) // by convention not a fault: the handler wants the connection cut
			}
			f.log.ErrorContext(r.Context(), "panic", "value", p, "stack", string(debug.Stack()),
				"request", w.Header().Get(requestIDHeader))
			if s, ok := w.(*statusWriter); ok && s.sent {
				panic(http.ErrAbortHandler) // half a response was sent; only closing the connection is left
			}
			f.fail(w, r, contracts.Errorf(contracts.CodeInternal, seeLog))
		}()
		next.ServeHTTP(w, r)
	})
}

// path is the pattern of the request's path; empty if it is that of no endpoint.
func (n *exchangeLog) path() string {
	if n.route == nil {
		return ""
	}
	return n.route.Path
}

// outcome is how a request ended, in a word: ok, the code of the error, locked or already_finished for a run that was
// not granted, aborted for a response that was cut off, and the status for a file that is not sent.
func (n *exchangeLog) outcome(status int) string {
	switch {
	case n.aborted:
		return "aborted"
	case n.code != "":
		return string(n.code)
	case n.skipped != "":
		return n.skipped
	case status >= http.StatusBadRequest:
		return strconv.Itoa(status)
	default:
		return "ok"
	}
}

// milliseconds is a duration for a log line, exact to a microsecond.
func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
