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

// SweepEndpoint is the scheduler's endpoint: POST /internal/sweep does one sweep. A SweepEndpoint without Analyses and
// Clusters responds NOT_CONFIGURED.
type SweepEndpoint struct {
	Analyses *analysis.Analyses // nil leaves analyses alone
	Sweep    analysis.Sweep     // its Queue is required with Analyses
	Guard    Guard

	// Clusters are swept in the same time, see [Sweeps]; nil leaves them alone. If that fails, the response counts errors.
	Clusters *placement.Service

	// Prune removes documents whose end has passed and returns how many; nil where the store does that by itself. If it
	// fails, the response is that of the sweep.
	Prune func(context.Context) (removed int, err error)

	// Tallies is the store whose tallies of documents are corrected in the same time; nil leaves them alone. If that
	// fails, the response is that of the sweep.
	Tallies docstore.Store

	Timeout time.Duration // 0 means DefaultSweepTimeout; at most MaxTimeout, as long as Cloud Scheduler waits
	Log     *slog.Logger  // errors with single analyses; nil means none

	Metrics *metrics.Metrics // counts what sweeps do; nil counts nothing
	Damage  *metrics.Damage  // counts what they cannot read; nil counts nothing
}

// Route returns the endpoint for [httpapi.Options] or [httpapi.Handler].
func (d SweepEndpoint) Route() (httpapi.Route, error) {
	d.Timeout = cmp.Or(d.Timeout, DefaultSweepTimeout)
	if d.Log == nil {
		d.Log = slog.New(slog.DiscardHandler)
	}
	route := httpapi.Route{Method: http.MethodPost, Path: SweepPath, Audit: "sweep", Timeout: d.Timeout + Margin}
	if d.Analyses == nil && d.Clusters == nil {
		route.Do = notConfigured(
			"this server cannot queue analyses again: set LEASEHOLD_TASK_QUEUE and LEASEHOLD_TASK_URL; " +
				"to sweep clusters alone, set LEASEHOLD_SWEEP_ACCOUNT and LEASEHOLD_TASK_AUDIENCE")
		return route, nil
	}
	switch {
	case d.Guard == nil:
		return route, fmt.Errorf("sweep: %w", errNoGuard)
	case d.Timeout < time.Second || d.Timeout > MaxTimeout:
		return route, fmt.Errorf("sweep: Timeout is %v: it must be from 1s to %v, the longest that Cloud Scheduler waits",
			d.Timeout, MaxTimeout)
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
	httpapi.AuditEvent(r).Kind = "sweep"
	writeWithin(w, d.Timeout+2*Margin)
	ctx, cancel := context.WithTimeout(r.Context(), d.Timeout)
	defer cancel()
	done := Sweeps{Analyses: d.Analyses, Sweep: d.Sweep, Clusters: d.Clusters, Tallies: d.Tallies,
		Prune: d.Prune, Log: d.Log, Metrics: d.Metrics, Damage: d.Damage}.Run(ctx)
	s, err := done.Analyses, done.AnalysesErr
	if err != nil && !partly(s) {
		if errors.Is(err, docstore.ErrClockSkew) {
			return err
		}
		return contracts.Errorf(contracts.CodeUnavailable, "the sweep ended early: the store or the queue did not respond")
	}
	response := contracts.SweepDone{
		Stale: s.Stale, Requeued: s.Requeued, Failed: s.Failed, Skipped: s.Skipped, Errors: s.Errors, Damaged: s.Damaged,
		More: s.More || done.PruneMore || done.Tallies.More, Pruned: done.Pruned,
	}
	if c := done.Clusters; d.Clusters != nil {
		if done.ClustersErr != nil && c.Errors == 0 {
			c.Errors = 1 // not even their names could be read
		}
		a := done.Alarms
		if done.AlarmsErr != nil && a.Errors == 0 {
			a.Errors = 1
		}
		response.Clusters = &contracts.ClustersSwept{
			Clusters: c.Clusters, Evicted: c.Evicted, Freed: c.Freed, Removed: c.Removed, Alarms: a.Fired,
			Errors: c.Errors + a.Errors, Damaged: c.Damaged + a.Damaged, More: c.More || a.More,
		}
	}
	response.Unreadable = done.Unreadable.Texts()
	return httpapi.Send(w, response)
}

// partly reports whether a sweep with failures is still one that was done: single analyses failed, and there were
// others.
func partly(s analysis.Swept) bool { return s.Errors > s.Damaged && s.Stale > s.Errors }
