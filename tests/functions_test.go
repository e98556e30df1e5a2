package tests

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/leasehold-dev/leasehold/adapters/gcpfirestore"
	"github.com/leasehold-dev/leasehold/client"
	"github.com/leasehold-dev/leasehold/contracts"
	"github.com/leasehold-dev/leasehold/emulator/firestoretest"
	"github.com/leasehold-dev/leasehold/functions/tasks"
	"github.com/leasehold-dev/leasehold/repo/analysis"
	"github.com/leasehold-dev/leasehold/repo/docstore"
)

// function is a Cloud Function in a process of its own, as the framework runs it.
type function struct {
	url    string
	stderr bytes.Buffer
	stop   func() // ends the process; stderr may be read then
	cmd    *exec.Cmd
	ended  chan struct{} // closed when the process has ended
}

// startFunction runs a target until the test ends, and waits until it listens.
func startFunction(t *testing.T, path, target string, env ...string) *function {
	t.Helper()
	port := strconv.Itoa(freePort(t)) // the framework does not say which one it chose
	address := "127.0.0.1:" + port
	c := exec.Command(path)
	f := &function{url: "http://" + address, cmd: c, ended: make(chan struct{})}
	c.Env = append(environment(), append(env, "FUNCTION_TARGET="+target, "PORT="+port)...)
	c.Stderr = &f.stderr
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(f.ended)
		_ = c.Wait()
	}()
	f.stop = func() {
		_ = c.Process.Kill()
		<-f.ended
	}
	t.Cleanup(func() {
		f.stop()
		if f.stderr.Len() > 0 {
			checkLog(t, f.stderr.String())
		}
	})
	for deadline := time.Now().Add(failAfter); ; {
		conn, err := net.Dial("tcp", address)
		if err == nil {
			conn.Close()
			return f
		}
		select {
		case <-f.ended:
			t.Fatalf("the function ended\n%s", f.stderr.Bytes())
		case <-time.After(10 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			t.Fatalf("the function does not listen: %v", err)
		}
	}
}

// call sends one request and returns the response's status and body.
func call(t *testing.T, method, url, token, body string) (int, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(unhurried(t), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	w, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Body.Close()
	b, err := io.ReadAll(w.Body)
	if err != nil {
		t.Fatal(err)
	}
	return w.StatusCode, string(b)
}

// acquires sends one acquire, however long the machine takes for it: a client sends it again after two seconds, and then
// the lease may be that of an earlier try.
func acquires(t *testing.T, url, body string) (l contracts.Lease, err error) {
	t.Helper()
	status, said := call(t, http.MethodPost, url, "", body)
	if status != http.StatusOK {
		return l, fmt.Errorf("%d %s", status, said)
	}
	return l, json.Unmarshal([]byte(said), &l)
}

// TestCloudFunctions runs the functions of the root package over Firestore's emulator.
func TestCloudFunctions(t *testing.T) {
	t.Parallel()
	emulator := firestoretest.Start(t, nil)
	watchQueries(t, emulator)
	binary := build(t, "functions/gcp/local")
	env := []string{"GOOGLE_CLOUD_PROJECT=demo", "FIRESTORE_EMULATOR_HOST=" + emulator.Addr()}

	t.Run("API", func(t *testing.T) {
		f := startFunction(t, binary, "API", append(env, "LEASEHOLD_DEVELOPMENT=1")...)
		c, err := client.New(f.url, nil)
		if err != nil {
			t.Fatal(err)
		}
		acquire := func(owner, request string) (client.Lease, error) {
			return c.LockAPI().Acquire(unhurried(t), "acme", "deploy/prod",
				contracts.AcquireRequest{RequestID: request, OwnerID: owner, TTLSeconds: 3600})
		}
		first, err := acquires(t, f.url+"/v1/tenants/acme/locks/deploy%2Fprod/acquire",
			`{"request_id":"r1","owner_id":"ann","ttl_seconds":3600}`)
		if err != nil || first.FencingToken == 0 || first.Replayed {
			t.Fatalf("%+v, %v\n%s", first, err, f.stderr.Bytes())
		}
		if again, err := acquire("ann", "r1"); err != nil || !again.Replayed || again.LeaseID != first.LeaseID {
			t.Errorf("again: %+v, %v", again, err)
		}
		if _, err := acquire("bob", "r2"); !errors.Is(err, contracts.CodeLockHeld) {
			t.Errorf("another owner: %v", err)
		}
		if status, body := call(t, http.MethodGet, f.url+"/readyz", "", ""); status != http.StatusOK {
			t.Errorf("readyz: %d %s", status, body)
		}
	})

	t.Run("with an issuer", func(t *testing.T) {
		i := newIssuer(t)
		f := startFunction(t, binary, "API", append(env, "LEASEHOLD_AUTH_ISSUER="+i.URL, "LEASEHOLD_AUTH_AUDIENCE=leasehold",
			"LEASEHOLD_AUTH_TENANT=acme", "LEASEHOLD_AUTH_SUBJECTS=1057", "LEASEHOLD_ROOT=leasehold/issuer")...)
		url := f.url + "/v1/tenants/acme/locks/k/acquire"
		const body = `{"request_id":"r1","ttl_seconds":30}`
		google := map[string]any{"sub": "1057", "tenant_id": nil, "email": "svc@demo.iam.gserviceaccount.com"}
		token := i.token(t, google)
		unsigned := token[:strings.LastIndexByte(token, '.')]
		for _, c := range []struct {
			name, token string
			status      int
			says        string
		}{
			{"no token", "", 401, "UNAUTHENTICATED"},
			{"subject of another tenant", i.token(t, map[string]any{"sub": "1058"}), 401, "not in LEASEHOLD_AUTH_SUBJECTS"},
			{"signature taken off", unsigned + ".SIGNATURE_REMOVED_BY_GOOGLE", 401, "X-Serverless-Authorization"},
			{"good", token, 200, `"owner_id":"1057"`},
		} {
			if status, got := call(t, http.MethodPost, url, c.token, body); status != c.status ||
				!strings.Contains(got, c.says) {
				t.Errorf("%s: %d %s, want %d with %s", c.name, status, got, c.status, c.says)
			}
		}
		f.stop()
		if strings.Contains(f.stderr.String(), unsigned) {
			t.Error("the log has the token")
		}
	})

	t.Run("without an issuer", func(t *testing.T) {
		f := startFunction(t, binary, "API", env...)
		if status, body := call(t, http.MethodGet, f.url+"/healthz", "", ""); status != http.StatusOK {
			t.Errorf("healthz: %d %s", status, body)
		}
		if status, body := call(t, http.MethodGet, f.url+"/v1/tenants/acme/locks", "",
			""); status != http.StatusUnauthorized {
			t.Errorf("locks: %d %s", status, body)
		}
	})

	for target, path := range map[string]string{"Tasks": "/internal/tasks/analysis", "Sweep": "/internal/sweep"} {
		t.Run(target, func(t *testing.T) {
			f := startFunction(t, binary, target, env...)
			if status, body := call(t, http.MethodPost, f.url+path, "", "{}"); status != http.StatusNotImplemented ||
				!strings.Contains(body, `"code":"NOT_CONFIGURED"`) {
				t.Errorf("not set up: %d %s", status, body)
			}
			f.stop()
			f = startFunction(t, binary, target, append(env, "LEASEHOLD_TARGET_URL=http://127.0.0.1:1",
				"LEASEHOLD_TASK_ACCOUNT=queue@demo.iam.gserviceaccount.com",
				"LEASEHOLD_TASK_QUEUE=projects/p/locations/l/queues/q",
				"LEASEHOLD_TASK_URL=https://x.run.app/internal/tasks/analysis", "CLOUD_TASKS_EMULATOR_HOST=127.0.0.1:1")...)
			if status, body := call(t, http.MethodPost, f.url+path, "", "{}"); status != http.StatusUnauthorized {
				t.Errorf("without a token: %d %s", status, body)
			}
			if status, body := call(t, http.MethodGet, f.url+"/v1/tenants/acme/locks", "", ""); status != http.StatusNotFound {
				t.Errorf("the API is there too: %d %s", status, body)
			}
		})
	}
}

// TestFunctionStops: on SIGTERM, the function Tasks cancels the run that is under way and releases its lock, and sends
// its response before the process ends: the next delivery runs the analysis at once.
func TestFunctionStops(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("there is no SIGTERM on Windows")
	}
	began := make(chan struct{})
	target := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // the server sees that the caller hangs up once the body is read
		close(began)
		<-r.Context().Done()
	}))
	defer target.Close()
	documents := firestoretest.Start(t, nil)
	watchQueries(t, documents)
	store, err := gcpfirestore.Open(unhurried(t), &gcpfirestore.Options{Project: "demo",
		ClientOptions: documents.ClientOptions()})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	key := docstore.Key{Kind: analysis.Kind, ID: "hangs"}
	if _, err := store.Write(unhurried(t),
		docstore.Write{Key: key, Set: docstore.Doc{"title": docstore.String("x")}}); err != nil {
		t.Fatal(err)
	}
	locked := func() bool {
		t.Helper()
		r, err := store.Get(unhurried(t), key)
		if err != nil {
			t.Fatal(err)
		}
		return r.Docs[0]["lockOwner"] != nil
	}
	f := startFunction(t, build(t, "functions/gcp/local"), "Tasks", "GOOGLE_CLOUD_PROJECT=demo",
		"FIRESTORE_EMULATOR_HOST="+documents.Addr(),
		"LEASEHOLD_DEVELOPMENT=1", "LEASEHOLD_TARGET_URL="+target.URL)

	type response struct {
		status int
		body   string
		err    error
	}
	delivered := make(chan response, 1)
	go func() {
		w, err := http.Post(f.url+tasks.TaskPath, "application/json", strings.NewReader(`{"analysisId":"hangs"}`))
		if err != nil {
			delivered <- response{err: err}
			return
		}
		defer w.Body.Close()
		body, err := io.ReadAll(w.Body)
		delivered <- response{w.StatusCode, string(body), err}
	}()
	<-began
	if !locked() {
		t.Error("no worker holds the lock of the run")
	}
	if err := f.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if r := <-delivered; r.err != nil || r.status != http.StatusConflict ||
		!strings.Contains(r.body, `"code":"RUN_INTERRUPTED"`) {
		t.Errorf("the queue receives %d %s, %v", r.status, r.body, r.err)
	}
	select {
	case <-f.ended:
	case <-time.After(failAfter):
		t.Fatal("the function goes on")
	}
	if code := f.cmd.ProcessState.ExitCode(); code != 0 || !strings.Contains(f.stderr.String(), `"message":"stopped"`) {
		t.Errorf("exit code %d\n%s", code, f.stderr.Bytes())
	}
	if locked() {
		t.Error("the lock is still held")
	}
}

// TestUpload: what is left of the module after .gcloudignore is what the functions link, with all files of it. The
// builder runs `go mod tidy` on it and fetches the modules of every package that is there.
func TestUpload(t *testing.T) {
	t.Parallel()
	git := func(stdin []byte, args ...string) []byte {
		c := exec.CommandContext(unhurried(t), "git", args...)
		c.Dir, c.Stdin = "..", bytes.NewReader(stdin)
		out, err := c.Output()
		if exit, ok := errors.AsType[*exec.ExitError](err); ok && (exit.ExitCode() != 1 || len(exit.Stderr) > 0) {
			t.Skipf("git %v: %v: %s", args, err, exit.Stderr) // the sources are not in a git repository
		} else if err != nil && !ok {
			t.Skipf("git lists the files of the upload, and is not installed: %v", err)
		}
		return out
	}
	files := git(nil, "ls-files", "--cached", "--others", "--exclude-standard")
	ignoredBy := func(path string) map[string]bool {
		ignored := map[string]bool{}
		for line := range strings.Lines(
			string(git(files, "-c", "core.excludesFile="+path, "check-ignore", "--no-index", "--stdin"))) {
			ignored[strings.TrimSpace(line)] = true
		}
		return ignored
	}
	ignored := ignoredBy(".gcloudignore")
	if !ignored["tests/functions_test.go"] || ignored["go.mod"] || ignored["function.go"] {
		t.Fatalf(".gcloudignore: %d files left out", len(ignored))
	}
	upload := t.TempDir()
	for line := range strings.Lines(string(files)) {
		if name := strings.TrimSpace(line); !ignored[name] {
			copyFile(t, filepath.Join("..", name), filepath.Join(upload, name))
		}
	}
	runIn := func(dir string, args ...string) []string {
		t.Helper()
		c := exec.CommandContext(unhurried(t), "go", args...)
		c.Dir = dir
		out, err := c.Output()
		if exit, ok := errors.AsType[*exec.ExitError](err); ok {
			t.Fatalf("go %v: %v\n%s", args, err, exit.Stderr)
		} else if err != nil {
			t.Fatal(err)
		}
		return strings.Fields(string(out))
	}
	run := func(args ...string) []string {
		t.Helper()
		return runIn(upload, args...)
	}
	// With the same files they build as they do here, where that costs little: most is there already.
	builds := func(tags string) {
		t.Helper()
		runIn("..", "build", "-tags", tags, ".")
		list := []string{"list", "-tags", tags, "-deps", "-f",
			"{{with .Module}}{{if .Main}}{{$.ImportPath}} {{$.GoFiles}} {{$.EmbedFiles}}{{end}}{{end}}", "."}
		if here, there := runIn("..", list...), run(list...); !slices.Equal(here, there) {
			t.Errorf("with the tags %q the functions are built of %v, and of these are uploaded %v", tags, here, there)
		}
	}
	builds("")
	linked := run("list", "-deps", ".")
	for _, pkg := range run("list", "./...") {
		if !slices.Contains(linked, pkg) {
			t.Errorf("%s is uploaded, and no function needs it: leave it out in .gcloudignore", pkg)
		}
	}
	run("mod", "tidy")
	all := run("list", "-deps", "-f", "{{with .Module}}{{if not .Main}}{{.Path}}{{end}}{{end}}", ".")
	slices.Sort(all)
	all = slices.Compact(all)
	direct := run("list", "-m", "-f", "{{if not (or .Main .Indirect)}}{{.Path}}{{end}}", "all")
	t.Logf("%d modules are linked: %v", len(all), all)
	want := []string{
		"cloud.google.com/go/cloudtasks", "cloud.google.com/go/compute/metadata", "cloud.google.com/go/firestore",
		"github.com/GoogleCloudPlatform/functions-framework-go",
		"github.com/cespare/xxhash/v2", "github.com/coreos/go-oidc/v3", "github.com/go-jose/go-jose/v4",
		"github.com/go-json-experiment/json",
		"github.com/googleapis/gax-go/v2", "go.opentelemetry.io/otel", "go.opentelemetry.io/otel/metric",
		"go.opentelemetry.io/otel/trace", "golang.org/x/time", "google.golang.org/api",
		"google.golang.org/grpc", "google.golang.org/protobuf",
	}
	if slices.Sort(direct); !slices.Equal(direct, want) {
		t.Errorf("the functions name the modules %v, want %v", direct, want)
	}

	// With the line for OTLP exchanged, as the documentation says, it builds with the tag.
	rules, err := os.ReadFile(filepath.Join("..", ".gcloudignore"))
	if err != nil {
		t.Fatal(err)
	}
	exchanged := filepath.Join(t.TempDir(), "ignore")
	if err := os.WriteFile(exchanged, []byte(strings.Replace(string(rules), "/functions/gcp/otlp.go\n#!", "!", 1)),
		0o600); err != nil {
		t.Fatal(err)
	}
	upload, ignored = t.TempDir(), ignoredBy(exchanged)
	for line := range strings.Lines(string(files)) {
		if name := strings.TrimSpace(line); !ignored[name] {
			copyFile(t, filepath.Join("..", name), filepath.Join(upload, name))
		}
	}
	builds("leasehold.otlp")
	if sends := run("list", "-tags", "leasehold.otlp", "-deps", "."); !slices.Contains(sends,
		"go.opentelemetry.io/otel/sdk/metric") {
		t.Error("the tag links no SDK")
	}
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	b, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(to, b, 0o600); err != nil {
		t.Fatal(err)
	}
}
