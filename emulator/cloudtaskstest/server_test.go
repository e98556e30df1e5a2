package cloudtaskstest_test

import (
	"context"
	"fmt"
	"io"
	"net"
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
	"google.golang.org/api/iterator"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/leasehold-dev/leasehold/emulator/cloudtaskstest"
	"github.com/leasehold-dev/leasehold/functions/oidc"
)

const (
	location = "projects/p/locations/l"
	queue    = location + "/queues/q"
	account  = "queue@p.iam.gserviceaccount.com"
)

// bench is an emulator with one quick queue, and a worker.
type bench struct {
	*cloudtaskstest.Server

	client *sdk.Client
	worker *httptest.Server
}

// newBench starts both. Deliveries that fail come again after a millisecond.
func newBench(t *testing.T, o *cloudtaskstest.Options, worker http.HandlerFunc) *bench {
	t.Helper()
	b := &bench{Server: cloudtaskstest.Start(t, o), worker: httptest.NewServer(worker)}
	t.Cleanup(b.worker.Close)
	client, err := sdk.NewClient(t.Context(), b.ClientOptions()...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	b.client = client
	_, err = client.CreateQueue(t.Context(), &pb.CreateQueueRequest{Parent: location, Queue: &pb.Queue{
		Name: queue, RetryConfig: &pb.RetryConfig{MinBackoff: durationpb.New(time.Millisecond),
			MaxBackoff: durationpb.New(time.Millisecond)},
	}})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// task is one for the worker.
func (b *bench) task(id string) *pb.Task {
	t := &pb.Task{MessageType: &pb.Task_HttpRequest{HttpRequest: &pb.HttpRequest{
		Url: b.worker.URL + "/work", Body: []byte(`{"x":1}`), Headers: map[string]string{"Content-Type": "application/json",
			"User-Agent": "me", "X-CloudTasks-TaskName": "forged"},
		AuthorizationHeader: &pb.HttpRequest_OidcToken{OidcToken: &pb.OidcToken{ServiceAccountEmail: account,
			Audience: "the-worker"}},
	}}}
	if id != "" {
		t.Name = queue + "/tasks/" + id
	}
	return t
}

func (b *bench) create(t *testing.T, task *pb.Task) *pb.Task {
	t.Helper()
	got, err := b.client.CreateTask(t.Context(), &pb.CreateTaskRequest{Parent: queue, Task: task})
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func (b *bench) idle(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute) // only a test that fails waits as long
	defer cancel()
	if err := b.Idle(ctx); err != nil {
		t.Fatalf("%v after %+v", err, b.Attempts())
	}
}

// statuses are those of all deliveries.
func (b *bench) statuses() []int {
	var all []int
	for _, a := range b.Attempts() {
		all = append(all, a.Status)
	}
	return all
}

func answers(codes ...int) http.HandlerFunc {
	var n atomic.Int32
	return func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(codes[min(int(n.Add(1)), len(codes))-1])
	}
}

// TestDelivery: what a worker sees of a task that is delivered three times, and that its token verifies.
func TestDelivery(t *testing.T) {
	type seen struct{ method, path, body, agent, queue, task, retry, execution, previous, reason string }
	var (
		mu       sync.Mutex
		got      []seen
		verifier *oidc.Account
	)
	worker := answers(500, 409, 200)
	b := newBench(t, nil, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		h := func(name string) string { return r.Header.Get("X-CloudTasks-" + name) }
		mu.Lock()
		defer mu.Unlock()
		got = append(got, seen{
			r.Method, r.URL.Path, string(body), r.UserAgent(), h("QueueName"), h("TaskName"), h("TaskRetryCount"),
			h("TaskExecutionCount"), h("TaskPreviousResponse"), h("TaskRetryReason"),
		})
		if _, err := verifier.Verify(r); err != nil {
			t.Errorf("the token does not verify: %v", err)
		}
		if eta := h("TaskETA"); len(eta) != len("1767225600.000000") {
			t.Errorf("the ETA is %q", eta)
		}
		worker(w, r)
	})
	var err error
	verifier, err = oidc.NewAccount(t.Context(), oidc.Config{Issuer: b.Issuer(), Audience: "the-worker"}, account)
	if err != nil {
		t.Fatal(err)
	}
	b.create(t, b.task("t1"))
	b.idle(t)
	first := seen{"POST", "/work", `{"x":1}`, "Google-Cloud-Tasks", "q", "t1", "0", "0", "", ""}
	second, third := first, first
	second.retry, second.execution, second.previous, second.reason = "1", "1", "500", "Internal Server Error"
	third.retry, third.execution, third.previous, third.reason = "2", "2", "409", "Conflict"
	if want := []seen{first, second, third}; !slices.Equal(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	if b.Count(cloudtaskstest.Dispatch) != 3 || b.Count("CreateTask") != 1 {
		t.Errorf("counts: %v", b.Counts())
	}
}

// TestNames: a name is taken while its task lives, and after it is gone.
func TestNames(t *testing.T) {
	b := newBench(t, nil, answers(200))
	b.create(t, b.task("t1"))
	again := func(when string) {
		t.Helper()
		_, err := b.client.CreateTask(t.Context(), &pb.CreateTaskRequest{Parent: queue, Task: b.task("t1")})
		if status.Code(err) != codes.AlreadyExists {
			t.Errorf("%s: %v", when, err)
		}
	}
	b.idle(t)
	again("after its end")
	if one, two := b.create(t, b.task("")), b.create(t, b.task("")); one.GetName() == two.GetName() {
		t.Errorf("two tasks without a name are %s", one.GetName())
	}
	b.idle(t)
	if got := b.statuses(); len(got) != 3 {
		t.Errorf("delivered %v", got)
	}
}

// TestPausedQueue: nothing is delivered; tasks can be listed, and their names are taken.
func TestPausedQueue(t *testing.T) {
	b := newBench(t, nil, answers(200))
	q, err := b.client.PauseQueue(t.Context(), &pb.PauseQueueRequest{Name: queue})
	if err != nil || q.GetState() != pb.Queue_PAUSED {
		t.Fatalf("%v, %v", q, err)
	}
	for i := range 5 {
		b.create(t, b.task(fmt.Sprintf("t%d", i)))
	}
	_, err = b.client.CreateTask(t.Context(), &pb.CreateTaskRequest{Parent: queue, Task: b.task("t3")})
	if status.Code(err) != codes.AlreadyExists {
		t.Errorf("a name of a task that waits: %v", err)
	}
	var names []string
	for it := b.client.ListTasks(t.Context(), &pb.ListTasksRequest{Parent: queue}); ; {
		task, err := it.Next()
		if err == iterator.Done { //nolint:errorlint // as its documentation has it
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if task.GetHttpRequest().GetBody() != nil {
			t.Errorf("the basic view has the body")
		}
		names = append(names, strings.TrimPrefix(task.GetName(), queue+"/tasks/"))
	}
	if !slices.Equal(names, []string{"t0", "t1", "t2", "t3", "t4"}) {
		t.Errorf("listed %v", names)
	}
	for it := b.client.ListTasks(t.Context(), &pb.ListTasksRequest{Parent: queue, ResponseView: pb.Task_FULL}); ; {
		full, err := it.Next()
		if err == iterator.Done { //nolint:errorlint // as its documentation has it
			break
		}
		if err != nil || string(full.GetHttpRequest().GetBody()) != `{"x":1}` ||
			full.GetDispatchDeadline().AsDuration() != 10*time.Minute {
			t.Fatalf("%v, %v", full, err)
		}
	}
	if n := b.Count(cloudtaskstest.Dispatch); n != 0 {
		t.Errorf("%d deliveries", n)
	}
	for name, call := range map[string]func() error{
		"ResumeQueue": func() error {
			_, err := b.client.ResumeQueue(t.Context(), &pb.ResumeQueueRequest{Name: queue})
			return err
		},
		"GetTask": func() error {
			_, err := b.client.GetTask(t.Context(), &pb.GetTaskRequest{Name: queue + "/tasks/t0"})
			return err
		},
		"DeleteTask": func() error {
			return b.client.DeleteTask(t.Context(), &pb.DeleteTaskRequest{Name: queue + "/tasks/t0"})
		},
	} {
		if err := call(); status.Code(err) != codes.Unimplemented || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestAttemptsUsedUp: a task that fails for ever is given up.
func TestAttemptsUsedUp(t *testing.T) {
	b := newBench(t, &cloudtaskstest.Options{Queues: []string{location + "/queues/other"}}, answers(500))
	few := location + "/queues/few"
	if _, err := b.client.CreateQueue(t.Context(), &pb.CreateQueueRequest{Parent: location, Queue: &pb.Queue{
		Name: few, RetryConfig: &pb.RetryConfig{MaxAttempts: 3, MinBackoff: durationpb.New(time.Millisecond)},
	}}); err != nil {
		t.Fatal(err)
	}
	task := b.task("")
	if _, err := b.client.CreateTask(t.Context(), &pb.CreateTaskRequest{Parent: few, Task: task}); err != nil {
		t.Fatal(err)
	}
	b.idle(t)
	if got := b.statuses(); !slices.Equal(got, []int{500, 500, 500}) {
		t.Errorf("got %v", got)
	}
}

// TestConcurrency: no more deliveries at once than the queue allows.
func TestConcurrency(t *testing.T) {
	var (
		now  atomic.Int32
		mu   sync.Mutex
		most int32
	)
	b := newBench(t, nil, func(http.ResponseWriter, *http.Request) {
		n := now.Add(1)
		mu.Lock()
		most = max(most, n)
		mu.Unlock()
		time.Sleep(2 * time.Millisecond) // so that others could come
		now.Add(-1)
	})
	two := location + "/queues/two"
	if _, err := b.client.CreateQueue(t.Context(), &pb.CreateQueueRequest{Parent: location, Queue: &pb.Queue{
		Name: two, RateLimits: &pb.RateLimits{MaxConcurrentDispatches: 2},
	}}); err != nil {
		t.Fatal(err)
	}
	for range 20 {
		if _, err := b.client.CreateTask(t.Context(), &pb.CreateTaskRequest{Parent: two, Task: b.task("")}); err != nil {
			t.Fatal(err)
		}
	}
	b.idle(t)
	if most > 2 || b.Count(cloudtaskstest.Dispatch) != 20 {
		t.Errorf("%d at once, %d in all", most, b.Count(cloudtaskstest.Dispatch))
	}
}

// TestDeadline: a worker that hangs sees its connection go, and the task comes again.
func TestDeadline(t *testing.T) {
	var n atomic.Int32
	hangs, cut := make(chan struct{}), make(chan struct{})
	b := newBench(t, nil, func(_ http.ResponseWriter, r *http.Request) {
		if n.Add(1) == 1 {
			_, _ = io.Copy(io.Discard, r.Body) // a server sees the end of a connection once it has read the body
			close(hangs)
			<-r.Context().Done()
			close(cut)
		}
	})
	b.Inject(cloudtaskstest.Fault{Method: cloudtaskstest.Dispatch, Times: 1, Effect: cloudtaskstest.CutOff{When: hangs}})
	b.create(t, b.task("t1"))
	b.idle(t)
	<-cut
	all := b.Attempts()
	if len(all) != 2 || all[0].Status != 0 || all[0].Err == nil || all[1].Status != 200 || all[1].RetryCount != 1 ||
		all[1].ExecutionCount != 0 {
		t.Errorf("%+v", all)
	}
}

// TestFaults on deliveries.
func TestFaults(t *testing.T) {
	for name, c := range map[string]struct {
		effect cloudtaskstest.Effect
		want   []int
	}{
		"delivered twice":         {cloudtaskstest.DeliverTwice{}, []int{200, 200}},
		"delivered after its end": {cloudtaskstest.DeliverAgain{}, []int{200, 200}},
		"the response gets lost":  {cloudtaskstest.LoseResponse{}, []int{0, 200}},
		"without a token":         {cloudtaskstest.NoToken{}, []int{401, 200}},
		"with a token that expired": {cloudtaskstest.ChangeToken{Change: func(c map[string]any) { c["exp"] = 1 }},
			[]int{401, 200}},
	} {
		t.Run(name, func(t *testing.T) {
			var verifier *oidc.Account
			b := newBench(t, nil, func(w http.ResponseWriter, r *http.Request) {
				if _, err := verifier.Verify(r); err != nil {
					w.WriteHeader(http.StatusUnauthorized)
				}
			})
			var err error
			if verifier, err = oidc.NewAccount(t.Context(), oidc.Config{Issuer: b.Issuer(), Audience: "the-worker"},
				account); err != nil {
				t.Fatal(err)
			}
			fault := b.Inject(cloudtaskstest.Fault{Method: cloudtaskstest.Dispatch, Times: 1, Effect: c.effect})
			b.create(t, b.task("t1"))
			b.idle(t)
			if got := b.statuses(); !slices.Equal(got, c.want) || fault.Hits() != 1 {
				t.Errorf("got %v after %d hits, want %v", got, fault.Hits(), c.want)
			}
		})
	}
}

// TestCallFaults: a call that fails does nothing; one whose response is lost has been executed.
func TestCallFaults(t *testing.T) {
	b := newBench(t, nil, answers(200))
	create := func(id string) error {
		_, err := b.client.CreateTask(t.Context(), &pb.CreateTaskRequest{Parent: queue, Task: b.task(id)})
		return err
	}
	b.Inject(cloudtaskstest.Fault{Method: "CreateTask", Times: 1, Effect: cloudtaskstest.Fail{Code: codes.Unavailable}})
	if err := create("t1"); status.Code(err) != codes.Unavailable {
		t.Errorf("Fail: %v", err)
	}
	b.Inject(cloudtaskstest.Fault{Method: "CreateTask", Skip: 1, Times: 1,
		Effect: cloudtaskstest.ApplyThenFail{Code: codes.Internal}})
	if err := create("t1"); err != nil {
		t.Errorf("after Fail: %v", err)
	}
	if err := create("t2"); status.Code(err) != codes.Internal {
		t.Errorf("ApplyThenFail: %v", err)
	}
	if err := create("t2"); status.Code(err) != codes.AlreadyExists {
		t.Errorf("after ApplyThenFail: %v", err)
	}
	b.idle(t)
	if n := b.Count(cloudtaskstest.Dispatch); n != 2 {
		t.Errorf("%d deliveries", n)
	}
}

func TestRefusals(t *testing.T) {
	b := newBench(t, nil, answers(200))
	task := func(change func(*pb.Task)) *pb.Task {
		task := b.task("t1")
		change(task)
		return task
	}
	for name, c := range map[string]struct {
		parent string
		task   *pb.Task
		code   codes.Code
		says   string
	}{
		"no such queue": {location + "/queues/none", b.task(""), codes.NotFound, "create it first"},
		"not a queue":   {"q", b.task(""), codes.InvalidArgument, "not the name of a queue"},
		"no request":    {queue, &pb.Task{}, codes.InvalidArgument, "http_request is required"},
		"name elsewhere": {queue, task(func(t *pb.Task) {
			t.Name = "projects/x/locations/l/queues/q/tasks/t1"
		}), codes.InvalidArgument, "Task.name"},
		"strange name": {queue, task(func(t *pb.Task) { t.Name = queue + "/tasks/a.b" }), codes.InvalidArgument,
			"Task.name"},
		"another machine": {queue, task(func(t *pb.Task) {
			t.GetHttpRequest().Url = "https://example.com"
		}), codes.InvalidArgument, "not on this machine"},
		"no URL": {queue, task(func(t *pb.Task) {
			t.GetHttpRequest().Url = "ftp://127.0.0.1"
		}), codes.InvalidArgument, "HttpRequest.url"},
		"large": {queue, task(func(t *pb.Task) {
			t.GetHttpRequest().Body = make([]byte, 101<<10)
		}), codes.InvalidArgument, "too large"},
		"body with GET": {queue, task(func(t *pb.Task) {
			t.GetHttpRequest().HttpMethod = pb.HttpMethod_GET
		}), codes.InvalidArgument, "not allowed with GET"},
		"short deadline": {queue, task(func(t *pb.Task) {
			t.DispatchDeadline = durationpb.New(time.Second)
		}), codes.InvalidArgument, "dispatchDeadline"},
		"far away": {queue, task(func(t *pb.Task) {
			t.ScheduleTime = timestamppb.New(time.Now().Add(31 * 24 * time.Hour))
		}), codes.InvalidArgument, "30 days"},
		"App Engine": {queue, &pb.Task{MessageType: &pb.Task_AppEngineHttpRequest{
			AppEngineHttpRequest: &pb.AppEngineHttpRequest{}}}, codes.Unimplemented, "app_engine_http_request"},
		"its own retries": {queue, task(func(t *pb.Task) { t.RetryConfig = &pb.RetryConfig{} }), codes.Unimplemented,
			"retry_config"},
		"not an account": {queue, task(func(t *pb.Task) {
			t.GetHttpRequest().GetOidcToken().ServiceAccountEmail = "x"
		}), codes.InvalidArgument, "email address"},
		"field of tomorrow": {queue, b.task("t1"), codes.Unimplemented, "does not know"},
	} {
		r := &pb.CreateTaskRequest{Parent: c.parent, Task: c.task}
		if name == "field of tomorrow" {
			r.ProtoReflect().SetUnknown(append(proto.Message(r).ProtoReflect().GetUnknown(), 0xf8, 0x07, 0x01))
		}
		_, err := b.client.CreateTask(t.Context(), r)
		if status.Code(err) != c.code || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want %v with %q", name, err, c.code, c.says)
		}
	}
	if _, err := b.client.RunTask(t.Context(), &pb.RunTaskRequest{Name: queue + "/tasks/t1"}); status.Code(
		err) != codes.Unimplemented || !strings.Contains(err.Error(), "RunTask") {
		t.Errorf("RunTask: %v", err)
	}
	for name, q := range map[string]*pb.Queue{
		"elsewhere":       {Name: "projects/x/locations/l/queues/q"},
		"strange name":    {Name: location + "/queues/a_b"},
		"no backoff":      {Name: location + "/queues/x", RetryConfig: &pb.RetryConfig{MinBackoff: durationpb.New(0)}},
		"negative rate":   {Name: location + "/queues/x", RateLimits: &pb.RateLimits{MaxDispatchesPerSecond: -1}},
		"burst":           {Name: location + "/queues/x", RateLimits: &pb.RateLimits{MaxBurstSize: 1}},
		"too many":        {Name: location + "/queues/x", RateLimits: &pb.RateLimits{MaxConcurrentDispatches: 5001}},
		"attempts":        {Name: location + "/queues/x", RetryConfig: &pb.RetryConfig{MaxAttempts: -2}},
		"made as a pause": {Name: location + "/queues/x", State: pb.Queue_PAUSED},
	} {
		if _, err := b.client.CreateQueue(t.Context(), &pb.CreateQueueRequest{Parent: location, Queue: q}); status.Code(
			err) != codes.InvalidArgument {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := b.client.CreateQueue(t.Context(), &pb.CreateQueueRequest{Parent: location,
		Queue: &pb.Queue{Name: queue}}); status.Code(err) != codes.AlreadyExists {
		t.Errorf("a queue again: %v", err)
	}
	got, err := b.client.GetQueue(t.Context(), &pb.GetQueueRequest{Name: queue})
	if err != nil || got.GetRetryConfig().GetMaxAttempts() != 100 ||
		got.GetRateLimits().GetMaxDispatchesPerSecond() != 500 || got.GetState() != pb.Queue_RUNNING {
		t.Errorf("%v, %v", got, err)
	}
	if b.Count(cloudtaskstest.Dispatch) != 0 {
		t.Errorf("delivered %+v", b.Attempts())
	}
}

// TestClose cuts off what is under way, and waits for it.
func TestClose(t *testing.T) {
	began := make(chan struct{})
	s, err := cloudtaskstest.Listen("", &cloudtaskstest.Options{Queues: []string{queue}})
	if err != nil {
		t.Fatal(err)
	}
	worker := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		close(began)
		_, _ = io.Copy(io.Discard, r.Body)
		<-r.Context().Done()
	}))
	defer worker.Close()
	client, err := sdk.NewClient(t.Context(), s.ClientOptions()...)
	if err != nil {
		t.Fatal(err)
	}
	b := &bench{Server: s, client: client, worker: worker}
	b.create(t, b.task("t1"))
	<-began
	for range 2 {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
	if a := s.Attempts(); len(a) != 1 || a[0].Err == nil {
		t.Errorf("%+v", a)
	}
}

func TestListenRefuses(t *testing.T) {
	for addr, o := range map[string]*cloudtaskstest.Options{
		"0.0.0.0:0":   nil,
		"example:0":   nil,
		"127.0.0.1":   nil,
		"127.0.0.1:0": {Queues: []string{"q"}},
	} {
		if s, err := cloudtaskstest.Listen(addr, o); err == nil {
			t.Errorf("%s %+v: listens on %s", addr, o, s.Addr())
			s.Close()
		}
	}
}

func TestInjectPanics(t *testing.T) {
	s := cloudtaskstest.Start(t, nil)
	for name, f := range map[string]cloudtaskstest.Fault{
		"no effect":            {Method: "CreateTask"},
		"no method":            {Effect: cloudtaskstest.NoToken{}},
		"of the other kind":    {Method: "CreateTask", Effect: cloudtaskstest.NoToken{}},
		"of the other kind, 2": {Method: cloudtaskstest.Dispatch, Effect: cloudtaskstest.Fail{Code: codes.Internal}},
		"OK":                   {Method: "CreateTask", Effect: cloudtaskstest.ApplyThenFail{}},
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: accepted", name)
				}
			}()
			s.Inject(f)
		}()
	}
}

// With Options.InsecureListenAnywhere a task may go to another machine, and the server listens on every address.
func TestNetwork(t *testing.T) {
	s, err := cloudtaskstest.Listen("0.0.0.0:0", &cloudtaskstest.Options{Queues: []string{queue},
		InsecureListenAnywhere: true})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	_, port, err := net.SplitHostPort(s.Addr())
	if err != nil {
		t.Fatal(err)
	}
	conn, err := grpc.NewClient("127.0.0.1:"+port, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_, err = pb.NewCloudTasksClient(conn).CreateTask(t.Context(), &pb.CreateTaskRequest{Parent: queue, Task: &pb.Task{
		ScheduleTime: timestamppb.New(time.Now().Add(time.Hour)), // it is not delivered in this test
		MessageType:  &pb.Task_HttpRequest{HttpRequest: &pb.HttpRequest{Url: "http://worker.example/"}}}})
	if err != nil {
		t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://127.0.0.1:"+port+"/v2/projects", nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if body, err := io.ReadAll(res.Body); err != nil || res.StatusCode != http.StatusNotImplemented ||
		!strings.Contains(string(body), "gRPC") {
		t.Fatalf("REST: %d %s (%v)", res.StatusCode, body, err)
	}
}
