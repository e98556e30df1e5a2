// Command sweep is the Lambda function that a schedule calls to look for analyses whose worker has died. This version of
// Leasehold has no analysis gate: every invocation fails and says so. It is built like the function api.
package main

import (
	"context"
	"errors"
	"log/slog"
	"os"

	"github.com/aws/aws-lambda-go/lambda"
)

func main() {
	slog.SetDefault(slog.New(slog.NewJSONHandler(os.Stderr, nil)))
	lambda.Start(sweep)
}

var errNoGate = errors.New("this version of Leasehold has no analysis gate, so that there is nothing to sweep: remove the schedule")

func sweep(context.Context) error { return errNoGate }
