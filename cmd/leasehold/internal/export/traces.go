package export

import (
	"context"

	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/trace"
	api "go.opentelemetry.io/otel/trace"
)

// Traces is what makes spans and sends them.
type Traces struct{ provider *trace.TracerProvider }

// OpenTraces sets up what the variables ask for; it is nil if that is nothing. The error names a variable that cannot work.
func OpenTraces(ctx context.Context, o Options) (*Traces, error) {
	otlp, err := wantsOTLP("TRACES", "", o.Getenv)
	if err != nil || !otlp {
		return nil, err
	}
	byGRPC, err := wantsGRPC("TRACES", o.Getenv)
	if err != nil {
		return nil, err
	}
	who, err := o.resource(ctx)
	if err != nil {
		return nil, err
	}
	client := otlptracehttp.NewClient()
	if byGRPC {
		client = otlptracegrpc.NewClient()
	}
	e, err := otlptrace.New(ctx, client)
	if err != nil {
		return nil, err
	}
	return &Traces{trace.NewTracerProvider(trace.WithResource(who), trace.WithBatcher(e))}, nil // the sampler is that of the variables
}

// Provider is what tracers are made with; nil for a nil *Traces.
func (t *Traces) Provider() api.TracerProvider {
	if t == nil {
		return nil
	}
	return t.provider
}

// Close sends what was not sent yet, and ends. It may be called on nil.
func (t *Traces) Close(ctx context.Context) error {
	if t == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), flushTimeout)
	defer cancel()
	return t.provider.Shutdown(ctx)
}
