package awssqs

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"strconv"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	sdk "github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/leasehold-dev/leasehold/internal/backoff"
)

// Delivery is one delivery of a message.
type Delivery struct {
	ID       string // the queue's name for the message, the same in all its deliveries
	Body     []byte
	Receives int // deliveries so far with this one, as far as the queue knows; 0 if it does not say

	// Sent is when the queue got the message; zero if it does not say.
	Sent time.Time

	// Extend hides the message for d from now, in whole seconds, rounded up, as far as [MaxHidden] allows.
	Extend func(ctx context.Context, d time.Duration) error
}

// Result says what to do with a delivery.
type Result struct {
	Done bool // the work is done: delete the message
	// Dead: no retry can help. The message is sent to the queue's dead-letter queue and deleted. Where there is none,
	// Done decides; where it cannot be sent, it becomes visible again, so that it gets there by the queue's own count
	Dead       bool
	RetryAfter time.Duration // otherwise: when it becomes visible again; 0 means when its visibility timeout ends
}

// Handler handles one delivery. Its context is cancelled with the cause [ErrStopping] when the process has to end; a
// message that is not done then becomes visible at once. A panic is logged, and the message becomes visible when its
// visibility timeout ends.
type Handler func(ctx context.Context, d Delivery) Result

// ErrStopping is the cause with which handlers are cancelled when [PollOptions].Grace has passed.
var ErrStopping = errors.New("the process is stopping")

// PollOptions are the settings of [Queue.Poll]. The zero value works.
type PollOptions struct {
	Concurrency int // messages worked on at once; 0 means DefaultConcurrency
	// how long a message is hidden from its receive on, until Extend; 0 means the queue's time-out
	Visibility time.Duration
	Grace      time.Duration // how long handlers may go on when the context has ended; 0 means DefaultGrace
	Most       int           // messages to receive in all, waiting once for them; 0: no bound
	Drain      bool          // end when the queue is empty: nothing waits, nothing is in flight, nothing is delayed
	Log        *slog.Logger  // nil means no log
}

// Defaults and bounds of polling.
const (
	DefaultConcurrency = 4
	DefaultGrace       = 20 * time.Second
	MaxPause           = 20 * time.Second // the longest pause between attempts at a queue that does not respond

	maxWait       = 20 * time.Second // the longest poll that SQS knows
	drainWait     = time.Second      // of a poll while draining
	maxBatch      = 10               // messages in one receive
	settleTimeout = 10 * time.Second // to delete or hide a message, and for cancelled handlers to return
	maxAttempts   = 5                // at a queue that does not respond, when draining
)

var pauses = backoff.Policy{First: 300 * time.Millisecond, Max: MaxPause, Min: 100 * time.Millisecond}

// Poll passes messages to the handler until the context ends, or until there is nothing more to do if the options say
// so. Then it receives no more and waits for the handlers: for Grace, and after cancelling them for ten seconds more.
// Handlers that have not returned by then are an error. So is a queue that does not respond while it is drained or
// while Most messages are expected; otherwise Poll retries for ever.
func (q *Queue) Poll(ctx context.Context, h Handler, o *PollOptions) error {
	p, err := q.poller(h, o)
	if err != nil {
		return err
	}
	handlers, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	defer cancel(nil)
	err = p.receive(ctx, handlers)
	return errors.Join(err, p.end(ctx, cancel))
}

func (q *Queue) poller(h Handler, o *PollOptions) (*poller, error) {
	p := &poller{Queue: q, handler: h}
	if o != nil {
		p.o = *o
	}
	if p.o.Concurrency == 0 {
		p.o.Concurrency = DefaultConcurrency
	}
	if p.o.Grace == 0 {
		p.o.Grace = DefaultGrace
	}
	if p.o.Log == nil {
		p.o.Log = slog.New(slog.DiscardHandler)
	}
	if p.o.Concurrency < 0 || p.o.Grace < 0 || p.o.Most < 0 {
		return nil, errors.New("sqs: Concurrency, Grace and Most must not be negative")
	}
	if p.o.Visibility < 0 || p.o.Visibility > MaxHidden {
		return nil, fmt.Errorf("sqs: Visibility is %v: it must be from 0 to %v", p.o.Visibility, MaxHidden)
	}
	p.slots = make(chan struct{}, p.o.Concurrency)
	return p, nil
}

// poller is one call of Poll.
type poller struct {
	*Queue

	handler  Handler
	o        PollOptions
	slots    chan struct{} // one taken for each message that is worked on or waited for
	handlers sync.WaitGroup
	received int
}

// receive receives until there is no more to receive. It starts the handlers with the context that is theirs.
func (p *poller) receive(ctx, handlers context.Context) error {
	for failures := 0; ; {
		n := p.claim(ctx)
		if n == 0 {
			return nil
		}
		asked := time.Now()
		messages, err := p.ask(ctx, n)
		p.free(n - len(messages))
		for _, m := range messages {
			p.received++
			p.handlers.Go(func() {
				defer p.free(1)
				p.handle(handlers, m, asked)
			})
		}
		switch {
		case ctx.Err() != nil:
			return nil //nolint:nilerr // the receive was cancelled by the caller
		case err != nil:
			failures++
			p.o.Log.ErrorContext(ctx, "the queue does not respond", "queue", p.url, "attempt", failures, "err", err)
			if failures >= maxAttempts && (p.o.Drain || p.o.Most > 0) {
				return err
			}
			_ = pauses.Sleep(ctx, failures-1) // the loop looks at ctx
			continue
		case failures > 0:
			p.o.Log.InfoContext(ctx, "the queue responds again", "queue", p.url, "attempts", failures)
			failures = 0
		}
		if p.o.Most > 0 && (p.received >= p.o.Most || len(messages) == 0) {
			return nil
		}
		if p.o.Drain && len(messages) == 0 && len(p.slots) == 0 {
			if done, err := p.empty(ctx); err != nil {
				return err
			} else if done {
				return nil
			}
		}
	}
}

// claim waits for a free slot and takes as many as one receive can fill; 0 when the context has ended. A FIFO queue's
// messages come one by one: of several in one receive, those behind a redelivered one would have to wait for it.
func (p *poller) claim(ctx context.Context) int {
	most := maxBatch
	if p.fifo {
		most = 1
	}
	if p.o.Most > 0 {
		most = min(most, p.o.Most-p.received)
	}
	if ctx.Err() != nil {
		return 0
	}
	select {
	case p.slots <- struct{}{}:
	case <-ctx.Done():
		return 0
	}
	for n := 1; ; n++ {
		if n >= most {
			return n
		}
		select {
		case p.slots <- struct{}{}:
		default:
			return n
		}
	}
}

func (p *poller) free(n int) {
	for range n {
		<-p.slots
	}
}

// ask sends one receive for up to n messages.
func (p *poller) ask(ctx context.Context, n int) ([]types.Message, error) {
	wait := maxWait
	if p.o.Drain {
		wait = drainWait
	}
	in := &sdk.ReceiveMessageInput{
		QueueUrl:            aws.String(p.url),
		MaxNumberOfMessages: int32(n),             //nolint:gosec // 10 at most
		WaitTimeSeconds:     int32(seconds(wait)), //nolint:gosec // 20 at most
		MessageSystemAttributeNames: []types.MessageSystemAttributeName{
			types.MessageSystemAttributeNameApproximateReceiveCount, types.MessageSystemAttributeNameSentTimestamp,
			types.MessageSystemAttributeNameMessageGroupId,
		},
		VisibilityTimeout: int32(seconds(p.o.Visibility)), //nolint:gosec // 43200 at most; the SDK leaves a 0 out
	}
	out, err := p.client.ReceiveMessage(ctx, in)
	if err != nil {
		return nil, fmt.Errorf("sqs: receive from %s: %w", p.url, err)
	}
	return out.Messages, nil
}

// handle passes one message to the handler, and deletes or hides it.
func (p *poller) handle(ctx context.Context, m types.Message, received time.Time) {
	log := p.o.Log.With("message_id", aws.ToString(m.MessageId))
	receipt := aws.ToString(m.ReceiptHandle)
	d := Delivery{
		ID: aws.ToString(m.MessageId), Body: []byte(aws.ToString(m.Body)),
		Extend: func(ctx context.Context, d time.Duration) error {
			return hide(ctx, p.client, p.url, receipt, received, d)
		},
	}
	d.Receives, _ = strconv.Atoi(m.Attributes["ApproximateReceiveCount"]) // 0 if it is not there
	if ms, err := strconv.ParseInt(m.Attributes["SentTimestamp"], 10, 64); err == nil {
		d.Sent = time.UnixMilli(ms)
	}
	result := p.run(ctx, d, log)

	stopping := ctx.Err() != nil
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleTimeout)
	defer cancel()
	var err error
	if result.Dead {
		var buried bool
		buried, err = p.bury(ctx, letter{d.ID, string(d.Body), m.Attributes["MessageGroupId"]})
		if result.Done = err == nil && (buried || result.Done); err != nil {
			log.ErrorContext(ctx, "a message that no retry can help could not be sent to the dead-letter queue; it is "+
				"delivered until it has been received too often", "err", err)
		}
	}
	switch {
	case result.Done:
		_, err = p.client.DeleteMessage(ctx, &sdk.DeleteMessageInput{QueueUrl: aws.String(p.url),
			ReceiptHandle: aws.String(receipt)})
	case stopping:
		err = d.Extend(ctx, 0)
	case result.RetryAfter > 0:
		err = d.Extend(ctx, result.RetryAfter)
	}
	if err != nil && (!result.Dead || result.Done) {
		log.WarnContext(ctx, "a message could not be deleted or hidden; it is delivered again", "done",
			result.Done, "err", err)
	}
}

// run calls the handler. Its panics end the delivery, not the process.
func (p *poller) run(ctx context.Context, d Delivery, log *slog.Logger) (result Result) {
	defer func() {
		if v := recover(); v != nil {
			log.ErrorContext(ctx, "panic", "value", v, "stack", string(debug.Stack()))
			result = Result{}
		}
	}()
	return p.handler(ctx, d)
}

// end waits for the handlers: without a bound while the context has not ended, and then for the grace, and once they
// are cancelled for settleTimeout.
func (p *poller) end(ctx context.Context, cancel context.CancelCauseFunc) error {
	done := make(chan struct{})
	go func() {
		p.handlers.Wait()
		close(done)
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
	}
	p.o.Log.InfoContext(ctx, "stopping: handlers may finish", "messages", len(p.slots), "within_ms",
		p.o.Grace.Milliseconds())
	select {
	case <-done:
		return nil
	case <-time.After(p.o.Grace):
	}
	p.o.Log.WarnContext(ctx, "stopping: messages in work are cancelled and become visible", "messages", len(p.slots))
	cancel(ErrStopping)
	select {
	case <-done:
		return nil
	case <-time.After(2 * settleTimeout):
		return fmt.Errorf("sqs: %d messages were still in work %v after they were cancelled", len(p.slots), 2*settleTimeout)
	}
}
