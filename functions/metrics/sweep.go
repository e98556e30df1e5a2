package metrics

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/metric"

	"github.com/leasehold-dev/leasehold/repo/analysis"
	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/placement"
)

// countKey is what is counted, and how it ended.
type countKey struct{ what, outcome string }

func (m *Metrics) count(ctx context.Context, c metric.Int64Counter, n int, what, outcome string) {
	if n == 0 {
		return
	}
	c.Add(ctx, int64(n), m.of(what, outcome)...)
}

// of are the attributes of what is counted.
func (m *Metrics) of(what, outcome string) []metric.AddOption {
	return m.counts.get(countKey{what, outcome}, func(k countKey) []metric.AddOption {
		return []metric.AddOption{set(attrWhat, k.what, attrOutcome, k.outcome)}
	})
}

// Delivered counts a delivery of a queue.
func (m *Metrics) Delivered(ctx context.Context, outcome string) {
	if m != nil {
		m.count(ctx, m.deliveries, 1, "", outcome)
	}
}

// Away counts a target that is away from now on, or that is back.
func (m *Metrics) Away(ctx context.Context, away bool) {
	switch {
	case m == nil:
	case away:
		m.away.Add(ctx, 1)
	default:
		m.away.Add(ctx, -1)
	}
}

// Behind measures how long the lock of an analysis had expired when a sweep found it; see [analysis.Sweep].
func (m *Metrics) Behind(ctx context.Context, expired time.Duration) {
	if m != nil {
		m.sweepLag.Record(ctx, expired.Seconds())
	}
}

// Evicted counts members that were evicted together, see [placement.Options].
func (m *Metrics) Evicted(ctx context.Context, expired []time.Duration, moved int) {
	if m == nil {
		return
	}
	m.evictions.Add(ctx, int64(len(expired)))
	for _, d := range expired {
		m.missed.Record(ctx, d.Seconds())
	}
	if moved > 0 {
		m.moves.Add(ctx, int64(moved), set(attrOperation, "placement.evict"))
	}
}

// FiredAlarms measures how late alarms were when they were fired for the first time, and counts what a look for them,
// whose error err is, could not read.
func (m *Metrics) FiredAlarms(ctx context.Context, a placement.Alarms, err error) {
	if m == nil {
		return
	}
	passed, _ := docstore.Failure(err)
	m.Unreadable(ctx, sweepOf+OfAlarms, passed.Count)
	for _, late := range a.Late {
		m.alarmLag.Record(ctx, late.Seconds())
	}
}

// SweptAnalyses counts a sweep of analyses and what it did.
func (m *Metrics) SweptAnalyses(ctx context.Context, s analysis.Swept, err error) {
	if m == nil {
		return
	}
	const what = OfAnalyses
	m.sweep(ctx, what, err)
	m.count(ctx, m.swept, s.Requeued, what, "requeued")
	m.count(ctx, m.swept, s.Failed, what, "failed")
	m.count(ctx, m.swept, s.Skipped, what, "skipped")
	m.count(ctx, m.swept, s.Errors-s.Damaged, what, "error")
}

// SweptClusters counts a sweep of clusters and what it did.
func (m *Metrics) SweptClusters(ctx context.Context, s placement.Swept, err error) {
	if m == nil {
		return
	}
	const what = OfClusters
	m.sweep(ctx, what, err)
	m.count(ctx, m.swept, s.Evicted, what, "evicted")
	m.count(ctx, m.swept, s.Freed, what, "freed")
	m.count(ctx, m.swept, s.Removed, what, "removed")
	m.count(ctx, m.swept, s.Errors-s.Damaged, what, "error")
}

// sweep counts a sweep, and what it could not read. One that fails makes the series of those that get through as well,
// whose rest is what an alert looks for.
func (m *Metrics) sweep(ctx context.Context, what string, err error) {
	through, failed := int64(1), 0
	passed, failure := docstore.Failure(err)
	if failure != nil {
		through, failed = 0, 1
	}
	m.sweeps.Add(ctx, through, m.of(what, "ok")...)
	m.count(ctx, m.sweeps, failed, what, "failed")
	m.Unreadable(ctx, sweepOf+what, passed.Count)
}

// sweepOf begins the operation that sweeps are in what counts documents that cannot be read.
const sweepOf = "sweep."

// Pruned counts what could not be read of the documents that were to be removed; err is that of a [docstore.Pruner].
func (m *Metrics) Pruned(ctx context.Context, err error) {
	if m != nil {
		passed, _ := docstore.Failure(err)
		m.Unreadable(ctx, sweepOf+OfEnded, passed.Count)
	}
}

// Corrected counts a sweep of tallies, see census.Correct, whose error err is.
func (m *Metrics) Corrected(ctx context.Context, err error) {
	if m != nil {
		m.sweep(ctx, OfTallies, err)
	}
}

// Unreadable counts documents that an operation passed by, because they cannot be read.
func (m *Metrics) Unreadable(ctx context.Context, operation string, n int) {
	if m != nil && n > 0 {
		m.unreadable.Add(ctx, int64(n), m.unreadableIn.get(operation, func(o string) []metric.AddOption {
			return []metric.AddOption{set(attrOperation, o)}
		})...)
	}
}
