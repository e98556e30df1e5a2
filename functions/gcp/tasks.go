package gcp

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"strings"

	"cloud.google.com/go/compute/metadata"

	"github.com/leasehold-dev/leasehold/adapters/gcpcloudtasks"
	"github.com/leasehold-dev/leasehold/functions/httpapi"
	"github.com/leasehold-dev/leasehold/functions/metrics"
	"github.com/leasehold-dev/leasehold/functions/settings"
	"github.com/leasehold-dev/leasehold/functions/setup"
	"github.com/leasehold-dev/leasehold/functions/tasks"
	"github.com/leasehold-dev/leasehold/repo/docstore"
)

// SweepRoute returns the endpoint that Cloud Scheduler calls, over the Cloud Tasks queue of the settings; without one
// it sweeps clusters alone. done closes the queue. ctx is the lifetime of the route and of the queue's credentials.
func SweepRoute(ctx context.Context, c *settings.Config, store docstore.Store, log *slog.Logger, m *metrics.Metrics,
	d *metrics.Damage) (
	route httpapi.Route, done func() error, err error) {
	done = func() error { return nil }
	if c.TaskQueue == "" {
		route, err = setup.SweepRoute(ctx, c, nil, store, log, m, d)
		return route, done, err
	}
	queue, err := openQueue(ctx, c)
	if err != nil {
		return route, done, err
	}
	if route, err = setup.SweepRoute(ctx, c, queue, store, log, m, d); err != nil {
		return route, done, errors.Join(err, queue.Close())
	}
	return route, queue.Close, nil
}

// openQueue opens the queue that sweeps put stale analyses into. ctx is the lifetime of its credentials.
func openQueue(ctx context.Context, c *settings.Config) (*gcpcloudtasks.Queue, error) {
	queue, err := gcpcloudtasks.Open(ctx, c.TaskQueue, c.TaskURL, &gcpcloudtasks.Options{
		Account: c.TaskAccount, Audience: c.TaskAudience,
		// The queue waits a little longer than the worker works, so that it receives the result.
		Deadline: min(c.TaskTimeout+2*tasks.Margin, gcpcloudtasks.MaxDeadline),
	})
	if err != nil {
		return nil, fmt.Errorf("%s, %s and %s: %w", c.Name("LEASEHOLD_TASK_QUEUE"), c.Name("LEASEHOLD_TASK_URL"),
			c.Name("LEASEHOLD_TASK_ACCOUNT"), err)
	}
	return queue, nil
}

// IDToken gets an ID token of the service account that this process runs as, from the metadata server, which caches it
// (https://cloud.google.com/run/docs/authenticating/service-to-service).
func IDToken(audience string) tasks.Token {
	return func(ctx context.Context) (string, error) {
		token, err := metadata.GetWithContext(ctx, "instance/service-accounts/default/identity?audience="+
			url.QueryEscape(audience))
		if err != nil {
			return "", fmt.Errorf("the metadata server of Google Cloud: %w", err)
		}
		return strings.TrimSpace(token), nil
	}
}
