// Package emf writes metrics as lines of the log, in the embedded metric format of CloudWatch: Lambda sends them there
// with the log, which costs no request and no SDK. It implements the part of OpenTelemetry's metric API that package
// metrics uses.
//
//	Metrics ──▶ Provider ──Flush, after each invocation──▶ {"_aws":{"CloudWatchMetrics":[…]}, "leasehold.operations":1, "leasehold.outcome":"ok", …}
//
// CloudWatch bills each combination of dimensions. [metrics.Table] chooses few; all other attributes are in the line,
// for queries of the log.
//
// https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/CloudWatch_Embedded_Metric_Format_Specification.html
package emf

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"slices"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/embedded"
	"go.opentelemetry.io/otel/metric/noop"

	"github.com/leasehold-dev/leasehold/functions/metrics"
)

// Namespace is that of the metrics in CloudWatch of the functions on a table of DynamoDB. Deployments in one region of
// an account have tables of their own, and so metrics and alarms; those that share a table share them.
func Namespace(table string) string { return "Leasehold/" + table }

// maxValues is how many values of one metric a line may have.
const maxValues = 100

// Provider makes instruments whose values [Provider.Flush] writes.
type Provider struct {
	noop.MeterProvider

	namespace string
	now       func() time.Time

	mu        sync.Mutex
	written   map[string]metrics.Instrument // by name
	values    map[point][]float64
	reached   map[point]float64 // by counters that are observed, when they were last
	callbacks []metric.Callback
}

// point is an instrument with its attributes.
type point struct {
	name  string
	attrs attribute.Set
}

// New returns a provider of metrics of a [Namespace]. A nil clock is time.Now.
func New(namespace string, now func() time.Time) *Provider {
	if now == nil {
		now = time.Now
	}
	p := &Provider{namespace: namespace, now: now, written: map[string]metrics.Instrument{}, values: map[point][]float64{},
		reached: map[point]float64{}}
	for _, i := range metrics.Table {
		if i.CloudWatch != nil {
			p.written[i.Name] = i
		}
	}
	return p
}

// Meter implements [metric.MeterProvider]. All meters are one.
func (p *Provider) Meter(string, ...metric.MeterOption) metric.Meter { return meter{p: p} }

// meter makes instruments; those that are not written do nothing.
type meter struct {
	noop.Meter

	p *Provider
}

// Int64Counter implements [metric.Meter].
func (m meter) Int64Counter(name string, _ ...metric.Int64CounterOption) (metric.Int64Counter, error) {
	if _, ok := m.p.written[name]; !ok {
		return noop.Int64Counter{}, nil
	}
	return counter{p: m.p, name: name}, nil
}

// Float64Histogram implements [metric.Meter].
func (m meter) Float64Histogram(name string, _ ...metric.Float64HistogramOption) (metric.Float64Histogram, error) {
	if _, ok := m.p.written[name]; !ok {
		return noop.Float64Histogram{}, nil
	}
	return histogram{p: m.p, name: name}, nil
}

// Float64ObservableGauge implements [metric.Meter].
func (meter) Float64ObservableGauge(name string, _ ...metric.Float64ObservableGaugeOption) (
	metric.Float64ObservableGauge, error) {
	return gauge{name: name}, nil
}

// Float64ObservableCounter implements [metric.Meter].
func (meter) Float64ObservableCounter(name string, _ ...metric.Float64ObservableCounterOption) (
	metric.Float64ObservableCounter, error) {
	return observedCounter{name: name}, nil
}

// RegisterCallback implements [metric.Meter].
func (m meter) RegisterCallback(f metric.Callback, _ ...metric.Observable) (metric.Registration, error) {
	m.p.mu.Lock()
	defer m.p.mu.Unlock()
	m.p.callbacks = append(m.p.callbacks, f)
	return noop.Registration{}, nil
}

type counter struct {
	noop.Int64Counter

	p    *Provider
	name string
}

// Add implements [metric.Int64Counter].
func (c counter) Add(_ context.Context, n int64, o ...metric.AddOption) {
	if n == 0 {
		return // for exporters that look at series: a line that says that nothing happened only costs
	}
	at := point{c.name, metric.NewAddConfig(o).Attributes()}
	c.p.mu.Lock()
	defer c.p.mu.Unlock()
	if v := c.p.values[at]; len(v) > 0 {
		v[0] += float64(n)
		return
	}
	c.p.values[at] = []float64{float64(n)}
}

type histogram struct {
	noop.Float64Histogram

	p    *Provider
	name string
}

// Record implements [metric.Float64Histogram].
func (h histogram) Record(_ context.Context, v float64, o ...metric.RecordOption) {
	at := point{h.name, metric.NewRecordConfig(o).Attributes()}
	h.p.mu.Lock()
	defer h.p.mu.Unlock()
	h.p.values[at] = append(h.p.values[at], v)
}

type gauge struct {
	noop.Float64ObservableGauge

	name string
}

type observedCounter struct {
	noop.Float64ObservableCounter

	name string
}

// observer is what callbacks tell the values of instruments.
type observer struct {
	embedded.Observer

	p *Provider
}

// ObserveFloat64 implements [metric.Observer]. Of a counter, what was added since the last time is kept.
func (o observer) ObserveFloat64(i metric.Float64Observable, v float64, opts ...metric.ObserveOption) {
	attrs := metric.NewObserveConfig(opts).Attributes()
	o.p.mu.Lock()
	defer o.p.mu.Unlock()
	switch i := i.(type) {
	case gauge:
		if _, ok := o.p.written[i.name]; ok {
			o.p.values[point{i.name, attrs}] = []float64{v}
		}
	case observedCounter:
		if _, ok := o.p.written[i.name]; !ok {
			return
		}
		at := point{i.name, attrs}
		if more := v - o.p.reached[at]; more > 0 {
			o.p.reached[at], o.p.values[at] = v, []float64{more}
		}
	}
}

// ObserveInt64 implements [metric.Observer]. There are no such instruments.
func (observer) ObserveInt64(metric.Int64Observable, int64, ...metric.ObserveOption) {}

// Flush writes what was measured since the last time, a line for each set of attributes. An error is that of the writer
// or of an instrument that could not be read; what was measured is then lost.
func (p *Provider) Flush(ctx context.Context, w io.Writer) error {
	p.mu.Lock()
	callbacks := slices.Clone(p.callbacks)
	p.mu.Unlock()
	var errs []error
	for _, f := range callbacks {
		errs = append(errs, f(ctx, observer{p: p}))
	}
	p.mu.Lock()
	values := p.values
	p.values = map[point][]float64{}
	p.mu.Unlock()
	at := p.now().UnixMilli()
	for _, pt := range slices.SortedFunc(maps.Keys(values), func(a, b point) int {
		return cmp.Or(cmp.Compare(a.name, b.name), cmp.Compare(a.attrs.Encoded(attribute.DefaultEncoder()),
			b.attrs.Encoded(attribute.DefaultEncoder())))
	}) {
		for some := range slices.Chunk(values[pt], maxValues) {
			b, err := json.Marshal(line(p.namespace, pt, p.written[pt.name], some, at))
			if err == nil {
				_, err = w.Write(append(b, '\n'))
			}
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// line is the line of one instrument with one set of attributes.
func line(namespace string, pt point, i metrics.Instrument, values []float64, at int64) map[string]any {
	l := map[string]any{}
	for _, a := range pt.attrs.ToSlice() {
		l[string(a.Key)] = a.Value.String()
	}
	dimensions := slices.DeleteFunc(slices.Clone(i.CloudWatch), func(d string) bool { _, ok := l[d]; return !ok })
	l[pt.name] = values
	if len(values) == 1 {
		l[pt.name] = values[0]
	}
	l["_aws"] = map[string]any{
		"Timestamp": at,
		"CloudWatchMetrics": []any{map[string]any{
			"Namespace": namespace, "Dimensions": [][]string{dimensions},
			"Metrics": []any{map[string]any{"Name": pt.name, "Unit": unitOf(i.Unit)}},
		}},
	}
	return l
}

// unitOf is a unit as CloudWatch calls it.
func unitOf(unit string) string {
	switch unit {
	case "s":
		return "Seconds"
	case "1":
		return "None"
	default:
		return "Count"
	}
}
