package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/propagation"

	"github.com/leasehold-dev/leasehold/cmd/leasehold/internal/export"
	"github.com/leasehold-dev/leasehold/functions/metrics"
	"github.com/leasehold-dev/leasehold/functions/otlp"
	"github.com/leasehold-dev/leasehold/functions/settings"
	"github.com/leasehold-dev/leasehold/functions/telemetry"
	"github.com/leasehold-dev/leasehold/internal/buildinfo"
	"github.com/leasehold-dev/leasehold/repo/docstore"
)

// systems are the values of the setting for the store, as metrics and spans name them.
var systems = map[string]string{
	"memory": metrics.SystemMemory, "sqlite": metrics.SystemSQLite, "redis": metrics.SystemRedis,
	"firestore": metrics.SystemFirestore,
	"dynamodb":  metrics.SystemDynamoDB,
}

// observing is what a program is observed by. Its parts are nil if no one asked for them.
type observing struct {
	metrics *metrics.Metrics
	traces  *telemetry.Traces
	system  string
	end     func() // sends what is left
}

// observe sets up what the settings and the OTEL_ variables ask for.
func observe(ctx context.Context, c *settings.Config, log *slog.Logger) (*observing, error) {
	otlp.LogTo(log)
	otel.SetTextMapPropagator(propagation.TraceContext{}) // clients of stores that speak gRPC pass a trace on by it
	options := otlp.Options{Service: "leasehold", Version: buildinfo.This(version).Version, Getenv: os.Getenv}
	measures, err := export.Open(ctx, options, c.MetricsListen != "")
	if err != nil {
		return nil, usage("%w", err)
	}
	ends := []func(context.Context) error{measures.Shutdown}
	o := &observing{system: systems[c.Store], end: func() {
		closeLogged(log, "send the last metrics and spans", func() error { return otlp.Shutdown(ctx, ends...) })
	}}
	makes, err := options.Traces(ctx)
	if err != nil {
		return nil, usage("%w", err)
	}
	if makes != nil {
		otel.SetTracerProvider(makes)
		o.traces, ends = telemetry.NewTraces(makes, o.system), append(ends, makes.Shutdown)
	}
	if measures == nil {
		return o, nil
	}
	if o.metrics, err = metrics.New(measures.Provider(), &metrics.Options{Tenants: c.MetricsTenants}); err != nil ||
		c.MetricsListen == "" {
		return o, err
	}
	at, stop, err := measures.Serve(ctx, c.MetricsListen, log)
	if err != nil {
		return nil, fmt.Errorf("cannot listen on %s: %w; choose another address with %s", c.MetricsListen, err,
			c.Name("LEASEHOLD_METRICS_LISTEN"))
	}
	log.InfoContext(ctx, "metrics for Prometheus", "url", "http://"+fromHere(at.String())+export.Path)
	send := o.end
	o.end = func() {
		closeLogged(log, "close the page of metrics", stop)
		send()
	}
	return o, nil
}

// store is a store that is observed.
func (o *observing) store(store docstore.Store) docstore.Store {
	return telemetry.Store(store, append(o.traces.Observers(), o.metrics.Observe(store, o.system)...)...)
}
