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

// clusterOutcomes are those of activations, by the events that say them.
var clusterOutcomes = map[string]string{
	cluster.Activated: "activated", cluster.ActivationFailed: "failed", cluster.ActivationEnded: "ended",
	cluster.ActivationLost: "lost",
}

// Cluster measures what an event of a member, a locator or a handler says. It is a function for Options.Observe of
// package cluster.
func (m *Metrics) Cluster(e cluster.Event) {
	if m == nil {
		return
	}
	ctx, c := context.Background(), &m.cluster
	if outcome := clusterOutcomes[e.What]; outcome != "" {
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
		case e.Err != nil:
			outcome = "failed"
		}
		m.count(ctx, c.forwards, 1, "", outcome)
	case cluster.FailedOver:
		c.failure.Record(ctx, e.Took.Seconds())
	}
}
