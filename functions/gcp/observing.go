package gcp

import (
	"context"

	"github.com/leasehold-dev/leasehold/functions/metrics"
	"github.com/leasehold-dev/leasehold/functions/telemetry"
	"github.com/leasehold-dev/leasehold/repo/docstore"
)

// observing is what a function is observed by. Its parts are nil if no one asked for them.
type observing struct {
	metrics *metrics.Metrics
	traces  *telemetry.Traces
	end     func(context.Context) error // sends what is left
}

// store is a store that is observed.
func (o *observing) store(store docstore.Store) docstore.Store {
	return telemetry.Store(store, append(o.traces.Observers(), o.metrics.Observe(store, metrics.SystemFirestore)...)...)
}
