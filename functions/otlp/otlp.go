// Package otlp sets up the SDK of OpenTelemetry and its exporters for OTLP, by the standard OTEL_ variables. Nothing is
// set up unless one of them asks for it:
//
//	OTEL_EXPORTER_OTLP_ENDPOINT, or OTEL_METRICS_EXPORTER=otlp   metrics are sent, every minute or as OTEL_METRIC_EXPORT_INTERVAL says
//	OTEL_EXPORTER_OTLP_ENDPOINT, or OTEL_TRACES_EXPORTER=otlp    spans are sent, as OTEL_TRACES_SAMPLER and OTEL_BSP_… say
//
// No request waits for it: spans that a collector does not take are dropped, and metrics are sums that the next export
// has as well. Only programs import this package; all others know the interface of OpenTelemetry alone.
package otlp

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetricgrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetrichttp"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/resource"
	"go.opentelemetry.io/otel/sdk/trace"
)

// FlushTimeout is for the last export, when a program ends. Cloud Run kills a program 10 s after it asks it to end, and
// requests in flight may take 8 s of them.
const FlushTimeout = 2 * time.Second

// Options are the settings of this package's functions.
type Options struct {
	// of the resource, unless OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES say otherwise
	Service, Version string
	Getenv           func(string) string // such as os.Getenv; exporters read other variables of the process themselves
}

// instance is this process, beside others of the service: without it, a collector takes the sums of two for those of
// one.
var instance = sync.OnceValue(rand.Text)

// Resource is what sends: the program, unless the variables say otherwise. The error names the variable that cannot
// work.
func (o Options) Resource(ctx context.Context) (*resource.Resource, error) {
	who, err := resource.New(ctx,
		resource.WithAttributes(attribute.String("service.name", o.Service), attribute.String("service.version", o.Version),
			attribute.String("service.instance.id", instance())),
		resource.WithFromEnv(), resource.WithTelemetrySDK(), resource.WithHost())
	if err != nil {
		return nil, fmt.Errorf("OTEL_RESOURCE_ATTRIBUTES: %w", err)
	}
	return who, nil
}

// Reader sends metrics by OTLP; it is nil if the variables do not ask for that. The error names a variable that cannot
// work.
func (o Options) Reader(ctx context.Context) (metric.Reader, error) {
	on, byGRPC, err := o.wants("METRICS", "; for Prometheus set LEASEHOLD_METRICS_LISTEN")
	if err != nil || !on {
		return nil, err
	}
	var e metric.Exporter
	if byGRPC {
		e, err = otlpmetricgrpc.New(ctx)
	} else {
		e, err = otlpmetrichttp.New(ctx)
	}
	if err != nil {
		return nil, err
	}
	return metric.NewPeriodicReader(e), nil
}

// Traces makes spans and sends them by OTLP; it is nil if the variables do not ask for that. The error names a variable
// that cannot work. The caller ends it with [Shutdown].
func (o Options) Traces(ctx context.Context) (*trace.TracerProvider, error) {
	on, byGRPC, err := o.wants("TRACES", "")
	if err != nil || !on {
		return nil, err
	}
	who, err := o.Resource(ctx)
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
	// the sampler is that of the variables
	return trace.NewTracerProvider(trace.WithResource(who), trace.WithBatcher(e)), nil
}

// Shutdown sends what is left, of all at once, and ends them. It takes FlushTimeout at most. A context that has ended
// is none.
func Shutdown(ctx context.Context, of ...func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), FlushTimeout)
	defer cancel()
	errs := make([]error, len(of))
	var all sync.WaitGroup
	for i, shutdown := range of {
		all.Go(func() { errs[i] = shutdown(ctx) })
	}
	all.Wait()
	return errors.Join(errs...)
}

// LogTo makes the SDK write what goes wrong with it to a log. What it says of variables that cannot be read is written
// without their values: headers have tokens, and endpoints may have passwords.
func LogTo(log *slog.Logger) {
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { log.Warn("telemetry", "err", err) }))
	otel.SetLogger(logr.FromSlogHandler(bare{log.Handler()}))
}

// bare writes the message of a line and nothing else.
type bare struct{ slog.Handler }

// Enabled implements [slog.Handler]: the SDK's warnings and errors. logr has higher verbosity as lower levels.
func (h bare) Enabled(ctx context.Context, level slog.Level) bool {
	return level >= slog.LevelWarn && h.Handler.Enabled(ctx, slog.LevelWarn)
}

// Handle implements [slog.Handler].
func (h bare) Handle(ctx context.Context, r slog.Record) error {
	line := slog.NewRecord(r.Time, slog.LevelWarn, "telemetry: a variable OTEL_… cannot be used", r.PC)
	line.AddAttrs(slog.String("why", r.Message))
	return h.Handler.Handle(ctx, line)
}

// WithAttrs implements [slog.Handler].
func (h bare) WithAttrs([]slog.Attr) slog.Handler { return h }

// WithGroup implements [slog.Handler].
func (h bare) WithGroup(string) slog.Handler { return h }

// wants reports whether the variables ask for OTLP, and for gRPC. By the specification it is on unless it is turned
// off, which would make every server look for a collector on its own machine: here it is on if a variable names it, or
// its endpoint. what is METRICS or TRACES.
func (o Options) wants(what, hint string) (on, byGRPC bool, err error) {
	if strings.EqualFold(o.Getenv("OTEL_SDK_DISABLED"), "true") {
		return false, false, nil
	}
	name, endpoint := o.set("OTEL_EXPORTER_OTLP_"+what+"_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
	switch e := o.Getenv("OTEL_" + what + "_EXPORTER"); {
	case e == "none" || e == "" && endpoint == "":
		return false, false, nil
	case e != "" && e != "otlp":
		return false, false, fmt.Errorf("OTEL_%s_EXPORTER is %q: it must be otlp or none%s", what, e, hint)
	}
	if u, err := url.Parse(endpoint); endpoint != "" && (err != nil || u.Scheme != "http" && u.Scheme != "https" ||
		u.Host == "") {
		// the SDK would take another collector
		return false, false, fmt.Errorf("%s must be a URL such as http://collector:4318", name)
	}
	switch name, p := o.set("OTEL_EXPORTER_OTLP_"+what+"_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL"); p {
	case "", "http/protobuf":
		return true, false, nil
	case "grpc":
		return true, true, nil
	default:
		return false, false, fmt.Errorf("%s is %q: it must be http/protobuf or grpc", name, p)
	}
}

// set is the first of several variables that is set, and its value; the last one if none is.
func (o Options) set(names ...string) (name, value string) {
	for _, name = range names {
		if value = o.Getenv(name); value != "" {
			return name, value
		}
	}
	return name, ""
}
