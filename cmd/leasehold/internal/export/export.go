// Package export sets up the SDK of OpenTelemetry for the programs that run on: exporters of metrics and of traces by the standard OTEL_ variables,
// and a page for Prometheus. Nothing is set up, and nothing measured, unless one of them is asked for.
//
//	OTEL_EXPORTER_OTLP_ENDPOINT, or OTEL_METRICS_EXPORTER=otlp   metrics are sent by OTLP, every minute or as OTEL_METRIC_EXPORT_INTERVAL says
//	OTEL_EXPORTER_OTLP_ENDPOINT, or OTEL_TRACES_EXPORTER=otlp    spans are sent by OTLP, as OTEL_TRACES_SAMPLER and OTEL_BSP_… say
//	LEASEHOLD_METRICS_LISTEN                                     GET /metrics on that address, in the text format of Prometheus
package export

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetricgrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetrichttp"
	otelprom "go.opentelemetry.io/otel/exporters/prometheus"
	"go.opentelemetry.io/otel/metric"
	sdk "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/resource"

	"github.com/leasehold-dev/leasehold/functions/httpapi"
)

// Metrics is what measures, and how it is read.
type Metrics struct {
	provider *sdk.MeterProvider
	page     http.Handler // nil: no one asked for it
}

// flushTimeout is for the last export, when the program ends.
const flushTimeout = 5 * time.Second

// Options are the settings of [Open].
type Options struct {
	Service, Version string              // of the resource, unless OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES say otherwise
	Page             bool                // [Metrics.Page] is wanted
	Getenv           func(string) string // such as os.Getenv
}

// Open sets up what the variables and the options ask for; it is nil if that is nothing. The error names a variable that cannot work.
func Open(ctx context.Context, o Options) (*Metrics, error) {
	otlp, err := wantsOTLP("METRICS", "; for Prometheus set LEASEHOLD_METRICS_LISTEN", o.Getenv)
	if err != nil || !otlp && !o.Page {
		return nil, err
	}
	who, err := o.resource(ctx)
	if err != nil {
		return nil, err
	}
	options := []sdk.Option{sdk.WithResource(who)}
	m := &Metrics{}
	if otlp {
		e, err := otlpExporter(ctx, o.Getenv)
		if err != nil {
			return nil, err
		}
		options = append(options, sdk.WithReader(sdk.NewPeriodicReader(e)))
	}
	if o.Page {
		registry := prometheus.NewRegistry()
		registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
		e, err := otelprom.New(otelprom.WithRegisterer(registry), otelprom.WithoutScopeInfo())
		if err != nil {
			return nil, err
		}
		options, m.page = append(options, sdk.WithReader(e)), promhttp.HandlerFor(registry, promhttp.HandlerOpts{EnableOpenMetrics: true})
	}
	m.provider = sdk.NewMeterProvider(options...)
	return m, nil
}

// resource is what sends: the program, unless the variables say otherwise.
func (o Options) resource(ctx context.Context) (*resource.Resource, error) {
	who, err := resource.New(ctx,
		resource.WithAttributes(attribute.String("service.name", o.Service), attribute.String("service.version", o.Version)),
		resource.WithFromEnv(), resource.WithTelemetrySDK(), resource.WithHost())
	if err != nil {
		return nil, fmt.Errorf("OTEL_RESOURCE_ATTRIBUTES: %w", err)
	}
	return who, nil
}

// wantsOTLP reports whether the variables ask for OTLP. By the specification it is on unless it is turned off, which would make every server
// look for a collector on its own machine: here it is on if a variable names it, or its endpoint. what is METRICS or TRACES.
func wantsOTLP(what, hint string, env func(string) string) (bool, error) {
	if strings.EqualFold(env("OTEL_SDK_DISABLED"), "true") {
		return false, nil
	}
	switch e := env("OTEL_" + what + "_EXPORTER"); e {
	case "":
		return env("OTEL_EXPORTER_OTLP_ENDPOINT") != "" || env("OTEL_EXPORTER_OTLP_"+what+"_ENDPOINT") != "", nil
	case "otlp":
		return true, nil
	case "none":
		return false, nil
	default:
		return false, fmt.Errorf("OTEL_%s_EXPORTER is %q: it must be otlp or none%s", what, e, hint)
	}
}

// otlpExporter makes the exporter of the protocol that the variables name; all else about it, it reads from them itself.
func otlpExporter(ctx context.Context, env func(string) string) (sdk.Exporter, error) {
	byGRPC, err := wantsGRPC("METRICS", env)
	switch {
	case err != nil:
		return nil, err
	case byGRPC:
		return otlpmetricgrpc.New(ctx)
	default:
		return otlpmetrichttp.New(ctx)
	}
}

// wantsGRPC reports whether the variables ask for OTLP over gRPC.
func wantsGRPC(what string, env func(string) string) (bool, error) {
	name := "OTEL_EXPORTER_OTLP_" + what + "_PROTOCOL"
	if env(name) == "" {
		name = "OTEL_EXPORTER_OTLP_PROTOCOL"
	}
	switch p := env(name); p {
	case "", "http/protobuf":
		return false, nil
	case "grpc":
		return true, nil
	default:
		return false, fmt.Errorf("%s is %q: it must be http/protobuf or grpc", name, p)
	}
}

// Provider is what instruments are made with; nil for a nil *Metrics.
func (m *Metrics) Provider() metric.MeterProvider {
	if m == nil {
		return nil
	}
	return m.provider
}

// Close exports what was measured since the last export, and ends. It may be called on nil.
func (m *Metrics) Close(ctx context.Context) error {
	if m == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), flushTimeout)
	defer cancel()
	return m.provider.Shutdown(ctx)
}

// Path is where the page for Prometheus is.
const Path = "/metrics"

// Page is GET [Path] and nothing else. Where it listens on a loopback address it responds to names of this machine only, so that no web page can
// read it by a name that it has pointed here.
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
	server := httpapi.Server(m.Page(l.Addr()), log)
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
