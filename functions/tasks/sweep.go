package tasks

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/leasehold-dev/leasehold/contracts"
	"github.com/leasehold-dev/leasehold/functions/httpapi"
	"github.com/leasehold-dev/leasehold/functions/metrics"
	"github.com/leasehold-dev/leasehold/repo/analysis"
	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/placement"
)

// DefaultSweepTimeout bounds one sweep. What it does not reach, the next one does.
const DefaultSweepTimeout = 2 * time.Minute

// SweepEndpoint is the scheduler's endpoint: POST /internal/sweep does one sweep. A SweepEndpoint without Analyses and Clusters responds
// NOT_CONFIGURED.
type SweepEndpoint struct {
	Analyses *analysis.Analyses // nil leaves analyses alone
	Sweep    analysis.Sweep     // its Queue is required with Analyses
	Guard    Guard

	// Clusters are swept after the analyses, in the rest of the time; nil leaves them alone. If that fails, the response counts errors.
	Clusters *placement.Service

	// Prune removes documents whose end has passed and returns how many; nil where the store does that by itself. It comes after
	// the sweep, in the rest of its time, and if it fails the response is that of the sweep.
	Prune func(context.Context) (removed int, err error)

	Timeout time.Duration // 0 means DefaultSweepTimeout; at most MaxTimeout, as long as Cloud Scheduler waits
	Log     *slog.Logger  // errors with single analyses; nil means none

	Metrics *metrics.Metrics // counts what sweeps do; nil counts nothing
}

// Route returns the endpoint for [httpapi.Options] or [httpapi.Handler].
func (d SweepEndpoint) Route() (httpapi.Route, error) {
	d.Timeout = cmp.Or(d.Timeout, DefaultSweepTimeout)
	if d.Log == nil {
		d.Log = slog.New(slog.DiscardHandler)
	}
	route := httpapi.Route{Method: http.MethodPost, Path: SweepPath, Audit: "sweep", Timeout: d.Timeout + Margin}
	if d.Analyses == nil && d.Clusters == nil {
		route.Do = notConfigured("this server cannot queue analyses again: set LEASEHOLD_TASK_QUEUE and LEASEHOLD_TASK_URL; " +
			"to sweep clusters alone, set LEASEHOLD_SWEEP_ACCOUNT and LEASEHOLD_TASK_AUDIENCE")
		return route, nil
	}
	switch {
	case d.Guard == nil:
		return route, fmt.Errorf("sweep: %w", errNoGuard)
	case d.Timeout < time.Second || d.Timeout > MaxTimeout:
		return route, fmt.Errorf("sweep: Timeout is %v: it must be from 1s to %v, the longest that Cloud Scheduler waits", d.Timeout, MaxTimeout)
	}
	if d.Analyses != nil {
		if err := d.Sweep.Validate(); err != nil {
			return route, fmt.Errorf("sweep: %w", err)
		}
	}
	route.Do = d.sweep
	return route, nil
}

func (d SweepEndpoint) sweep(w http.ResponseWriter, r *http.Request) error {
	if err := admit(d.Guard, r); err != nil {
		return err
	}
	writeWithin(w, d.Timeout+2*Margin)
	ctx, cancel := context.WithTimeout(r.Context(), d.Timeout)
	defer cancel()
	s, err := d.analyses(ctx)
	clusters := d.clusters(ctx) // a queue that is down keeps no cluster from being swept
	if err != nil && !partly(s, err) {
		if errors.Is(err, docstore.ErrClockSkew) {
			return err
		}
		return contracts.Errorf(contracts.CodeUnavailable, "the sweep ended early: the store or the queue did not respond")
	}
	return httpapi.Send(w, contracts.SweepDone{
		Stale: s.Stale, Requeued: s.Requeued, Failed: s.Failed, Skipped: s.Skipped, Errors: s.Errors, More: s.More,
		Clusters: clusters, Pruned: d.prune(ctx),
	})
}

func (d SweepEndpoint) analyses(ctx context.Context) (s analysis.Swept, err error) {
	if d.Analyses == nil {
		return s, nil
	}
	if d.Metrics != nil {
		d.Sweep.Behind = d.Metrics.Behind
	}
	s, err = d.Analyses.Sweep(ctx, d.Sweep)
	d.Metrics.SweptAnalyses(ctx, s, err)
	d.log(ctx, s, err)
	return s, err
}

func (d SweepEndpoint) clusters(ctx context.Context) *contracts.ClustersSwept {
	if d.Clusters == nil {
		return nil
	}
	s, err := d.Clusters.Sweep(ctx, 0)
	d.Metrics.SweptClusters(ctx, s, err)
	if err != nil && s.Errors == 0 {
		s.Errors = 1 // not even their names could be read
	}
	LogClusters(ctx, d.Log, s, err)
	return &contracts.ClustersSwept{
		Clusters: s.Clusters, Evicted: s.Evicted, Freed: s.Freed, Removed: s.Removed, Errors: s.Errors, More: s.More,
	}
}

// LogClusters writes what a sweep of clusters did.
func LogClusters(ctx context.Context, log *slog.Logger, s placement.Swept, err error) {
	level, line := slog.LevelInfo, []slog.Attr{
		slog.Int("clusters", s.Clusters), slog.Int("evicted", s.Evicted), slog.Int("freed", s.Freed), slog.Int("removed", s.Removed),
		slog.Int("retired", s.Retired), slog.Int("errors", s.Errors), slog.Bool("more", s.More),
	}
	if err != nil {
		level, line = slog.LevelError, append(line, slog.String("err", err.Error()))
	}
	log.LogAttrs(ctx, level, "sweep of clusters", line...)
}

// prune removes what is due, and logs a failure: the next sweep does what is left.
func (d SweepEndpoint) prune(ctx context.Context) (removed int) {
	if d.Prune == nil {
		return 0
	}
	removed, err := d.Prune(ctx)
	if err != nil {
		d.Log.LogAttrs(ctx, slog.LevelWarn, "cannot remove ended locks; the next sweep goes on", slog.Int("removed", removed), slog.String("err", err.Error()))
	}
	return removed
}

// log writes what a sweep did.
func (d SweepEndpoint) log(ctx context.Context, s analysis.Swept, err error) {
	level, line := slog.LevelInfo, []slog.Attr{
		slog.Int("stale", s.Stale), slog.Int("requeued", s.Requeued), slog.Int("failed", s.Failed), slog.Int("skipped", s.Skipped),
		slog.Int("errors", s.Errors), slog.Bool("more", s.More),
	}
	if err != nil {
		level, line = slog.LevelError, append(line, slog.String("err", err.Error()))
	}
	d.Log.LogAttrs(ctx, level, "sweep", line...)
}

// partly reports whether a sweep with troubles is still one that was done: single analyses made them, and there were
// others, or their documents are damaged, which another sweep would find again.
func partly(s analysis.Swept, err error) bool {
	return s.Errors > 0 && (s.Stale > s.Errors || errors.Is(err, docstore.ErrDamaged))
}
