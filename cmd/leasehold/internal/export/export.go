// Package export is how metrics leave a program that runs on: a page for Prometheus, and OTLP by the standard OTEL_
// variables, see package otlp. Nothing is set up, and nothing measured, unless one of them is asked for.
//
//	OTEL_EXPORTER_OTLP_ENDPOINT, or OTEL_METRICS_EXPORTER=otlp   metrics are sent by OTLP
//	LEASEHOLD_METRICS_LISTEN                                     GET /metrics on that address, in the text format of Prometheus
package export

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	otelprom "go.opentelemetry.io/otel/exporters/prometheus"
	"go.opentelemetry.io/otel/metric"
	sdk "go.opentelemetry.io/otel/sdk/metric"

	"github.com/leasehold-dev/leasehold/functions/httpapi"
	"github.com/leasehold-dev/leasehold/functions/otlp"
)

// Metrics is what measures, and how it is read.
type Metrics struct {
	provider *sdk.MeterProvider
	page     http.Handler // nil: no one asked for it
}

// Open sets up what the variables ask for, and a page if one is wanted; it is nil if that is nothing. The error names a
// variable that cannot work.
func Open(ctx context.Context, o otlp.Options, page bool) (*Metrics, error) {
	sends, err := o.Reader(ctx)
	if err != nil || sends == nil && !page {
		return nil, err
	}
	who, err := o.Resource(ctx)
	if err != nil {
		return nil, err
	}
	options := []sdk.Option{sdk.WithResource(who)}
	m := &Metrics{}
	if sends != nil {
		options = append(options, sdk.WithReader(sends))
	}
	if page {
		registry := prometheus.NewRegistry()
		registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
		e, err := otelprom.New(otelprom.WithRegisterer(registry), otelprom.WithoutScopeInfo())
		if err != nil {
			return nil, err
		}
		options, m.page = append(options, sdk.WithReader(e)),
			promhttp.HandlerFor(registry, promhttp.HandlerOpts{EnableOpenMetrics: true})
	}
	m.provider = sdk.NewMeterProvider(options...)
	return m, nil
}

// Provider is what instruments are made with; nil for a nil *Metrics.
func (m *Metrics) Provider() metric.MeterProvider {
	if m == nil {
		return nil
	}
	return m.provider
}

// Shutdown exports what was measured since the last export, and ends; see [otlp.Shutdown]. It may be called on nil.
func (m *Metrics) Shutdown(ctx context.Context) error {
	if m == nil {
		return nil
	}
	return m.provider.Shutdown(ctx)
}

// Path is where the page for Prometheus is.
const Path = "/metrics"

// Page is GET [Path] and nothing else. Where it listens on a loopback address it responds to names of this machine
// only, so that no web page can read it by a name that it has pointed here.
func (m *Metrics) Page(listening net.Addr) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET "+Path, m.page)
	host, _, err := net.SplitHostPort(listening.String())
	if err != nil || !httpapi.Loopback(host) {
		return mux
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !httpapi.Loopback(r.Host) {
			http.Error(w, "this page is for programs of this machine", http.StatusForbidden)
			return
		}
		mux.ServeHTTP(w, r)
	})
}

// Serve serves the page on an address until the returned function is called.
func (m *Metrics) Serve(ctx context.Context, address string, log *slog.Logger) (net.Addr, func() error, error) {
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", address)
	if err != nil {
		return nil, nil, err
	}
	server := httpapi.Server(m.Page(l.Addr()), log, httpapi.MaxConnections)
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(l) }()
	return l.Addr(), func() error {
		err := server.Close()
		if e := <-ended; !errors.Is(e, http.ErrServerClosed) {
			err = errors.Join(err, e)
		}
		return err
	}, nil
}
