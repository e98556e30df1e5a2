package sqstest_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	sdk "github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"github.com/aws/smithy-go"

	"github.com/leasehold-dev/leasehold/emulator/sqstest"
)

// TestTime: what the service does by the clock, on the clock of a bubble, to the nanosecond.
func TestTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := sqstest.New(nil)
		q := create(t, inMemory(s), "q", "MessageRetentionPeriod=86400")
		began := time.Now()
		if got := q.receive(20); len(got) != 0 || time.Since(began) != 20*time.Second {
			t.Errorf("a poll for nothing: %s after %v", seen(got), time.Since(began))
		}

		var posting sync.WaitGroup
		posting.Go(func() {
			time.Sleep(7 * time.Second)
			q.post("a")
		})
		began = time.Now()
		got := q.receive(20)
		if seen(got) != "a:1" || time.Since(began) != 7*time.Second {
			t.Errorf("a poll that is woken: %s after %v", seen(got), time.Since(began))
		}
		posting.Wait()

		if err := q.hide(got[0], 12*3600); err == nil { // no second has passed since the receive: twelve hours are allowed
			time.Sleep(time.Hour)
			if err := q.hide(got[0], 11*3600); err != nil {
				t.Error(err)
			}
			if err := q.hide(got[0], 11*3600+1); err == nil || !strings.Contains(err.Error(), "beyond the limit") {
				t.Errorf("twelve hours and a second in all: %v", err)
			}
		} else {
			t.Error(err)
		}
		time.Sleep(11 * time.Hour)
		if err := q.hide(got[0], 1); err == nil {
			t.Error("a message that is visible again was hidden")
		} else if _, ok := errors.AsType[*types.MessageNotInflight](err); !ok {
			t.Error(err)
		}
		if got := q.receive(0); seen(got) != "a:2" {
			t.Errorf("after twelve hours: %s", seen(got))
		}
		if err := q.remove(got[0]); err != nil || q.counts() != "0 1 0" {
			t.Errorf("an earlier receipt: %v, %s", err, q.counts())
		}
		time.Sleep(24 * time.Hour)
		if got := q.receive(0); len(got) != 0 {
			t.Errorf("after the retention: %s", seen(got))
		}

		f := create(t, inMemory(s), "q.fifo", "ContentBasedDeduplication=true")
		for range 2 {
			f.send(sdk.SendMessageInput{MessageBody: aws.String("x"), MessageGroupId: aws.String("g")})
		}
		time.Sleep(5 * time.Minute)
		f.send(sdk.SendMessageInput{MessageBody: aws.String("x"), MessageGroupId: aws.String("g")})
		if f.counts() != "2 0 0" {
			t.Errorf("deduplication lasts five minutes: %s", f.counts())
		}
		late := f.receive(0)[0]
		time.Sleep(time.Minute)
		if err := f.remove(late); err == nil || !strings.Contains(err.Error(), "expired") {
			t.Errorf("a FIFO receipt after its time: %v", err)
		}
	})
}

// TestOwnClock: a clock that is moved by hand, and a poll that notices.
func TestOwnClock(t *testing.T) {
	var mu sync.Mutex
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	s := sqstest.New(&sqstest.Options{Now: func() time.Time {
		mu.Lock()
		defer mu.Unlock()
		return now
	}})
	q := create(t, inMemory(s), "q")
	q.post("a")
	q.receive(0)
	if got := q.receive(0); len(got) != 0 {
		t.Errorf("got %s", seen(got))
	}
	mu.Lock()
	now = now.Add(30 * time.Second)
	mu.Unlock()
	s.Wake()
	if got := q.receive(0); seen(got) != "a:2" {
		t.Errorf("got %s", seen(got))
	}
}

// TestGone: a poll whose client has gone takes no message.
func TestGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := create(t, inMemory(sqstest.New(nil)), "q")
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		if _, err := q.ReceiveMessage(ctx, &sdk.ReceiveMessageInput{QueueUrl: q.url, WaitTimeSeconds: 20}); !errors.Is(err,
			context.DeadlineExceeded) {
			t.Errorf("%v", err)
		}
		q.post("a")
		if q.counts() != "1 0 0" {
			t.Errorf("%s", q.counts())
		}
	})
}

func TestFaults(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := sqstest.New(nil)
		q := create(t, inMemory(s), "q")
		post := func() error {
			_, err := q.SendMessage(t.Context(), &sdk.SendMessageInput{QueueUrl: q.url, MessageBody: aws.String("x")})
			return err
		}
		for _, c := range []struct {
			kind    sqstest.Kind
			code    string // of the error; empty: the connection broke
			applied string // messages afterwards
		}{
			{sqstest.FailBefore, "InternalFailure", "0 0 0"},
			{sqstest.Throttle, "RequestThrottled", "0 0 0"},
			{sqstest.DropBefore, "", "0 0 0"},
			{sqstest.FailAfter, "InternalFailure", "1 0 0"},
			{sqstest.DropAfter, "", "2 0 0"},
		} {
			in := s.Inject(sqstest.Fault{Kind: c.kind, Op: "SendMessage", Queue: "q", Times: 1})
			err := post()
			e, ok := errors.AsType[smithy.APIError](err)
			if c.code == "" && !errors.Is(err, io.ErrUnexpectedEOF) || c.code != "" && (!ok || e.ErrorCode() != c.code) {
				t.Errorf("%v: %v", c.kind, err)
			}
			if got := q.counts(); got != c.applied || in.Hits() != 1 {
				t.Errorf("%v: %s after %d hits", c.kind, got, in.Hits())
			}
		}
		began := time.Now()
		slow := s.Inject(sqstest.Fault{Kind: sqstest.Delay, Delay: time.Minute, Skip: 1, Match: func(r sqstest.Request) bool {
			return r.Op == "SendMessage" && strings.Contains(string(r.Body), `"x"`)
		}})
		for range 2 {
			if err := post(); err != nil {
				t.Error(err)
			}
		}
		slow.Remove()
		if took := time.Since(began); took != time.Minute {
			t.Errorf("took %v", took)
		}
		s.Inject(sqstest.Fault{Kind: sqstest.Duplicate, Times: 1})
		if a, b, c := q.receive(0), q.receive(0), q.receive(0); seen(a) != "x:1 x:1 x:1 x:1" ||
			seen(b) != "x:2 x:2 x:2 x:2" || len(c) != 0 {
			t.Errorf("%s, %s, %s", seen(a), seen(b), seen(c))
		}
		s.ResetCounts()
		q.receive(0)
		if got := fmt.Sprint(s.Requests(), s.Count("SendMessage")); got != "map[ReceiveMessage:1] 0" {
			t.Errorf("%s", got)
		}
	})
}

// TestFaultsThatMakeNoSense are mistakes of the test that injects them.
func TestFaultsThatMakeNoSense(t *testing.T) {
	for _, f := range []sqstest.Fault{
		{}, {Kind: 99}, {Kind: sqstest.Throttle, Op: "Send"}, {Kind: sqstest.Delay},
		{Kind: sqstest.Duplicate, Op: "SendMessage"}, {Kind: sqstest.FailBefore, Times: -1},
	} {
		func() {
			defer func() {
				if v := recover(); v == nil || !strings.HasPrefix(fmt.Sprint(v), "sqs: Inject: ") {
					t.Errorf("%+v: %v", f, v)
				}
			}()
			sqstest.New(nil).Inject(f)
		}()
	}
}

// TestUnsupported: what the server would have to ignore is an error that names it.
func TestUnsupported(t *testing.T) {
	s := sqstest.Start(t, nil)
	c := connect(s.URL)
	q := create(t, c, "q")
	_, purge := c.PurgeQueue(t.Context(), &sdk.PurgeQueueInput{QueueUrl: q.url})
	_, attribute := c.SendMessage(t.Context(), &sdk.SendMessageInput{QueueUrl: q.url, MessageBody: aws.String("x"),
		MessageAttributes: map[string]types.MessageAttributeValue{
			"a": {DataType: aws.String("String"), StringValue: aws.String("b")}}})
	_, policy := c.SetQueueAttributes(t.Context(), &sdk.SetQueueAttributesInput{QueueUrl: q.url,
		Attributes: map[string]string{"Policy": "{}"}})
	for says, err := range map[string]error{"the operation PurgeQueue": purge, `"MessageAttributes"`: attribute,
		"the queue attribute Policy": policy} {
		if err == nil || !strings.Contains(err.Error(), "emulator/sqstest does not support") ||
			!strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", says, err)
		}
	}
	r, err := http.Post(s.URL, "application/x-www-form-urlencoded", strings.NewReader("Action=SendMessage"))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	if body, err := io.ReadAll(r.Body); err != nil || r.StatusCode != http.StatusBadRequest ||
		!strings.Contains(string(body), "older query protocol") {
		t.Errorf("%d %s, %v", r.StatusCode, body, err)
	}
}
