package aws

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/leasehold-dev/leasehold/functions/metrics"
	"github.com/leasehold-dev/leasehold/functions/tasks"
	"github.com/leasehold-dev/leasehold/repo/analysis"
	"github.com/leasehold-dev/leasehold/repo/placement"
)

// SweepMargin is how long before the end of its invocation a sweep ends. The next one does what is left.
const SweepMargin = 2 * time.Second

// Sweeper queues stale analyses again and sweeps clusters, each time a schedule calls it. It is a lambda.Handler of aws-lambda-go.
type Sweeper struct {
	Metrics *metrics.Metrics // counts what sweeps do; nil counts nothing

	analyses *analysis.Analyses
	sweep    analysis.Sweep
	clusters *placement.Service
	log      *slog.Logger
}

// NewSweeper returns the handler of a schedule's events. Without analyses, or without clusters, it leaves them alone. A nil log means
// none. The error names a setting of the sweep that cannot work.
func NewSweeper(a *analysis.Analyses, s analysis.Sweep, clusters *placement.Service, log *slog.Logger) (*Sweeper, error) {
	if a != nil || clusters == nil {
		if err := s.Validate(); err != nil {
			return nil, err
		}
	}
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &Sweeper{analyses: a, sweep: s, clusters: clusters, log: log}, nil
}

// swept is what an invocation returns.
type swept struct {
	analysis.Swept

	Clusters placement.Swept
}

// Invoke sweeps once, logs and returns the counts. It fails if a sweep ended early, or an analysis or a cluster failed, after doing the
// rest, so that an alarm on failed invocations is raised.
func (s *Sweeper) Invoke(ctx context.Context, payload []byte) ([]byte, error) {
	if err := scheduled(payload); err != nil {
		return nil, err
	}
	if deadline, ok := ctx.Deadline(); ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, deadline.Add(-min(SweepMargin, time.Until(deadline)/4)))
		defer cancel()
	}
	var done swept
	err := errors.Join(s.sweepAnalyses(ctx, &done.Swept), s.sweepClusters(ctx, &done.Clusters))
	if err != nil {
		return nil, err
	}
	return json.Marshal(done)
}

func (s *Sweeper) sweepClusters(ctx context.Context, done *placement.Swept) (err error) {
	if s.clusters == nil {
		return nil
	}
	*done, err = s.clusters.Sweep(ctx, 0)
	s.Metrics.SweptClusters(ctx, *done, err)
	tasks.LogClusters(ctx, s.log, *done, err)
	return err
}

func (s *Sweeper) sweepAnalyses(ctx context.Context, done *analysis.Swept) (err error) {
	if s.analyses == nil {
		return nil
	}
	sweep := s.sweep
	if s.Metrics != nil {
		sweep.Behind = s.Metrics.Behind
	}
	*done, err = s.analyses.Sweep(ctx, sweep)
	s.Metrics.SweptAnalyses(ctx, *done, err)
	counts := []any{"stale", done.Stale, "requeued", done.Requeued, "failed", done.Failed, "skipped", done.Skipped, "errors", done.Errors, "more", done.More}
	if err != nil {
		s.log.ErrorContext(ctx, "sweep", append(counts, "err", err)...)
		return err
	}
	s.log.InfoContext(ctx, "sweep", counts...)
	return nil
}

// scheduled rejects events that no schedule sends. To sweep by hand, send {"detail-type":"Scheduled Event"}.
func scheduled(payload []byte) error {
	var e struct {
		DetailType string `json:"detail-type"`
	}
	if err := json.Unmarshal(payload, &e); err != nil {
		return fmt.Errorf("the event is not one of an EventBridge schedule: %w", err)
	}
	if e.DetailType != "Scheduled Event" {
		return errors.New(`the event is not one of an EventBridge schedule, whose detail-type is "Scheduled Event": call this function by a schedule only`)
	}
	return nil
}
