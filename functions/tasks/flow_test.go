package tasks_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	sdk "cloud.google.com/go/cloudtasks/apiv2"
	pb "cloud.google.com/go/cloudtasks/apiv2/cloudtaskspb"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/leasehold-dev/leasehold/adapters/gcpcloudtasks"
	"github.com/leasehold-dev/leasehold/emulator/cloudtaskstest"
	"github.com/leasehold-dev/leasehold/functions/direct"
	"github.com/leasehold-dev/leasehold/functions/httpapi"
	"github.com/leasehold-dev/leasehold/functions/oidc"
	"github.com/leasehold-dev/leasehold/functions/tasks"
	"github.com/leasehold-dev/leasehold/once"
	"github.com/leasehold-dev/leasehold/proof/contracttest"
	"github.com/leasehold-dev/leasehold/proof/suite"
	"github.com/leasehold-dev/leasehold/repo/analysis"
	"github.com/leasehold-dev/leasehold/repo/docstore"
)

const (
	location  = "projects/p/locations/l"
	queueName = location + "/queues/analyses"
	audience  = "https://leasehold.example"
	account   = "queue@p.iam.gserviceaccount.com"
)

// flow is the whole way: the official client, the queue's emulator, the endpoints with real tokens, the gate, the work.
type flow struct {
	*bench

	clock    *suite.Clock
	emulator *cloudtaskstest.Server
	queue    *gcpcloudtasks.Queue
	url      string
}

// How often the queue delivers a task, at most, a millisecond apart.
const (
	few     = 5
	endless = -1
)

// newFlow starts everything. The queue gives a task up after so many attempts.
func newFlow(t *testing.T, attempts int32, work once.Work) *flow {
	t.Helper()
	f := &flow{bench: newBench(t, work), clock: suite.NewClock(), emulator: cloudtaskstest.Start(t, nil)}
	f.store = docstore.NewMemory(&docstore.MemoryOptions{Now: f.clock.Now})
	f.Gate = direct.Analyses(analysis.New(f.store, nil))
	f.Log = nil // several deliveries at once would write to it
	s := httptest.NewUnstartedServer(nil)
	f.url = "http://" + s.Listener.Addr().String()
	client, err := sdk.NewClient(t.Context(), f.emulator.ClientOptions()...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	if _, err := client.CreateQueue(t.Context(), &pb.CreateQueueRequest{Parent: location, Queue: &pb.Queue{
		Name: queueName, RetryConfig: &pb.RetryConfig{MaxAttempts: attempts, MinBackoff: durationpb.New(time.Millisecond),
			MaxBackoff: durationpb.New(time.Millisecond)},
	}}); err != nil {
		t.Fatal(err)
	}
	f.queue, err = gcpcloudtasks.Open(t.Context(), queueName, f.url+tasks.TaskPath, &gcpcloudtasks.Options{
		Account: account, Audience: audience, Emulator: f.emulator.Addr(),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.queue.Close() })

	// The queue's account may deliver, the scheduler's may sweep.
	guardFor := func(email string) tasks.Guard {
		g, err := oidc.NewAccount(t.Context(), oidc.Config{Issuer: f.emulator.Issuer(), Audience: audience}, email)
		if err != nil {
			t.Fatal(err)
		}
		return g
	}
	task, err := tasks.Endpoint{Worker: &f.Worker, Guard: guardFor(account)}.Route(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	sweep, err := tasks.SweepEndpoint{Analyses: analysis.New(f.store, nil), Sweep: analysis.Sweep{Queue: f.queue},
		Guard: guardFor("scheduler@p.iam.gserviceaccount.com")}.Route()
	if err != nil {
		t.Fatal(err)
	}
	s.Config.Handler = contracttest.Handler(t, httpapi.Handler([]httpapi.Route{task, sweep}, nil))
	s.Start()
	t.Cleanup(s.Close)
	return f
}

// enqueue queues analysis a1 as a message of a name.
func (f *flow) enqueue(name string) {
	f.t.Helper()
	if err := f.queue.Enqueue(f.t.Context(), "a1", name); err != nil {
		f.t.Fatal(err)
	}
}

// waitLimit bounds waits that should never be needed.
const waitLimit = 5 * time.Minute

func (f *flow) idle() {
	f.t.Helper()
	ctx, cancel := context.WithTimeout(f.t.Context(), waitLimit)
	defer cancel()
	if err := f.emulator.Idle(ctx); err != nil {
		f.t.Fatalf("%v after %+v", err, f.emulator.Attempts())
	}
}

// attempted waits until n deliveries have ended. It is for the work.
func (f *flow) attempted(n int) {
	ctx, cancel := context.WithTimeout(context.Background(), waitLimit)
	defer cancel()
	if err := f.emulator.Attempted(ctx, n); err != nil {
		f.t.Errorf("%v after %+v", err, f.emulator.Attempts())
	}
}

// wantAnswers compares the answers to all deliveries, in the order in which they ended: status and outcome, or code.
func (f *flow) wantAnswers(want ...string) {
	f.t.Helper()
	var got []string
	for _, a := range f.emulator.Attempts() {
		word := ""
		for _, key := range []string{`"outcome":"`, `"code":"`} {
			if _, rest, ok := strings.Cut(a.Response, key); ok {
				word, _, _ = strings.Cut(rest, `"`)
			}
		}
		got = append(got, strings.TrimSpace(fmt.Sprintf("%d %s", a.Status, word)))
	}
	if !slices.Equal(got, want) {
		f.t.Errorf("the queue heard %q, want %q", got, want)
	}
}

// TestFlow: from a call of Enqueue to the last response to the queue.
func TestFlow(t *testing.T) {
	some := docstore.Doc{"title": docstore.String("x")}
	var runs atomic.Int32
	failing := func(times int32) once.Work {
		return func(context.Context, once.Lock) (string, error) {
			if runs.Add(1) <= times {
				return "", errors.New("flaky")
			}
			return "r", nil
		}
	}
	for name, c := range map[string]struct {
		before docstore.Doc
		work   once.Work
		want   []string
		status docstore.Value
	}{
		"ready": {some, failing(0), []string{"200 ready"}, docstore.String("READY")},
		"ready in the end": {some, failing(2), []string{"424 ATTEMPT_FAILED", "424 ATTEMPT_FAILED", "200 ready"},
			docstore.String("READY")},
		"fails too often": {some, failing(99), []string{
			"424 ATTEMPT_FAILED", "424 ATTEMPT_FAILED", "424 ATTEMPT_FAILED", "424 ATTEMPT_FAILED", "200 failed",
		}, docstore.String("FAILED")},
		"panics once": {some, func(context.Context, once.Lock) (string, error) {
			if runs.Add(1) == 1 {
				panic("oh")
			}
			return "", nil
		}, []string{"424 ATTEMPT_FAILED", "200 ready"}, docstore.String("READY")},
		"unknown": {nil, failing(0), []string{
			"404 NOT_FOUND", "404 NOT_FOUND", "404 NOT_FOUND", "404 NOT_FOUND", "404 NOT_FOUND",
		}, nil},
		"finished before": {docstore.Doc{"status": docstore.String("FAILED")}, failing(0), []string{"200 already_failed"},
			docstore.String("FAILED")},
		"garbage for time": {docstore.Doc{"lockOwner": docstore.String("w"), "lockExpiresAt": docstore.String("9")},
			failing(0), []string{
				"409 LOCK_UNREADABLE", "409 LOCK_UNREADABLE", "409 LOCK_UNREADABLE", "409 LOCK_UNREADABLE", "409 LOCK_UNREADABLE",
			}, nil},
		"damaged": {docstore.Doc{"status": docstore.Bool(true)}, failing(0), []string{
			"500 DOCUMENT_DAMAGED", "500 DOCUMENT_DAMAGED", "500 DOCUMENT_DAMAGED", "500 DOCUMENT_DAMAGED",
			"500 DOCUMENT_DAMAGED",
		}, docstore.Bool(true)},
	} {
		t.Run(name, func(t *testing.T) {
			runs.Store(0)
			f := newFlow(t, few, c.work)
			if c.before != nil {
				f.put("a1", c.before)
			}
			f.enqueue("n1")
			f.idle()
			f.wantAnswers(c.want...)
			if d := f.doc(); d["status"] != c.status {
				t.Errorf("the document is %v", d)
			}
			if name != "garbage for time" {
				f.wantFree()
			}
		})
	}
}

// TestFlowTokens: only the queue's own account gets in, and nothing runs before.
func TestFlowTokens(t *testing.T) {
	change := func(claim string, v any) cloudtaskstest.Effect {
		return cloudtaskstest.ChangeToken{Change: func(c map[string]any) { c[claim] = v }}
	}
	for name, c := range map[string]struct {
		effect cloudtaskstest.Effect
		want   string
	}{
		"none":                    {cloudtaskstest.NoToken{}, "401 UNAUTHENTICATED"},
		"for another audience":    {change("aud", "https://other.example"), "401 UNAUTHENTICATED"},
		"of another issuer":       {change("iss", "https://accounts.google.com"), "401 UNAUTHENTICATED"},
		"of another account":      {change("email", "eve@p.iam.gserviceaccount.com"), "403 PERMISSION_DENIED"},
		"of the account's case":   {change("email", strings.ToUpper(account)), "403 PERMISSION_DENIED"},
		"without an account":      {change("email", nil), "401 UNAUTHENTICATED"},
		"not verified":            {change("email_verified", false), "401 UNAUTHENTICATED"},
		"verified in words":       {change("email_verified", "true"), "401 UNAUTHENTICATED"},
		"not said to be verified": {change("email_verified", nil), "401 UNAUTHENTICATED"},
		"expired":                 {change("exp", time.Now().Add(-time.Hour).Unix()), "401 UNAUTHENTICATED"},
		"not yet valid":           {change("nbf", time.Now().Add(time.Hour).Unix()), "401 UNAUTHENTICATED"},
	} {
		t.Run(name, func(t *testing.T) {
			var runs atomic.Int32
			f := newFlow(t, few, func(context.Context, once.Lock) (string, error) { runs.Add(1); return "", nil })
			f.put("a1", docstore.Doc{"title": docstore.String("x"), "lockToken": docstore.Int(0)})
			f.emulator.Inject(cloudtaskstest.Fault{Method: cloudtaskstest.Dispatch, Times: 2, Effect: c.effect})
			f.enqueue("n1")
			f.idle()
			f.wantAnswers(c.want, c.want, "200 ready")
			if d := f.doc(); runs.Load() != 1 || d["lockToken"] != docstore.Int(1) {
				t.Errorf("%d runs, %v", runs.Load(), d)
			}
		})
	}
}

// TestDeliveredTwice: the queue delivers one task by two requests at once, and one of them runs.
func TestDeliveredTwice(t *testing.T) {
	var (
		f    *flow
		runs atomic.Int32
	)
	f = newFlow(t, few, func(context.Context, once.Lock) (string, error) {
		runs.Add(1)
		f.attempted(1) // the other is answered while this one runs
		return "", nil
	})
	f.put("a1", docstore.Doc{"title": docstore.String("x"), "lockToken": docstore.Int(0)})
	f.emulator.Inject(cloudtaskstest.Fault{Method: cloudtaskstest.Dispatch, Times: 1,
		Effect: cloudtaskstest.DeliverTwice{}})
	f.enqueue("n1")
	f.idle()
	f.wantAnswers("409 ANALYSIS_LOCKED", "200 ready")
	if runs.Load() != 1 {
		t.Errorf("%d runs", runs.Load())
	}
}

// TestFiveTasks: five tasks of one analysis at once, one run; the others find it done.
func TestFiveTasks(t *testing.T) {
	var (
		f    *flow
		runs atomic.Int32
	)
	f = newFlow(t, few, func(context.Context, once.Lock) (string, error) {
		runs.Add(1)
		f.attempted(4) // each of the others has been told to come again
		return "", nil
	})
	f.put("a1", docstore.Doc{"title": docstore.String("x"), "lockToken": docstore.Int(0)})
	for i := range 5 {
		f.enqueue(fmt.Sprintf("n%d", i))
	}
	f.idle()
	status := map[int]int{}
	for _, a := range f.emulator.Attempts() {
		status[a.Status]++
	}
	if runs.Load() != 1 || status[200] != 5 || status[409] < 4 || len(status) != 2 {
		t.Errorf("%d runs, answers %v", runs.Load(), status)
	}
}

// TestRedelivery: the queue times out, and delivers again while the first delivery still runs: 409. It then finds the
// analysis READY: 200.
func TestRedelivery(t *testing.T) {
	var (
		f      *flow
		runs   atomic.Int32
		begins = make(chan struct{})
	)
	f = newFlow(t, endless, func(context.Context, once.Lock) (string, error) {
		if runs.Add(1) == 1 {
			close(begins)
		}
		f.attempted(2) // work that does not stop when it is told to
		return "r", nil
	})
	f.emulator.Inject(cloudtaskstest.Fault{Method: cloudtaskstest.Dispatch, Times: 1,
		Effect: cloudtaskstest.CutOff{When: begins}})
	f.put("a1", docstore.Doc{"title": docstore.String("x"), "lockToken": docstore.Int(0)})
	f.enqueue("n1")
	f.idle()
	got := f.emulator.Attempts()
	if runs.Load() != 1 || len(got) < 3 || got[0].Status != 0 || got[1].Status != 409 || got[len(got)-1].Status != 200 {
		t.Errorf("%d runs, %+v", runs.Load(), got)
	}
	if d := f.doc(); d["status"] != docstore.String("READY") || d["result"] != docstore.String("r") {
		t.Errorf("the document is %v", d)
	}
}

// TestLostResponse: the analysis is READY, the queue did not get the response, and nothing runs again.
func TestLostResponse(t *testing.T) {
	var runs atomic.Int32
	f := newFlow(t, few, func(context.Context, once.Lock) (string, error) { runs.Add(1); return "", nil })
	f.put("a1", docstore.Doc{"title": docstore.String("x"), "lockToken": docstore.Int(0)})
	f.emulator.Inject(cloudtaskstest.Fault{Method: cloudtaskstest.Dispatch, Times: 1,
		Effect: cloudtaskstest.LoseResponse{}})
	f.emulator.Inject(cloudtaskstest.Fault{Method: cloudtaskstest.Dispatch, Times: 1,
		Effect: cloudtaskstest.DeliverAgain{}})
	f.enqueue("n1")
	f.idle()
	f.wantAnswers("0", "200 already_finished", "200 already_finished")
	if runs.Load() != 1 {
		t.Errorf("%d runs", runs.Load())
	}
}

// sweep calls the scheduler's endpoint with a token of an account, and returns the status and the body.
func (f *flow) sweep(email string) (int, string) {
	token, err := f.emulator.Token(email, audience)
	if err != nil {
		f.t.Error(err)
	}
	r, err := http.NewRequestWithContext(f.t.Context(), http.MethodPost, f.url+tasks.SweepPath, nil)
	if err != nil {
		f.t.Error(err)
	}
	r.Header.Set("Authorization", "Bearer "+token)
	a, err := http.DefaultClient.Do(r)
	if err != nil {
		f.t.Error(err)
		return 0, ""
	}
	defer a.Body.Close()
	body, err := io.ReadAll(a.Body)
	if err != nil {
		f.t.Error(err)
	}
	return a.StatusCode, strings.TrimSpace(string(body))
}

// TestSweepFlow: a worker dies in the middle of a run. Its lock runs out, two sweeps at once queue the analysis again
// once, another worker takes it over, and it becomes READY.
func TestSweepFlow(t *testing.T) {
	var token atomic.Int64
	f := newFlow(t, few, func(_ context.Context, l once.Lock) (string, error) { token.Store(l.Token); return "", nil })
	f.put("a1", docstore.Doc{"title": docstore.String("x"), "lockToken": docstore.Int(0)})
	// The worker that dies: its lock is all that is left of it.
	if g, err := f.Gate.Acquire(t.Context(), once.Acquire{RunID: "a1", Owner: "dies", RequestID: "r1",
		TTL: 5 * time.Minute}); err != nil || !g.Acquired {
		t.Fatalf("%+v, %v", g, err)
	}
	const nothing = `{"errors":0,"failed":0,"more":false,"requeued":0,"skipped":0,"stale":0}`
	if status, body := f.sweep("scheduler@p.iam.gserviceaccount.com"); status != http.StatusOK || body != nothing {
		t.Errorf("while it lives: %d %s", status, body)
	}
	if status, body := f.sweep(account); status != http.StatusForbidden {
		t.Errorf("by the queue's account: %d %s", status, body)
	}
	f.clock.Advance(5 * time.Minute)

	var (
		all    sync.WaitGroup
		bodies = make([]string, 2)
	)
	for i := range bodies {
		all.Go(func() { _, bodies[i] = f.sweep("scheduler@p.iam.gserviceaccount.com") })
	}
	all.Wait()
	f.idle()
	requeued := 0
	for _, body := range bodies {
		requeued += strings.Count(body, `"requeued":1`)
	}
	if requeued != 1 || f.emulator.Count("CreateTask") < 1 {
		t.Errorf("the sweeps say %v; %v", bodies, f.emulator.Counts())
	}
	if d := f.doc(); d["status"] != docstore.String("READY") || d["lockToken"] != docstore.Int(token.Load()) {
		t.Errorf("the document is %v, the run's token was %d", d, token.Load())
	}
	f.wantFree()
}

// TestRetriedFlow: the message of an analysis that failed is gone; after a retry the sweep queues it, once, and it
// runs.
func TestRetriedFlow(t *testing.T) {
	var runs atomic.Int32
	f := newFlow(t, few, func(context.Context, once.Lock) (string, error) {
		if runs.Add(1) == 1 {
			return "", once.Permanent(errors.New("no model"))
		}
		return "r", nil
	})
	f.put("a1", docstore.Doc{"title": docstore.String("x"), "lockToken": docstore.Int(0)})
	f.enqueue("n1")
	f.idle()
	sweep := func(want string) {
		t.Helper()
		if status, body := f.sweep("scheduler@p.iam.gserviceaccount.com"); status != http.StatusOK ||
			!strings.Contains(body, want) {
			t.Fatalf("sweep: %d %s, want %s", status, body, want)
		}
		f.idle()
	}
	sweep(`"requeued":0,"skipped":0,"stale":0}`)
	o, err := analysis.New(f.store, nil).Retry(t.Context(), analysis.Retry{ID: "a1", By: "root", RequestID: "t1",
		Reason: "the model is there"})
	if err != nil || o.Code != analysis.OK {
		t.Fatal(o, err)
	}
	sweep(`"requeued":1,"skipped":0,"stale":1}`)
	f.wantAnswers("200 failed", "200 ready")
	sweep(`"requeued":0,"skipped":0,"stale":0}`)
	if d := f.doc(); runs.Load() != 2 || d["status"] != docstore.String("READY") || d["result"] != docstore.String("r") {
		t.Errorf("%d runs, %v", runs.Load(), d)
	}
}
