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
	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/placement"
)

// SweepMargin is how long before the end of its invocation a sweep ends. The next one does what is left.
const SweepMargin = 2 * time.Second

// Sweeper queues stale analyses again and sweeps clusters, each time a schedule calls it. It is a lambda.Handler of
// aws-lambda-go.
type Sweeper struct {
	Metrics *metrics.Metrics // counts what sweeps do; nil counts nothing
	Tallies docstore.Store   // whose tallies of documents are corrected; nil leaves them alone

	analyses *analysis.Analyses
	sweep    analysis.Sweep
	clusters *placement.Service
	log      *slog.Logger
}

// NewSweeper returns the handler of a schedule's events. Without analyses, or without clusters, it leaves them alone. A
// nil log means none. The error names a setting of the sweep that cannot work.
func NewSweeper(a *analysis.Analyses, s analysis.Sweep, clusters *placement.Service, log *slog.Logger) (*Sweeper,
	error) {
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

	Clusters   placement.Swept
	Unreadable []string `json:",omitempty"` // what is wrong with the first documents that cannot be read
}

// Invoke sweeps once, logs and returns the counts. It fails if a sweep came nowhere, or an analysis or a cluster
// failed, after doing the rest, so that an alarm on failed invocations is raised. One whose time was over at work
// succeeds, with More: the next one goes on. So does one that went past documents which cannot be read: it says which,
// and counts them, and fails for nothing that no later one could do better.
func (s *Sweeper) Invoke(ctx context.Context, payload []byte) ([]byte, error) {
	if err := scheduled(payload); err != nil {
		return nil, err
	}
	if deadline, ok := ctx.Deadline(); ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, deadline.Add(-min(SweepMargin, time.Until(deadline)/4)))
		defer cancel()
	}
	did := tasks.Sweeps{Analyses: s.analyses, Sweep: s.sweep, Clusters: s.clusters, Tallies: s.Tallies, Log: s.log,
		Metrics: s.Metrics}.Run(ctx)
	if err := errors.Join(did.AnalysesErr, did.ClustersErr, did.TalliesErr); err != nil {
		return nil, err
	}
	return json.Marshal(swept{did.Analyses, did.Clusters, did.Unreadable.Texts()})
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
		return errors.New(
			`the event is not one of an EventBridge schedule, whose detail-type is "Scheduled Event": call this function by a schedule only`)
	}
	return nil
}
