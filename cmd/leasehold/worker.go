package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/alecthomas/kong"

	"github.com/leasehold-dev/leasehold/adapters/awssqs"
	"github.com/leasehold-dev/leasehold/functions/aws/ststoken"
	"github.com/leasehold-dev/leasehold/functions/settings"
	"github.com/leasehold-dev/leasehold/functions/setup"
	"github.com/leasehold-dev/leasehold/functions/tasks"
	"github.com/leasehold-dev/leasehold/functions/telemetry"
	"github.com/leasehold-dev/leasehold/internal/buildinfo"
	"github.com/leasehold-dev/leasehold/once"
)

type workerCmd struct {
	Once  bool `xor:"until" help:"Take one message and end; end after 20 seconds without one."`
	Drain bool `xor:"until" help:"End when the queue is empty: no message waits and none is in flight."`

	kong.Plugins // the flags of the settings

	flags settingFlags
}

func newWorkerCmd() workerCmd {
	flags := newSettingFlags(settings.Worker)
	return workerCmd{Plugins: flags.plugin(), flags: flags}
}

// Help is the longer help of the command.
func (workerCmd) Help() string {
	return `Each message is JSON with the member analysisId, which names a document of the kind analyses in the store. A run gets the lock of the analysis, the target receives a POST, and its response decides: 2xx READY, 422 FAILED, anything else is retried later. While the target cannot be reached, or responds 429, 503 or a redirect, messages wait, and no run is counted as failed. A message that no retry can help goes to the queue's dead-letter queue.

  leasehold worker --queue-url https://sqs.eu-west-1.amazonaws.com/123456789012/analyses --target-url http://127.0.0.1:9000/run --store dynamodb --table leasehold
  leasehold worker --drain …      for scripts and tests

SIGTERM or Ctrl-C stops receiving and lets runs finish for --shutdown-timeout; then they are cancelled and their messages returned to the queue. A second signal ends the worker at once.

Every flag with a variable in parentheses can be set by it; the flag wins.

Exit codes of --once: 0 the message is done, or there was none; 3 its analysis is already running; 1 it is retried for another reason.`
}

// hidden is how long a message is hidden from its receive to its run, which hides it for the lock's ttl. The guard may
// take half a minute to respond.
const hidden = time.Minute

// Run works until the context ends, or as long as --once or --drain says.
func (cmd *workerCmd) Run(ctx context.Context, s *streams) error {
	interruptsOf(ctx).endAtOnce()
	if err := ofNoTenant("analyses belong"); err != nil {
		return err
	}
	c, err := cmd.flags.load()
	if err != nil {
		return err
	}
	all := newLog(c.Log, s)
	log := telemetry.AtLeast(c.Level(), all)
	audit, endAudit := chained(all.Handler()) // whatever the level
	defer closeLogged(log, "end the audit events", endAudit)
	if err := guardFiles(c, log); err != nil {
		return err
	}
	observed, err := observe(ctx, c, log)
	if err != nil {
		return err
	}
	defer observed.end()
	store, where, err := openStore(ctx, c, log, use{count: observed.metrics != nil})
	if err != nil {
		return err
	}
	defer closeLogged(log, "close the store", store.Close)
	store = observed.store(store)
	w, err := setup.Work(c, ststoken.New, store, log, observed.metrics, observed.traces)
	if err != nil {
		return usage("%w", err)
	}
	w.Audit = audit
	if err := w.Validate(); err != nil {
		return usage("%w", err)
	}
	queue, err := openQueue(ctx, c, log)
	if err != nil {
		return err
	}
	target, _, _ := strings.Cut(c.TargetURL, "?") // a query may have a secret
	logStart(ctx, log, c, buildinfo.This(version), where, slog.String("queue", c.QueueURL), slog.String("target", target))
	if c.Log == "text" {
		fmt.Fprintf(s.out, "taking messages from %s to %s\nAnalyses are stored %s. Stop with Ctrl-C.\n",
			c.QueueURL, target, where)
	}
	last := &lastResult{}
	o := &awssqs.PollOptions{Concurrency: int(c.Concurrency), Visibility: hidden, Grace: c.ShutdownTimeout,
		Drain: cmd.Drain, Log: log}
	if cmd.Once {
		o.Most = 1
	}
	handler := deliver(w, c.TaskTimeout, ctx.Done(), last)
	if cmd.Once {
		handler = deliver(w, c.TaskTimeout, nil, last)
	}
	if err := queue.Poll(ctx, handler, o); err != nil {
		return err
	}
	log.InfoContext(ctx, "stopped")
	if cmd.Once {
		return last.outcome()
	}
	return nil
}

// openQueue opens the queue and makes sure that it responds.
func openQueue(ctx context.Context, c *settings.Config, log *slog.Logger) (*awssqs.Queue, error) {
	ctx, cancel := context.WithTimeout(ctx, openTimeout)
	defer cancel()
	queue, err := awssqs.Open(ctx, c.QueueURL, nil)
	if err != nil {
		return nil, fmt.Errorf("%w\nSet %s to the queue's URL", err, c.Name("LEASEHOLD_QUEUE_URL"))
	}
	for _, warning := range queue.Warnings(awssqs.Expect{Failures: c.MaxFailures}) {
		log.WarnContext(ctx, warning)
	}
	return queue, nil
}

// deliver passes the queue's messages to the worker. While the target is away, it holds them until the process stops;
// without a channel that says so, it returns them.
func deliver(w *tasks.Worker, timeout time.Duration, stopping <-chan struct{}, last *lastResult) awssqs.Handler {
	return func(ctx context.Context, d awssqs.Delivery) awssqs.Result {
		m := tasks.Message{Body: d.Body, ID: d.ID, Try: strconv.Itoa(d.Receives), Deliveries: d.Receives, Sent: d.Sent,
			Extend: d.Extend}
		var a tasks.Result
		if stopping != nil {
			a = w.DeliverHeld(ctx, m, tasks.Hold{Timeout: timeout, Stopping: stopping})
		} else {
			ctx, cancel := context.WithTimeout(ctx, timeout)
			defer cancel()
			a = w.Deliver(ctx, m)
		}
		last.set(a)
		return awssqs.Result{Done: a.Done, Dead: a.Dead, RetryAfter: a.RetryAfter}
	}
}

// lastResult is the result of the last delivery.
type lastResult struct {
	mu sync.Mutex
	a  tasks.Result
}

func (l *lastResult) set(a tasks.Result) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.a = a
}

// outcome is the exit code of the delivery. No delivery is a success.
func (l *lastResult) outcome() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.a.Done || l.a.Outcome == "":
		return nil
	case l.a.Dead:
		return errors.Join(fmt.Errorf("the message is dead: %s", l.a.Outcome), l.a.Err)
	case l.a.Outcome == once.Locked:
		return &exitError{exitHeld, fmt.Errorf("another worker runs analysis %s; its message is retried", l.a.AnalysisID)}
	case l.a.Outcome == once.Unknown:
		return fmt.Errorf("there is no analysis %s; its message is retried; --create-analyses makes those that are missing",
			l.a.AnalysisID)
	default:
		return errors.Join(fmt.Errorf("analysis %s: %s; its message is retried", l.a.AnalysisID, l.a.Outcome), l.a.Err)
	}
}
