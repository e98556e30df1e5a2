package gcpcloudtasks_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	sdk "cloud.google.com/go/cloudtasks/apiv2"
	"cloud.google.com/go/cloudtasks/apiv2/cloudtaskspb"
	"google.golang.org/grpc/codes"

	"github.com/leasehold-dev/leasehold/adapters/gcpcloudtasks"
	"github.com/leasehold-dev/leasehold/emulator/cloudtaskstest"
	"github.com/leasehold-dev/leasehold/functions/oidc"
)

const (
	queue   = "projects/p/locations/l/queues/analyses"
	account = "queue@p.iam.gserviceaccount.com"
)

func open(t *testing.T, e *cloudtaskstest.Server, url string, o gcpcloudtasks.Options) *gcpcloudtasks.Queue {
	t.Helper()
	o.Emulator = e.Addr()
	q, err := gcpcloudtasks.Open(t.Context(), queue, url, &o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := q.Close(); err != nil {
			t.Error(err)
		}
	})
	return q
}

func idle(t *testing.T, e *cloudtaskstest.Server) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute) // only a test that fails waits as long
	defer cancel()
	if err := e.Idle(ctx); err != nil {
		t.Fatalf("%v after %+v", err, e.Attempts())
	}
}

// TestEnqueue: the worker gets the analysis, with a token for it from the account.
func TestEnqueue(t *testing.T) {
	e := cloudtaskstest.Start(t, &cloudtaskstest.Options{Queues: []string{queue}})
	var verifier *oidc.Account
	worker := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if string(body) != `{"analysisId":"a\"1"}` || r.Method != http.MethodPost ||
			r.URL.Path != "/internal/tasks/analysis" ||
			r.Header.Get("Content-Type") != "application/json" {
			t.Errorf("%s %s %s %v", r.Method, r.URL, body, r.Header)
		}
		if _, err := verifier.Verify(r); err != nil {
			t.Error(err)
		}
	}))
	defer worker.Close()
	url := worker.URL + "/internal/tasks/analysis"
	var err error
	if verifier, err = oidc.NewAccount(t.Context(), oidc.Config{Issuer: e.Issuer(), Audience: url}, account); err != nil {
		t.Fatal(err)
	}
	q := open(t, e, url, gcpcloudtasks.Options{Account: account, Deadline: 11 * time.Minute})
	if err := q.Enqueue(t.Context(), `a"1`, "n1"); err != nil {
		t.Fatal(err)
	}
	idle(t, e)
	if a := e.Attempts(); len(a) != 1 || a[0].Status != http.StatusOK {
		t.Errorf("%+v", a)
	}
}

// TestTaskAsCreated: what the service is told beside the request.
func TestTaskAsCreated(t *testing.T) {
	e := cloudtaskstest.Start(t, &cloudtaskstest.Options{Queues: []string{queue}})
	client, err := sdk.NewClient(t.Context(), e.ClientOptions()...)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if _, err := client.PauseQueue(t.Context(), &cloudtaskspb.PauseQueueRequest{Name: queue}); err != nil {
		t.Fatal(err)
	}
	q := open(t, e, "https://127.0.0.1/work", gcpcloudtasks.Options{Account: account, Audience: "aud",
		Deadline: 25 * time.Minute})
	strange := "a/ü " + strings.Repeat("x", 1000) // more than a name can hold
	for _, name := range []string{"a1-7-1700", strange} {
		if err := q.Enqueue(t.Context(), "a1", name); err != nil {
			t.Fatal(err)
		}
	}
	want := regexp.MustCompile(`^` + queue + `/tasks/[0-9a-f]{32}-(a1-7-1700|a___x{196})$`)
	n := 0
	for task, err := range client.ListTasks(t.Context(), &cloudtaskspb.ListTasksRequest{Parent: queue}).All() {
		if err != nil {
			t.Fatal(err)
		}
		n++
		token := task.GetHttpRequest().GetOidcToken()
		if !want.MatchString(task.GetName()) || task.GetDispatchDeadline().AsDuration() != 25*time.Minute ||
			token.GetServiceAccountEmail() != account || token.GetAudience() != "aud" {
			t.Errorf("%v", task)
		}
	}
	if n != 2 {
		t.Errorf("%d tasks", n)
	}
}

// TestOnceForEachName: the same message again is no other task, whether it is still there or gone, and other names that
// differ only in what a task's name cannot hold are others.
func TestOnceForEachName(t *testing.T) {
	e := cloudtaskstest.Start(t, &cloudtaskstest.Options{Queues: []string{queue}})
	var n atomic.Int32
	worker := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { n.Add(1) }))
	defer worker.Close()
	q := open(t, e, worker.URL, gcpcloudtasks.Options{})
	for _, name := range []string{"a.1", "a.1", "a:1", strings.Repeat("x", 600) + "1", strings.Repeat("x", 600) + "2"} {
		if err := q.Enqueue(t.Context(), "a1", name); err != nil {
			t.Fatal(err)
		}
		idle(t, e)
	}
	if err := q.Enqueue(t.Context(), "a1", "a.1"); err != nil {
		t.Error(err)
	}
	idle(t, e)
	if n.Load() != 4 {
		t.Errorf("%d deliveries, want 4", n.Load())
	}
}

// TestLostResponse: the client sends again, meets its own task, and that is a success.
func TestLostResponse(t *testing.T) {
	e := cloudtaskstest.Start(t, &cloudtaskstest.Options{Queues: []string{queue}})
	var n atomic.Int32
	worker := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { n.Add(1) }))
	defer worker.Close()
	q := open(t, e, worker.URL, gcpcloudtasks.Options{})
	for _, effect := range []cloudtaskstest.Effect{
		cloudtaskstest.ApplyThenFail{Code: codes.Unavailable}, cloudtaskstest.Fail{Code: codes.Unavailable},
		cloudtaskstest.Fail{Code: codes.ResourceExhausted},
	} {
		e.Inject(cloudtaskstest.Fault{Method: "CreateTask", Times: 1, Effect: effect})
		if err := q.Enqueue(t.Context(), "a1", fmt.Sprintf("n-%T", effect)); err != nil {
			t.Errorf("%+v: %v", effect, err)
		}
	}
	idle(t, e)
	if calls := e.Count("CreateTask"); n.Load() != 2 || calls != 6 { // the two Fail have one name
		t.Errorf("%d deliveries, %d calls", n.Load(), calls)
	}
}

// TestErrors: what is not the queue's to mend is an error at once, and a call does not outlast its context.
func TestErrors(t *testing.T) {
	e := cloudtaskstest.Start(t, nil)
	q := open(t, e, "http://127.0.0.1:1", gcpcloudtasks.Options{})
	if err := q.Enqueue(t.Context(), "a1", "n1"); err == nil || !strings.Contains(err.Error(), "NotFound") ||
		!strings.Contains(err.Error(), queue) {
		t.Errorf("no such queue: %v", err)
	}
	e.Inject(cloudtaskstest.Fault{Method: "CreateTask", Effect: cloudtaskstest.Fail{Code: codes.PermissionDenied,
		Message: "lacks cloudtasks.tasks.create"}})
	if err := q.Enqueue(t.Context(), "a1", "n1"); err == nil || !strings.Contains(err.Error(), "cloudtasks.tasks.create") {
		t.Errorf("no right: %v", err)
	}
	if n := e.Count("CreateTask"); n != 2 {
		t.Errorf("%d calls", n)
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if err := q.Enqueue(gone, "a1", "n1"); err == nil {
		t.Error("a context that has ended: no error")
	}
}

func TestOpenRefuses(t *testing.T) {
	const https = "https://worker.example.com/internal/tasks/analysis"
	for _, c := range []struct {
		says, queue, url string
		o                gcpcloudtasks.Options
	}{
		{"full name", "analyses", https, gcpcloudtasks.Options{Account: account}},
		{"full name", queue + "/tasks/x", https, gcpcloudtasks.Options{Account: account}},
		{"worker's endpoint", queue, "worker", gcpcloudtasks.Options{Account: account}},
		{"worker's endpoint", queue, "ftp://worker.example.com", gcpcloudtasks.Options{Account: account}},
		{"must begin with https://", queue, "http://worker.example.com", gcpcloudtasks.Options{Account: account}},
		{"user or a password", queue, "https://u:p@worker.example.com", gcpcloudtasks.Options{Account: account}},
		{"Account is required", queue, https, gcpcloudtasks.Options{}},
		{"email address", queue, https, gcpcloudtasks.Options{Account: "queue"}},
		{"needs an Account", queue, "http://localhost:1", gcpcloudtasks.Options{Audience: "x"}},
		{"from 15s to 30m0s", queue, https, gcpcloudtasks.Options{Account: account, Deadline: time.Second}},
		{"from 15s to 30m0s", queue, https, gcpcloudtasks.Options{Account: account, Deadline: time.Hour}},
		{"must be on this machine", queue, https, gcpcloudtasks.Options{Account: account,
			Emulator: "emulator.example.com:80"}},
		{"host:port", queue, https, gcpcloudtasks.Options{Account: account, Emulator: "localhost"}},
	} {
		q, err := gcpcloudtasks.Open(t.Context(), c.queue, c.url, &c.o)
		if err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s %s %+v: %v, want %q", c.queue, c.url, c.o, err, c.says)
		}
		if q != nil && err == nil {
			q.Close()
		}
	}
}

// TestEmulatorVariable: the environment names the emulator.
func TestEmulatorVariable(t *testing.T) {
	e := cloudtaskstest.Start(t, &cloudtaskstest.Options{Queues: []string{queue}})
	t.Setenv(gcpcloudtasks.EmulatorVariable, "http://"+e.Addr())
	q, err := gcpcloudtasks.Open(t.Context(), queue, "http://127.0.0.1:1", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer q.Close()
	if err := q.Enqueue(t.Context(), "a1", "n1"); err != nil || e.Count("CreateTask") != 1 {
		t.Errorf("%v, %v", err, e.Counts())
	}
}
