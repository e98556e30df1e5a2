package aws

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-lambda-go/events"

	"github.com/leasehold-dev/leasehold/functions/tasks"
	"github.com/leasehold-dev/leasehold/once"
)

const (
	// WorkerMargin is how long before the end of its invocation work must end, so that its lock and its message can be handed
	// back: a quarter of the time that there is, and this at most.
	WorkerMargin = 10 * time.Second

	// maxBatchingWindow is for how long the platform may have had a message before the invocation.
	maxBatchingWindow = 5 * time.Minute
)

// Hider moves the time at which SQS shows a message again; *sqs.Hider of adapters/awssqs is one.
type Hider interface {
	// Hide lets a message be seen again d from now; 0 is at once. received is when it was received, or a time before that.
	Hide(ctx context.Context, queueARN, receiptHandle string, received time.Time, d time.Duration) error
}

// Worker takes batches of SQS messages through the gate to the work. It is a lambda.Handler of aws-lambda-go. The event
// source mapping must report batch item failures.
//
// Messages are worked on side by side, those of one group of a FIFO queue one after the other. A message that is to come
// again is named as failed, and no other is; what it is hidden for is moved to when its lock ends. After a message of a FIFO
// group that comes again, the later ones of its group go back as they are, so that their order stands.
//
// Work is cancelled in time for the end of the invocation, and its message handed back to be seen at once. Work that does not
// heed this is left behind, and its message named as failed.
type Worker struct {
	worker *tasks.Worker
	hider  Hider
	log    *slog.Logger
}

// NewWorker returns the handler of a queue's events. A nil Hider leaves to the queue when a message comes again. The error names
// a setting of the worker that cannot work.
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

// Invoke works on one batch and answers which messages have failed. An error means that the event is no batch of SQS messages,
// and says so; whatever the event was stays where it came from.
func (w *Worker) Invoke(ctx context.Context, payload []byte) ([]byte, error) {
	records, err := records(payload)
	if err != nil {
		return nil, err
	}
	telling, working := ctx, ctx // until when the queue is told, and until when the work may go on
	if deadline, ok := ctx.Deadline(); ok {
		var cancel, stop context.CancelFunc
		telling, cancel = context.WithDeadline(ctx, deadline.Add(-AnswerMargin))
		defer cancel()
		working, stop = context.WithDeadline(ctx, deadline.Add(-min(WorkerMargin, time.Until(deadline)/4)))
		defer stop()
	}
	b := &batch{Worker: w, received: time.Now().Add(-maxBatchingWindow), done: map[string]bool{}}
	if telling.Err() != nil {
		w.log.ErrorContext(ctx, "the invocation has no time for its messages: they come again", "messages", len(records))
		return json.Marshal(b.answer(records))
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
		w.log.ErrorContext(ctx, "work goes on although its time is over: it is left behind, and its messages come again")
	}
	return json.Marshal(b.answer(records))
}

// records reads an event, and refuses what is no batch of SQS messages as a whole: it belongs to somebody who would lose it.
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
			return nil, fmt.Errorf("the event is not a batch of SQS messages, but of %q: attach this function to a queue", r.EventSource)
		}
	}
	return e.Records, nil
}

// inOrder sorts a batch into sequences of messages that wait for each other: those of one group of a FIFO queue. A group of
// a standard queue says nothing about order.
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

// answer names the messages that are not done, in the order of the event.
func (b *batch) answer(records []events.SQSMessage) events.SQSEventResponse {
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

// deliver works on a sequence. After a message that comes again, the rest of it goes back.
func (b *batch) deliver(working, telling context.Context, sequence []events.SQSMessage) {
	for i, r := range sequence {
		a := b.one(working, r)
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
			b.log.InfoContext(telling, "handed back behind an earlier message of its group", "message", later.MessageId, "earlier", r.MessageId)
			b.hide(telling, later, 0) // the group waits for the earlier one as long as that is hidden
		}
		return
	}
}

// one delivers a message. A panic of the gate is a delivery without an answer.
func (b *batch) one(ctx context.Context, r events.SQSMessage) (a tasks.Answer) {
	defer func() {
		if p := recover(); p != nil {
			b.log.ErrorContext(ctx, "panic", "message", r.MessageId, "value", p, "stack", string(debug.Stack()))
			a = tasks.Answer{Outcome: tasks.GateFailed}
		}
	}()
	m := tasks.Message{Body: []byte(r.Body), ID: r.MessageId, Try: r.Attributes["ApproximateReceiveCount"]}
	if b.hider != nil {
		m.Extend = func(ctx context.Context, until time.Duration) error {
			return b.hider.Hide(ctx, r.EventSourceARN, r.ReceiptHandle, b.received, until)
		}
	}
	return b.worker.Deliver(ctx, m)
}

// hide moves the time at which a message is seen again. If that fails the queue's own time-out brings it back.
func (b *batch) hide(ctx context.Context, r events.SQSMessage, d time.Duration) {
	if b.hider == nil {
		return
	}
	if err := b.hider.Hide(ctx, r.EventSourceARN, r.ReceiptHandle, b.received, d); err != nil {
		b.log.WarnContext(ctx, "a message comes again when the queue's time-out is over, and not when it should",
			"message", r.MessageId, "should", d, "err", err)
	}
}
