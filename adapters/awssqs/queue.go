package awssqs

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	sdk "github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/leasehold-dev/leasehold/repo/analysis"
)

// Queue is a queue of analyses. Its methods may be called from several goroutines at once.
type Queue struct {
	client     Client
	url        string
	fifo       bool
	tenant     func(analysis.ID) string // nil: none is named
	visibility time.Duration
	retention  time.Duration
	redrive    redrive // zero: there is no dead-letter queue

	mu   sync.Mutex
	dead string // the URL of the dead-letter queue, once it is known
}

var _ analysis.Queue = (*Queue)(nil)

// Open connects to the queue at a URL and reads its attributes. Options may be nil. The caller needs
// sqs:GetQueueAttributes beside what it does with the queue.
func Open(ctx context.Context, url string, o *Options) (*Queue, error) {
	if o == nil {
		o = &Options{}
	}
	at, err := o.at(url)
	if err != nil {
		return nil, err
	}
	client, err := connect(ctx, at)
	if err != nil {
		return nil, err
	}
	q, err := New(ctx, client, url)
	if err != nil {
		return nil, err
	}
	q.tenant = o.Tenant
	return q, nil
}

// New is [Open] with a client of the caller's.
func New(ctx context.Context, client Client, url string) (*Queue, error) {
	out, err := client.GetQueueAttributes(ctx, &sdk.GetQueueAttributesInput{
		QueueUrl: aws.String(url), AttributeNames: []types.QueueAttributeName{
			types.QueueAttributeNameVisibilityTimeout, types.QueueAttributeNameMessageRetentionPeriod,
			types.QueueAttributeNameRedrivePolicy,
		},
	})
	if err != nil {
		if _, ok := errors.AsType[*types.QueueDoesNotExist](err); ok {
			return nil, fmt.Errorf("sqs: there is no queue %s: check its region, account and name: %w", url, err)
		}
		return nil, fmt.Errorf("sqs: read the attributes of %s: %w", url, err)
	}
	q := &Queue{client: client, url: url, fifo: strings.HasSuffix(url, ".fifo")}
	for name, into := range map[string]*time.Duration{"VisibilityTimeout": &q.visibility,
		"MessageRetentionPeriod": &q.retention} {
		n, err := strconv.Atoi(out.Attributes[name])
		if err != nil {
			return nil, fmt.Errorf("sqs: %s has the attribute %s %q, which is not a number of seconds", url, name,
				out.Attributes[name])
		}
		*into = time.Duration(n) * time.Second
	}
	if q.redrive, err = redrivePolicy(out.Attributes["RedrivePolicy"]); err != nil {
		return nil, fmt.Errorf("sqs: %s has the RedrivePolicy %s: %w", url, out.Attributes["RedrivePolicy"], err)
	}
	return q, nil
}

// bury sends a message to the dead-letter queue; false means that there is none.
func (q *Queue) bury(ctx context.Context, l letter) (buried bool, err error) {
	if q.redrive.target == "" {
		return false, nil
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.dead == "" {
		if q.dead, err = queueURL(ctx, q.client, q.redrive.target); err != nil {
			return false, err
		}
	}
	return true, bury(ctx, q.client, q.dead, l)
}

// Expect is what workers expect of their queue.
type Expect struct {
	// Hidden is how long a message must stay hidden by the queue's own time-out: until the first heartbeat, which hides
	// it for longer. 0 if the receiver sets the time-out itself, as [Queue.Poll] can.
	Hidden time.Duration

	// Failures is how many runs of an analysis may fail before it turns FAILED.
	Failures int64
}

// minRetention is the least time for which messages should be kept: an outage of the workers has to be noticed
// meanwhile.
const minRetention = time.Hour

// Warnings are sentences about what of the queue does not fit such workers.
func (q *Queue) Warnings(e Expect) []string {
	var w []string
	if q.visibility < e.Hidden {
		w = append(w, fmt.Sprintf(
			"the queue's visibility timeout of %v ends before a worker's first heartbeat after %v: messages are "+
				"delivered again while they are worked on, and are refused; set it to the lock's ttl", q.visibility, e.Hidden))
	}
	switch {
	case q.redrive.receives == 0:
		w = append(
			w, "the queue has no dead-letter queue: a message that ends its worker again and again is delivered until its retention "+
				"ends; set a RedrivePolicy")
	case int64(q.redrive.receives) < e.Failures:
		w = append(w, fmt.Sprintf(
			"the queue drops a message after %d deliveries, before its analysis turns FAILED after %d failed runs, "+
				"and deliveries that find the analysis locked count too; set maxReceiveCount to %d or more", q.redrive.receives,
			e.Failures, 2*e.Failures))
	}
	if q.retention < minRetention {
		w = append(
			w, fmt.Sprintf("the queue drops messages after %v: an analysis that no worker began by then is never run; set "+
				"MessageRetentionPeriod to a day or more", q.retention))
	}
	return w
}

// Enqueue sends the message {"analysisId":…}. A FIFO queue takes calls with the same name within five minutes once.
func (q *Queue) Enqueue(ctx context.Context, id analysis.ID, name string) error {
	if err := id.Validate(); err != nil {
		return err
	}
	body, err := json.Marshal(map[string]string{"analysisId": string(id)})
	if err != nil {
		return fmt.Errorf("sqs: %w", err)
	}
	in := &sdk.SendMessageInput{QueueUrl: aws.String(q.url), MessageBody: aws.String(string(body))}
	switch {
	case q.fifo:
		in.MessageGroupId, in.MessageDeduplicationId = aws.String(fifoName(string(id))), aws.String(fifoName(name))
	case q.tenant != nil:
		if tenant := q.tenant(id); tenant != "" {
			in.MessageGroupId = aws.String(fifoName(tenant))
		}
	}
	if _, err := q.client.SendMessage(ctx, in); err != nil {
		return fmt.Errorf("sqs: send to %s: %w", q.url, err)
	}
	return nil
}

// plainName is what SQS takes for the names of groups and messages.
var plainName = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile("^[0-9A-Za-z!-/:-@\\[-`{-~]{1,128}$")
})

// hashed begins a name that is the hash of another one.
const hashed = "sha256:"

// fifoName is a name as SQS takes it. What does not fit is replaced by its hash, and so is what looks like one: a
// message whose name is taken for another's would be dropped as its duplicate.
func fifoName(name string) string {
	if plainName().MatchString(name) && !strings.HasPrefix(name, hashed) {
		return name
	}
	sum := sha256.Sum256([]byte(name))
	return hashed + hex.EncodeToString(sum[:])
}

// empty reports whether the queue has no messages at all: none that waits, none in flight, none delayed. The service's
// counts may lag by a minute.
func (q *Queue) empty(ctx context.Context) (bool, error) {
	names := []types.QueueAttributeName{
		types.QueueAttributeNameApproximateNumberOfMessages, types.QueueAttributeNameApproximateNumberOfMessagesNotVisible,
		types.QueueAttributeNameApproximateNumberOfMessagesDelayed,
	}
	out, err := q.client.GetQueueAttributes(ctx, &sdk.GetQueueAttributesInput{QueueUrl: aws.String(q.url),
		AttributeNames: names})
	if err != nil {
		return false, fmt.Errorf("sqs: count the messages of %s: %w", q.url, err)
	}
	for _, name := range names {
		if out.Attributes[string(name)] != "0" {
			return false, nil
		}
	}
	return true, nil
}
