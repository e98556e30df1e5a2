package awssqs_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	sdk "github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/leasehold-dev/leasehold/adapters/awssqs"
	"github.com/leasehold-dev/leasehold/emulator/sqstest"
	"github.com/leasehold-dev/leasehold/repo/analysis"
)

// bench is a queue in a bubble, with a poller on it.
type bench struct {
	*sqstest.Server

	t     *testing.T
	c     *sdk.Client
	url   string
	q     *awssqs.Queue
	log   bytes.Buffer
	began time.Time

	mu     sync.Mutex
	events []string // "what@seconds since the beginning"
}

func newBench(t *testing.T, name string, attributes map[string]string) *bench {
	t.Helper()
	b := &bench{t: t, Server: sqstest.New(nil), began: time.Now()}
	b.c = client("http://sqs.local", b.RoundTripper())
	b.url = create(t, b.c, name, attributes)
	var err error
	if b.q, err = awssqs.New(t.Context(), b.c, b.url); err != nil {
		t.Fatal(err)
	}
	return b
}

func (b *bench) enqueue(ids ...analysis.ID) {
	b.t.Helper()
	for i, id := range ids {
		if err := b.q.Enqueue(b.t.Context(), id, fmt.Sprintf("%s-%d", id, i)); err != nil {
			b.t.Fatal(err)
		}
	}
}

// notef keeps what happened when.
func (b *bench) notef(format string, args ...any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.events = append(b.events, fmt.Sprintf("%s@%v", fmt.Sprintf(format, args...), time.Since(b.began).Round(time.Second)))
}

// want compares what happened.
func (b *bench) want(events ...string) {
	b.t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	if !slices.Equal(b.events, events) {
		b.t.Errorf("\ngot  %q\nwant %q", b.events, events)
	}
}

// counts are the messages that wait, are in flight, and are delayed.
func (b *bench) counts() string {
	b.t.Helper()
	out, err := b.c.GetQueueAttributes(b.t.Context(), &sdk.GetQueueAttributesInput{QueueUrl: aws.String(b.url),
		AttributeNames: []types.QueueAttributeName{"All"}})
	if err != nil {
		b.t.Fatal(err)
	}
	const n = "ApproximateNumberOfMessages"
	return out.Attributes[n] + " " + out.Attributes[n+"NotVisible"] + " " + out.Attributes[n+"Delayed"]
}

// poll runs until the context ends, or by itself.
func (b *bench) poll(ctx context.Context, h awssqs.Handler, o awssqs.PollOptions) error {
	o.Log = slog.New(slog.NewTextHandler(&b.log, nil))
	return b.q.Poll(ctx, h, &o)
}

func id(d awssqs.Delivery) string {
	return strings.TrimSuffix(strings.TrimPrefix(string(d.Body), `{"analysisId":"`), `"}`)
}

// bubble runs a test in one.
func bubble(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	synctest.Test(t, f)
}

// TestPoll: messages are worked on side by side up to the bound, deleted when done, and seen again when they are to
// come again.
func TestPoll(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newBench(t, "q", nil)
		b.enqueue("a", "b", "c")
		err := b.poll(t.Context(), func(_ context.Context, d awssqs.Delivery) awssqs.Result {
			b.notef("%s%d", id(d), d.Receives)
			time.Sleep(10 * time.Second)
			if id(d) == "b" && d.Receives == 1 {
				return awssqs.Result{RetryAfter: 90*time.Second + time.Millisecond}
			}
			return awssqs.Result{Done: true}
		}, awssqs.PollOptions{Concurrency: 2, Drain: true})
		if err != nil || b.counts() != "0 0 0" {
			t.Errorf("%v, %s", err, b.counts())
		}
		b.mu.Lock()
		slices.Sort(b.events[:2]) // at once
		b.mu.Unlock()
		b.want("a1@0s", "b1@0s", "c1@10s", "b2@1m41s")
		if n := b.Count("DeleteMessage"); n != 3 {
			t.Errorf("%d deletions", n)
		}
	})
}

// TestExtend: a message that is extended with each heartbeat is not seen again, whatever the queue's own time-out; each
// costs a request, and after twelve hours it is over.
func TestExtend(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newBench(t, "q", map[string]string{"VisibilityTimeout": "30"})
		b.enqueue("a")
		ctx, stop := context.WithTimeout(t.Context(), 12*time.Hour+30*time.Minute)
		defer stop()
		err := b.poll(ctx, func(ctx context.Context, d awssqs.Delivery) awssqs.Result {
			if d.Receives > 1 {
				b.notef("%s%d", id(d), d.Receives)
				return awssqs.Result{Done: true} // finished, as far as this one knows
			}
			for beat := range 13 * 12 {
				if err := d.Extend(ctx, 10*time.Minute); err != nil {
					time.Sleep(time.Minute)
					b.notef("beat %d: %v", beat, errors.Is(err, awssqs.ErrHiddenTooLong))
					break
				}
				time.Sleep(5 * time.Minute)
			}
			return awssqs.Result{Done: true}
		}, awssqs.PollOptions{Concurrency: 2, Visibility: 2 * time.Minute})
		if n := b.Count("ChangeMessageVisibility"); err != nil || n != 144 || b.counts() != "0 0 0" {
			t.Errorf("%v, %d requests, %s", err, n, b.counts())
		}
		b.want("a2@12h0m0s", "beat 144: true@12h1m0s")
	})
}

// TestStop: when the context ends nothing more is received; what ends within the grace is deleted, the rest is
// cancelled and handed back to be seen at once.
func TestStop(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newBench(t, "q", nil)
		b.enqueue("quick", "slow")
		ctx, stop := context.WithTimeout(t.Context(), 30*time.Second)
		defer stop()
		err := b.poll(ctx, func(ctx context.Context, d awssqs.Delivery) awssqs.Result {
			if id(d) == "quick" {
				time.Sleep(40 * time.Second)
				b.notef("quick")
				return awssqs.Result{Done: true}
			}
			<-ctx.Done()
			b.notef("slow: %v", context.Cause(ctx))
			time.Sleep(2 * time.Second) // gives its lock back
			return awssqs.Result{}
		}, awssqs.PollOptions{Concurrency: 3, Visibility: 10 * time.Minute, Grace: 15 * time.Second})
		b.notef("ended: %v, %s", err, b.counts())
		b.want("quick@40s", "slow: the process is stopping@45s", "ended: <nil>, 1 0 0@47s")
		if got := bodies(t, b.c, b.url); got != `{"analysisId":"slow"}` {
			t.Errorf("handed back: %s", got)
		}
	})
}

// TestStuck: a handler that does not heed its context does not keep the process.
func TestStuck(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newBench(t, "q", nil)
		b.enqueue("a")
		ctx, stop := context.WithTimeout(t.Context(), time.Second)
		defer stop()
		release := make(chan struct{})
		err := b.poll(ctx, func(context.Context, awssqs.Delivery) awssqs.Result {
			<-release
			return awssqs.Result{Done: true}
		}, awssqs.PollOptions{})
		if err == nil || !strings.Contains(err.Error(), "1 messages were still in work") ||
			time.Since(b.began) != 41*time.Second {
			t.Errorf("%v after %v", err, time.Since(b.began))
		}
		close(release)
	})
}

// TestOutage: a queue that does not respond is asked again and again, with growing pauses, and then goes on.
func TestOutage(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newBench(t, "q", nil)
		b.enqueue("a")
		down := b.Inject(sqstest.Fault{Kind: sqstest.FailBefore})
		time.AfterFunc(10*time.Minute, down.Remove)
		ctx, stop := context.WithCancel(t.Context())
		err := b.poll(ctx, func(context.Context, awssqs.Delivery) awssqs.Result {
			time.AfterFunc(time.Second, stop)
			return awssqs.Result{Done: true}
		}, awssqs.PollOptions{})
		took := time.Since(b.began)
		if err != nil || took < 10*time.Minute || took > 11*time.Minute || b.counts() != "0 0 0" {
			t.Errorf("%v after %v, %s", err, took, b.counts())
		}
		// three attempts of the SDK for each of ours, which are 10 s apart on average at last
		if n := down.Hits(); n < 60 || n > 250 {
			t.Errorf("%d requests in ten minutes", n)
		}
		if log := b.log.String(); strings.Count(log, "does not respond") < 20 || strings.Count(log, "responds again") != 1 {
			t.Errorf("%s", log)
		}
	})
}

// TestDrainOfNothing: draining a queue that does not respond, or waiting for one message of it, is an error in the end.
func TestDrainOfNothing(t *testing.T) {
	for _, o := range []awssqs.PollOptions{{Drain: true}, {Most: 1}} {
		bubble(t, func(t *testing.T) {
			b := newBench(t, "q", nil)
			if err := b.poll(t.Context(), nil, o); err != nil || time.Since(b.began) > 20*time.Second {
				t.Errorf("an empty queue: %v after %v", err, time.Since(b.began))
			}
			b.Inject(sqstest.Fault{Kind: sqstest.Throttle, Op: "ReceiveMessage"})
			if err := b.poll(t.Context(), nil, o); err == nil || !strings.Contains(err.Error(), "RequestThrottled") {
				t.Errorf("%+v: %v", o, err)
			}
		})
	}
}

// TestLostResponses: what was received and never arrived comes again after Visibility; a deletion whose response was
// lost is sent again by the SDK and is one.
func TestLostResponses(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newBench(t, "q", map[string]string{"VisibilityTimeout": "43200"})
		b.enqueue("a")
		b.Inject(sqstest.Fault{Kind: sqstest.DropAfter, Op: "ReceiveMessage", Times: 1})
		b.Inject(sqstest.Fault{Kind: sqstest.DropAfter, Op: "DeleteMessage", Times: 1})
		err := b.poll(t.Context(), func(_ context.Context, d awssqs.Delivery) awssqs.Result {
			b.notef("%s%d", id(d), d.Receives)
			return awssqs.Result{Done: true}
		}, awssqs.PollOptions{Visibility: 2 * time.Minute, Drain: true})
		if err != nil || b.Count("DeleteMessage") != 2 {
			t.Errorf("%v, %d deletions", err, b.Count("DeleteMessage"))
		}
		b.want("a2@2m0s")
	})
}

// TestExpiredReceipt: a message that took longer than it was hidden belongs to another caller: that is logged, and no
// more.
func TestExpiredReceipt(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newBench(t, "q.fifo", nil)
		b.enqueue("a", "b")
		err := b.poll(t.Context(), func(_ context.Context, d awssqs.Delivery) awssqs.Result {
			b.notef("%s%d", id(d), d.Receives)
			if d.Receives == 1 && id(d) == "a" {
				time.Sleep(time.Minute)
			}
			return awssqs.Result{Done: true}
		}, awssqs.PollOptions{Concurrency: 1, Drain: true})
		if err != nil || !strings.Contains(b.log.String(), "expired") {
			t.Errorf("%v, %s", err, b.log.String())
		}
		b.want("a1@0s", "a2@1m0s", "b1@1m0s")
	})
}

// TestPanic: a handler that panics ends neither the poller nor the message, which ends in the dead-letter queue.
func TestPanic(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newBench(t, "q", nil)
		dead := create(t, b.c, "dead", nil)
		if _, err := b.c.SetQueueAttributes(t.Context(), &sdk.SetQueueAttributesInput{QueueUrl: aws.String(b.url),
			Attributes: redrive(t, b.c, dead, 3)}); err != nil {
			t.Fatal(err)
		}
		b.enqueue("poison", "good")
		err := b.poll(t.Context(), func(_ context.Context, d awssqs.Delivery) awssqs.Result {
			if id(d) == "poison" {
				panic(fmt.Sprintf("oh %d", d.Receives))
			}
			return awssqs.Result{Done: true}
		}, awssqs.PollOptions{Drain: true})
		if err != nil || bodies(t, b.c, dead) != `{"analysisId":"poison"}` || strings.Count(b.log.String(), "panic") < 3 ||
			!strings.Contains(b.log.String(), "oh 3") {
			t.Errorf("%v, %s", err, b.log.String())
		}
	})
}

// TestOrder: in a FIFO queue a message that comes again is not overtaken by the next of its group, however many slots
// are free; other groups go on.
func TestOrder(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newBench(t, "q.fifo", nil)
		b.enqueue("a", "a", "b")
		var again atomic.Bool
		err := b.poll(t.Context(), func(_ context.Context, d awssqs.Delivery) awssqs.Result {
			b.notef("%s%d", id(d), d.Receives)
			time.Sleep(5 * time.Second)
			if id(d) == "a" && !again.Swap(true) {
				return awssqs.Result{RetryAfter: time.Minute}
			}
			return awssqs.Result{Done: true}
		}, awssqs.PollOptions{Concurrency: 3, Drain: true})
		if err != nil {
			t.Error(err)
		}
		b.mu.Lock()
		slices.Sort(b.events[:2]) // at once
		b.mu.Unlock()
		b.want("a1@0s", "b1@0s", "a2@1m5s", "a1@1m10s")
	})
}

// TestPollOptions: settings that cannot work are rejected.
func TestPollOptions(t *testing.T) {
	b := newBench(t, "q", nil)
	for says, o := range map[string]awssqs.PollOptions{
		"Concurrency": {Concurrency: -1}, "Grace": {Grace: -1}, "Visibility": {Visibility: 13 * time.Hour},
	} {
		if err := b.poll(t.Context(), nil, o); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", says, err)
		}
	}
}

// TestDead: what no retry can help is in the dead-letter queue and gone. Where there is none, what is done is deleted
// and the rest comes again; where it cannot be sent there, both come again.
func TestDead(t *testing.T) {
	for name, c := range map[string]struct {
		redrive bool
		fault   *sqstest.Fault
		want    string // handled
		dead    string
	}{
		"sent":      {true, nil, "a b", `{"analysisId":"a"} {"analysisId":"b"}`},
		"no queue":  {false, nil, "a b b", ""},
		"not there": {true, &sqstest.Fault{Op: "SendMessage", Kind: sqstest.Throttle}, "a b a b", `{"analysisId":"a"} {"analysisId":"b"}`},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				s := sqstest.New(nil)
				cl := client("http://sqs.local", s.RoundTripper())
				dead := create(t, cl, "dead", nil)
				var policy map[string]string
				if c.redrive {
					policy = redrive(t, cl, dead, 20)
				}
				q, err := awssqs.New(t.Context(), cl, create(t, cl, "q", policy))
				if err != nil {
					t.Fatal(err)
				}
				for _, id := range []analysis.ID{"a", "b"} {
					if err := q.Enqueue(t.Context(), id, string(id)); err != nil {
						t.Fatal(err)
					}
				}
				if c.fault != nil {
					time.AfterFunc(30*time.Second, s.Inject(*c.fault).Remove)
				}
				var handled []string
				err = q.Poll(t.Context(), func(_ context.Context, d awssqs.Delivery) awssqs.Result {
					handled = append(handled, id(d))
					return awssqs.Result{Done: id(d) == "a" || d.Receives > 1 && !c.redrive, Dead: true, RetryAfter: time.Minute}
				}, &awssqs.PollOptions{Concurrency: 1, Drain: true})
				if got := strings.Join(handled, " "); err != nil || got != c.want {
					t.Errorf("handled %s, want %s: %v", got, c.want, err)
				}
				if got := bodies(t, cl, dead); got != c.dead {
					t.Errorf("dead: %s, want %s", got, c.dead)
				}
			})
		})
	}
}
