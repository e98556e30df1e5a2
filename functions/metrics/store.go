package metrics

import (
	"context"
	"errors"
	"maps"
	"time"

	"go.opentelemetry.io/otel/metric"

	"github.com/leasehold-dev/leasehold/functions/telemetry"
	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/rule"
)

// The systems that stores are on, as the semantic conventions of databases name them.
const (
	SystemMemory    = "memory"
	SystemSQLite    = "sqlite"
	SystemRedis     = "redis"
	SystemFirestore = "gcp.firestore"
	SystemDynamoDB  = "aws.dynamodb"
)

// Observe returns what measures a store, for [telemetry.Store]: its calls, and the leases that its commands grant and
// end. What the store itself counts is read when an exporter asks, if it is a [docstore.Meter]; it need not be open any
// more then. A nil *Metrics returns none.
func (m *Metrics) Observe(store docstore.Store, system string) []telemetry.Observer {
	if m == nil {
		return nil
	}
	if meter, ok := store.(docstore.Meter); ok {
		m.mu.Lock()
		m.meters[system] = meter
		m.mu.Unlock()
	}
	return []telemetry.Observer{&observer{m: m, system: system}}
}

// observeUsage reads what the stores count.
func (m *Metrics) observeUsage(b *builder) {
	requests, retries, throttled := b.observedCounter(nameStoreRequests), b.observedCounter(nameStoreRetries),
		b.observedCounter(nameStoreThrottled)
	billed := b.observedCounter(nameStoreBilled)
	warnings, offset, uncertainty := b.gauge(nameStoreWarnings), b.gauge(nameClockOffset), b.gauge(nameClockUncertainty)
	logSize := b.gauge(nameStoreLogSize)
	b.observe(func(o metric.Observer) {
		m.mu.Lock()
		meters := maps.Clone(m.meters)
		m.mu.Unlock()
		for system, meter := range meters {
			u, s := meter.Usage(), set(attrSystem, system)
			o.ObserveFloat64(requests, float64(u.Requests), s)
			o.ObserveFloat64(retries, float64(u.Retries), s)
			o.ObserveFloat64(throttled, float64(u.Throttled), s)
			o.ObserveFloat64(warnings, float64(u.Warnings), s)
			if u.Billed.Known {
				o.ObserveFloat64(billed, u.Billed.Reads, set(attrSystem, system, attrWhat, "reads"))
				o.ObserveFloat64(billed, u.Billed.Writes, set(attrSystem, system, attrWhat, "writes"))
			}
			if u.Log.Known {
				o.ObserveFloat64(logSize, float64(u.Log.Bytes), s)
			}
			if u.Clock.Known {
				o.ObserveFloat64(offset, u.Clock.Offset.Seconds(), s)
				o.ObserveFloat64(uncertainty, u.Clock.Uncertainty.Seconds(), s)
			}
		}
	}, requests, retries, throttled, billed, warnings, logSize, offset, uncertainty)
}

// observer measures a store.
type observer struct {
	m         *Metrics
	system    string
	calls     series[callKey, []metric.RecordOption]
	writes    series[writeKey, []metric.AddOption]
	ways      series[string, []metric.AddOption]  // by kind
	documents series[callKey, []metric.AddOption] // by calls without errors
}

// callKey is what the attributes of a call are made of.
type callKey struct{ operation, kind, failed string }

type writeKey struct{ kind, outcome string }

// Call implements [telemetry.Observer].
func (s *observer) Call(ctx context.Context, c telemetry.Call) (context.Context, func(telemetry.Answer)) {
	begin := time.Now()
	return ctx, func(a telemetry.Answer) {
		if errors.Is(a.Err, docstore.ErrNoIndex) {
			return // nothing was asked
		}
		k := callKey{operation: string(c.Operation), kind: c.Kind}
		if a.Err != nil {
			k.failed = telemetry.ErrorType(a.Err)
		}
		s.m.storeDuration.Record(ctx, time.Since(begin).Seconds(), s.calls.get(k, func(k callKey) []metric.RecordOption {
			return []metric.RecordOption{set(attrSystem, s.system, attrDBOp, k.operation, attrCollection, k.kind,
				attrError, k.failed)}
		})...)
		n := a.Documents
		if c.Operation == telemetry.Write && outcome(a) == "applied" {
			n = c.Documents
		}
		if n > 0 {
			s.m.storeDocuments.Add(ctx, int64(n), s.documents.get(callKey{k.operation, k.kind, ""},
				func(k callKey) []metric.AddOption {
					return []metric.AddOption{set(attrSystem, s.system, attrDBOp, k.operation, attrCollection, k.kind)}
				})...)
		}
		if c.Operation == telemetry.Write {
			s.countWays(ctx, c)
			s.m.storeWrites.Add(ctx, 1, s.writes.get(writeKey{c.Kind, outcome(a)}, func(k writeKey) []metric.AddOption {
				return []metric.AddOption{set(attrSystem, s.system, attrCollection, k.kind, attrOutcome, k.outcome)}
			})...)
		}
	}
}

// countWays counts writes that are more than the first write of a command on one document.
func (s *observer) countWays(ctx context.Context, c telemetry.Call) {
	add := func(counter metric.Int64Counter) {
		counter.Add(ctx, 1, s.ways.get(c.Kind, func(kind string) []metric.AddOption {
			return []metric.AddOption{set(attrSystem, s.system, attrCollection, kind)}
		})...)
	}
	if c.Documents > 1 {
		add(s.m.jointWrites)
	}
	if rule.IsFallback(ctx) {
		add(s.m.fallbackWrites)
	}
}

// outcome is how a write ended.
func outcome(a telemetry.Answer) string {
	switch {
	case a.Err != nil && certain(a.Err):
		return "not_applied"
	case a.Err != nil:
		return "unknown"
	case a.Refused:
		return "refused"
	default:
		return "applied"
	}
}

// certain reports whether an error says that nothing was changed.
func certain(err error) bool {
	for _, is := range []error{
		docstore.ErrInvalid, docstore.ErrDamaged, docstore.ErrClosed, docstore.ErrClockSkew, docstore.ErrUnsupported,
		docstore.ErrNotWritten,
	} {
		if errors.Is(err, is) {
			return true
		}
	}
	return false
}
