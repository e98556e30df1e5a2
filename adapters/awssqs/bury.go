package awssqs

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	sdk "github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
)

// redrive is a queue's RedrivePolicy. The zero value is none.
type redrive struct {
	target   string // the ARN of the dead-letter queue
	receives int    // maxReceiveCount
}

// redrivePolicy reads one; the count may be a number or text.
func redrivePolicy(policy string) (r redrive, err error) {
	if policy == "" {
		return redrive{}, nil
	}
	var p struct {
		Target          string          `json:"deadLetterTargetArn"`
		MaxReceiveCount json.RawMessage `json:"maxReceiveCount"`
	}
	if err := json.Unmarshal([]byte(policy), &p); err != nil {
		return redrive{}, err
	}
	r.target = p.Target
	_, err = fmt.Sscanf(strings.Trim(string(p.MaxReceiveCount), `"`), "%d", &r.receives)
	return r, err
}

// letter is a message that goes to a dead-letter queue.
type letter struct {
	id    string // of the message, which a FIFO queue takes once
	body  string
	group string // its message group; empty if it has none
}

// bury sends a message to the dead-letter queue with the URL. What received it deletes it then: if it does not, the
// message comes again, and is sent once more.
func bury(ctx context.Context, client Client, url string, l letter) error {
	in := &sdk.SendMessageInput{QueueUrl: aws.String(url), MessageBody: aws.String(l.body)}
	if l.group != "" {
		in.MessageGroupId = aws.String(l.group)
	}
	if strings.HasSuffix(url, ".fifo") {
		in.MessageDeduplicationId = aws.String(l.id)
	}
	ctx, cancel := context.WithTimeout(ctx, settleTimeout)
	defer cancel()
	if _, err := client.SendMessage(ctx, in); err != nil {
		return fmt.Errorf("sqs: send to the dead-letter queue %s: %w", url, err)
	}
	return nil
}

// Bury sends a message of a queue to the queue's dead-letter queue, by its own policy; false means that it has none.
// The group is empty if the message has none. The caller needs sqs:GetQueueAttributes and sqs:GetQueueUrl of the queue,
// and sqs:GetQueueUrl and sqs:SendMessage of the other one. The message has to be deleted then.
func (h *Hider) Bury(ctx context.Context, queueARN, id, body, group string) (buried bool, err error) {
	url, err := h.url(ctx, queueARN)
	if err != nil {
		return false, err
	}
	policy, err := h.policy(ctx, url)
	if err != nil || policy.target == "" {
		return false, err
	}
	dead, err := h.url(ctx, policy.target)
	if err != nil {
		return false, err
	}
	return true, bury(ctx, h.client, dead, letter{id, body, group})
}

// policyTime is for how long a policy is believed.
const policyTime = time.Minute

// policy asks for the policy of a queue.
func (h *Hider) policy(ctx context.Context, url string) (redrive, error) {
	h.mu.Lock()
	known, ok := h.policies[url]
	h.mu.Unlock()
	if ok && time.Since(known.at) < policyTime {
		return known.redrive, nil
	}
	ctx, cancel := context.WithTimeout(ctx, hideTimeout)
	defer cancel()
	out, err := h.client.GetQueueAttributes(ctx, &sdk.GetQueueAttributesInput{QueueUrl: aws.String(url),
		AttributeNames: []types.QueueAttributeName{types.QueueAttributeNameRedrivePolicy}})
	if err != nil {
		return redrive{}, fmt.Errorf("sqs: read the RedrivePolicy of %s: %w", url, err)
	}
	r, err := redrivePolicy(out.Attributes["RedrivePolicy"])
	if err != nil {
		return redrive{}, fmt.Errorf("sqs: %s has the RedrivePolicy %s: %w", url, out.Attributes["RedrivePolicy"], err)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.policies[url] = knownPolicy{r, time.Now()}
	return r, nil
}

// knownPolicy is a policy as it was.
type knownPolicy struct {
	redrive

	at time.Time
}
