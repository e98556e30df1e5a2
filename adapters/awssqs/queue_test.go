package awssqs_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	sdk "github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/leasehold-dev/leasehold/adapters/awssqs"
	"github.com/leasehold-dev/leasehold/emulator/sqstest"
	"github.com/leasehold-dev/leasehold/emulator/sqstest/moto"
	"github.com/leasehold-dev/leasehold/repo/analysis"
)

// client is one of the real SDK, with its default retries.
func client(url string, transport http.RoundTripper) *sdk.Client {
	return sdk.New(sdk.Options{
		Region: "us-east-1", Credentials: credentials.NewStaticCredentialsProvider("key", "secret", ""),
		BaseEndpoint: aws.String(url), HTTPClient: &http.Client{Transport: transport},
	})
}

// create makes a queue and returns its URL.
func create(t *testing.T, c *sdk.Client, name string, attributes map[string]string) string {
	t.Helper()
	a := map[string]string{}
	maps.Copy(a, attributes)
	if strings.HasSuffix(name, ".fifo") {
		a["FifoQueue"] = "true"
	}
	out, err := c.CreateQueue(t.Context(), &sdk.CreateQueueInput{QueueName: aws.String(name), Attributes: a})
	if err != nil {
		t.Fatal(err)
	}
	return aws.ToString(out.QueueUrl)
}

// redrive is the policy that gives messages up to another queue.
func redrive(t *testing.T, c *sdk.Client, dead string, receives int) map[string]string {
	t.Helper()
	out, err := c.GetQueueAttributes(t.Context(), &sdk.GetQueueAttributesInput{
		QueueUrl: aws.String(dead), AttributeNames: []types.QueueAttributeName{"QueueArn"},
	})
	if err != nil {
		t.Fatal(err)
	}
	return map[string]string{"RedrivePolicy": fmt.Sprintf(`{"deadLetterTargetArn":%q,"maxReceiveCount":%d}`,
		out.Attributes["QueueArn"], receives)}
}

// bodies are what is in a queue and visible now.
func bodies(t *testing.T, c *sdk.Client, url string) string {
	t.Helper()
	out, err := c.ReceiveMessage(t.Context(), &sdk.ReceiveMessageInput{QueueUrl: aws.String(url), MaxNumberOfMessages: 10,
		MessageSystemAttributeNames: []types.MessageSystemAttributeName{types.MessageSystemAttributeNameMessageGroupId}})
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, m := range out.Messages {
		all = append(all, aws.ToString(m.Body)+m.Attributes["MessageGroupId"])
	}
	return strings.Join(all, " ")
}

// TestFairQueue: messages of a standard queue name the tenant, in a form that SQS takes; those of a FIFO queue name the
// analysis as before.
func TestFairQueue(t *testing.T) {
	c := client(sqstest.Start(t, nil).URL, http.DefaultTransport)
	for _, s := range []struct {
		queue  string
		tenant func(analysis.ID) string
		id     analysis.ID
		group  string
	}{
		{"plain", nil, "acme:1", ""},
		{"plain", awssqs.TenantBefore(":"), "acme:1:2", "acme"},
		{"plain", awssqs.TenantBefore("--"), "acme:1--2", "acme:1"},
		{"plain", awssqs.TenantBefore(":"), "lonely", ""},
		{"plain", awssqs.TenantBefore(":"), ":nameless", ""},
		{"plain", awssqs.TenantBefore(":"), "日本:1", "sha256:"},
		{"plain", func(analysis.ID) string { return strings.Repeat("t", 129) }, "x", "sha256:"},
		{"strict.fifo", awssqs.TenantBefore(":"), "acme:1", "acme:1"},
	} {
		url := create(t, c, s.queue, nil)
		q, err := awssqs.Open(t.Context(), url, &awssqs.Options{Region: "us-east-1", Tenant: s.tenant})
		if err != nil {
			t.Fatal(err)
		}
		if err := q.Enqueue(t.Context(), s.id, "n"); err != nil {
			t.Errorf("%s: %v", s.id, err)
		}
		got := strings.TrimPrefix(bodies(t, c, url), fmt.Sprintf(`{"analysisId":%q}`, string(s.id)))
		if s.group == "sha256:" && strings.HasPrefix(got, s.group) && len(got) == len("sha256:")+64 {
			continue
		}
		if got != s.group {
			t.Errorf("%s in %s: the group is %q, want %q", s.id, s.queue, got, s.group)
		}
	}
}

// TestEnqueue runs on both servers.
func TestEnqueue(t *testing.T) {
	servers := map[string]func(t *testing.T) string{
		"emulator": func(t *testing.T) string { return sqstest.Start(t, nil).URL },
		"moto":     func(t *testing.T) string { return moto.Start(t) },
	}
	for name, start := range servers {
		t.Run(name, func(t *testing.T) {
			c := client(start(t), http.DefaultTransport)
			url := create(t, c, "plain", nil)
			q, err := awssqs.Open(t.Context(), url, &awssqs.Options{Region: "us-east-1"})
			if err != nil {
				t.Fatal(err)
			}
			for range 2 {
				if err := q.Enqueue(t.Context(), `a"<1`, "n1"); err != nil {
					t.Error(err)
				}
			}
			want := `{"analysisId":"a\"\u003c1"}`
			if got := bodies(t, c, url); got != want+" "+want {
				t.Errorf("a standard queue has %s", got)
			}
			if err := q.Enqueue(t.Context(), "a/b", "n"); err == nil || !strings.Contains(err.Error(), "analysis_id") {
				t.Errorf("an ID that is none: %v", err)
			}

			url = create(t, c, "order.fifo", nil)
			if q, err = awssqs.Open(t.Context(), url, &awssqs.Options{Region: "us-east-1"}); err != nil {
				t.Fatal(err)
			}
			for _, name := range []string{"n1", "n1", "n2"} {
				if err := q.Enqueue(t.Context(), "a1", name); err != nil {
					t.Error(err)
				}
			}
			if err := q.Enqueue(t.Context(), "動画", strings.Repeat("n", 300)); err != nil { // neither fits into a FIFO's names
				t.Error(err)
			}
			got := strings.Fields(bodies(t, c, url))
			if len(got) != 3 || got[0] != `{"analysisId":"a1"}a1` || got[1] != got[0] ||
				!strings.HasPrefix(got[2], `{"analysisId":"動画"}sha256:`) ||
				len(got[2]) != len(`{"analysisId":"動画"}sha256:`)+64 {
				t.Errorf("a FIFO queue has %s", got)
			}

			if _, err := awssqs.Open(t.Context(), url+"-missing", &awssqs.Options{Region: "us-east-1"}); err == nil ||
				!strings.Contains(err.Error(), "there is no queue") {
				t.Errorf("no queue: %v", err)
			}
		})
	}
}

func TestWarnings(t *testing.T) {
	s := sqstest.New(nil)
	c := client("http://sqs.local", s.RoundTripper())
	dead := create(t, c, "dead", nil)
	good := redrive(t, c, dead, 10)
	open := func(name string, a map[string]string) *awssqs.Queue {
		q, err := awssqs.New(t.Context(), c, create(t, c, name, a))
		if err != nil {
			t.Fatal(err)
		}
		return q
	}
	worker := awssqs.Expect{Hidden: time.Minute, Failures: 5}
	with := func(k, v string) map[string]string {
		a := maps.Clone(good)
		a[k] = v
		return a
	}
	for _, x := range []struct {
		name   string
		a      map[string]string
		expect awssqs.Expect
		want   []string
	}{
		{"good", with("VisibilityTimeout", "300"), worker, nil},
		{"defaults", nil, worker, []string{"visibility timeout of 30s", "no dead-letter queue"}},
		{"receiver-sees-to-it", good, awssqs.Expect{Failures: 5}, nil},
		{"gives-up-early", redrive(t, c, dead, 3), awssqs.Expect{Failures: 5},
			[]string{"after 3 deliveries, before its analysis turns FAILED after 5"}},
		{"forgets", with("MessageRetentionPeriod", "600"), awssqs.Expect{}, []string{"drops messages after 10m0s"}},
	} {
		got := open(x.name, x.a).Warnings(x.expect)
		if len(got) != len(x.want) {
			t.Errorf("%s: %q, want %q", x.name, got, x.want)
			continue
		}
		for i, w := range x.want {
			if !strings.Contains(got[i], w) {
				t.Errorf("%s: %q, want %q", x.name, got[i], w)
			}
		}
	}
}

// TestLostResponse: a message whose response was lost is sent again by the SDK. A FIFO queue has it once; a standard
// queue has it twice, and the gate runs it once.
func TestLostResponse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := sqstest.New(nil)
		c := client("http://sqs.local", s.RoundTripper())
		for name, want := range map[string]int{"plain": 2, "order.fifo": 1} {
			url := create(t, c, name, nil)
			q, err := awssqs.New(t.Context(), c, url)
			if err != nil {
				t.Fatal(err)
			}
			s.Inject(sqstest.Fault{Kind: sqstest.DropAfter, Op: "SendMessage", Times: 1})
			if err := q.Enqueue(t.Context(), "a", "n"); err != nil {
				t.Error(err)
			}
			if got := strings.Fields(bodies(t, c, url)); len(got) != want {
				t.Errorf("%s has %v", name, got)
			}
			s.Inject(sqstest.Fault{Kind: sqstest.FailBefore, Op: "SendMessage", Times: 3})
			if err := q.Enqueue(t.Context(), "b", "m"); err == nil || !strings.Contains(err.Error(), "send to "+url) {
				t.Errorf("%s: a queue that is away: %v", name, err)
			}
		}
	})
}

// TestUnreachable: a queue that does not respond keeps no one waiting for long.
func TestUnreachable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := sqstest.New(nil)
		h := awssqs.NewHider(client("http://sqs.local", s.RoundTripper()))
		s.Inject(sqstest.Fault{Kind: sqstest.Delay, Delay: time.Hour})
		began := time.Now()
		err := h.Hide(t.Context(), "arn:aws:sqs:us-east-1:000000000000:q", "r", began, time.Minute)
		if took := time.Since(began); !errors.Is(err, context.DeadlineExceeded) || took != 5*time.Second {
			t.Errorf("%v after %v", err, took)
		}
	})
}

// TestHider: one more request for the URL of a queue, once; and twelve hours at most.
func TestHider(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := sqstest.New(nil)
		c := client("http://sqs.local", s.RoundTripper())
		url := create(t, c, "q", nil)
		q, err := awssqs.New(t.Context(), c, url)
		if err != nil {
			t.Fatal(err)
		}
		if err := q.Enqueue(t.Context(), "a", ""); err != nil {
			t.Fatal(err)
		}
		out, err := c.ReceiveMessage(t.Context(), &sdk.ReceiveMessageInput{QueueUrl: aws.String(url)})
		if err != nil {
			t.Fatal(err)
		}
		received := time.Now()
		receipt := aws.ToString(out.Messages[0].ReceiptHandle)
		const arn = "arn:aws:sqs:us-east-1:000000000000:q"
		h := awssqs.NewHider(c)
		s.ResetCounts()
		for _, d := range []time.Duration{time.Minute, 1500 * time.Millisecond, 24 * time.Hour} {
			if err := h.Hide(t.Context(), arn, receipt, received, d); err != nil {
				t.Errorf("%v: %v", d, err)
			}
		}
		if got := fmt.Sprint(s.Requests()); got != "map[ChangeMessageVisibility:3 GetQueueUrl:1]" {
			t.Errorf("%s", got)
		}
		time.Sleep(12*time.Hour - time.Second)
		if got := bodies(t, c, url); got != "" {
			t.Errorf("before twelve hours are over: %s", got)
		}
		time.Sleep(500 * time.Millisecond)
		if err := h.Hide(t.Context(), arn, receipt, received, time.Minute); err == nil ||
			!strings.Contains(err.Error(), "12 hours") {
			t.Errorf("%v", err)
		}
		if err := h.Hide(t.Context(), arn, receipt, received, 0); err != nil { // handing back is always possible
			t.Error(err)
		}
		if got := bodies(t, c, url); got != `{"analysisId":"a"}` {
			t.Errorf("handed back: %s", got)
		}
		for _, bad := range []string{"", "q", "arn:aws:sns:us-east-1:000000000000:q",
			"arn:aws:sqs:us-east-1:000000000000:missing"} {
			if err := h.Hide(t.Context(), bad, receipt, received, 0); err == nil || !strings.Contains(err.Error(), bad) {
				t.Errorf("%q: %v", bad, err)
			}
		}
	})
}

// TestBury: a message goes to the dead-letter queue of its queue's policy, with its body and its group; without a
// policy it goes nowhere, and what cannot be sent is an error. A FIFO queue takes it once.
func TestBury(t *testing.T) {
	for _, kind := range []string{"", ".fifo"} {
		synctest.Test(t, func(t *testing.T) {
			s := sqstest.New(nil)
			c := client("http://sqs.local", s.RoundTripper())
			dead := create(t, c, "dead"+kind, nil)
			create(t, c, "with"+kind, redrive(t, c, dead, 20))
			create(t, c, "without"+kind, nil)
			const arn = "arn:aws:sqs:us-east-1:000000000000:"
			h := awssqs.NewHider(c)
			s.ResetCounts()
			for range 2 {
				if ok, err := h.Bury(t.Context(), arn+"with"+kind, "m1", "<job/>", "g"); !ok || err != nil {
					t.Error(ok, err)
				}
			}
			if got := fmt.Sprint(s.Requests()); got != "map[GetQueueAttributes:1 GetQueueUrl:2 SendMessage:2]" {
				t.Error(got)
			}
			want := "<job/>g <job/>g"
			if kind != "" {
				want = "<job/>g"
			}
			if got := bodies(t, c, dead); got != want {
				t.Errorf("%s, want %s", got, want)
			}
			if ok, err := h.Bury(t.Context(), arn+"without"+kind, "m1", "<job/>", "g"); ok || err != nil {
				t.Error(ok, err)
			}
			if ok, err := h.Bury(t.Context(), arn+"missing"+kind, "m1", "<job/>", "g"); ok || err == nil {
				t.Error(ok, err)
			}
		})
	}
}
