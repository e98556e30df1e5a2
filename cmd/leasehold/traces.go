package main

import (
	"context"
	"log/slog"
	"os"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/propagation"

	"github.com/leasehold-dev/leasehold/cmd/leasehold/internal/export"
	"github.com/leasehold-dev/leasehold/functions/settings"
	"github.com/leasehold-dev/leasehold/functions/telemetry"
	"github.com/leasehold-dev/leasehold/internal/buildinfo"
)

// openTraces sets up what the OTEL_ variables ask for; the traces are nil if that is nothing. end sends what is left.
func openTraces(ctx context.Context, c *settings.Config, log *slog.Logger) (traces *telemetry.Traces, end func(), err error) {
	otel.SetTextMapPropagator(propagation.TraceContext{}) // clients of stores that speak gRPC pass a trace on by it
	t, err := export.OpenTraces(ctx, export.Options{Service: "leasehold", Version: buildinfo.This(version).Version, Getenv: os.Getenv})
	if err != nil {
		return nil, nil, usage("%w", err)
	}
	if t == nil {
		return nil, func() {}, nil
	}
	otel.SetTracerProvider(t.Provider())
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { log.Warn("telemetry", "err", err) }))
	return telemetry.NewTraces(t.Provider(), systems[c.Store]), func() {
		closeLogged(log, "send the last spans", func() error { return t.Close(ctx) })
	}, nil
}
