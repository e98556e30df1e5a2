package gcp

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/leasehold-dev/leasehold/emulator/cloudtaskstest"
	"github.com/leasehold-dev/leasehold/functions/tasks"
	"github.com/leasehold-dev/leasehold/repo/analysis"
	"github.com/leasehold-dev/leasehold/repo/docstore"
)

func TestTaskSettings(t *testing.T) {
	got, err := settingsFrom(env("LEASEHOLD_TARGET_URL=u LEASEHOLD_TARGET_TOKEN=t LEASEHOLD_TARGET_TOKEN_FILE=tf LEASEHOLD_TARGET_AUDIENCE=ta LEASEHOLD_TTL=1m LEASEHOLD_HEARTBEAT=10s " +
		"LEASEHOLD_MAX_FAILURES=7 LEASEHOLD_ON_LOCKED=ack LEASEHOLD_TASK_TIMEOUT=20m LEASEHOLD_TASK_AUTH=token LEASEHOLD_TASK_ISSUER=i " +
		"LEASEHOLD_TASK_AUDIENCE=a LEASEHOLD_TASK_ACCOUNT=q LEASEHOLD_SWEEP_ACCOUNT=s LEASEHOLD_TASK_QUEUE=tq LEASEHOLD_TASK_URL=tu " +
		"LEASEHOLD_MAX_TAKEOVERS=3 LEASEHOLD_REQUEUE_EVERY=30m LEASEHOLD_SWEEP_GRACE=90s"))
	want := TaskSettings{
		TargetURL: "u", TargetToken: "t", TargetTokenFile: "tf", TargetAudience: "ta", TTL: time.Minute, Heartbeat: 10 * time.Second, MaxFailures: 7, OnLocked: "ack",
		TaskTimeout: 20 * time.Minute, TaskAuth: "token", TaskIssuer: "i", TaskAudience: "a", TaskAccount: "q", SweepAccount: "s",
		TaskQueue: "tq", TaskURL: "tu", MaxTakeovers: 3, RequeueEvery: 30 * time.Minute, SweepGrace: 90 * time.Second,
	}
	if err != nil || got.tasks != want {
		t.Errorf("got  %+v, %v\nwant %+v", got.tasks, err, want)
	}
	for words, says := range map[string]string{
		"LEASEHOLD_TTL=soon":          `LEASEHOLD_TTL is "soon"`,
		"LEASEHOLD_TASK_TIMEOUT=-1s":  `LEASEHOLD_TASK_TIMEOUT is "-1s"`,
		"LEASEHOLD_MAX_FAILURES=many": `LEASEHOLD_MAX_FAILURES is "many"`,
		"LEASEHOLD_MAX_TAKEOVERS=0":   `LEASEHOLD_MAX_TAKEOVERS is "0"`,
	} {
		if _, err := settingsFrom(env(words)); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, want %q", words, err, says)
		}
	}
}

// TestRefusedDoors: settings with which a door cannot work, or would let in whom nobody meant.
func TestRefusedDoors(t *testing.T) {
	const (
		target = "LEASEHOLD_TARGET_URL=https://worker.example/run "
		token  = target + "LEASEHOLD_TASK_ACCOUNT=q@p.iam.gserviceaccount.com LEASEHOLD_TASK_AUDIENCE=https://x.run.app "
		queue  = "LEASEHOLD_TASK_QUEUE=projects/p/locations/l/queues/q CLOUD_TASKS_EMULATOR_HOST=127.0.0.1:1 "
	)
	t.Setenv("CLOUD_TASKS_EMULATOR_HOST", "127.0.0.1:1") // nothing is sent, and no credentials are looked for
	for _, c := range []struct{ env, task, sweep string }{
		{"", "", ""}, // NOT_CONFIGURED, which is no error
		{token, "", ""},
		{target + "LEASEHOLD_TASK_AUTH=platform", "", ""},
		{target, "LEASEHOLD_TASK_ACCOUNT is required", ""},
		{target + "LEASEHOLD_TASK_ACCOUNT=q@p", "LEASEHOLD_TASK_AUDIENCE is required", ""},
		{target + "LEASEHOLD_TASK_AUTH=trust", `LEASEHOLD_TASK_AUTH is "trust"`, ""},
		{token + "LEASEHOLD_TASK_AUTH=platform", "leaves it to the platform", ""},
		{token + "LEASEHOLD_TASK_ISSUER=http://issuer.example", "must begin with https://", ""},
		{token + "LEASEHOLD_ON_LOCKED=maybe", `LEASEHOLD_ON_LOCKED is "maybe"`, ""},
		{token + "LEASEHOLD_TTL=1500ms", "TTL is 1.5s", ""},
		{token + "LEASEHOLD_TASK_TIMEOUT=1h", "Timeout is 1h0m0s", ""},
		{token + "LEASEHOLD_TARGET_TOKEN=t LEASEHOLD_TARGET_AUDIENCE=a", "set one of them", ""},
		{"LEASEHOLD_TARGET_URL=http://worker.example", "LEASEHOLD_TARGET_URL: target", ""},
		{queue, "", "needs LEASEHOLD_TASK_URL"},
		{queue + "LEASEHOLD_TASK_URL=https://x.run.app/internal/tasks/analysis", "", "LEASEHOLD_TASK_ACCOUNT is required"},
		{queue + "LEASEHOLD_TASK_URL=https://x.run.app/t LEASEHOLD_TASK_ACCOUNT=q@p", "", ""},
		{queue + "LEASEHOLD_TASK_URL=https://x.run.app/t LEASEHOLD_TASK_AUTH=platform", "", "Account is required"},
		{queue + "LEASEHOLD_TASK_URL=https://x.run.app/t LEASEHOLD_TASK_AUTH=platform LEASEHOLD_TASK_ACCOUNT=q@p", "", ""},
		{queue + "LEASEHOLD_TASK_URL=x LEASEHOLD_TASK_ACCOUNT=q@p", "", "LEASEHOLD_TASK_URL"},
		{"LEASEHOLD_TASK_QUEUE=q LEASEHOLD_TASK_URL=https://x.run.app/t LEASEHOLD_TASK_ACCOUNT=q@p", "", "full name"},
	} {
		s, err := settingsFrom(env(c.env))
		if err != nil {
			t.Fatal(err)
		}
		store := docstore.NewMemory(nil)
		if _, err := s.doors().TaskDoor(t.Context(), store, slog.New(slog.DiscardHandler)); !says(err, c.task) {
			t.Errorf("%s\ntasks: %v, want %q", c.env, err, c.task)
		}
		_, done, err := s.doors().SweepDoor(t.Context(), store, slog.New(slog.DiscardHandler))
		if !says(err, c.sweep) {
			t.Errorf("%s\nsweep: %v, want %q", c.env, err, c.sweep)
		}
		if err := done(); err != nil {
			t.Error(err)
		}
	}
}

// says reports whether an error contains a text, or is nil if that is empty.
func says(err error, text string) bool {
	if text == "" {
		return err == nil
	}
	return err != nil && strings.Contains(err.Error(), text)
}

// TestFunctions: a task walks through the function Tasks to a target that wants an ID token, and the function Sweep queues
// what its worker left behind.
func TestFunctions(t *testing.T) {
	identity := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Metadata-Flavor") != "Google" || r.URL.Path != "/computeMetadata/v1/instance/service-accounts/default/identity" {
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
	if _, err := store.Write(t.Context(), docstore.Write{Key: docstore.Key{Kind: analysis.Kind, ID: "a1"}, Set: docstore.Doc{
		"lockOwner": docstore.String("dead"), "lockToken": docstore.Int(1), "lockExpiresAt": docstore.String("2026-01-01T00:00:00.000Z"),
	}}); err != nil {
		t.Fatal(err)
	}
	worker := httptest.NewUnstartedServer(nil)
	words := "LEASEHOLD_TARGET_URL=" + target.URL + " LEASEHOLD_TARGET_AUDIENCE=https://worker.example LEASEHOLD_TASK_ISSUER=" + e.Issuer() +
		" LEASEHOLD_TASK_ACCOUNT=" + account + " LEASEHOLD_TASK_QUEUE=" + queue + " LEASEHOLD_TASK_URL=http://" + worker.Listener.Addr().String() + tasks.TaskPath
	log := slog.New(slog.DiscardHandler)
	open := func(context.Context, settings) (docstore.Store, error) { return store, nil }
	worker.Config.Handler = newFunction(env(words), log, open, taskDoor)
	worker.Start()
	defer worker.Close()

	sweep := newFunction(env(words), log, open, sweepDoor)
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
	if w := call(unsigned); w.Code != http.StatusUnauthorized || !strings.Contains(w.Body.String(), "LEASEHOLD_TASK_AUTH=platform") {
		t.Errorf("without a signature: %d %s", w.Code, w.Body)
	}
	if w := call(token); w.Code != http.StatusOK || !strings.Contains(w.Body.String(), `"requeued":1`) {
		t.Errorf("sweep: %d %s", w.Code, w.Body)
	}
	if err := e.Idle(t.Context()); err != nil {
		t.Fatal(err)
	}
	if a := e.Attempts(); len(a) != 1 || !strings.Contains(a[0].Answer, `"outcome":"ready"`) {
		t.Errorf("%+v", a)
	}
	r, err := store.Get(t.Context(), docstore.Key{Kind: analysis.Kind, ID: "a1"})
	if d := r.Docs[0]; err != nil || d["status"] != docstore.String("READY") || d["result"] != docstore.String("r") || d["lockToken"] != docstore.Int(2) {
		t.Errorf("%v, %v", d, err)
	}
}

// TestFunctionsNotSetUp: the functions answer, and say what is missing.
func TestFunctionsNotSetUp(t *testing.T) {
	for path, serve := range map[string]server{tasks.TaskPath: taskDoor, tasks.SweepPath: sweepDoor} {
		w := httptest.NewRecorder()
		f := newFunction(env(""), slog.New(slog.DiscardHandler), memory, serve)
		f.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodPost, path, nil))
		if w.Code != http.StatusNotImplemented || !strings.Contains(w.Body.String(), "NOT_CONFIGURED") {
			t.Errorf("%s: %d %s", path, w.Code, w.Body)
		}
	}
}
