package aws

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-lambda-go/events"

	"github.com/leasehold-dev/leasehold/functions/tasks"
	"github.com/leasehold-dev/leasehold/once"
)

const (
	// WorkerMargin is how long before the end of its invocation work is cancelled, so that its lock is released and its
	// message returned: a quarter of the time that there is, and this at most.
	WorkerMargin = 10 * time.Second

	// maxBatchingWindow is how long the platform may have held a message before the invocation.
	maxBatchingWindow = 5 * time.Minute
)

// Hider moves the time at which SQS makes a message visible again, and sends messages to dead-letter queues;
// *awssqs.Hider implements it.
type Hider interface {
	// Hide makes a message visible again d from now; 0 is at once. received is when it was received, or a time before
	// that.
	Hide(ctx context.Context, queueARN, receiptHandle string, received time.Time, d time.Duration) error

	// Bury sends a message to the dead-letter queue of its queue; false means that there is none. The group is empty if
	// the message has none.
	Bury(ctx context.Context, queueARN, id, body, group string) (buried bool, err error)
}

// Worker takes batches of SQS messages through the run-once guard to the work. It is a lambda.Handler of aws-lambda-go.
// The event source mapping must report batch item failures.
//
// Messages are worked on concurrently, those of one group of a FIFO queue in order. Exactly the messages to retry are
// listed as failed, and hidden until the lock in their way expires; those that no retry can help are sent to the
// queue's dead-letter queue at once, or stay until it has them. After a message of a FIFO group that is retried, the
// later ones of its group are returned unprocessed, so that their order is kept.
//
// Work is cancelled before the end of the invocation, and its message is made visible at once. Work that ignores this
// is abandoned, and its message listed as failed.
type Worker struct {
	worker *tasks.Worker
	hider  Hider
	log    *slog.Logger
}

// NewWorker returns the handler of a queue's events. With a nil Hider, the queue's visibility timeout decides when a
// message is delivered again. The error names a setting of the worker that cannot work.
func NewWorker(w *tasks.Worker, h Hider) (*Worker, error) {
	if err := w.Validate(); err != nil {
		return nil, err
	}
	log := w.Log
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &Worker{worker: w, hider: h, log: log}, nil
}

// Invoke works on one batch and returns the messages that failed. An error means that the event is not a batch of SQS
// messages; it stays where it came from.
func (w *Worker) Invoke(ctx context.Context, payload []byte) ([]byte, error) {
	records, err := records(payload)
	if err != nil {
		return nil, err
	}
	telling, working := ctx, ctx // deadlines of requests to the queue, and of the work
	if deadline, ok := ctx.Deadline(); ok {
		var cancel, stop context.CancelFunc
		telling, cancel = context.WithDeadline(ctx, deadline.Add(-ResponseMargin))
		defer cancel()
		working, stop = context.WithDeadline(ctx, deadline.Add(-min(WorkerMargin, time.Until(deadline)/4)))
		defer stop()
	}
	b := &batch{Worker: w, received: time.Now().Add(-maxBatchingWindow), done: map[string]bool{}}
	if telling.Err() != nil {
		w.log.ErrorContext(ctx, "the invocation has no time left for its messages: they are retried",
			"messages", len(records))
		return json.Marshal(b.failures(records))
	}
	var sequences sync.WaitGroup
	for _, s := range inOrder(records) {
		sequences.Go(func() { b.deliver(working, telling, s) })
	}
	ended := make(chan struct{})
	go func() {
		sequences.Wait()
		close(ended)
	}()
	select {
	case <-ended:
	case <-telling.Done():
		w.log.ErrorContext(ctx, "work ignored its deadline: it is abandoned, and its messages are retried")
	}
	return json.Marshal(b.failures(records))
}

// records reads an event, and rejects what is not a batch of SQS messages as a whole: nothing must be lost that was
// sent here by mistake.
func records(payload []byte) ([]events.SQSMessage, error) {
	var e events.SQSEvent
	if err := json.Unmarshal(payload, &e); err != nil {
		return nil, fmt.Errorf("the event is not a batch of SQS messages: %w", err)
	}
	if len(e.Records) == 0 {
		return nil, errors.New("the event has no SQS messages: attach this function to a queue")
	}
	for _, r := range e.Records {
		if r.EventSource != "aws:sqs" || r.MessageId == "" {
			return nil, fmt.Errorf("the event is not a batch of SQS messages, but of %q: attach this function to a queue",
				r.EventSource)
		}
	}
	return e.Records, nil
}

// inOrder splits a batch into sequences of messages in order: those of one group of a FIFO queue. A group of a standard
// queue has no order.
func inOrder(records []events.SQSMessage) [][]events.SQSMessage {
	var all [][]events.SQSMessage
	groups := map[string]int{} // index in all
	for _, r := range records {
		if strings.HasSuffix(r.EventSourceARN, ".fifo") {
			group := r.Attributes["MessageGroupId"]
			if i, ok := groups[group]; ok {
				all[i] = append(all[i], r)
				continue
			}
			groups[group] = len(all)
		}
		all = append(all, []events.SQSMessage{r})
	}
	return all
}

// batch is one invocation.
type batch struct {
	*Worker

	received time.Time

	mu   sync.Mutex
	done map[string]bool // messages that have nothing left to do, by ID
}

// failures lists the messages that are not done, in the order of the event.
func (b *batch) failures(records []events.SQSMessage) events.SQSEventResponse {
	b.mu.Lock()
	defer b.mu.Unlock()
	a := events.SQSEventResponse{BatchItemFailures: []events.SQSBatchItemFailure{}}
	for _, r := range records {
		if !b.done[r.MessageId] {
			a.BatchItemFailures = append(a.BatchItemFailures, events.SQSBatchItemFailure{ItemIdentifier: r.MessageId})
		}
	}
	return a
}

// deliver works on a sequence. After a message to retry, the rest is returned.
func (b *batch) deliver(working, telling context.Context, sequence []events.SQSMessage) {
	for i, r := range sequence {
		a := b.one(working, r)
		if a.Dead {
			a.Done = b.bury(telling, r, a.Done)
		}
		if a.Done {
			b.mu.Lock()
			b.done[r.MessageId] = true
			b.mu.Unlock()
			continue
		}
		switch {
		case a.Outcome == once.Stopped:
			b.hide(telling, r, 0)
		case a.RetryAfter > 0:
			b.hide(telling, r, a.RetryAfter)
		}
		for _, later := range sequence[i+1:] {
			b.log.InfoContext(telling, "returned behind an earlier message of its group", "message_id", later.MessageId,
				"earlier", r.MessageId)
			b.hide(telling, later, 0) // the group waits for the earlier one as long as that is hidden
		}
		return
	}
}

// one delivers a message. A panic of the guard is an outage of the guard.
func (b *batch) one(ctx context.Context, r events.SQSMessage) (a tasks.Result) {
	defer func() {
		if p := recover(); p != nil {
			b.log.ErrorContext(ctx, "panic", "message_id", r.MessageId, "value", p, "stack", string(debug.Stack()))
			a = tasks.Result{Outcome: tasks.GateFailed}
		}
	}()
	m := tasks.Message{Body: []byte(r.Body), ID: r.MessageId, Try: r.Attributes["ApproximateReceiveCount"]}
	m.Deliveries, _ = strconv.Atoi(m.Try) // 0 if it is not there
	if ms, err := strconv.ParseInt(r.Attributes["SentTimestamp"], 10, 64); err == nil && ms > 0 {
		m.Sent = time.UnixMilli(ms)
	}
	if b.hider != nil {
		m.Extend = func(ctx context.Context, until time.Duration) error {
			return b.hider.Hide(ctx, r.EventSourceARN, r.ReceiptHandle, b.received, until)
		}
	}
	return b.worker.Deliver(ctx, m)
}

// bury sends a message that no retry can help to its dead-letter queue. It returns whether the message can go: without
// a dead-letter queue, if there is nothing left to do.
func (b *batch) bury(ctx context.Context, r events.SQSMessage, done bool) bool {
	if b.hider == nil {
		return false // by the queue's own count
	}
	buried, err := b.hider.Bury(ctx, r.EventSourceARN, r.MessageId, r.Body, r.Attributes["MessageGroupId"])
	if err != nil {
		b.log.ErrorContext(ctx, "a message that no retry can help could not be sent to the dead-letter queue; it is "+
			"delivered until it has been received too often", "message_id", r.MessageId, "err", err)
		return false
	}
	return buried || done
}

// hide moves the time at which a message becomes visible. If that fails, the queue's visibility timeout decides.
func (b *batch) hide(ctx context.Context, r events.SQSMessage, d time.Duration) {
	if b.hider == nil {
		return
	}
	if err := b.hider.Hide(ctx, r.EventSourceARN, r.ReceiptHandle, b.received, d); err != nil {
		b.log.WarnContext(ctx, "a message is retried after the queue's visibility timeout, not when it should be",
			"message_id", r.MessageId, "should_ms", d.Milliseconds(), "err", err)
	}
}
