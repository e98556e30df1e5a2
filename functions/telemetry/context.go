package telemetry

import (
	"context"
	"net/http"

	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

// Headers of W3C Trace Context.
const (
	parentHeader = "Traceparent"
	stateHeader  = "Tracestate"
)

// Incoming returns a context that is part of the trace that the headers of a request name (W3C Trace Context). Headers
// that are malformed, or that are there several times, are ignored.
func Incoming(ctx context.Context, h http.Header) context.Context {
	if len(h[parentHeader]) != 1 {
		return ctx
	}
	return propagation.TraceContext{}.Extract(ctx, parent{h})
}

// Outgoing adds headers to a request that say which trace it is part of, if it is part of one.
func Outgoing(ctx context.Context, h http.Header) {
	propagation.TraceContext{}.Inject(ctx, propagation.HeaderCarrier(h))
}

// TraceID is the ID of the trace that a context is part of: 32 hexadecimal digits, or nothing.
func TraceID(ctx context.Context) string {
	id := trace.SpanContextFromContext(ctx).TraceID()
	if !id.IsValid() {
		return ""
	}
	return id.String()
}

// parent reads headers of which there is one each: the state may be in several, and is then left out.
type parent struct{ http.Header }

// Get implements [propagation.TextMapCarrier].
func (p parent) Get(name string) string {
	values := p.Values(name)
	if len(values) != 1 {
		return ""
	}
	return values[0]
}

// Keys implements [propagation.TextMapCarrier].
func (parent) Keys() []string { return []string{parentHeader, stateHeader} }
