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
	m *metrics.Metrics, d *metrics.Damage) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(SweepEvery/2 + rand.N(SweepEvery)):
		}
		some, err := sweepOnce(ctx, clusters)
		if ctx.Err() == nil {
			m.SweptClusters(ctx, some, err)
			d.Swept(metrics.OfClusters, err)
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
			d.Swept(metrics.OfTallies, err)
			tasks.LogTallies(ctx, log, corrected, err)
		}
	}
}

const (
	// AlarmEvery is how often [AlarmLoop] looks for alarms of identities, where a cluster has some.
	AlarmEvery = 2 * time.Second

	noAlarms     = 5 * time.Second  // how often it looks where none has
	alarmTimeout = 30 * time.Second // for one look; the next one goes on
	troubleEvery = time.Minute      // how often looks that fail are logged
)

// AlarmLoop fires alarms of identities that are due, in all clusters of a store, until ctx ends; see
// [placement.Service.FireAlarms]. Several processes may do it for one store.
func AlarmLoop(ctx context.Context, clusters *placement.Service, log *slog.Logger, m *metrics.Metrics,
	d *metrics.Damage) {
	var told time.Time
	for pause := rand.N(AlarmEvery); ; {
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
		look, cancel := context.WithTimeout(ctx, alarmTimeout)
		done, err := clusters.FireAlarms(look)
		cancel()
		if ctx.Err() != nil || errors.Is(err, docstore.ErrClosed) {
			return
		}
		m.FiredAlarms(ctx, done, err)
		d.Swept(metrics.OfAlarms, err)
		if err != nil && time.Since(told) >= troubleEvery { // what was fired is a metric
			tasks.LogAlarms(ctx, log, done, err)
			told = time.Now()
		}
		switch {
		case done.More && done.Fired > 0:
			pause = 0
		case done.Clusters > 0:
			pause = AlarmEvery
		default:
			pause = noAlarms
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
