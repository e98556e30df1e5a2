package metrics

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/metric"

	"github.com/leasehold-dev/leasehold/repo/analysis"
	"github.com/leasehold-dev/leasehold/repo/placement"
)

// countKey is what is counted, and how it ended.
type countKey struct{ what, outcome string }

func (m *Metrics) count(ctx context.Context, c metric.Int64Counter, n int, what, outcome string) {
	if n == 0 {
		return
	}
	c.Add(ctx, int64(n), m.counts.get(countKey{what, outcome}, func(k countKey) []metric.AddOption {
		return []metric.AddOption{set(attrWhat, k.what, attrOutcome, k.outcome)}
	})...)
}

// Delivered counts a delivery of a queue.
func (m *Metrics) Delivered(ctx context.Context, outcome string) {
	if m != nil {
		m.count(ctx, m.deliveries, 1, "", outcome)
	}
}

// Behind measures how long the lock of an analysis had expired when a sweep found it; see [analysis.Sweep].
func (m *Metrics) Behind(ctx context.Context, expired time.Duration) {
	if m != nil {
		m.sweepLag.Record(ctx, expired.Seconds())
	}
}

// SweptAnalyses counts a sweep of analyses and what it did.
func (m *Metrics) SweptAnalyses(ctx context.Context, s analysis.Swept, err error) {
	if m == nil {
		return
	}
	const what = "analyses"
	m.count(ctx, m.sweeps, 1, what, okOr(err))
	m.count(ctx, m.swept, s.Requeued, what, "requeued")
	m.count(ctx, m.swept, s.Failed, what, "failed")
	m.count(ctx, m.swept, s.Skipped, what, "skipped")
	m.count(ctx, m.swept, s.Errors, what, "error")
}

// SweptClusters counts a sweep of clusters and what it did.
func (m *Metrics) SweptClusters(ctx context.Context, s placement.Swept, err error) {
	if m == nil {
		return
	}
	const what = "clusters"
	m.count(ctx, m.sweeps, 1, what, okOr(err))
	m.count(ctx, m.swept, s.Evicted, what, "evicted")
	m.count(ctx, m.swept, s.Freed, what, "freed")
	m.count(ctx, m.swept, s.Removed, what, "removed")
	m.count(ctx, m.swept, s.Errors, what, "error")
}

func okOr(err error) string {
	if err != nil {
		return "failed"
	}
	return "ok"
}
