package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/leasehold-dev/leasehold/adapters/awssqs"
	"github.com/leasehold-dev/leasehold/functions/tasks"
	"github.com/leasehold-dev/leasehold/once"
	"github.com/leasehold-dev/leasehold/repo/analysis"
)

type workerCmd struct {
	Queue           string `required:"" env:"LEASEHOLD_QUEUE_URL" placeholder:"URL" help:"The SQS queue (${env}). Its region is that of the URL, and a server that is none of AWS' is asked directly."`
	Target          string `required:"" env:"LEASEHOLD_TARGET_URL" placeholder:"URL" help:"Where the work is done (${env}): it gets a POST for each run. https, or this machine."`
	TargetTokenFile string `env:"LEASEHOLD_TARGET_TOKEN_FILE" type:"path" placeholder:"FILE" help:"File with the target's bearer token, read for each run (${env}). LEASEHOLD_TARGET_TOKEN holds the token itself."`

	Concurrency int           `default:"4" env:"LEASEHOLD_CONCURRENCY" help:"Messages worked on at once (${env}; default ${default})."`
	TTL         time.Duration `name:"ttl" default:"5m" env:"LEASEHOLD_TTL" help:"How long a lock lasts without a heartbeat, in whole seconds (${env}; default ${default})."`
	Heartbeat   time.Duration `env:"LEASEHOLD_HEARTBEAT" help:"Time between heartbeats (${env}; default a fifth of the ttl)."`
	MaxFailures int64         `default:"5" env:"LEASEHOLD_MAX_FAILURES" help:"Runs that may fail before the analysis turns FAILED (${env}; default ${default})."`
	OnLocked    string        `default:"retry" enum:"retry,ack" env:"LEASEHOLD_ON_LOCKED" help:"What a message comes to whose analysis somebody else runs: ${enum} (${env}; default ${default}). After ack, nothing brings the analysis again if that run fails."`

	TaskTimeout time.Duration `default:"12h" env:"LEASEHOLD_TASK_TIMEOUT" help:"Time for one run; after it the run is stopped and counts as failed (${env}; default ${default})."`

	Once  bool `xor:"until" help:"Take one message and end. Without one within 20 seconds, end too."`
	Drain bool `xor:"until" help:"End when the queue is empty: nothing waits, nothing is in flight."`

	storeFlags

	Log             string        `default:"text" enum:"text,json" env:"LEASEHOLD_LOG" help:"Form of the log on standard error: ${enum} (${env})."`
	ShutdownTimeout time.Duration `default:"20s" env:"LEASEHOLD_SHUTDOWN_TIMEOUT" help:"Time for runs in work after SIGTERM or Ctrl-C; what is not done by then is handed back (${env}; default ${default})."`
}

// Help is the longer help of the command.
func (workerCmd) Help() string {
	return `Each message is JSON with the member analysisId, and names a document of the kind analyses in the store. The run gets the analysis' lock, the target gets a POST {"analysisId":…,"lockToken":…}, and its answer decides: 2xx READY, 422 FAILED, everything else tries again later.

  leasehold worker --queue https://sqs.eu-west-1.amazonaws.com/123456789012/analyses --target http://127.0.0.1:9000/run --store dynamodb --table leasehold
  leasehold worker --drain …      for scripts and tests

SIGTERM or Ctrl-C receives no more, lets runs end for --shutdown-timeout, then cancels them and hands their messages back; a second signal ends the worker at once.

Exit codes of --once: 0 the message is done, or there was none; 3 somebody else runs its analysis; 1 it comes again for another reason.`
}

// hidden is how long a message is hidden from its receive to its run, which hides it for the lock's ttl. The gate may take half
// a minute to answer.
const hidden = time.Minute

// Run works until the context ends, or the queue has no more if asked so.
func (c *workerCmd) Run(ctx context.Context, s *streams) error {
	w, err := c.worker(newLog(c.Log, s))
	if err != nil {
		return err
	}
	store, where, err := c.open(ctx, w.Log)
	if err != nil {
		return err
	}
	defer func() {
		if err := store.Close(); err != nil {
			w.Log.Error("close the store", "err", err)
		}
	}()
	w.Gate = tasks.Local(analysis.New(store, nil))
	if err := w.Validate(); err != nil {
		return usage("%w", err)
	}
	queue, err := c.openQueue(ctx, w)
	if err != nil {
		return err
	}
	if c.Log == "text" {
		target, _, _ := strings.Cut(c.Target, "?") // a query may have a secret
		fmt.Fprintf(s.out, "taking messages from %s to %s\nAnalyses are kept %s. Stop with Ctrl-C.\n", c.Queue, target, where)
	}
	last := &lastAnswer{}
	o := &awssqs.PollOptions{Concurrency: c.Concurrency, Visibility: hidden, Grace: c.ShutdownTimeout, Drain: c.Drain, Log: w.Log}
	if c.Once {
		o.Most = 1
	}
	if err := queue.Poll(ctx, deliver(w, c.TaskTimeout, last), o); err != nil {
		return err
	}
	w.Log.InfoContext(ctx, "stopped")
	if c.Once {
		return last.outcome()
	}
	return nil
}

// worker is what the flags say about the work, without its gate.
func (c *workerCmd) worker(log *slog.Logger) (*tasks.Worker, error) {
	switch {
	case c.Store == "memory":
		return nil, usage("--store memory has no analyses: choose the store that they are in")
	case c.Concurrency < 1:
		return nil, usage("--concurrency %d: must be at least 1", c.Concurrency)
	case c.MaxFailures < 1:
		return nil, usage("--max-failures %d: must be at least 1", c.MaxFailures)
	case c.ShutdownTimeout <= 0 || c.TaskTimeout <= 0:
		return nil, usage("--shutdown-timeout and --task-timeout must be longer than 0")
	}
	target, err := tasks.NewTarget(c.Target, &tasks.TargetOptions{Token: c.token()})
	if err != nil {
		return nil, usage("--target: %w", err)
	}
	return &tasks.Worker{
		Work: target.Run, TTL: c.TTL, Heartbeat: c.Heartbeat, MaxFailures: c.MaxFailures, AckLocked: c.OnLocked == "ack", Log: log,
	}, nil
}

// token gets the target's token; nil if there is none.
func (c *workerCmd) token() tasks.Token {
	if c.TargetTokenFile != "" {
		return tasks.FileToken(c.TargetTokenFile)
	}
	if token := os.Getenv("LEASEHOLD_TARGET_TOKEN"); token != "" {
		return tasks.StaticToken(token)
	}
	return nil
}

// openQueue makes sure that the queue answers.
func (c *workerCmd) openQueue(ctx context.Context, w *tasks.Worker) (*awssqs.Queue, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	queue, err := awssqs.Open(ctx, c.Queue, nil)
	if err != nil {
		return nil, fmt.Errorf("%w\nSet --queue to the queue's URL", err)
	}
	for _, warning := range queue.Warnings(awssqs.Expect{Failures: w.MaxFailures}) {
		w.Log.WarnContext(ctx, warning)
	}
	return queue, nil
}

// deliver takes the queue's messages to the worker.
func deliver(w *tasks.Worker, timeout time.Duration, last *lastAnswer) awssqs.Handler {
	return func(ctx context.Context, d awssqs.Delivery) awssqs.Result {
		ctx, cancel := context.WithTimeout(ctx, timeout)
		defer cancel()
		a := w.Deliver(ctx, tasks.Message{Body: d.Body, ID: d.ID, Try: strconv.Itoa(d.Receives), Extend: d.Extend})
		last.set(a)
		return awssqs.Result{Done: a.Done, RetryAfter: a.RetryAfter}
	}
}

// lastAnswer is what the last delivery came to.
type lastAnswer struct {
	mu sync.Mutex
	a  tasks.Answer
}

func (l *lastAnswer) set(a tasks.Answer) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.a = a
}

// outcome gives the delivery its exit code. No delivery is none to complain about.
func (l *lastAnswer) outcome() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.a.Done || l.a.Outcome == "":
		return nil
	case l.a.Outcome == once.Locked:
		return &exitError{exitHeld, fmt.Errorf("somebody else runs analysis %s; its message comes again", l.a.AnalysisID)}
	default:
		return errors.Join(fmt.Errorf("analysis %s: %s; its message comes again", l.a.AnalysisID, l.a.Outcome), l.a.Err)
	}
}
