//go:build leasehold.noqueues

package main

import (
	"context"
	"errors"
	"log/slog"

	"github.com/aws/aws-lambda-go/lambda"

	"github.com/leasehold-dev/leasehold/functions/settings"
	"github.com/leasehold-dev/leasehold/repo/analysis"
)

var errNoQueues = errors.New("this program was built with the tag leasehold.noqueues, without the worker and " +
	"LEASEHOLD_QUEUE_URL: build it without the tag")

func openWorker(context.Context, []string, *slog.Logger) (lambda.Handler, error) {
	return nil, errNoQueues
}

func openQueue(context.Context, *settings.Config, *slog.Logger) (analysis.Queue, error) {
	return nil, errNoQueues
}
