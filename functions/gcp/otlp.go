//go:build leasehold.otlp

package gcp

import (
	"context"
	"log/slog"
	"os"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/metric"

	"github.com/leasehold-dev/leasehold/functions/metrics"
	"github.com/leasehold-dev/leasehold/functions/otlp"
	"github.com/leasehold-dev/leasehold/functions/telemetry"
)

// observe sets up what the OTEL_ variables ask for.
//
// Between requests an instance has no processor time, so that what is sent every minute is sent when the next request
// has come, beside its work. Nothing is lost by that: metrics are sums since the instance began. What the last requests
// added is sent when the platform asks the instance to end.
func observe(ctx context.Context, log *slog.Logger) (*observing, error) {
	otlp.LogTo(log)
	otel.SetTextMapPropagator(propagation.TraceContext{}) // Firestore's client passes a trace on by it
	options := otlp.Options{Service: "leasehold", Version: this().Version, Getenv: os.Getenv}
	var ends []func(context.Context) error
	o := &observing{end: func(ctx context.Context) error { return otlp.Shutdown(ctx, ends...) }}
	makes, err := options.Traces(ctx)
	if err != nil {
		return nil, err
	}
	if makes != nil {
		otel.SetTracerProvider(makes)
		o.traces, ends = telemetry.NewTraces(makes, metrics.SystemFirestore), append(ends, makes.Shutdown)
	}
	reader, err := options.Reader(ctx)
	if err != nil || reader == nil {
		return o, err
	}
	who, err := options.Resource(ctx)
	if err != nil {
		return nil, err
	}
	provider := metric.NewMeterProvider(metric.WithReader(reader), metric.WithResource(who))
	ends = append(ends, provider.Shutdown)
	o.metrics, err = metrics.New(provider, nil)
	return o, err
}
