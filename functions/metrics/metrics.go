package metrics

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/leasehold-dev/leasehold/repo/docstore"
)

// Scope is the name of the meter.
const Scope = "github.com/leasehold-dev/leasehold"

// Options are the settings of [New]. The zero value works.
type Options struct {
	// Tenants adds the tenant to the operations. There is a time series then for each tenant, operation and code; an SDK
	// bounds how many.
	Tenants bool

	// MaxLeases is how many held leases are remembered, to count them; 0 means DefaultMaxLeases. Each takes some 200
	// bytes.
	MaxLeases int

	// Now is the clock of the process; nil means time.Now.
	Now func() time.Time
}

// DefaultMaxLeases is the Options.MaxLeases of the programs that serve.
const DefaultMaxLeases = 100_000

// Metrics are the instruments of one process. All methods may be called on a nil *Metrics, and do nothing then.
type Metrics struct {
	meter   metric.Meter
	now     func() time.Time
	tenants bool

	requestDuration, storeDuration, lockWait, margin metric.Float64Histogram
	operations, replays, audited, takeovers          metric.Int64Counter
	countedAnew                                      metric.Int64Counter
	behind                                           atomic.Int64 // see StoreBehind; nanoseconds, -1 before it is known
	untracked, runsEnded, moves, storeWrites         metric.Int64Counter
	deliveries, sweeps, swept, storeDocuments        metric.Int64Counter
	evictions, unreadable                            metric.Int64Counter
	jointWrites, fallbackWrites                      metric.Int64Counter
	sweepLag, missed, alarmLag                       metric.Float64Histogram
	active, away                                     metric.Int64UpDownCounter
	held                                             *held
	cluster                                          clusterMetrics

	requests  series[requestKey, requestSeries]
	begun     series[begunKey, []metric.AddOption]
	auditedAs series[operationKey, []metric.AddOption]
	counts    series[countKey, []metric.AddOption]
	ends      series[endKey, []metric.AddOption]
	kinds     series[string, kindSeries]
	outcomes  series[string, []metric.RecordOption]

	unreadableIn series[string, []metric.AddOption] // by operation

	mu      sync.Mutex
	waiting map[string]func() int
	meters  map[string]docstore.Meter // by system
	counted survey
}

// New makes the instruments. A nil provider returns nil, which measures nothing. Options may be nil. The error is one
// of the provider's.
func New(provider metric.MeterProvider, o *Options) (*Metrics, error) {
	if provider == nil {
		return nil, nil //nolint:nilnil // a nil *Metrics is one that measures nothing
	}
	if o == nil {
		o = &Options{}
	}
	m := &Metrics{meter: provider.Meter(Scope), now: o.Now, tenants: o.Tenants, meters: map[string]docstore.Meter{}}
	if m.now == nil {
		m.now = time.Now
	}
	b := builder{meter: m.meter}
	m.requestDuration, m.lockWait, m.margin = b.histogram(nameRequestDuration), b.histogram(nameLockWait),
		b.histogram(nameRenewalMargin)
	m.storeDuration = b.histogram(nameStoreDuration)
	m.operations, m.replays, m.audited = b.counter(nameOperations), b.counter(nameReplays), b.counter(nameAuditEvents)
	m.countedAnew = b.counter(nameCountedAnew)
	m.takeovers, m.untracked, m.storeWrites = b.counter(nameTakeovers), b.counter(nameUntracked),
		b.counter(nameStoreWrites)
	m.runsEnded, m.moves = b.counter(nameRunsEnded), b.counter(nameMoves)
	m.deliveries, m.sweeps, m.swept, m.sweepLag = b.counter(nameDeliveries), b.counter(nameSweeps), b.counter(nameSwept),
		b.histogram(nameSweepLag)
	m.evictions, m.missed, m.alarmLag = b.counter(nameEvictions), b.histogram(nameMissed), b.histogram(nameAlarmLag)
	m.storeDocuments, m.unreadable = b.counter(nameStoreDocuments), b.counter(nameUnreadable)
	m.jointWrites, m.fallbackWrites = b.counter(nameStoreJoint), b.counter(nameStoreFallback)
	m.active, m.away = b.upDown(nameActiveRequests), b.upDown(nameTargetAway)
	m.cluster = newClusterMetrics(&b)
	m.held = newHeld(o.MaxLeases)
	m.observeHeld(&b)
	m.observeWaiting(&b)
	m.observeBehind(&b)
	m.observeUsage(&b)
	m.observeSurvey(&b)
	if b.err == nil {
		m.beginAtZero()
	}
	return m, b.err
}

// beginAtZero makes the series that alerts look at before anything happens.
func (m *Metrics) beginAtZero() {
	ctx := context.Background()
	m.evictions.Add(ctx, 0)
	for _, operation := range passing {
		m.unreadable.Add(ctx, 0, set(attrOperation, operation))
	}
	for _, a := range alarming {
		m.operations.Add(ctx, 0, set(attrOperation, a.operation, attrOutcome, a.outcome))
	}
}

// builder makes instruments as the table has them.
type builder struct {
	meter metric.Meter
	err   error
}

// row is the row of an instrument of a kind.
func row(name string, kind Kind) Instrument {
	i := slices.IndexFunc(Table, func(i Instrument) bool { return i.Name == name })
	if i < 0 || Table[i].Kind != kind {
		panic(fmt.Sprintf("metrics: the table has no %s %q", kind, name))
	}
	return Table[i]
}

func (b *builder) histogram(name string) metric.Float64Histogram {
	i := row(name, Histogram)
	h, err := b.meter.Float64Histogram(name, metric.WithUnit(i.Unit), metric.WithDescription(i.Help),
		metric.WithExplicitBucketBoundaries(i.Buckets...))
	b.err = errors.Join(b.err, err)
	return h
}

func (b *builder) counter(name string) metric.Int64Counter {
	i := row(name, Counter)
	c, err := b.meter.Int64Counter(name, metric.WithUnit(i.Unit), metric.WithDescription(i.Help))
	b.err = errors.Join(b.err, err)
	return c
}

func (b *builder) upDown(name string) metric.Int64UpDownCounter {
	i := row(name, UpDown)
	c, err := b.meter.Int64UpDownCounter(name, metric.WithUnit(i.Unit), metric.WithDescription(i.Help))
	b.err = errors.Join(b.err, err)
	return c
}

func (b *builder) gauge(name string) metric.Float64ObservableGauge {
	i := row(name, Gauge)
	g, err := b.meter.Float64ObservableGauge(name, metric.WithUnit(i.Unit), metric.WithDescription(i.Help))
	b.err = errors.Join(b.err, err)
	return g
}

func (b *builder) observedCounter(name string) metric.Float64ObservableCounter {
	i := row(name, ObservedCounter)
	c, err := b.meter.Float64ObservableCounter(name, metric.WithUnit(i.Unit), metric.WithDescription(i.Help))
	b.err = errors.Join(b.err, err)
	return c
}

// observe calls f when an exporter asks for the instruments.
func (b *builder) observe(f func(metric.Observer), instruments ...metric.Observable) {
	_, err := b.meter.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		f(o)
		return nil
	}, instruments...)
	b.err = errors.Join(b.err, err)
}

// StoreBehind is told by how much the store's time is behind the highest that it has shown, 0 if it is not.
func (m *Metrics) StoreBehind(by time.Duration) {
	if m != nil {
		m.behind.Store(int64(by))
	}
}

func (m *Metrics) observeBehind(b *builder) {
	m.behind.Store(-1)
	behind := b.gauge(nameClockBehind)
	b.observe(func(o metric.Observer) {
		if by := time.Duration(m.behind.Load()); by >= 0 {
			o.ObserveFloat64(behind, by.Seconds())
		}
	}, behind)
}

func (m *Metrics) observeWaiting(b *builder) {
	waiting := b.gauge(nameWaiting)
	b.observe(func(o metric.Observer) {
		m.mu.Lock()
		defer m.mu.Unlock()
		for what, count := range m.waiting {
			o.ObserveFloat64(waiting, float64(count()), set(attrWhat, what))
		}
	}, waiting)
}

// series are what is measured with, by what the attributes are made of: the sets are made once and not for each event.
// Its size is bounded by the values of the attributes.
type series[K comparable, V any] struct {
	mu sync.RWMutex
	of map[K]V
}

func (s *series[K, V]) get(k K, of func(K) V) V {
	s.mu.RLock()
	v, ok := s.of[k]
	s.mu.RUnlock()
	if ok {
		return v
	}
	v = of(k)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.of == nil {
		s.of = map[K]V{}
	}
	if len(s.of) < maxSeries {
		s.of[k] = v
	}
	return v
}

// maxSeries bounds what is kept of attributes whose values come from callers: tenants, if they are asked for.
const maxSeries = 10_000

// set makes attributes of names and values, without those whose value is empty.
func set(pairs ...string) metric.MeasurementOption {
	attrs := make([]attribute.KeyValue, 0, len(pairs)/2)
	for pair := range slices.Chunk(pairs, 2) {
		if name, value := pair[0], pair[1]; value != "" {
			attrs = append(attrs, attribute.String(name, value))
		}
	}
	return metric.WithAttributeSet(attribute.NewSet(attrs...))
}

// kindSeries are the attributes of a kind of lease.
type kindSeries struct {
	add    []metric.AddOption
	record []metric.RecordOption
}

func (m *Metrics) kind(kind string) kindSeries {
	return m.kinds.get(kind, func(kind string) kindSeries {
		s := set(attrKind, kind)
		return kindSeries{[]metric.AddOption{s}, []metric.RecordOption{s}}
	})
}
