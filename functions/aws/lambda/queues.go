//go:build !leasehold.noqueues

package main

import (
	"context"
	"log/slog"

	"github.com/aws/aws-lambda-go/lambda"

	"github.com/leasehold-dev/leasehold/adapters/awsdynamodb"
	"github.com/leasehold-dev/leasehold/adapters/awssqs"
	"github.com/leasehold-dev/leasehold/functions/aws"
	"github.com/leasehold-dev/leasehold/functions/aws/ststoken"
	"github.com/leasehold-dev/leasehold/functions/httpapi"
	"github.com/leasehold-dev/leasehold/functions/settings"
	"github.com/leasehold-dev/leasehold/functions/setup"
	"github.com/leasehold-dev/leasehold/functions/telemetry"
	"github.com/leasehold-dev/leasehold/repo/analysis"
)

func openWorker(ctx context.Context, environ []string, log *slog.Logger) (lambda.Handler, error) {
	c, err := settings.Load(settings.LambdaWorker, environ, nil)
	if err != nil {
		return nil, err
	}
	audit := slog.New(httpapi.ChainAudit(log.Handler())) // whatever the level
	log = telemetry.AtLeast(c.Level(), log)
	table, err := openStore(ctx, c, log, &awsdynamodb.Options{Lazy: true, Due: []string{analysis.ExpiryField}})
	if err != nil {
		return nil, err
	}
	worker, err := setup.Work(c, ststoken.New, table.store, log, table.metrics, nil)
	if err != nil {
		return nil, err
	}
	worker.Audit = audit
	hider, err := awssqs.OpenHider(ctx, nil)
	if err != nil {
		return nil, err
	}
	logStart(ctx, log, c)
	w, err := aws.NewWorker(worker, hider)
	if err != nil {
		return nil, err
	}
	return table.measured(w, log), nil
}

// openQueue opens the queue that the sweep sends to, and logs its warnings.
func openQueue(ctx context.Context, c *settings.Config, log *slog.Logger) (analysis.Queue, error) {
	o := &awssqs.Options{}
	if c.QueueTenantSeparator != "" {
		o.Tenant = awssqs.TenantBefore(c.QueueTenantSeparator)
	}
	queue, err := awssqs.Open(ctx, c.QueueURL, o)
	if err != nil {
		return nil, err
	}
	for _, w := range queue.Warnings(awssqs.Expect{}) {
		log.WarnContext(ctx, w, "queue", c.QueueURL)
	}
	return queue, nil
}
