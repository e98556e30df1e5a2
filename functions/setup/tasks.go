package setup

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/leasehold-dev/leasehold/functions/direct"
	"github.com/leasehold-dev/leasehold/functions/httpapi"
	"github.com/leasehold-dev/leasehold/functions/metrics"
	"github.com/leasehold-dev/leasehold/functions/oidc"
	"github.com/leasehold-dev/leasehold/functions/settings"
	"github.com/leasehold-dev/leasehold/functions/tasks"
	"github.com/leasehold-dev/leasehold/functions/telemetry"
	"github.com/leasehold-dev/leasehold/once"
	"github.com/leasehold-dev/leasehold/repo/analysis"
	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/placement"
)

// IDToken gets ID tokens for an audience, as a platform issues them to what runs on it.
type IDToken func(audience string) tasks.Token

// Work returns the worker that takes messages to the target, over a store. Metrics and traces may be nil.
func Work(
	c *settings.Config, idToken IDToken, store docstore.Store, log *slog.Logger, m *metrics.Metrics,
	traces *telemetry.Traces,
) (*tasks.Worker, error) {
	o := &tasks.TargetOptions{Traces: traces}
	switch {
	case c.TargetTokenFile != "":
		o.Token = tasks.FileToken(c.TargetTokenFile)
	case c.TargetToken != "":
		o.Token = tasks.StaticToken(c.TargetToken)
	case c.TargetAudience != "":
		o.Token = idToken(c.TargetAudience)
	}
	target, err := tasks.NewTarget(c.TargetURL, o)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", c.Name("LEASEHOLD_TARGET_URL"), err)
	}
	analyses := direct.Analyses(analysis.New(store, &analysis.Options{MaxTakeovers: c.MaxTakeovers}))
	gate := once.Gate(analyses)
	if c.CreateAnalyses {
		gate = once.Creating(analyses)
	}
	return &tasks.Worker{
		Gate: gate, Work: target.Run, TTL: c.TTL, Heartbeat: c.Heartbeat,
		MaxFailures: c.MaxFailures, Grace: c.TaskGrace, AckLocked: c.OnLocked == "ack", Log: log, Metrics: m, Traces: traces,
	}, nil
}

// TaskRoute returns the endpoint that a queue delivers to. Without a target it responds NOT_CONFIGURED. When ctx ends,
// running work is cancelled and its lock released. Metrics and traces may be nil.
func TaskRoute(
	ctx context.Context, c *settings.Config, idToken IDToken, store docstore.Store, log *slog.Logger, m *metrics.Metrics,
	traces *telemetry.Traces,
) (httpapi.Route, error) {
	if !c.RunsTasks() {
		return tasks.Endpoint{}.Route(ctx)
	}
	worker, err := Work(c, idToken, store, log, m, traces)
	if err != nil {
		return httpapi.Route{}, err
	}
	guard, err := guard(context.WithoutCancel(ctx), c, c.TaskAccount)
	if err != nil {
		return httpapi.Route{}, err
	}
	return tasks.Endpoint{Worker: worker, Guard: guard, Timeout: c.TaskTimeout}.Route(ctx)
}

// SweepRoute returns the endpoint that a scheduler calls: it sweeps analyses, clusters and tallies. On a store that
// does not remove ended locks by itself, it removes some thousand: where a server runs only while it has requests,
// [PruneLoop] does not. A nil queue leaves analyses alone; if the settings do not say who calls it either, it responds
// NOT_CONFIGURED. ctx is the lifetime of the route. Metrics and damage may be nil.
func SweepRoute(ctx context.Context, c *settings.Config, queue analysis.Queue, store docstore.Store, log *slog.Logger,
	m *metrics.Metrics, d *metrics.Damage) (httpapi.Route, error) {
	if queue == nil && !c.Sweeps() {
		return tasks.SweepEndpoint{}.Route()
	}
	guard, err := guard(ctx, c, c.SweepCaller())
	if err != nil {
		return httpapi.Route{}, err
	}
	endpoint := tasks.SweepEndpoint{Clusters: Clusters(c, store, m), Tallies: store, Guard: guard, Log: log,
		Metrics: m, Damage: d}
	if queue != nil {
		endpoint.Analyses, endpoint.Sweep = analysis.New(store, nil), Sweep(c, queue)
	}
	if p, ok := store.(docstore.Pruner); ok {
		endpoint.Prune = func(ctx context.Context) (int, error) { return pruneSome(ctx, p) }
	}
	return endpoint.Route()
}

// Sweep returns the sweep that puts stale analyses into a queue.
func Sweep(c *settings.Config, queue analysis.Queue) analysis.Sweep {
	return analysis.Sweep{Queue: queue, MaxTakeovers: c.MaxTakeovers, RequeueEvery: c.RequeueEvery, Grace: c.SweepGrace}
}

// Clusters returns what sweeps clusters.
func Clusters(c *settings.Config, store docstore.Store, m *metrics.Metrics) *placement.Service {
	return placement.New(store, &placement.Options{Retention: c.Retention, StateRetention: c.StateRetention,
		Evicted: m.Evicted})
}

// guard says which callers an internal endpoint accepts. [settings.Load] has checked that it knows them.
func guard(ctx context.Context, c *settings.Config, account string) (tasks.Guard, error) {
	switch {
	case c.TaskAuth == "platform":
		return tasks.Platform{}, nil
	case account == "" && c.InDevelopment():
		return tasks.Development{}, nil
	}
	g, err := oidc.NewAccount(ctx, oidc.Config{Issuer: c.TaskIssuer, Audience: c.TokenAudience()}, account)
	if err != nil {
		return nil, fmt.Errorf("%s, %s and %s: %w", c.Name("LEASEHOLD_TASK_ISSUER"), c.Name("LEASEHOLD_TASK_AUDIENCE"),
			c.Name("LEASEHOLD_TASK_ACCOUNT"), err)
	}
	return g, nil
}
