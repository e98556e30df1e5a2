package setup

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/leasehold-dev/leasehold/functions/metrics"
	"github.com/leasehold-dev/leasehold/functions/tasks"
	"github.com/leasehold-dev/leasehold/repo/census"
	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/placement"
)

const (
	// SweepEvery is about how often [SweepLoop] sweeps clusters.
	SweepEvery = time.Minute

	sweepTimeout = 5 * time.Minute // for one sweep; the next one goes on
)

// SweepLoop sweeps the clusters and the tallies of a store once a minute, more or less, until ctx ends. Several
// processes may do it for one store. Only sweeps that did something are logged.
func SweepLoop(ctx context.Context, clusters *placement.Service, tallies docstore.Store, log *slog.Logger,
	m *metrics.Metrics) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(SweepEvery/2 + rand.N(SweepEvery)):
		}
		some, err := sweepOnce(ctx, clusters)
		if ctx.Err() == nil {
			m.SweptClusters(ctx, some, err)
		}
		switch {
		case ctx.Err() != nil || errors.Is(err, docstore.ErrClosed):
			return
		case err != nil || some.Evicted+some.Freed+some.Removed+some.Retired > 0:
			tasks.LogClusters(ctx, log, some, err)
		}
		corrected, err := correctOnce(ctx, tallies)
		if ctx.Err() == nil && !errors.Is(err, docstore.ErrClosed) {
			m.Corrected(ctx, err)
			tasks.LogTallies(ctx, log, corrected, err)
		}
	}
}

func sweepOnce(ctx context.Context, clusters *placement.Service) (placement.Swept, error) {
	ctx, cancel := context.WithTimeout(ctx, sweepTimeout)
	defer cancel()
	return clusters.Sweep(ctx, 0)
}

func correctOnce(ctx context.Context, tallies docstore.Store) (census.Corrected, error) {
	ctx, cancel := context.WithTimeout(ctx, sweepTimeout)
	defer cancel()
	return census.Correct(ctx, tallies, 0)
}
