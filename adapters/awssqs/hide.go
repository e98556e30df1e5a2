package awssqs

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	sdk "github.com/aws/aws-sdk-go-v2/service/sqs"
)

// MaxHidden is how long SQS hides a message at most, from the receive and in all.
const MaxHidden = 12 * time.Hour

// ErrHiddenTooLong marks a message that has been hidden for as long as SQS allows.
var ErrHiddenTooLong = errors.New(
	"the message has been in flight for 12 hours, as long as SQS allows: it is delivered again, and the lock keeps its analysis from running twice")

// hideTimeout bounds the moving of a message's time-out. A run waits for the first, and must not do so for long where
// the queue cannot be reached: from a network without a way to SQS, for instance.
const hideTimeout = 5 * time.Second

// hide makes a received message visible again d from now, in whole seconds, rounded up; 0 is at once. It is less where
// the time since the receive leaves less.
func hide(ctx context.Context, client Client, url, receipt string, received time.Time, d time.Duration) error {
	left := max(0, (MaxHidden - time.Since(received)).Truncate(time.Second))
	if left == 0 && d > 0 {
		return ErrHiddenTooLong
	}
	d = min(d, left)
	ctx, cancel := context.WithTimeout(ctx, hideTimeout)
	defer cancel()
	_, err := client.ChangeMessageVisibility(ctx, &sdk.ChangeMessageVisibilityInput{
		QueueUrl: aws.String(url), ReceiptHandle: aws.String(receipt),
		VisibilityTimeout: int32(seconds(d)), //nolint:gosec // 43200 at most
	})
	if err != nil {
		return fmt.Errorf("sqs: hide a message for %v: %w", d, err)
	}
	return nil
}

// seconds is a duration in whole seconds, rounded up, and never negative.
func seconds(d time.Duration) int64 {
	return int64(max(0, (d+time.Second-1)/time.Second))
}

// Hider hides messages that another process received, such as the platform of a Lambda function, and sends those that
// no retry can help to their dead-letter queue. Its methods may be called from several goroutines at once.
type Hider struct {
	client Client

	mu       sync.Mutex
	urls     map[string]string      // of queues, by ARN
	policies map[string]knownPolicy // of queues, by URL
}

// OpenHider connects with the region and the credentials of the environment. Options may be nil. Nothing is sent yet.
func OpenHider(ctx context.Context, o *Options) (*Hider, error) {
	if o == nil {
		o = &Options{}
	}
	client, err := connect(ctx, *o)
	if err != nil {
		return nil, err
	}
	return NewHider(client), nil
}

// NewHider is [OpenHider] with a client of the caller's.
func NewHider(client Client) *Hider {
	return &Hider{client: client, urls: map[string]string{}, policies: map[string]knownPolicy{}}
}

// Hide makes a message visible again d from now; 0 is at once. received is when it was received, or a time before that:
// d is cut where it would go beyond [MaxHidden], and the error is [ErrHiddenTooLong] where nothing is left. The caller
// needs sqs:ChangeMessageVisibility, and sqs:GetQueueUrl for the first call of a queue.
func (h *Hider) Hide(ctx context.Context, queueARN, receiptHandle string, received time.Time, d time.Duration) error {
	url, err := h.url(ctx, queueARN)
	if err != nil {
		return err
	}
	return hide(ctx, h.client, url, receiptHandle, received, d)
}

// url asks for the URL of a queue, once for each.
func (h *Hider) url(ctx context.Context, arn string) (string, error) {
	h.mu.Lock()
	url := h.urls[arn]
	h.mu.Unlock()
	if url != "" {
		return url, nil
	}
	url, err := queueURL(ctx, h.client, arn)
	if err != nil {
		return "", err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.urls[arn] = url
	return url, nil
}

// queueURL asks for the URL of a queue.
func queueURL(ctx context.Context, client Client, arn string) (string, error) {
	const parts = 6 // arn:partition:sqs:region:account:name
	p := strings.Split(arn, ":")
	if len(p) != parts || p[0] != "arn" || p[2] != "sqs" {
		return "", fmt.Errorf("sqs: %q is not the ARN of a queue", arn)
	}
	ctx, cancel := context.WithTimeout(ctx, hideTimeout)
	defer cancel()
	out, err := client.GetQueueUrl(ctx, &sdk.GetQueueUrlInput{QueueName: aws.String(p[5]),
		QueueOwnerAWSAccountId: aws.String(p[4])})
	if err != nil {
		return "", fmt.Errorf("sqs: ask for the URL of %s: %w", arn, err)
	}
	return aws.ToString(out.QueueUrl), nil
}
