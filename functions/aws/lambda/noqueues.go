//go:build leasehold.noqueues

package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"syscall"

	"github.com/aws/aws-lambda-go/lambda"

	"github.com/leasehold-dev/leasehold/functions/settings"
	"github.com/leasehold-dev/leasehold/repo/analysis"
)

func openWorker(_ context.Context, environ []string, _ *slog.Logger) (lambda.Handler, error) {
	return nil, becomeQueues(environ)
}

func openQueue(context.Context, *settings.Config, *slog.Logger) (analysis.Queue, error) {
	return nil, becomeQueues(os.Environ())
}

// becomeQueues puts the program queues, which is beside this one and has the clients of SQS and STS, in the place of
// this process. It returns if it cannot.
func becomeQueues(environ []string) error {
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find the program queues: %w", err)
	}
	path := filepath.Join(filepath.Dir(self), "queues")
	return fmt.Errorf("the worker, and the sweep with LEASEHOLD_QUEUE_URL, are another program, which make lambda "+
		"builds: %w", &os.PathError{Op: "start", Path: path, Err: syscall.Exec(path, []string{path}, environ)})
}
