package httpapi

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/leasehold-dev/leasehold/contracts"
)

// RequestMessage is the message of the line that each request has in the log. Its attributes:
//
//	method, path   path with the escapes that it was sent with. It names tenant and key, which are not secret
//	status         of HTTP
//	outcome        ok, or the code of the error; locked or already_finished for a run that was not granted; aborted for a response that was cut off
//	took_ms        from the first byte of the request to the last one of the response, in milliseconds
//	request        the request's ID, as in the response
//	subject        who asked; missing in development mode, and if the caller could not be identified
//	tenant         that the path names, or else the caller's; missing where there is none
//	caller_tenant  of a request that was rejected, the caller's
//	remote         of a request that was rejected, the address that it came from, and what a proxy said of it: forwarded_for, which anyone can write
//	detail         why a request was rejected that found no room: 429 and 503
//	err            what went wrong in the server
//	sample         how many such requests share one line on average, if it is more than one; see Options.LogSample
//
// Requests that were rejected before it was known who sent them share lines, see RejectedMessage. Query, headers and
// bodies are left out. The ID of the trace is added to this line and to all others by the handler of
// the log, see telemetry.NewHandler.
const RequestMessage = "request"

// LogAll is the Options.LogSample with which every request has a line.
const LogAll = 1

// writeLine writes the line of a request: faults of the server as errors, everything else as information, also that a
// caller hung up or that the server is about to stop.
func (f *frame) writeLine(r *http.Request, n *exchangeLog, status int, took time.Duration, requestID string) {
	outcome, level := n.outcome(status), slog.LevelInfo
	switch {
	case n.aborted:
		level = slog.LevelError
	case n.code == contracts.CodeOverloaded:
		level = slog.LevelWarn // nothing is broken, but callers are sent away
	case errors.Is(n.err, errLeaving):
	case errors.Is(n.err, context.Canceled) && errors.Is(r.Context().Err(), context.Canceled): // the caller hung up
	case status >= http.StatusInternalServerError && status != http.StatusNotImplemented: // 501 is a setting, no fault
		level = slog.LevelError
	}
	rejected := n.code != "" || status >= http.StatusBadRequest
	if !f.log.Enabled(n.ctx, level) || !rejected && !n.aborted && f.sample != LogAll &&
		(f.sample < LogAll || rand.IntN(f.sample) > 0) {
		return
	}
	method, path := r.Method, r.URL.EscapedPath()
	if n.unknown {
		method, path = cut(method, maxUnknownName), cut(path, maxUnknownPath)
	}
	line := append(make([]slog.Attr, 0, 16),
		slog.String("method", method), slog.String("path", path), slog.Int("status", status),
		slog.String("outcome", outcome),
		slog.Float64("took_ms", milliseconds(took)), slog.String("request", requestID),
	)
	if tenant := cmp.Or(n.tenant, n.caller.Tenant); tenant != "" {
		line = append(line, slog.String("tenant", tenant))
	}
	switch {
	case n.code != "":
		line = append(line, n.sender(r)...)
	case n.caller.Subject != "":
		line = append(line, slog.String("subject", n.caller.Subject))
	}
	if !rejected && f.sample != LogAll {
		line = append(line, slog.Int("sample", f.sample))
	}
	if status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable {
		line = append(line, slog.String("detail", n.detail))
	}
	if n.err != nil {
		line = append(line, slog.String("err", n.err.Error()))
	}
	write(n.ctx, f.log, level, RequestMessage, line...)
}

// write writes a line. It does not look for the source code that it comes from, as the methods of a logger do: it is
// always this.
func write(ctx context.Context, log *slog.Logger, level slog.Level, message string, attrs ...slog.Attr) {
	if !log.Enabled(ctx, level) {
		return
	}
	line := slog.NewRecord(time.Now(), level, message, 0)
	line.AddAttrs(attrs...)
	_ = log.Handler().Handle(ctx, line) // there is no other place to say that a log cannot be written
}
