package sqstest_test

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	sdk "github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"github.com/aws/smithy-go"

	"github.com/leasehold-dev/leasehold/emulator/sqstest"
	"github.com/leasehold-dev/leasehold/emulator/sqstest/moto"
)

// TestProgram runs the same steps on this server and on one that others wrote, with the same outcomes. Where time has
// to pass, a long poll passes it: on this server in a bubble's time, on the other in real time.
func TestProgram(t *testing.T) {
	for _, step := range program {
		t.Run("emulator/"+step.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { step.run(t, inMemory(sqstest.New(nil))) })
		})
	}
	t.Run("moto", func(t *testing.T) {
		c := connect(moto.Start(t))
		for _, step := range program {
			t.Run(step.name, func(t *testing.T) {
				t.Parallel()
				step.run(t, c)
			})
		}
	})
}
func want(t *testing.T, what, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("%s: %q, want %q", what, got, want)
	}
}

func refused(t *testing.T, what string, err error, code string) {
	t.Helper()
	if e, ok := errors.AsType[smithy.APIError](err); !ok || e.ErrorCode() != code {
		t.Errorf("%s: %v, want %s", what, err, code)
	}
}

var program = []struct {
	name string
	run  func(t *testing.T, c *sdk.Client)
}{
	{"receive, hide, delete", func(t *testing.T, c *sdk.Client) {
		q := create(t, c, "plain")
		q.post("a", "b")
		want(t, "waiting", q.counts(), "2 0 0")
		got := q.receive(0)
		want(t, "both", seen(got), "a:1 b:1")
		want(t, "hidden", seen(q.receive(0)), "")
		want(t, "in flight", q.counts(), "0 2 0")
		if err := q.remove(got[0]); err != nil {
			t.Error(err)
		}
		hidden := time.Now()
		if err := q.hide(got[1], 1); err != nil {
			t.Error(err)
		}
		again := q.receive(0)
		if time.Since(hidden) < time.Second {
			want(t, "still hidden", seen(again), "")
		}
		if len(again) == 0 {
			again = q.receive(10)
		}
		want(t, "again", seen(again), "b:2")
		if err := q.hide(again[0], 0); err != nil {
			t.Error(err)
		}
		again = q.receive(10)
		want(t, "handed back", seen(again), "b:3")
		for range 2 { // deleting twice is fine
			if err := q.remove(again[0]); err != nil {
				t.Error(err)
			}
		}
		want(t, "empty", q.counts(), "0 0 0")
	}},
	{"time-outs and delays", func(t *testing.T, c *sdk.Client) {
		q := create(t, c, "times", "VisibilityTimeout=1")
		want(t, "attribute", q.attribute(types.QueueAttributeNameVisibilityTimeout), "1")
		q.post("a")
		want(t, "first", seen(q.receive(0)), "a:1")
		again := q.receive(10) // it waits for as long as the message is hidden
		want(t, "by the queue's time-out", seen(again), "a:2")
		if err := q.remove(again[0]); err != nil {
			t.Error(err)
		}
		sent := time.Now()
		q.send(sdk.SendMessageInput{MessageBody: aws.String("later"), DelaySeconds: 1})
		counts := q.counts()
		later := q.receive(0)
		if time.Since(sent) < time.Second {
			want(t, "delayed", counts, "0 0 1")
			want(t, "not yet", seen(later), "")
		}
		if len(later) == 0 {
			later = q.receive(10)
		}
		want(t, "then", seen(later), "later:1")

		began := time.Now()
		empty := create(t, c, "empty")
		want(t, "long poll for nothing", seen(empty.receive(1)), "")
		if took := time.Since(began); took < time.Second {
			t.Errorf("a poll of 1 s took %v", took)
		}
	}},
	{"dead letters", func(t *testing.T, c *sdk.Client) {
		dead := create(t, c, "dead")
		q := create(t, c, "alive", fmt.Sprintf(`RedrivePolicy={"deadLetterTargetArn":%q,"maxReceiveCount":2}`,
			dead.attribute(types.QueueAttributeNameQueueArn)))
		id := q.send(sdk.SendMessageInput{MessageBody: aws.String("poison")}).MessageId
		for _, s := range []string{"poison:1", "poison:2"} {
			got := q.receive(10)
			want(t, "alive", seen(got), s)
			if err := q.hide(got[0], 0); err != nil {
				t.Error(err)
			}
		}
		want(t, "given up", seen(q.receive(1)), "")
		want(t, "nothing left", q.counts(), "0 0 0")
		got := dead.receive(10)
		want(t, "dead", seen(got), "poison:3")
		want(t, "the same message", aws.ToString(got[0].MessageId), aws.ToString(id))
	}},
	{"FIFO", func(t *testing.T, c *sdk.Client) {
		q := create(t, c, "order.fifo")
		send := func(body, group, dedup string) {
			q.send(sdk.SendMessageInput{MessageBody: aws.String(body), MessageGroupId: aws.String(group),
				MessageDeduplicationId: aws.String(dedup)})
		}
		send("a1", "a", "1")
		send("a1 again", "a", "1")
		send("a2", "a", "2")
		send("b1", "b", "3")
		got := q.receive(0)
		want(t, "in order, once", seen(got), "a1:1 a2:1 b1:1")
		send("a3", "a", "4")
		send("c1", "c", "5")
		want(t, "groups in flight wait", seen(q.receive(0)), "c1:1")
		want(t, "group", got[0].Attributes["MessageGroupId"], "a")
		for _, m := range got[:2] {
			if err := q.remove(m); err != nil {
				t.Error(err)
			}
		}
		want(t, "the group goes on", seen(q.receive(10)), "a3:1")
		_, err := q.SendMessage(t.Context(), &sdk.SendMessageInput{QueueUrl: q.url, MessageBody: aws.String("x")})
		refused(t, "no group", err, "MissingParameter")
		_, err = q.SendMessage(t.Context(), &sdk.SendMessageInput{QueueUrl: q.url, MessageBody: aws.String("x"),
			MessageGroupId: aws.String("a")})
		refused(t, "no deduplication ID", err, "InvalidParameterValue")
	}},
	{"refusals", func(t *testing.T, c *sdk.Client) {
		q := create(t, c, "strict")
		u, err := c.GetQueueUrl(t.Context(), &sdk.GetQueueUrlInput{QueueName: aws.String("strict")})
		if err != nil || aws.ToString(u.QueueUrl) != aws.ToString(q.url) {
			t.Errorf("%v, %v; want %s", u, err, aws.ToString(q.url))
		}
		_, err = c.GetQueueUrl(t.Context(), &sdk.GetQueueUrlInput{QueueName: aws.String("missing")})
		if _, ok := errors.AsType[*types.QueueDoesNotExist](err); !ok {
			t.Errorf("URL of no queue: %v", err)
		}
		missing := user{c, t, aws.String(aws.ToString(q.url) + "-missing")}
		_, err = c.SendMessage(t.Context(), &sdk.SendMessageInput{QueueUrl: missing.url, MessageBody: aws.String("x")})
		if _, ok := errors.AsType[*types.QueueDoesNotExist](err); !ok {
			t.Errorf("send to no queue: %v", err)
		}
		_, err = c.ReceiveMessage(t.Context(), &sdk.ReceiveMessageInput{QueueUrl: q.url, MaxNumberOfMessages: 11})
		refused(t, "eleven messages", err, "InvalidParameterValue")
		_, err = c.ReceiveMessage(t.Context(), &sdk.ReceiveMessageInput{QueueUrl: q.url, WaitTimeSeconds: 21})
		refused(t, "21 seconds", err, "InvalidParameterValue")
		q.post("a")
		m := q.receive(0)[0]
		refused(t, "13 hours", q.hide(m, 13*3600), "InvalidParameterValue")
		refused(t, "no such receipt", q.hide(types.Message{ReceiptHandle: aws.String("x")}, 1), "ReceiptHandleIsInvalid")
		_, err = c.GetQueueAttributes(t.Context(), &sdk.GetQueueAttributesInput{QueueUrl: q.url,
			AttributeNames: []types.QueueAttributeName{"Color"}})
		refused(t, "unknown attribute", err, "InvalidAttributeName")
	}},
}
