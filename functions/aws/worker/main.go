// Command worker is the Lambda function that stands at an SQS queue of analyses: each message goes through the gate, in a
// DynamoDB table, to the work, behind a URL. It is built like the function api, and the queue's event source mapping must
// report batch item failures. Whoever has the work as a Go function builds a main like this one around aws.NewWorker.
//
// Its settings are environment variables:
//
//	LEASEHOLD_TABLE          DynamoDB table; required
//	LEASEHOLD_ENDPOINT       where DynamoDB is, if not in AWS: an emulator
//	LEASEHOLD_MAX_SKEW       how far this machine's clock may be off, such as 500ms
//	LEASEHOLD_TARGET_URL     where the work is done: it gets a POST for each run; required
//	LEASEHOLD_TARGET_TOKEN   bearer token for it
//	LEASEHOLD_TTL            how long a lock lasts without a heartbeat; default 5m
//	LEASEHOLD_HEARTBEAT      between heartbeats; default a fifth of the ttl
//	LEASEHOLD_MAX_FAILURES   runs that may fail before the analysis turns FAILED; default 5
//	LEASEHOLD_ON_LOCKED      what a message comes to whose analysis somebody else runs: retry (default) or ack
//
// Region and credentials are AWS's own variables, which Lambda sets. The log is JSON on standard error.
package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"

	"github.com/aws/aws-lambda-go/lambda"

	"github.com/leasehold-dev/leasehold/adapters/awssqs"
	"github.com/leasehold-dev/leasehold/functions/aws"
	"github.com/leasehold-dev/leasehold/functions/aws/internal/settings"
	"github.com/leasehold-dev/leasehold/functions/tasks"
	"github.com/leasehold-dev/leasehold/repo/analysis"
)

func main() {
	log := slog.New(slog.NewJSONHandler(os.Stderr, nil))
	slog.SetDefault(log) // aws-lambda-go writes the errors of invocations to the standard log
	w, err := open(context.Background(), os.Getenv, log)
	if err != nil {
		log.Error("cannot start", "err", err)
		os.Exit(1)
	}
	lambda.Start(w)
}

// open makes the worker that all invocations of this instance share.
func open(ctx context.Context, getenv settings.Getenv, log *slog.Logger) (*aws.Worker, error) {
	w, err := worker(getenv)
	if err != nil {
		return nil, err
	}
	at, err := getenv.Store()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, settings.OpenTimeout)
	defer cancel()
	store, err := at.Open(ctx, log)
	if err != nil {
		return nil, err
	}
	hider, err := awssqs.OpenHider(ctx, nil)
	if err != nil {
		return nil, err
	}
	w.Gate, w.Log = tasks.Local(analysis.New(store, nil)), log
	return aws.NewWorker(w, hider)
}

// worker is what the environment says about the work, without its gate.
func worker(getenv settings.Getenv) (*tasks.Worker, error) {
	url := getenv("LEASEHOLD_TARGET_URL")
	if url == "" {
		return nil, errors.New("LEASEHOLD_TARGET_URL is required: where the work is done, such as https://worker.example.com/run")
	}
	o := &tasks.TargetOptions{}
	if token := getenv("LEASEHOLD_TARGET_TOKEN"); token != "" {
		o.Token = tasks.StaticToken(token)
	}
	target, err := tasks.NewTarget(url, o)
	if err != nil {
		return nil, fmt.Errorf("LEASEHOLD_TARGET_URL: %w", err)
	}
	w := &tasks.Worker{Work: target.Run}
	if w.TTL, err = getenv.Duration("LEASEHOLD_TTL"); err != nil {
		return nil, err
	}
	if w.Heartbeat, err = getenv.Duration("LEASEHOLD_HEARTBEAT"); err != nil {
		return nil, err
	}
	if w.MaxFailures, err = getenv.Count("LEASEHOLD_MAX_FAILURES"); err != nil {
		return nil, err
	}
	switch on := getenv("LEASEHOLD_ON_LOCKED"); on {
	case "", "retry":
	case "ack":
		w.AckLocked = true
	default:
		return nil, fmt.Errorf("LEASEHOLD_ON_LOCKED is %q: it must be retry or ack", on)
	}
	return w, nil
}
