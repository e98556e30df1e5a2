package tasks_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leasehold-dev/leasehold/contracts"
	"github.com/leasehold-dev/leasehold/functions/direct"
	"github.com/leasehold-dev/leasehold/functions/tasks"
	"github.com/leasehold-dev/leasehold/once"
	"github.com/leasehold-dev/leasehold/proof/contracttest"
	"github.com/leasehold-dev/leasehold/repo/analysis"
	"github.com/leasehold-dev/leasehold/repo/docstore"
)

// bench is a worker over a store in memory.
type bench struct {
	t     *testing.T
	store docstore.Store
	log   *bytes.Buffer
	prune func(context.Context) (int, error) // of the sweep
	tasks.Worker
}

func newBench(t *testing.T, work once.Work) *bench {
	t.Helper()
	b := &bench{t: t, store: docstore.NewMemory(nil), log: &bytes.Buffer{}}
	b.Worker = tasks.Worker{Gate: direct.Analyses(analysis.New(b.store, nil)), Work: work,
		Log: slog.New(slog.NewJSONHandler(b.log, nil))}
	return b
}

// put writes an analysis' document as a user would.
func (b *bench) put(id string, fields docstore.Doc) {
	b.t.Helper()
	if _, err := b.store.Write(b.t.Context(), docstore.Write{Key: docstore.Key{Kind: analysis.Kind, ID: id},
		Set: fields}); err != nil {
		b.t.Fatal(err)
	}
}

// doc is the document of analysis a1.
func (b *bench) doc() docstore.Doc {
	b.t.Helper()
	r, err := b.store.Get(b.t.Context(), docstore.Key{Kind: analysis.Kind, ID: "a1"})
	if err != nil {
		b.t.Fatal(err)
	}
	return r.Docs[0]
}

// wantFree fails the test if analysis a1 is locked.
func (b *bench) wantFree() {
	b.t.Helper()
	if d := b.doc(); d["lockOwner"] != nil || d["lockExpiresAt"] != nil {
		b.t.Errorf("the analysis is still locked: %v", d)
	}
}

func (b *bench) deliver() tasks.Result {
	return b.Deliver(b.t.Context(), tasks.Message{ID: "m1", Try: "0", Body: []byte(`{"analysisId":"a1"}`)})
}

func succeeds(context.Context, once.Lock) (string, error) { return "gs://results/a", nil }

func TestOutcomes(t *testing.T) {
	future := docstore.FormatTime(time.Date(2000, 1, 1, 0, 2, 0, 0, time.UTC)) // two minutes after the bubble's beginning
	for _, c := range []struct {
		name   string
		before docstore.Doc // nil: no document
		work   once.Work
		limit  time.Duration
		change func(*tasks.Worker)
		want   tasks.Result
		says   string // in the error
		status docstore.Value
		locked bool // afterwards
	}{
		{
			name: "ready", before: docstore.Doc{"title": docstore.String("x")}, work: succeeds,
			want: tasks.Result{Done: true, Outcome: once.Ready}, status: docstore.String("READY"),
		},
		{
			name: "failed for good", before: docstore.Doc{"status": docstore.String("RUNNING")},
			work: func(context.Context, once.Lock) (string, error) {
				return "", once.Permanent(errors.New("no such video"))
			},
			want: tasks.Result{Done: true, Outcome: once.Failed}, says: "no such video", status: docstore.String("FAILED"),
		},
		{
			name: "failed too often", before: docstore.Doc{"lockFailures": docstore.Int(4)},
			work: func(context.Context, once.Lock) (string, error) { return "", errors.New("flaky") },
			want: tasks.Result{Done: true, Dead: true, Outcome: once.Failed}, says: "flaky", status: docstore.String("FAILED"),
		},
		{
			name: "had failed too often", before: docstore.Doc{"status": docstore.String("FAILED"),
				"lockFailures": docstore.Int(5), "failureReason": docstore.String("flaky")},
			want: tasks.Result{Done: true, Dead: true, Outcome: once.AlreadyFailed}, says: "FAILED before",
			status: docstore.String("FAILED"),
		},
		{
			name: "taken over too often", before: docstore.Doc{"lockRuns": docstore.Int(6),
				"lockOwner": docstore.String("w"), "lockExpiresAt": docstore.String("1999-12-31T23:00:00.000Z")},
			want: tasks.Result{Done: true, Dead: true, Outcome: once.AlreadyFailed}, says: "given up after 5 takeovers",
			status: docstore.String("FAILED"),
		},
		{
			name: "was taken over too often", before: docstore.Doc{"status": docstore.String("FAILED"),
				"failureReason": docstore.String("given up after 5 takeovers: its workers died, or lost their locks")},
			want: tasks.Result{Done: true, Dead: true, Outcome: once.AlreadyFailed}, says: "FAILED before",
			status: docstore.String("FAILED"),
		},
		{
			name: "not begun", before: docstore.Doc{"lockFailures": docstore.Int(4)},
			work: func(context.Context, once.Lock) (string, error) {
				return "", fmt.Errorf("call: %w", &tasks.NotBegunError{RetryAfter: 90 * time.Second, Err: errors.New("refused")})
			},
			want: tasks.Result{Outcome: tasks.TargetAway, RetryAfter: 90 * time.Second}, says: "refused",
		},
		{
			name: "failed", before: docstore.Doc{"lockFailures": docstore.Int(3)},
			work: func(context.Context, once.Lock) (string, error) { return "", errors.New("flaky") },
			want: tasks.Result{Outcome: once.Retry}, says: "flaky",
		},
		{
			name: "panic", before: docstore.Doc{"x": docstore.Int(1)},
			work: func(context.Context, once.Lock) (string, error) { panic("oh") },
			want: tasks.Result{Outcome: once.Retry}, says: "the work panicked: oh",
		},
		{
			name: "finished before", before: docstore.Doc{"status": docstore.String("FAILED")},
			want: tasks.Result{Done: true, Outcome: once.AlreadyFailed}, says: "FAILED before",
			status: docstore.String("FAILED"),
		},
		{
			name: "locked", before: docstore.Doc{"lockOwner": docstore.String("w"), "lockExpiresAt": future},
			want: tasks.Result{Outcome: once.Locked, RetryAfter: 2 * time.Minute}, locked: true,
		},
		{
			name: "locked, acknowledged", before: docstore.Doc{"lockOwner": docstore.String("w"), "lockExpiresAt": future},
			change: func(w *tasks.Worker) { w.AckLocked = true },
			want:   tasks.Result{Done: true, Outcome: once.Locked}, locked: true,
		},
		{
			name: "garbage for a time", before: docstore.Doc{"lockOwner": docstore.String("w"),
				"lockExpiresAt": docstore.String("soon")},
			want: tasks.Result{RetryAfter: time.Minute, Outcome: tasks.Damaged}, says: "lockExpiresAt", locked: true,
		},
		{name: "unknown", want: tasks.Result{RetryAfter: time.Minute, Outcome: once.Unknown}, says: "no such analysis"},
		{
			name: "status of a wrong type", before: docstore.Doc{"status": docstore.Int(7)},
			want: tasks.Result{RetryAfter: time.Minute, Outcome: tasks.Damaged}, says: `field "status" is not text`,
			status: docstore.Int(7),
		},
		{
			name: "time over", before: docstore.Doc{"x": docstore.Int(1)}, limit: time.Minute,
			work: func(ctx context.Context, _ once.Lock) (string, error) { <-ctx.Done(); return "", ctx.Err() },
			want: tasks.Result{Outcome: once.Stopped}, says: "deadline exceeded",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				work := c.work
				if work == nil {
					work = func(context.Context, once.Lock) (string, error) {
						t.Error("the work ran")
						return "", nil
					}
				}
				b := newBench(t, work)
				if c.change != nil {
					c.change(&b.Worker)
				}
				if c.before != nil {
					b.put("a1", c.before)
				}
				ctx, cancel := context.WithTimeout(t.Context(), max(c.limit, time.Second))
				defer cancel()
				a := b.Deliver(ctx, tasks.Message{ID: "m1", Body: []byte(`{"analysisId":"a1","from":{"x":1}}`)})
				if c.says == "" != (a.Err == nil) || a.Err != nil && !strings.Contains(a.Err.Error(), c.says) {
					t.Errorf("the error is %v, want %q", a.Err, c.says)
				}
				got, want := a, c.want
				if (got.Owner == "") != (got.Token == 0) {
					t.Errorf("owner %q, token %d", got.Owner, got.Token)
				}
				got.Err, got.Owner, got.Token, want.AnalysisID = nil, "", 0, "a1"
				if got != want {
					t.Errorf("got %+v, want %+v", got, want)
				}
				if d := b.doc(); d["status"] != c.status {
					t.Errorf("the status is %v, want %v", d["status"], c.status)
				}
				if !c.locked {
					b.wantFree()
				}
				if !strings.Contains(b.log.String(), `"outcome":"`+string(c.want.Outcome)+`"`) {
					t.Errorf("the log says %s", b.log)
				}
			})
		})
	}
}

// TestMalformed: a message that names no analysis is dead, so that it does not come for ever, and an error in the log.
func TestMalformed(t *testing.T) {
	b := newBench(t, nil)
	for name, c := range map[string]struct{ body, says string }{
		"empty":              {"", "JSON object"},
		"no JSON":            {"analysisId=a1", "JSON object"},
		"list":               {`["a1"]`, "JSON object"},
		"text":               {`"a1"`, "JSON object"},
		"without the member": {`{"id":"a1"}`, "analysisId is missing"},
		"null":               {`{"analysisId":null}`, "analysisId is missing"},
		"number":             {`{"analysisId":1}`, "JSON object"},
		"other spelling":     {`{"AnalysisID":"a1"}`, "analysisId is missing"},
		"both spellings":     {`{"analysisId":"a1","analysis_id":"a1"}`, "both"},
		"twice":              {`{"analysisId":"a1","analysisId":"a2"}`, "duplicate"},
		"empty name":         {`{"analysisId":""}`, "analysis_id is required"},
		"control characters": {`{"analysisId":"a\n"}`, "control character"},
		"path":               {`{"analysisId":"../a1"}`, "one document"},
		"long":               {`{"analysisId":"` + strings.Repeat("a", 257) + `"}`, "257 bytes"},
		"not UTF-8":          {"{\"analysisId\":\"\xff\"}", "UTF-8"},
		"more than a message": {`{"analysisId":"a1","x":"` + strings.Repeat("x", tasks.MaxMessageBytes) + `"}`,
			"more than 1048576 bytes"},
		"two values": {`{"analysisId":"a1"}{"analysisId":"a2"}`, "JSON object"},
	} {
		b.log.Reset()
		a := b.Deliver(t.Context(), tasks.Message{ID: "m1", Body: []byte(c.body)})
		if a.Done || !a.Dead || a.Outcome != tasks.Malformed || a.AnalysisID != "" || a.Err == nil ||
			!strings.Contains(a.Err.Error(), c.says) {
			t.Errorf("%s: %+v, want %q", name, a, c.says)
		}
		if log := b.log.String(); !strings.Contains(log, `"level":"ERROR"`) || strings.Contains(log, "xxxx") {
			t.Errorf("%s: the log says %.300s", name, log)
		}
	}
}

// TestFiveAtOnce: of five deliveries of one message, which have one name, one runs; the others come again, and find it
// done.
func TestFiveAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var runs atomic.Int32
		b := newBench(t, func(context.Context, once.Lock) (string, error) {
			runs.Add(1)
			time.Sleep(time.Minute)
			return "", nil
		})
		b.put("a1", docstore.Doc{"x": docstore.Int(1)})
		var (
			all sync.WaitGroup
			mu  sync.Mutex
		)
		got := map[tasks.Outcome]int{}
		for range 5 {
			all.Go(func() {
				a := b.deliver()
				mu.Lock()
				defer mu.Unlock()
				got[a.Outcome]++
			})
		}
		all.Wait()
		if runs.Load() != 1 || got[once.Ready] != 1 || got[once.Locked] != 4 {
			t.Errorf("%d runs, %v", runs.Load(), got)
		}
		if a := b.deliver(); !a.Done || a.Outcome != once.AlreadyFinished || runs.Load() != 1 {
			t.Errorf("again: %+v, %d runs", a, runs.Load())
		}
	})
}

// TestExtend: the queue's own time-out moves along with the lock, from the beginning of the work.
func TestExtend(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, func(context.Context, once.Lock) (string, error) {
			time.Sleep(150 * time.Second)
			return "", nil
		})
		b.put("a1", docstore.Doc{"x": docstore.Int(1)})
		begin := time.Now()
		var (
			mu sync.Mutex
			at []time.Duration
		)
		a := b.Deliver(t.Context(), tasks.Message{Body: []byte(`{"analysisId":"a1"}`),
			Extend: func(_ context.Context, until time.Duration) error {
				mu.Lock()
				defer mu.Unlock()
				at = append(at, time.Since(begin).Round(time.Second))
				if until != 5*time.Minute {
					t.Errorf("extended to %v", until)
				}
				return errors.New("no such receipt handle")
			}})
		if a.Outcome != once.Ready || len(at) != 3 || at[0] != 0 || at[1] != time.Minute || at[2] != 2*time.Minute {
			t.Errorf("%+v, extended at %v", a, at)
		}
		if !strings.Contains(b.log.String(), "no such receipt handle") {
			t.Errorf("the log says %s", b.log)
		}
	})
}

// TestOwner: people who look at a lock see the message and its delivery, whatever the queue's names are made of.
func TestOwner(t *testing.T) {
	for name, c := range map[string]struct {
		m    tasks.Message
		want string
	}{
		"plain":   {tasks.Message{ID: "queue/task-1", Try: "3"}, "queue/task-1#3"},
		"strange": {tasks.Message{ID: "a b\x00ü", Try: "\n"}, "a_b__#_"},
		"long": {tasks.Message{ID: strings.Repeat("i", 1000), Try: strings.Repeat("t", 1000)},
			strings.Repeat("i", 191) + "#" + strings.Repeat("t", 64)},
	} {
		b := newBench(t, func(_ context.Context, l once.Lock) (string, error) {
			if l.Owner != c.want {
				t.Errorf("%s: the owner is %q, want %q", name, l.Owner, c.want)
			}
			return "", nil
		})
		b.put("a1", docstore.Doc{"x": docstore.Int(1)})
		c.m.Body = []byte(`{"analysisId":"a1"}`)
		if a := b.Deliver(t.Context(), c.m); a.Outcome != once.Ready {
			t.Errorf("%s: %+v", name, a)
		}
	}
}

func TestValidate(t *testing.T) {
	gate := direct.Analyses(analysis.New(docstore.NewMemory(nil), nil))
	for _, c := range []struct {
		says string // empty: can work
		w    *tasks.Worker
	}{
		{"", &tasks.Worker{Gate: gate, Work: succeeds}},
		{"", &tasks.Worker{Gate: gate, Work: succeeds, TTL: 10 * time.Second, Heartbeat: 5 * time.Second, MaxFailures: 1}},
		{"Gate is required", &tasks.Worker{Work: succeeds}},
		{"Work is required", &tasks.Worker{Gate: gate}},
		{"whole seconds", &tasks.Worker{Gate: gate, Work: succeeds, TTL: 1500 * time.Millisecond}},
		{"whole seconds", &tasks.Worker{Gate: gate, Work: succeeds, TTL: 25 * time.Hour}},
		{"whole seconds", &tasks.Worker{Gate: gate, Work: succeeds, TTL: -time.Second}},
		{"from 10ms to half of the ttl", &tasks.Worker{Gate: gate, Work: succeeds, Heartbeat: 151 * time.Second}},
		{"from 10ms to half of the ttl", &tasks.Worker{Gate: gate, Work: succeeds, Heartbeat: 9 * time.Millisecond}},
		{"Grace is -1s", &tasks.Worker{Gate: gate, Work: succeeds, Grace: -time.Second}},
		{"MaxFailures is -1", &tasks.Worker{Gate: gate, Work: succeeds, MaxFailures: -1}},
	} {
		err := c.w.Validate()
		if c.says == "" != (err == nil) || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%+v: %v, want %q", c.w, err, c.says)
		}
	}
}

// TestLongReasonsAreClippedInTheLog: what a target sends goes into the document, not into every log line.
func TestLongReasonsAreClippedInTheLog(t *testing.T) {
	b := newBench(t, func(context.Context, once.Lock) (string, error) {
		return "", once.Permanent(errors.New(strings.Repeat("é", 100<<10)))
	})
	b.put("a1", docstore.Doc{"status": docstore.String("PENDING")})
	if r := b.Deliver(t.Context(), tasks.Message{Body: []byte(`{"analysisId":"a1"}`), ID: "m1",
		Try: "1"}); r.Outcome != once.Failed {
		t.Fatalf("%+v", r)
	}
	for line := range strings.Lines(b.log.String()) {
		if len(line) > 2<<10 {
			t.Errorf("a line of %d bytes: %.100s…", len(line), line)
		}
	}
	if !strings.Contains(b.log.String(), "éé… (") {
		t.Errorf("the log does not say that there is more: %s", b.log)
	}
}

// TestDeliveryEndsWhileTheGateIsSilent: the gate has locked the analysis, and the delivery has ended before it says
// so. Six such deliveries leave the analysis free, and are no workers that crashed: the next one runs it.
func TestDeliveryEndsWhileTheGateIsSilent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, succeeds)
		b.put("a1", docstore.Doc{"status": docstore.String("PENDING")})
		silent := &silent{Store: b.store, left: 6}
		b.Gate = direct.Analyses(analysis.New(silent, nil))
		for range 6 {
			ctx, cancel := context.WithTimeout(t.Context(), 1500*time.Millisecond)
			r := b.Deliver(ctx, tasks.Message{ID: "m1", Try: "0", Body: []byte(`{"analysisId":"a1"}`)})
			cancel()
			if r.Outcome != once.Stopped || r.Done {
				t.Errorf("%+v", r)
			}
			b.wantFree()
		}
		if d := b.doc(); d["lockRuns"] != nil || d["lockFailures"] != nil {
			t.Errorf("counted: %v", d)
		}
		if r := b.deliver(); r.Outcome != once.Ready || silent.left != 0 {
			t.Errorf("the next: %+v, %d left", r, silent.left)
		}
	})
}

// silent is a store that applies some acquires and does not respond.
type silent struct {
	docstore.Store

	left int
}

func (s *silent) Write(ctx context.Context, w ...docstore.Write) (docstore.Result, error) {
	r, err := s.Store.Write(ctx, w...)
	if w[0].Add["lockRuns"] > 0 && s.left > 0 {
		s.left--
		<-ctx.Done()
		return docstore.Result{}, ctx.Err()
	}
	return r, err
}

// TestAuditOfDeliveries: where a delivery is no request, the worker writes the event of each run, with its lease and
// what became of it, as an endpoint does. One that ran nothing has none, and without a log there is none.
func TestAuditOfDeliveries(t *testing.T) {
	b := newBench(t, func(_ context.Context, l once.Lock) (string, error) {
		if l.RunID == "bad" {
			return "", errors.New("the disk is full")
		}
		return "done", nil
	})
	for _, id := range []string{"a1", "bad", "quiet"} {
		b.put(id, docstore.Doc{"x": docstore.Int(1)})
	}
	var log bytes.Buffer
	b.Audit = slog.New(slog.NewJSONHandler(&log, nil))
	for _, id := range []string{"a1", "a1", "missing", "bad"} {
		b.Deliver(t.Context(), tasks.Message{Body: []byte(`{"analysisId":"` + id + `"}`), ID: "m-" + id, Try: "1"})
	}
	b.Audit = nil
	b.Deliver(t.Context(), tasks.Message{Body: []byte(`{"analysisId":"quiet"}`), ID: "m-quiet", Try: "1"})
	events := contracttest.AuditEvents(t, log.String())
	if len(events) != 2 {
		t.Fatalf("%d events: %s", len(events), &log)
	}
	for i, want := range []contracts.AuditEvent{
		{Key: "a1", Outcome: "ok", Result: "ready"}, {Key: "bad", Outcome: "ATTEMPT_FAILED", Result: "attempt_failed"},
	} {
		e := events[i]
		if e.Action != "task.deliver" || e.Kind != "analysis" || e.Key != want.Key || e.Outcome != want.Outcome ||
			e.Result != want.Result || e.MessageID != "m-"+want.Key || e.FencingToken == 0 ||
			!strings.HasPrefix(e.Owner, "m-"+want.Key) || e.Subject != "" {
			t.Errorf("%+v", e)
		}
	}
}
