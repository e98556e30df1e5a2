package httpapi

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"net/http"
	"runtime/debug"
	"strings"
	"time"

	"github.com/leasehold-dev/leasehold/contracts"
	"github.com/leasehold-dev/leasehold/functions/metrics"
)

const requestIDHeader = "X-Request-Id"

// Headers that are the same in each response: their values are made once, and are never changed.
var (
	nosniff = []string{"nosniff"} // a browser must not take a lock's name for a page
	noStore = []string{"no-store"}
)

// withRequestID names every exchange, by its caller's ID if there is a usable one, so that a response and a log line can be
// brought together.
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

// note is what the layers of one exchange tell its log line.
type note struct {
	begin  time.Time
	ctx    context.Context //nolint:containedctx // of the request, without the time limit of its work
	code   contracts.Code
	detail string // for the caller
	err    error
	caller Caller
	action string      // Route.Audit
	audit  []slog.Attr // of the audit event, beside those that all have

	facts   metrics.Facts
	route   *Route           // nil: the path is that of no endpoint
	tenant  string           // that the path names
	problem *contracts.Error // that was sent
}

// within is the context of a request that may take longer than others: so long, from when it began.
func (n *note) within(bound time.Duration) (context.Context, context.CancelFunc) {
	return context.WithDeadline(n.ctx, n.begin.Add(bound))
}

type noteKey struct{}

func noteOf(r *http.Request) *note {
	if n, ok := r.Context().Value(noteKey{}).(*note); ok {
		return n
	}
	return &note{}
}

// withLog writes one line for each request: faults of the server as errors, everything else as information, also that a caller hung up. That of a rejected
// request says who sent it, and why it was rejected if that is not plain from the code. The path names tenant and key, which are
// not secret; query, headers and bodies are left out.
func (f *frame) withLog(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n := &note{begin: time.Now()}
		n.ctx = context.WithValue(r.Context(), noteKey{}, n)
		f.metrics.Begin(n.ctx, r.Method, r.TLS != nil)
		s := &statusWriter{ResponseWriter: w, status: http.StatusOK}
		next.ServeHTTP(s, r.WithContext(n.ctx))

		took := time.Since(n.begin)
		f.outcomes.remember(r, n, s.status, took, w.Header().Get(requestIDHeader))
		f.writeAudit(r.Context(), r, n, w.Header().Get(requestIDHeader))
		f.measure(r, n, s.status, took)
		level := slog.LevelInfo
		switch {
		case n.code == contracts.CodeOverloaded:
			level = slog.LevelWarn // nothing is broken, but callers are sent away
		case errors.Is(n.err, context.Canceled) && errors.Is(r.Context().Err(), context.Canceled): // the caller hung up
		case s.status >= http.StatusInternalServerError && s.status != http.StatusNotImplemented: // 501 is a setting, no fault
			level = slog.LevelError
		}
		if !f.log.Enabled(r.Context(), level) {
			return
		}
		line := append(make([]slog.Attr, 0, 12),
			slog.String("method", r.Method), slog.String("path", r.URL.EscapedPath()), slog.Int("status", s.status),
			slog.Float64("took_ms", milliseconds(took)), slog.String("request", w.Header().Get(requestIDHeader)),
		)
		if n.code != "" {
			line = append(line, slog.String("code", string(n.code)))
			line = append(line, n.sender(r)...)
		}
		if s.status == http.StatusTooManyRequests || s.status == http.StatusServiceUnavailable {
			line = append(line, slog.String("detail", n.detail))
		}
		if n.err != nil {
			line = append(line, slog.String("err", n.err.Error()))
		}
		f.write(r.Context(), level, "request", line...)
	})
}

// measure feeds the metrics with an exchange that ended.
func (f *frame) measure(r *http.Request, n *note, status int, took time.Duration) {
	if f.metrics == nil {
		return
	}
	m := metrics.Request{Method: r.Method, TLS: r.TLS != nil, Tenant: n.tenant, Status: status, Code: n.code, Took: took, Facts: n.facts}
	if m.Operation = n.operation(); n.route != nil {
		m.Route = n.route.Path
	}
	f.metrics.End(n.ctx, &m)
}

// operation is what the request counts as; empty if it counts as none.
func (n *note) operation() string {
	if n.route == nil {
		return n.action
	}
	return cmp.Or(n.route.Operation, n.route.Audit, n.action)
}

// write writes a line. It does not look for the source code that it comes from, as the methods of a logger do: it is always this.
func (f *frame) write(ctx context.Context, level slog.Level, message string, attrs ...slog.Attr) {
	if !f.log.Enabled(ctx, level) {
		return
	}
	line := slog.NewRecord(time.Now(), level, message, 0)
	line.AddAttrs(attrs...)
	_ = f.log.Handler().Handle(ctx, line) // there is no other place to say that a log cannot be written
}

// statusWriter remembers the status that was sent.
type statusWriter struct {
	http.ResponseWriter
	status int
	sent   bool
}

func (w *statusWriter) WriteHeader(status int) {
	if !w.sent {
		w.status, w.sent = status, true
	}
	w.ResponseWriter.WriteHeader(status)
}

func (w *statusWriter) Write(b []byte) (int, error) {
	w.sent = true
	return w.ResponseWriter.Write(b)
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

// milliseconds is a duration for a log line, exact to a microsecond.
func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
