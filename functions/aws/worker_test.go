package aws_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-lambda-go/events"
	"github.com/aws/aws-lambda-go/lambda"

	"github.com/leasehold-dev/leasehold/functions/aws"
	"github.com/leasehold-dev/leasehold/functions/direct"
	"github.com/leasehold-dev/leasehold/functions/tasks"
	"github.com/leasehold-dev/leasehold/once"
	"github.com/leasehold-dev/leasehold/repo/analysis"
	"github.com/leasehold-dev/leasehold/repo/docstore"
)

var (
	_ lambda.Handler = (*aws.Worker)(nil)
	_ lambda.Handler = (*aws.Sweeper)(nil)
)

// bench is a worker over a store in memory, behind a queue that writes down what it is told.
type bench struct {
	t     *testing.T
	store docstore.Store
	log   bytes.Buffer
	tasks.Worker

	mu     sync.Mutex
	hides  []string // "receipt for duration @time since the beginning"
	noDead bool     // there is no dead-letter queue
	buried []string // "ID body" of what is in it
	fails  error    // of Hide
	began  time.Time
}

// newBench has the analyses a1, a2 and b1, and a worker in a bubble.
func newBench(t *testing.T, work once.Work) *bench {
	t.Helper()
	b := &bench{t: t, store: docstore.NewMemory(nil), began: time.Now()}
	b.Worker = tasks.Worker{Gate: direct.Analyses(analysis.New(b.store, nil)), Work: work,
		Log: slog.New(slog.NewTextHandler(&b.log, nil))}
	for _, id := range []string{"a1", "a2", "b1"} {
		b.put(id, docstore.Doc{"title": docstore.String("x")})
	}
	return b
}

func (b *bench) put(id string, fields docstore.Doc) {
	b.t.Helper()
	if _, err := b.store.Write(b.t.Context(), docstore.Write{Key: docstore.Key{Kind: analysis.Kind, ID: id},
		Set: fields}); err != nil {
		b.t.Fatal(err)
	}
}

// state is the analysis a1 in a few words: status, owner's presence, failures.
func (b *bench) state() string {
	b.t.Helper()
	s, _, err := analysis.New(b.store, nil).Get(b.t.Context(), "a1")
	if err != nil {
		b.t.Fatal(err)
	}
	return strings.TrimSpace(fmt.Sprintf("%s locked:%v failures:%d", s.Status, s.Owner != "", s.Failures))
}

// Hide implements [aws.Hider].
func (b *bench) Hide(_ context.Context, _, receipt string, received time.Time, d time.Duration) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !received.Before(b.began) {
		b.t.Errorf("received at %v, which is after the platform had the message", received)
	}
	b.hides = append(b.hides, fmt.Sprintf("%s for %v @%v", receipt, d, time.Since(b.began)))
	return b.fails
}

// Bury implements [aws.Hider].
func (b *bench) Bury(_ context.Context, _, id, _, group string) (bool, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.noDead || b.fails != nil {
		return false, b.fails
	}
	b.buried = append(b.buried, strings.TrimSpace(id+" "+group))
	return true, nil
}

// wantHides compares what the queue was told, in any order of what happened at once.
func (b *bench) wantHides(want ...string) {
	b.t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	slices.Sort(b.hides)
	slices.Sort(want)
	if !slices.Equal(b.hides, want) {
		b.t.Errorf("hidden\ngot  %q\nwant %q", b.hides, want)
	}
}

// invoke hands an event to the worker for at most a duration, 0 for no deadline, and returns the messages that failed.
func (b *bench) invoke(event []byte, timeout time.Duration) string {
	b.t.Helper()
	w, err := aws.NewWorker(&b.Worker, b)
	if err != nil {
		b.t.Fatal(err)
	}
	ctx := b.t.Context()
	if timeout != 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, timeout)
		defer cancel()
	}
	out, err := w.Invoke(ctx, event)
	if err != nil {
		b.t.Fatal(err)
	}
	return failures(b.t, out)
}

func failures(t *testing.T, response []byte) string {
	t.Helper()
	var a events.SQSEventResponse
	if err := json.Unmarshal(response, &a); err != nil || a.BatchItemFailures == nil {
		t.Fatalf("%v in %s", err, response)
	}
	var ids []string
	for _, f := range a.BatchItemFailures {
		ids = append(ids, f.ItemIdentifier)
	}
	return strings.Join(ids, " ")
}

// one is a batch of one message of a standard queue, about the analysis a1.
func one() []byte {
	b, err := json.Marshal(events.SQSEvent{Records: []events.SQSMessage{{
		MessageId: "m", ReceiptHandle: "r", Body: `{"analysisId":"a1"}`, EventSource: "aws:sqs",
		EventSourceARN: "arn:aws:sqs:eu-north-1:000000000000:tasks", Attributes: map[string]string{
			"ApproximateReceiveCount": "1"},
	}}})
	if err != nil {
		panic(err) // text
	}
	return b
}

func done(context.Context, once.Lock) (string, error) { return "", nil }

// TestBatch: exactly the message that shall come again is named as failed, and is retried when the lock in its way
// ends.
func TestBatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, done)
		b.put("a2", docstore.Doc{"lockOwner": docstore.String("other"),
			"lockExpiresAt": docstore.FormatTime(time.Now().Add(2 * time.Minute))})
		if got := b.invoke(file(t, "sqs.json"), time.Minute); got != "2e1424d4-f796-459a-8184-9c92662be6da" {
			t.Errorf("failed: %s", got)
		}
		b.wantHides("AQEBwJnKyrHigUMZj6rYigCgxlaS3SLy0a for 5m0s @0s", "AQEBzWwaftRI0KuVm4tP+/7q1rGgNqicHq for 2m0s @0s")
		if got := b.state(); got != "READY locked:false failures:0" {
			t.Errorf("a1: %s", got)
		}
		if log := b.log.String(); !strings.Contains(log, "try=3") {
			t.Errorf("the log does not say which delivery it was: %s", log)
		}
	})
}

// TestGroups: behind a message of a FIFO group that is retried, the later ones of its group go back untouched.
func TestGroups(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		runs := map[string]int{}
		var mu sync.Mutex
		b := newBench(t, func(_ context.Context, l once.Lock) (string, error) {
			mu.Lock()
			defer mu.Unlock()
			if runs[l.RunID]++; l.RunID == "a1" {
				return "", errors.New("not today")
			}
			return "", nil
		})
		if got := b.invoke(file(t, "sqs_fifo.json"), time.Minute); got != "m1 m3 m4" {
			t.Errorf("failed: %s", got)
		}
		if got := fmt.Sprint(runs); got != "map[a1:1 b1:1]" {
			t.Errorf("runs %s", got)
		}
		b.wantHides("receipt-1 for 5m0s @0s", "receipt-2 for 5m0s @0s", "receipt-3 for 0s @0s", "receipt-4 for 0s @0s")
	})
}

// TestGroupsOfAStandardQueue: there a group is about fairness between senders, and says nothing about order.
func TestGroupsOfAStandardQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, func(_ context.Context, l once.Lock) (string, error) {
			if l.RunID == "a1" {
				return "", errors.New("not today")
			}
			return "", nil
		})
		var e events.SQSEvent
		if err := json.Unmarshal(file(t, "sqs.json"), &e); err != nil {
			t.Fatal(err)
		}
		for i := range e.Records {
			e.Records[i].Attributes["MessageGroupId"] = "tenant-1"
		}
		event, err := json.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		if got := b.invoke(event, time.Minute); got != e.Records[0].MessageId {
			t.Errorf("failed: %s", got)
		}
	})
}

// TestMalformed: what names no analysis goes to the dead-letter queue at once, and is an error in the log. Without one,
// or if it cannot be sent there, it stays.
func TestMalformed(t *testing.T) {
	for name, c := range map[string]struct {
		change         func(*bench)
		failed, buried string
		errors         int
	}{
		"sent":      {func(*bench) {}, "", "m1 m3 m4", 3},
		"no queue":  {func(b *bench) { b.noDead = true }, "m1 m3 m4", "", 3},
		"no rights": {func(b *bench) { b.fails = errors.New("access denied") }, "m1 m3 m4", "", 6},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t, done)
				c.change(b)
				if got := b.invoke(file(t, "sqs_malformed.json"), time.Minute); got != c.failed {
					t.Errorf("failed: %s", got)
				}
				slices.Sort(b.buried)
				if got := strings.Join(b.buried, " "); got != c.buried {
					t.Errorf("buried: %s", got)
				}
				if n := strings.Count(b.log.String(), "level=ERROR"); n != c.errors {
					t.Errorf("%d errors in %s", n, b.log.String())
				}
			})
		})
	}
}

// TestUsedUp: a message whose job has used up its tries goes to the dead-letter queue, and where there is none is done.
func TestUsedUp(t *testing.T) {
	for _, noDead := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			b := newBench(t, func(context.Context, once.Lock) (string, error) { return "", errors.New("flaky") })
			b.noDead, b.MaxFailures = noDead, 1
			event := file(t, "sqs.json")
			if got := b.invoke(event, time.Minute); got != "" {
				t.Errorf("failed: %s", got)
			}
			if got := b.state(); got != "FAILED locked:false failures:1" || (len(b.buried) == 0) != noDead {
				t.Errorf("%s; buried: %q", got, b.buried)
			}
		})
	}
}

// TestOtherEvents: an event that is not the worker's fails the invocation, and nothing runs.
func TestOtherEvents(t *testing.T) {
	w, err := aws.NewWorker(&tasks.Worker{Gate: direct.Analyses(nil), Work: done}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, says := range map[string]string{
		"sns.json": `of "aws:sns"`, "other_source.json": `of "aws:kinesis"`, "schedule.json": "no SQS messages",
		"apigw_jwt.json": "no SQS messages",
		"not_json.txt":   "not a batch",
	} {
		if out, err := w.Invoke(t.Context(), file(t, name)); out != nil || err == nil ||
			!strings.Contains(err.Error(), says) {
			t.Errorf("%s: %s, %v; want %q", name, out, err, says)
		}
	}
}

// TestDeadlines: work ends in time to hand back its lock and its message; work that does not heed it is left behind.
func TestDeadlines(t *testing.T) {
	stops := func(ctx context.Context, _ once.Lock) (string, error) {
		<-ctx.Done()
		return "", context.Cause(ctx)
	}
	for _, c := range []struct {
		name    string
		work    once.Work
		timeout time.Duration
		took    time.Duration
		failed  string
		hides   []string
		state   string
	}{
		{"stops", stops, time.Minute, 50 * time.Second, "m", []string{"r for 5m0s @0s", "r for 0s @50s"},
			"locked:false failures:1"},
		{"a short invocation", stops, 4 * time.Second, 3 * time.Second, "m", []string{"r for 5m0s @0s", "r for 0s @3s"},
			"locked:false failures:1"},
		{
			"in time", func(context.Context, once.Lock) (string, error) { time.Sleep(49 * time.Second); return "", nil },
			time.Minute, 49 * time.Second, "", []string{"r for 5m0s @0s"}, "READY locked:false failures:0",
		},
		{
			"heeds nothing", func(context.Context, once.Lock) (string, error) {
				time.Sleep(59*time.Second + 600*time.Millisecond)
				return "", nil
			},
			time.Minute, 59500 * time.Millisecond, "m", []string{"r for 5m0s @0s"}, "locked:true failures:0",
		},
		{"no time at all", done, aws.ResponseMargin, 0, "m", nil, "locked:false failures:0"},
		{
			"no deadline", func(context.Context, once.Lock) (string, error) { time.Sleep(59 * time.Second); return "", nil },
			0, 59 * time.Second, "", []string{"r for 5m0s @0s"}, "READY locked:false failures:0",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t, c.work)
				got := b.invoke(one(), c.timeout)
				if took := time.Since(b.began); got != c.failed || took != c.took {
					t.Errorf("failed: %q after %v, want %q after %v", got, took, c.failed, c.took)
				}
				if got := b.state(); got != c.state {
					t.Errorf("the analysis is %s, want %s", got, c.state)
				}
				b.wantHides(c.hides...)
				time.Sleep(time.Minute) // what was left behind ends
			})
		})
	}
}

// TestHeartbeats: the message is hidden for as long as the lock lasts when the work begins, and with each of the nine
// heartbeats of ten minutes; they come a little early by chance, so that there may be one or two more.
func TestHeartbeats(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, func(context.Context, once.Lock) (string, error) {
			time.Sleep(10*time.Minute - time.Second)
			return "", nil
		})
		b.TTL, b.Heartbeat = 2*time.Minute, time.Minute
		if got := b.invoke(one(), 15*time.Minute); got != "" {
			t.Errorf("failed: %s", got)
		}
		if len(b.hides) < 10 || len(b.hides) > 12 {
			t.Errorf("%d: %q", len(b.hides), b.hides)
		}
		for _, h := range b.hides {
			if !strings.HasPrefix(h, "r for 2m0s @") {
				t.Errorf("%s", h)
			}
		}
	})
}

// TestDuplicates: a message that is delivered twice at once runs once; the other delivery is retried, and is
// acknowledged when the analysis is READY.
func TestDuplicates(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		runs := 0
		b := newBench(t, func(context.Context, once.Lock) (string, error) {
			runs++
			time.Sleep(50 * time.Second)
			return "", nil
		})
		answers := make(chan string, 2)
		for range 2 {
			go func() { answers <- b.invoke(one(), 5*time.Minute) }()
		}
		if first, second := <-answers, <-answers; first != "m" || second != "" {
			t.Errorf("failed: %q of the rejected, %q of the run", first, second)
		}
		b.wantHides("r for 5m0s @0s", "r for 5m0s @0s") // the begin of the run, and the time until its lock ends
		if got := b.invoke(one(), 5*time.Minute); got != "" || runs != 1 {
			t.Errorf("afterwards: failed %q, %d runs", got, runs)
		}
	})
}

// TestFailures: a target that responds 500, one that hangs, and work that panics: the message is retried, until the
// analysis is FAILED after so many and the message is done.
func TestFailures(t *testing.T) {
	target := func(response func(*http.Request) (*http.Response, error)) once.Work {
		t.Helper()
		target, err := tasks.NewTarget("https://worker.example/run",
			&tasks.TargetOptions{Client: &http.Client{Transport: roundTripper(response)}})
		if err != nil {
			t.Fatal(err)
		}
		return target.Run
	}
	for _, c := range []struct {
		name   string
		work   once.Work
		failed []string // by invocation
		state  string
	}{
		{"500", target(func(*http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: http.StatusInternalServerError, Body: io.NopCloser(strings.NewReader(""))}, nil
		}), []string{"m", "m", "", ""}, "FAILED locked:false failures:3"},
		{"panic", func(context.Context, once.Lock) (string, error) { panic("oh") }, []string{"m", "m", "", ""},
			"FAILED locked:false failures:3"},
		{"hangs", target(func(r *http.Request) (*http.Response, error) {
			<-r.Context().Done()
			return nil, r.Context().Err()
		}), []string{"m", "m", "", ""}, "FAILED locked:false failures:3"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t, c.work)
				b.MaxFailures = 3
				for i, want := range c.failed {
					if got := b.invoke(one(), time.Minute); got != want {
						t.Errorf("invocation %d: failed %q, want %q", i+1, got, want)
					}
				}
				if got := b.state(); got != c.state {
					t.Errorf("the analysis is %s, want %s", got, c.state)
				}
			})
		})
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// TestGateTrouble: a gate that panics hands the message back to the queue, and the next one goes through.
func TestGateTrouble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, done)
		good := b.Gate
		b.Gate = direct.Analyses(nil) // has no analyses, and so panics
		if got := b.invoke(one(), time.Minute); got != "m" || !strings.Contains(b.log.String(), "panic") {
			t.Errorf("failed %q, %s", got, b.log.String())
		}
		b.Gate, b.fails = good, errors.New("AccessDenied") // a queue that is not told anything is no reason not to run
		if got := b.invoke(one(), time.Minute); got != "" || b.state() != "READY locked:false failures:0" ||
			!strings.Contains(b.log.String(), "AccessDenied") {
			t.Errorf("failed %q, %s, %s", got, b.state(), b.log.String())
		}
	})
}

func TestNewWorkerRejects(t *testing.T) {
	if w, err := aws.NewWorker(&tasks.Worker{Gate: direct.Analyses(nil)}, nil); w != nil || err == nil ||
		!strings.Contains(err.Error(), "Work is required") {
		t.Errorf("%v", err)
	}
}
