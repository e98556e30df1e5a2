package gcp

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/leasehold-dev/leasehold/emulator/cloudtaskstest"
	"github.com/leasehold-dev/leasehold/functions/settings"
	"github.com/leasehold-dev/leasehold/functions/tasks"
	"github.com/leasehold-dev/leasehold/repo/analysis"
	"github.com/leasehold-dev/leasehold/repo/docstore"
)

// TestRejectedQueues: settings of the queue that only its package can reject.
func TestRejectedQueues(t *testing.T) {
	t.Setenv("CLOUD_TASKS_EMULATOR_HOST", "127.0.0.1:1") // nothing is sent, and no credentials are looked for
	const (
		queue = "LEASEHOLD_TASK_QUEUE=projects/p/locations/l/queues/q "
		to    = "LEASEHOLD_TASK_URL=https://x.run.app/t "
	)
	for words, says := range map[string]string{
		"": "", // NOT_CONFIGURED, which is no error
		queue + to + "LEASEHOLD_TASK_ACCOUNT=q@p":                                        "",
		queue + to + "LEASEHOLD_TASK_AUTH=platform":                                      "Account is required",
		queue + to + "LEASEHOLD_TASK_AUTH=platform LEASEHOLD_TASK_ACCOUNT=q@p":           "",
		queue + "LEASEHOLD_TASK_URL=x LEASEHOLD_TASK_ACCOUNT=q@p":                        "LEASEHOLD_TASK_URL",
		to + "LEASEHOLD_TASK_QUEUE=q LEASEHOLD_TASK_ACCOUNT=q@p":                         "full name",
		queue + to + "LEASEHOLD_TASK_ACCOUNT=q@p LEASEHOLD_TASK_ISSUER=http://i.example": "must begin with https://",
	} {
		c, err := settings.Load(settings.FunctionSweep, strings.Fields(words), nil)
		if err != nil {
			t.Fatal(err)
		}
		_, done, err := SweepRoute(t.Context(), c, docstore.NewMemory(nil), slog.New(slog.DiscardHandler), nil, nil)
		if (err == nil) != (says == "") || err != nil && !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, want %q", words, err, says)
		}
		if err := done(); err != nil {
			t.Error(err)
		}
	}
}

// TestFunctions: a task walks through the function Tasks to a target that wants an ID token, and the function Sweep
// queues what its worker left behind.
func TestFunctions(t *testing.T) {
	identity := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Metadata-Flavor") != "Google" ||
			r.URL.Path != "/computeMetadata/v1/instance/service-accounts/default/identity" {
			t.Errorf("the metadata server is asked for %s", r.URL)
		}
		w.Header().Set("Metadata-Flavor", "Google")
		_, _ = w.Write([]byte("token-for-" + r.URL.Query().Get("audience") + "\n"))
	}))
	defer identity.Close()
	t.Setenv("GCE_METADATA_HOST", strings.TrimPrefix(identity.URL, "http://"))
	target := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if got := r.Header.Get("Authorization"); got != "Bearer token-for-https://worker.example" {
			t.Errorf("the target sees %q", got)
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"result":"r"}`))
	}))
	defer target.Close()
	const (
		queue   = "projects/p/locations/l/queues/q"
		account = "q@p.iam.gserviceaccount.com"
	)
	e := cloudtaskstest.Start(t, &cloudtaskstest.Options{Queues: []string{queue}})
	t.Setenv("CLOUD_TASKS_EMULATOR_HOST", e.Addr())

	store := docstore.NewMemory(nil)
	if _, err := store.Write(t.Context(), docstore.Write{Key: docstore.Key{Kind: analysis.Kind, ID: "a1"},
		Set: docstore.Doc{
			"lockOwner": docstore.String("dead"), "lockToken": docstore.Int(1),
			"lockExpiresAt": docstore.String("2026-01-01T00:00:00.000Z"),
		}}); err != nil {
		t.Fatal(err)
	}
	worker := httptest.NewUnstartedServer(nil)
	words := "LEASEHOLD_TARGET_URL=" + target.URL +
		" LEASEHOLD_TARGET_AUDIENCE=https://worker.example LEASEHOLD_TASK_ISSUER=" + e.Issuer() +
		" LEASEHOLD_TASK_ACCOUNT=" + account + " LEASEHOLD_TASK_QUEUE=" + queue + " LEASEHOLD_TASK_URL=http://" +
		worker.Listener.Addr().String() + tasks.TaskPath
	log := slog.New(slog.DiscardHandler)
	open := func(context.Context, *settings.Config) (docstore.Store, error) { return store, nil }
	worker.Config.Handler = newFunction(settings.FunctionTasks, env(words), log, newTestLife(), open, taskEndpoint)
	worker.Start()
	defer worker.Close()

	sweep := newFunction(settings.FunctionSweep, env(words), log, newTestLife(), open, sweepEndpoint)
	audience := "http://" + worker.Listener.Addr().String() + tasks.TaskPath
	call := func(token string) *httptest.ResponseRecorder {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, tasks.SweepPath, nil)
		r.Header.Set("Authorization", "Bearer "+token)
		w := httptest.NewRecorder()
		sweep.ServeHTTP(w, r)
		return w
	}
	token, err := e.Token(account, audience)
	if err != nil {
		t.Fatal(err)
	}
	unsigned := token[:strings.LastIndex(token, ".")] + ".SIGNATURE_REMOVED_BY_GOOGLE"
	if w := call(unsigned); w.Code != http.StatusUnauthorized ||
		!strings.Contains(w.Body.String(), "LEASEHOLD_TASK_AUTH=platform") {
		t.Errorf("without a signature: %d %s", w.Code, w.Body)
	}
	if w := call(token); w.Code != http.StatusOK || !strings.Contains(w.Body.String(), `"requeued":1`) {
		t.Errorf("sweep: %d %s", w.Code, w.Body)
	}
	if err := e.Idle(t.Context()); err != nil {
		t.Fatal(err)
	}
	if a := e.Attempts(); len(a) != 1 || !strings.Contains(a[0].Response, `"outcome":"ready"`) {
		t.Errorf("%+v", a)
	}
	r, err := store.Get(t.Context(), docstore.Key{Kind: analysis.Kind, ID: "a1"})
	if d := r.Docs[0]; err != nil || d["status"] != docstore.String("READY") || d["result"] != docstore.String("r") ||
		d["lockToken"] != docstore.Int(2) {
		t.Errorf("%v, %v", d, err)
	}
}

// TestFunctionsNotSetUp: the functions respond, and say what is missing.
func TestFunctionsNotSetUp(t *testing.T) {
	for path, serve := range map[string]server{tasks.TaskPath: taskEndpoint, tasks.SweepPath: sweepEndpoint} {
		w := httptest.NewRecorder()
		f := newFunction(settings.FunctionTasks, env(""), slog.New(slog.DiscardHandler), newTestLife(), memory, serve)
		f.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodPost, path, nil))
		if w.Code != http.StatusNotImplemented || !strings.Contains(w.Body.String(), "NOT_CONFIGURED") {
			t.Errorf("%s: %d %s", path, w.Code, w.Body)
		}
	}
}
