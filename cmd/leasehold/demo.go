package main

import (
	"context"
	"errors"
	"os"

	"github.com/leasehold-dev/leasehold/cmd/leasehold/internal/demo"
)

type demoCmd struct {
	JSON bool `name:"json" help:"Print one JSON object a line, for machines."`

	// A worker of the demonstration is a process of its own, so that it can be killed.
	Worker         string `hidden:""`
	WorkerServer   string `hidden:""`
	WorkerAnalysis string `hidden:""`
}

// Help is the longer help of the command.
func (demoCmd) Help() string {
	return `Starts a server on the embedded store, in a temporary folder, and shows over HTTP what it is for:

  1. two workers acquire one lock, and the stale token of a paused holder is rejected
  2. a queue delivers a task five times at once, and it runs once
  3. a worker process is killed during its work, and another takes over
  4. a room that five callers ask for is active once; its member dies, and another serves it

It needs nothing else and ends by itself after about ten seconds. Exit code 0: every check passed; 1: one failed.`
}

// Run runs the demonstration, or one of its workers.
func (c *demoCmd) Run(ctx context.Context, s *streams) error {
	if c.Worker != "" {
		return demo.Work(ctx, c.WorkerServer, c.WorkerAnalysis, c.Worker, s.out)
	}
	program, err := os.Executable()
	if err != nil {
		return err
	}
	if err := demo.Run(ctx, s.out, demo.Options{Executable: program, JSON: c.JSON}); err != nil {
		if errors.Is(err, context.Canceled) {
			return interruption("the demonstration was interrupted")
		}
		return err
	}
	return nil
}
