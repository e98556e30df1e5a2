package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/leasehold-dev/leasehold/adapters/awssqs"
	"github.com/leasehold-dev/leasehold/emulator/sqstest"
	"github.com/leasehold-dev/leasehold/functions/direct"
	"github.com/leasehold-dev/leasehold/functions/tasks"
	"github.com/leasehold-dev/leasehold/repo/analysis"
	"github.com/leasehold-dev/leasehold/repo/docstore"
)

// queueBench is a queue with a dead-letter queue, jobs in it, a store that counts its requests, and a target.
type queueBench struct {
	t                 *testing.T
	client            *sqs.Client
	queue             *awssqs.Queue
	dead              string // the URL of the dead-letter queue
	store             docstore.Store
	requests, written atomic.Int64 // of the target; of the store, but for those of the bench

	respond func(*http.Request) (*http.Response, error)
}

func newQueueBench(t *testing.T, jobs int) *queueBench {
	t.Helper()
	b := &queueBench{t: t, store: docstore.NewMemory(nil)}
	b.client = sqs.New(sqs.Options{
		Region: "local", BaseEndpoint: aws.String("http://sqs.local"), HTTPClient: &http.Client{Transport: sqstest.New(nil).RoundTripper()},
		Credentials: credentials.NewStaticCredentialsProvider("local", "local", ""),
	})
	create := func(name string, attributes map[string]string) string {
		out, err := b.client.CreateQueue(t.Context(), &sqs.CreateQueueInput{QueueName: &name, Attributes: attributes})
		if err != nil {
			t.Fatal(err)
		}
		return aws.ToString(out.QueueUrl)
	}
	b.dead = create("dead", nil)
	arn, err := b.client.GetQueueAttributes(t.Context(), &sqs.GetQueueAttributesInput{QueueUrl: &b.dead,
		AttributeNames: []types.QueueAttributeName{types.QueueAttributeNameQueueArn}})
	if err != nil {
		t.Fatal(err)
	}
	url := create("analyses", map[string]string{"RedrivePolicy": fmt.Sprintf(
		`{"deadLetterTargetArn":%q,"maxReceiveCount":20}`, arn.Attributes["QueueArn"])})
	if b.queue, err = awssqs.New(t.Context(), b.client, url); err != nil {
		t.Fatal(err)
	}
	b.order(jobs)
	return b
}

// order makes jobs and sends their messages.
func (b *queueBench) order(jobs int) {
	b.t.Helper()
	for i := range jobs {
		id := analysis.ID(fmt.Sprint("job-", i))
		if _, err := b.store.Write(b.t.Context(), docstore.Write{Key: docstore.Key{Kind: analysis.Kind, ID: string(id)},
			Set: docstore.Doc{"status": docstore.String("PENDING")}}); err != nil {
			b.t.Fatal(err)
		}
		if err := b.queue.Enqueue(b.t.Context(), id, strconv.Itoa(i)); err != nil {
			b.t.Fatal(err)
		}
	}
}

// RoundTrip is the target.
func (b *queueBench) RoundTrip(r *http.Request) (*http.Response, error) {
	b.requests.Add(1)
	return b.respond(r)
}

// counted counts the requests of the worker's store.
type counted struct {
	docstore.Store

	n *atomic.Int64
}

func (c counted) Get(ctx context.Context, k ...docstore.Key) (docstore.Snapshot, error) {
	c.n.Add(1)
	return c.Store.Get(ctx, k...)
}

func (c counted) Write(ctx context.Context, w ...docstore.Write) (docstore.Result, error) {
	c.n.Add(1)
	return c.Store.Write(ctx, w...)
}

// work empties the queue with the worker of the command.
func (b *queueBench) work(concurrency int) {
	b.t.Helper()
	target, err := tasks.NewTarget("http://127.0.0.1:9000/run", &tasks.TargetOptions{Client: &http.Client{Transport: b}})
	if err != nil {
		b.t.Fatal(err)
	}
	w := &tasks.Worker{Gate: direct.Analyses(analysis.New(counted{b.store, &b.written}, nil)), Work: target.Run,
		Log: slog.New(slog.DiscardHandler)}
	o := &awssqs.PollOptions{Concurrency: concurrency, Visibility: hidden, Drain: true}
	if err := b.queue.Poll(b.t.Context(), deliver(w, 10*time.Minute, b.t.Context().Done(), &lastResult{}), o); err != nil {
		b.t.Fatal(err)
	}
}

// ends counts the jobs by their status, and how many runs of all were counted as failed.
func (b *queueBench) ends(jobs int) string {
	b.t.Helper()
	found, failures := map[docstore.Value]int{}, int64(0)
	for i := range jobs {
		s, err := b.store.Get(b.t.Context(), docstore.Key{Kind: analysis.Kind, ID: fmt.Sprint("job-", i)})
		if err != nil {
			b.t.Fatal(err)
		}
		found[s.Docs[0]["status"]]++
		if n, ok := s.Docs[0]["lockFailures"].(docstore.Int); ok {
			failures += int64(n)
		}
	}
	return fmt.Sprint(found, " failures:", failures)
}

// letters are the messages in the dead-letter queue.
func (b *queueBench) letters() (all []string) {
	b.t.Helper()
	for {
		out, err := b.client.ReceiveMessage(b.t.Context(), &sqs.ReceiveMessageInput{QueueUrl: &b.dead, MaxNumberOfMessages: 10,
			WaitTimeSeconds: 0})
		if err != nil {
			b.t.Fatal(err)
		}
		if len(out.Messages) == 0 {
			return all
		}
		for _, m := range out.Messages {
			all = append(all, aws.ToString(m.Body))
		}
	}
}

// TestTargetAway: 50 jobs whose target is away, for less than a minute and for an hour, as a port that refuses
// connections and as a proxy that responds 503. In the end all are READY, no run is counted as failed, nothing is in
// the dead-letter queue. While it is away it has a request of each message that had begun, and one for each pause: the
// pauses double from a second to a minute, and each is at least half of that. The store has two for each of those.
func TestTargetAway(t *testing.T) {
	const jobs, concurrency = 50, 4
	refused := func(*http.Request) (*http.Response, error) {
		return nil, &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}
	}
	code := func(code int) func(*http.Request) (*http.Response, error) {
		return func(*http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: code, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(""))}, nil
		}
	}
	for name, away := range map[string]func(*http.Request) (*http.Response, error){"refused": refused, "503": code(503)} { //nolint:bodyclose // the transport's user closes it
		for _, c := range []struct {
			away time.Duration
			most int64 // probes
		}{
			{42 * time.Second, 7},                // after ½, 1, 2, 4, 8, 16 and 30 s
			{time.Hour, 7 + 3600/30},             // then one in 30 s
			{13 * time.Hour, 7 + 13*3600/30 + 4}, // SQS hides a message for 12 hours: those held are received once more
		} {
			t.Run(fmt.Sprintf("%s for %v", name, c.away), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					b := newQueueBench(t, jobs)
					back := time.Now().Add(c.away)
					var probes, writes atomic.Int64
					var once sync.Once
					b.respond = func(r *http.Request) (*http.Response, error) {
						if time.Now().Before(back) {
							return away(r)
						}
						once.Do(func() { probes.Store(b.requests.Load() - 1); writes.Store(b.written.Load()) })
						return code(200)(r)
					}
					b.work(concurrency)
					if got, want := b.ends(jobs), fmt.Sprintf("map[READY:%d] failures:0", jobs); got != want {
						t.Errorf("%s, want %s", got, want)
					}
					if n := probes.Load(); n > concurrency+c.most {
						t.Errorf("%d requests in %v, want %d at most", n, c.away, concurrency+c.most)
					}
					// an acquire and a release of each, and the acquire of the one that got through
					if n, most := writes.Load(), 2*probes.Load()+1; n > most {
						t.Errorf("the store had %d requests, want %d at most", n, most)
					}
					if n := b.requests.Load() - probes.Load(); n != jobs {
						t.Errorf("%d runs of %d jobs", n, jobs)
					}
					if dead := b.letters(); len(dead) != 0 {
						t.Errorf("dead: %q", dead)
					}
					t.Logf("%d requests of the target, %d of the store", probes.Load(), writes.Load())
				})
			})
		}
	}
}

// TestDeadLetters: a message that names no job, and one whose job has used up its tries, are in the dead-letter queue
// as soon as that is known; one whose job failed for good is done.
func TestDeadLetters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newQueueBench(t, 0)
		url := strings.Replace(b.dead, "dead", "analyses", 1)
		if _, err := b.client.SendMessage(t.Context(), &sqs.SendMessageInput{QueueUrl: &url,
			MessageBody: aws.String("<job/>")}); err != nil {
			t.Fatal(err)
		}
		b.respond = func(r *http.Request) (*http.Response, error) {
			body, err := io.ReadAll(r.Body)
			code := 200
			switch {
			case err != nil:
				return nil, err
			case strings.Contains(string(body), "job-1"):
				code = 500
			case strings.Contains(string(body), "job-2"):
				code = 422
			}
			return &http.Response{StatusCode: code, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(""))}, nil
		}
		began := time.Now()
		b.work(1)
		if took := time.Since(began); took > 10*time.Second {
			t.Errorf("the dead-letter queue has a message that names no job after %v", took)
		}
		b.order(3)
		b.work(1)
		if got := b.ends(3); got != "map[FAILED:2 READY:1] failures:6" {
			t.Error(got)
		}
		if n := b.requests.Load(); n != 7 {
			t.Errorf("%d requests, want one of each and five of job-1", n)
		}
		if got := strings.Join(b.letters(), " "); got != `<job/> {"analysisId":"job-1"}` {
			t.Errorf("dead: %s", got)
		}
	})
}
