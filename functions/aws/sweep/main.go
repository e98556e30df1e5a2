// Command sweep is the Lambda function that a schedule calls to look for analyses whose worker has died: it puts them into
// their SQS queue again, or turns them FAILED if that has happened too often. It is built like the function api. One
// sweep at a time is enough; several do no harm.
//
// Its settings are environment variables:
//
//	LEASEHOLD_TABLE           DynamoDB table; required
//	LEASEHOLD_ENDPOINT        where DynamoDB is, if not in AWS: an emulator
//	LEASEHOLD_MAX_SKEW        how far this machine's clock may be off, such as 500ms
//	LEASEHOLD_QUEUE_URL       the queue; required
//	LEASEHOLD_MAX_TAKEOVERS   an analysis that was taken over this often becomes FAILED; default 5
//	LEASEHOLD_REQUEUE_EVERY   a queued analysis that nobody has begun is queued again after this; default 15m
//	LEASEHOLD_SWEEP_GRACE     how long a lock must have been over: the queue may deliver by itself; default none
//
// Region and credentials are AWS's own variables, which Lambda sets. The log is JSON on standard error.
package main

import (
	"context"
	"errors"
	"log/slog"
	"os"

	"github.com/aws/aws-lambda-go/lambda"

	"github.com/leasehold-dev/leasehold/adapters/awssqs"
	"github.com/leasehold-dev/leasehold/functions/aws"
	"github.com/leasehold-dev/leasehold/functions/aws/internal/settings"
	"github.com/leasehold-dev/leasehold/repo/analysis"
)

func main() {
	log := slog.New(slog.NewJSONHandler(os.Stderr, nil))
	slog.SetDefault(log) // aws-lambda-go writes the errors of invocations to the standard log
	s, err := open(context.Background(), os.Getenv, log)
	if err != nil {
		log.Error("cannot start", "err", err)
		os.Exit(1)
	}
	lambda.Start(s)
}

// open makes the sweeper that all invocations of this instance share.
func open(ctx context.Context, getenv settings.Getenv, log *slog.Logger) (*aws.Sweeper, error) {
	at, err := getenv.Store()
	if err != nil {
		return nil, err
	}
	sweep, err := sweepFrom(getenv)
	if err != nil {
		return nil, err
	}
	url := getenv("LEASEHOLD_QUEUE_URL")
	if url == "" {
		return nil, errors.New("LEASEHOLD_QUEUE_URL is required: the queue that the workers read")
	}
	ctx, cancel := context.WithTimeout(ctx, settings.OpenTimeout)
	defer cancel()
	store, err := at.Open(ctx, log, analysis.ExpiryField)
	if err != nil {
		return nil, err
	}
	queue, err := awssqs.Open(ctx, url, nil)
	if err != nil {
		return nil, err
	}
	for _, w := range queue.Warnings(awssqs.Expect{}) {
		log.WarnContext(ctx, w, "queue", url)
	}
	sweep.Queue = queue
	return aws.NewSweeper(analysis.New(store, nil), sweep, log)
}

// sweepFrom is what the environment says about the sweep, without its queue.
func sweepFrom(getenv settings.Getenv) (s analysis.Sweep, err error) {
	if s.MaxTakeovers, err = getenv.Count("LEASEHOLD_MAX_TAKEOVERS"); err != nil {
		return s, err
	}
	if s.RequeueEvery, err = getenv.Duration("LEASEHOLD_REQUEUE_EVERY"); err != nil {
		return s, err
	}
	s.Grace, err = getenv.Duration("LEASEHOLD_SWEEP_GRACE")
	return s, err
}
