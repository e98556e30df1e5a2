package sqstest_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	sdk "github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/leasehold-dev/leasehold/emulator/sqstest"
)

// connect returns a client of the real SDK that tries each request once.
func connect(url string, more ...func(*sdk.Options)) *sdk.Client {
	return sdk.New(sdk.Options{
		Region:           "us-east-1",
		Credentials:      credentials.NewStaticCredentialsProvider("key", "secret", ""),
		BaseEndpoint:     aws.String(url),
		RetryMaxAttempts: 1,
	}, more...)
}

// inMemory returns a client of a server without a network.
func inMemory(s *sqstest.Server) *sdk.Client {
	return connect("http://sqs.local", func(o *sdk.Options) { o.HTTPClient = &http.Client{Transport: s.RoundTripper()} })
}

// user is a client with one queue in mind. Its methods fail the test.
type user struct {
	*sdk.Client

	t   *testing.T
	url *string
}

// create makes a queue with attributes of the form Name=value.
func create(t *testing.T, c *sdk.Client, name string, attributes ...string) user {
	t.Helper()
	a := map[string]string{}
	for _, kv := range attributes {
		k, v, _ := strings.Cut(kv, "=")
		a[k] = v
	}
	if strings.HasSuffix(name, ".fifo") {
		a["FifoQueue"] = "true"
	}
	out, err := c.CreateQueue(t.Context(), &sdk.CreateQueueInput{QueueName: aws.String(name), Attributes: a})
	if err != nil {
		t.Fatal(err)
	}
	return user{c, t, out.QueueUrl}
}

func (u user) send(in sdk.SendMessageInput) *sdk.SendMessageOutput {
	u.t.Helper()
	in.QueueUrl = u.url
	out, err := u.SendMessage(u.t.Context(), &in)
	if err != nil {
		u.t.Fatal(err)
	}
	return out
}

// post sends bodies.
func (u user) post(bodies ...string) {
	u.t.Helper()
	for _, b := range bodies {
		u.send(sdk.SendMessageInput{MessageBody: aws.String(b)})
	}
}

// receive waits for up to wait seconds for up to ten messages.
func (u user) receive(wait int32) []types.Message {
	u.t.Helper()
	out, err := u.ReceiveMessage(u.t.Context(), &sdk.ReceiveMessageInput{
		QueueUrl: u.url, MaxNumberOfMessages: 10, WaitTimeSeconds: wait,
		MessageSystemAttributeNames: []types.MessageSystemAttributeName{types.MessageSystemAttributeNameAll},
	})
	if err != nil {
		u.t.Fatal(err)
	}
	return out.Messages
}

func (u user) hide(m types.Message, seconds int32) error {
	_, err := u.ChangeMessageVisibility(u.t.Context(), &sdk.ChangeMessageVisibilityInput{
		QueueUrl: u.url, ReceiptHandle: m.ReceiptHandle, VisibilityTimeout: seconds,
	})
	return err
}

func (u user) remove(m types.Message) error {
	_, err := u.DeleteMessage(u.t.Context(), &sdk.DeleteMessageInput{QueueUrl: u.url, ReceiptHandle: m.ReceiptHandle})
	return err
}

// attribute is one of the queue's.
func (u user) attribute(name types.QueueAttributeName) string {
	u.t.Helper()
	out, err := u.GetQueueAttributes(u.t.Context(), &sdk.GetQueueAttributesInput{
		QueueUrl: u.url, AttributeNames: []types.QueueAttributeName{name},
	})
	if err != nil {
		u.t.Fatal(err)
	}
	return out.Attributes[string(name)]
}

// counts are the messages that wait, are in flight, and are delayed.
func (u user) counts() string {
	u.t.Helper()
	return u.attribute(types.QueueAttributeNameApproximateNumberOfMessages) + " " +
		u.attribute(types.QueueAttributeNameApproximateNumberOfMessagesNotVisible) + " " +
		u.attribute(types.QueueAttributeNameApproximateNumberOfMessagesDelayed)
}

// seen are messages in one line: each body and which delivery it is.
func seen(messages []types.Message) string {
	var s []string
	for _, m := range messages {
		s = append(s, aws.ToString(m.Body)+":"+m.Attributes["ApproximateReceiveCount"])
	}
	return strings.Join(s, " ")
}
