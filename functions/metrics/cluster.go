package metrics

import (
	"context"
	"errors"

	"go.opentelemetry.io/otel/metric"

	"github.com/leasehold-dev/leasehold/cluster"
)

// clusterMetrics are the instruments of programs that take part in a cluster.
type clusterMetrics struct {
	activations, forwards    metric.Int64Counter
	activation, lag, failure metric.Float64Histogram
}

func newClusterMetrics(b *builder) clusterMetrics {
	return clusterMetrics{
		activations: b.counter(nameClusterActivations), forwards: b.counter(nameClusterForwards),
		activation: b.histogram(nameClusterActivation), lag: b.histogram(nameClusterLag),
		failure: b.histogram(nameClusterFailover),
	}
}

// activationOutcome is that of an activation, by the event that says it; empty for another event.
func activationOutcome(what string) string {
	switch what {
	case cluster.Activated:
		return "activated"
	case cluster.ActivationFailed:
		return "failed"
	case cluster.ActivationEnded:
		return "ended"
	case cluster.ActivationLost:
		return "lost"
	case cluster.Abandoned:
		return "abandoned"
	default:
		return ""
	}
}

// Cluster measures what an event of a member, a locator or a handler says. It is a function for Options.Observe of
// package cluster.
func (m *Metrics) Cluster(e cluster.Event) {
	if m == nil {
		return
	}
	ctx, c := context.Background(), &m.cluster
	if outcome := activationOutcome(e.What); outcome != "" {
		m.count(ctx, c.activations, 1, "", outcome)
	}
	switch e.What {
	case cluster.Activated:
		c.activation.Record(ctx, e.Took.Seconds())
		if e.Lag > 0 {
			c.lag.Record(ctx, e.Lag.Seconds())
		}
	case cluster.Forwarded:
		outcome := "ok"
		switch {
		case errors.Is(e.Err, cluster.ErrNotServed):
			outcome = "not_here"
		case errors.Is(e.Err, cluster.ErrNotProven):
			outcome = "not_proven"
		case e.Err != nil:
			outcome = "failed"
		}
		m.count(ctx, c.forwards, 1, "", outcome)
	case cluster.FailedOver:
		c.failure.Record(ctx, e.Took.Seconds())
	}
}
