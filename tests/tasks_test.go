package tests

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/leasehold-dev/leasehold/adapters/gcpcloudtasks"
	"github.com/leasehold-dev/leasehold/adapters/gcpfirestore"
	"github.com/leasehold-dev/leasehold/emulator/cloudtaskstest"
	"github.com/leasehold-dev/leasehold/emulator/firestoretest"
	"github.com/leasehold-dev/leasehold/functions/tasks"
	"github.com/leasehold-dev/leasehold/repo/analysis"
	"github.com/leasehold-dev/leasehold/repo/docstore"
)

const analyses = "projects/demo/locations/local/queues/analyses"

// TestServeTasks: a server of its own process takes what the queue delivers to a target. When it is told to stop, it
// stops the run that is under way, and the analysis is free for another worker.
func TestServeTasks(t *testing.T) {
	t.Parallel()
	began := make(chan struct{})
	target := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if strings.Contains(string(body), `"analysis_id":"hangs"`) {
			close(began)
			<-r.Context().Done()
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"result":"gs://results/a1"}`)
	}))
	defer target.Close()
	const account = "queue@demo.iam.gserviceaccount.com"
	documents := firestoretest.Start(t, nil)
	watchQueries(t, documents)
	q := cloudtaskstest.Start(t, &cloudtaskstest.Options{Queues: []string{analyses}})
	store, err := gcpfirestore.Open(t.Context(), &gcpfirestore.Options{Project: "demo",
		ClientOptions: documents.ClientOptions()})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	for _, id := range []string{"a1", "hangs"} {
		if _, err := store.Write(t.Context(), docstore.Write{Key: docstore.Key{Kind: analysis.Kind, ID: id},
			Set: docstore.Doc{"title": docstore.String("x")}}); err != nil {
			t.Fatal(err)
		}
	}
	doc := func(id string) docstore.Doc {
		t.Helper()
		r, err := store.Get(t.Context(), docstore.Key{Kind: analysis.Kind, ID: id})
		if err != nil {
			t.Fatal(err)
		}
		return r.Docs[0]
	}

	p := launch(t, []string{"FIRESTORE_EMULATOR_HOST=" + documents.Addr(), "LEASEHOLD_TASK_ISSUER=" + q.Issuer()},
		"serve", "--listen", "127.0.0.1:0", "--store", "firestore", "--project", "demo",
		"--target-url", target.URL, "--task-account", account, "--task-audience", "leasehold")
	enqueue := func(id analysis.ID) {
		t.Helper()
		to, err := gcpcloudtasks.Open(t.Context(), analyses, p.url+tasks.TaskPath,
			&gcpcloudtasks.Options{Account: account, Audience: "leasehold", Emulator: q.Addr()})
		if err != nil {
			t.Fatal(err)
		}
		defer to.Close()
		if err := to.Enqueue(t.Context(), id, string(id)); err != nil {
			t.Fatal(err)
		}
	}
	enqueue("a1")
	if err := q.Idle(t.Context()); err != nil {
		t.Fatal(err)
	}
	if a := q.Attempts(); len(a) != 1 || !strings.Contains(a[0].Response, `"outcome":"ready"`) {
		t.Fatalf("%+v\n%s", a, p.stderr.Bytes())
	}
	if d := doc("a1"); d["status"] != docstore.String("READY") || d["result"] != docstore.String("gs://results/a1") ||
		d["title"] != docstore.String("x") {
		t.Errorf("the document is %v", d)
	}
	// Development mode is for the API only, not for the endpoint of queues.
	if status, body := call(t, http.MethodPost, p.url+tasks.TaskPath, "",
		`{"analysisId":"a1"}`); status != http.StatusUnauthorized {
		t.Errorf("without a token: %d %s", status, body)
	}
	if status, body := call(t, http.MethodPost, p.url+tasks.SweepPath, "", ""); status != http.StatusNotImplemented ||
		!strings.Contains(body, "LEASEHOLD_TASK_QUEUE") {
		t.Errorf("sweep: %d %s", status, body)
	}

	enqueue("hangs")
	<-began
	if d := doc("hangs"); d["lockOwner"] == nil {
		t.Errorf("no worker holds the lock of the run: %v", d)
	}
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-p.ended:
		if err != nil {
			t.Errorf("the server ended with %v\n%s", err, p.stderr.Bytes())
		}
	case <-time.After(failAfter):
		t.Fatalf("the server did not end\n%s", p.stderr.Bytes())
	}
	if d := doc("hangs"); d["lockOwner"] != nil || d["status"] != nil || d["lockFailures"] != nil {
		t.Errorf("the analysis is not free for another worker: %v", d)
	}
}
