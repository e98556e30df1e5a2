package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"

	"github.com/leasehold-dev/leasehold/cmd/leasehold/internal/export"
	"github.com/leasehold-dev/leasehold/functions/metrics"
	"github.com/leasehold-dev/leasehold/functions/settings"
	"github.com/leasehold-dev/leasehold/internal/buildinfo"
)

// systems are the values of the setting for the store, as metrics name them.
var systems = map[string]string{
	"memory": metrics.SystemMemory, "sqlite": metrics.SystemSQLite, "redis": metrics.SystemRedis, "firestore": metrics.SystemFirestore,
	"dynamodb": metrics.SystemDynamoDB,
}

// openMetrics sets up what the settings and the OTEL_ variables ask for. The instruments are nil if that is nothing. end exports what is left.
func openMetrics(ctx context.Context, c *settings.Config, log *slog.Logger) (m *metrics.Metrics, end func(), err error) {
	t, err := export.Open(ctx, export.Options{
		Service: "leasehold", Version: buildinfo.This(version).Version, Page: c.MetricsListen != "", Getenv: os.Getenv,
	})
	if err != nil {
		return nil, nil, usage("%w", err)
	}
	if t == nil {
		return nil, func() {}, nil
	}
	if m, err = metrics.New(t.Provider(), &metrics.Options{Tenants: c.MetricsTenants}); err != nil {
		return nil, nil, err
	}
	endPage := func() error { return nil }
	if c.MetricsListen != "" {
		at, stop, err := t.Serve(ctx, c.MetricsListen, log)
		if err != nil {
			return nil, nil, fmt.Errorf("cannot listen on %s: %w; choose another address with %s", c.MetricsListen, err, c.Name("LEASEHOLD_METRICS_LISTEN"))
		}
		endPage = stop
		log.InfoContext(ctx, "metrics for Prometheus", "url", "http://"+fromHere(at.String())+export.Path)
	}
	return m, func() {
		closeLogged(log, "close the page of metrics", endPage)
		closeLogged(log, "export the last metrics", func() error { return t.Close(ctx) })
	}, nil
}
