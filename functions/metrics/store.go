package metrics

import (
	"context"
	"errors"
	"time"

	"go.opentelemetry.io/otel/metric"

	"github.com/leasehold-dev/leasehold/functions/telemetry"
	"github.com/leasehold-dev/leasehold/repo/docstore"
)

// The systems that stores are on, as the semantic conventions of databases name them.
const (
	SystemMemory    = "memory"
	SystemSQLite    = "sqlite"
	SystemRedis     = "redis"
	SystemFirestore = "gcp.firestore"
	SystemDynamoDB  = "aws.dynamodb"
)

// Observe returns what measures a store, for [telemetry.Store]: its calls, and the leases that its commands grant and end. A nil *Metrics returns
// none.
func (m *Metrics) Observe(system string) []telemetry.Observer {
	if m == nil {
		return nil
	}
	return []telemetry.Observer{&observer{m: m, system: system}}
}

// observer measures a store.
type observer struct {
	m      *Metrics
	system string
	calls  series[callKey, []metric.RecordOption]
	writes series[writeKey, []metric.AddOption]
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
		k := callKey{string(c.Operation), c.Kind, failure(a.Err)}
		s.m.storeDuration.Record(ctx, time.Since(begin).Seconds(), s.calls.get(k, func(k callKey) []metric.RecordOption {
			return []metric.RecordOption{set(attrSystem, s.system, attrDBOp, k.operation, attrCollection, k.kind, attrError, k.failed)}
		})...)
		if c.Operation == telemetry.Write {
			s.m.storeWrites.Add(ctx, 1, s.writes.get(writeKey{c.Kind, outcome(a)}, func(k writeKey) []metric.AddOption {
				return []metric.AddOption{set(attrSystem, s.system, attrCollection, k.kind, attrOutcome, k.outcome)}
			})...)
		}
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
		docstore.ErrInvalid, docstore.ErrDamaged, docstore.ErrClosed, docstore.ErrClockSkew, docstore.ErrUnsupported, docstore.ErrNotWritten,
	} {
		if errors.Is(err, is) {
			return true
		}
	}
	return false
}

// failure is a word for an error of a store; empty for none.
func failure(err error) string {
	if err == nil {
		return ""
	}
	for _, f := range failures {
		if errors.Is(err, f.is) {
			return f.word
		}
	}
	return "_OTHER"
}

// failures are looked at in order: an error can be several.
var failures = []struct {
	is   error
	word string
}{
	{docstore.ErrFull, "full"},
	{docstore.ErrClockSkew, "clock_skew"},
	{docstore.ErrDamaged, "damaged"},
	{docstore.ErrInvalid, "invalid"},
	{docstore.ErrUnsupported, "unsupported"},
	{docstore.ErrClosed, "closed"},
	{context.Canceled, "canceled"},
	{context.DeadlineExceeded, "timeout"},
	{docstore.ErrUnavailable, "unavailable"},
}
