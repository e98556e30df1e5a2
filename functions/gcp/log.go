package gcp

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"sync"
	"time"

	"cloud.google.com/go/compute/metadata"
	"go.opentelemetry.io/otel/trace"

	"github.com/leasehold-dev/leasehold/functions/httpapi"
)

// NewLog returns a log in the form that Cloud Logging understands: one JSON object for each line, with the members
// severity and message, the trace that the line belongs to, and httpRequest of a line about a request
// (https://cloud.google.com/logging/docs/structured-logging). The project of the traces is that of the environment, or
// of the metadata server.
func NewLog(w io.Writer) *slog.Logger {
	return slog.New(newHandler(w, sync.OnceValue(traceProject)))
}

func newHandler(w io.Writer, project func() string) slog.Handler {
	return handler{slog.NewJSONHandler(w, &slog.HandlerOptions{ReplaceAttr: replaceAttr}), project}
}

func replaceAttr(groups []string, a slog.Attr) slog.Attr {
	if len(groups) > 0 {
		return a
	}
	switch a.Key {
	case slog.MessageKey:
		a.Key = "message"
	case slog.LevelKey:
		a.Key = "severity"
		if a.Value.Any() == slog.LevelWarn {
			a.Value = slog.StringValue("WARNING")
		}
	}
	return a
}

// traceProject is the project that traces are in; empty if that cannot be found out.
func traceProject() string {
	if p := cmp.Or(os.Getenv("GOOGLE_CLOUD_PROJECT"), os.Getenv("LEASEHOLD_PROJECT")); p != "" ||
		os.Getenv("K_SERVICE") == "" {
		return p
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	p, _ := metadata.ProjectIDWithContext(ctx) // without it, lines have the trace's ID alone
	return p
}

type handler struct {
	slog.Handler

	project func() string
}

// Handle implements [slog.Handler].
func (h handler) Handle(ctx context.Context, r slog.Record) error {
	if r.Message == httpapi.RequestMessage {
		r = httpRequest(r)
	}
	if sc := trace.SpanContextFromContext(ctx); sc.IsValid() {
		id := slog.String("trace_id", sc.TraceID().String())
		if p := h.project(); p != "" {
			id = slog.String("logging.googleapis.com/trace", "projects/"+p+"/traces/"+sc.TraceID().String())
		}
		r.AddAttrs(id, slog.String("logging.googleapis.com/spanId", sc.SpanID().String()),
			slog.Bool("logging.googleapis.com/trace_sampled", sc.IsSampled()))
	}
	return h.Handler.Handle(ctx, r)
}

// httpRequest is the line of a request with the member that Cloud Logging shows in place of the message.
func httpRequest(r slog.Record) slog.Record {
	line := slog.NewRecord(r.Time, r.Level, r.Message, r.PC)
	of := make([]any, 0, 5)
	r.Attrs(func(a slog.Attr) bool {
		switch a.Key {
		case "method":
			of = append(of, slog.String("requestMethod", a.Value.String()))
		case "path":
			of = append(of, slog.String("requestUrl", a.Value.String()))
		case "status":
			of = append(of, slog.Int64("status", a.Value.Int64()))
		case "took_ms":
			of = append(of, slog.String("latency", fmt.Sprintf("%.6fs", a.Value.Float64()/1000)))
			line.AddAttrs(a)
		case "remote":
			host, _, err := net.SplitHostPort(a.Value.String())
			if err != nil {
				host = a.Value.String()
			}
			of = append(of, slog.String("remoteIp", host))
		default:
			line.AddAttrs(a)
		}
		return true
	})
	line.AddAttrs(slog.Group("httpRequest", of...))
	return line
}

// WithAttrs implements [slog.Handler].
func (h handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return handler{h.Handler.WithAttrs(attrs), h.project}
}

// WithGroup implements [slog.Handler].
func (h handler) WithGroup(name string) slog.Handler {
	return handler{h.Handler.WithGroup(name), h.project}
}
