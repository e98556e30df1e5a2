package tests

import (
	"bytes"
	"cmp"
	"errors"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/leasehold-dev/leasehold/adapters/awsdynamodb"
	"github.com/leasehold-dev/leasehold/emulator/dynamodbtest"
	"github.com/leasehold-dev/leasehold/emulator/firestoretest"
	"github.com/leasehold-dev/leasehold/internal/conns"
	"github.com/leasehold-dev/leasehold/proof/lambdatest"
	"github.com/leasehold-dev/leasehold/repo/analysis"
)

// What make lambda builds its two programs with: bootstrap, which Lambda starts, and queues, which takes its place as a
// worker, and as a sweep with a queue.
const (
	bootstrapTags = lambdaTags + ",leasehold.noqueues"
	lambdaTags    = "lambda.norpc,leasehold.noprofiles"
)

// deployed is the path of the program that Lambda starts, in a folder with both, as make lambda builds them.
func deployed(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for name, tags := range map[string]string{"bootstrap": bootstrapTags, "queues": lambdaTags} {
		program, err := os.ReadFile(build(t, "functions/aws/lambda", "-tags", tags))
		if err := cmp.Or(err, os.WriteFile(filepath.Join(dir, name), program, 0o700)); err != nil {
			t.Fatal(err)
		}
	}
	return filepath.Join(dir, "bootstrap")
}

// TestLambdaLinks: the programs for Lambda have nothing of what they leave out to start sooner: the loader of the
// shared configuration with the clients of three services that it brings, and net/rpc; and the one that Lambda starts
// no client of a queue. The adapter without the tag has the loader, which is how profiles work elsewhere.
func TestLambdaLinks(t *testing.T) {
	t.Parallel()
	const aws = "github.com/aws/aws-sdk-go-v2/"
	left := []string{aws + "config", aws + "service/sso", aws + "service/ssooidc", aws + "service/signin",
		aws + "feature/ec2/imds", "net/rpc"}
	queues := []string{module + "adapters/awssqs", aws + "service/sqs", aws + "service/sts"}
	linked := func(tags string) map[string]bool {
		all := map[string]bool{}
		for _, p := range goList(t, "-deps", "-json=ImportPath", "-tags", tags, module+"functions/aws/lambda") {
			all[p.ImportPath] = true
		}
		return all
	}
	program := linked(lambdaTags)
	for _, pkg := range left {
		if program[pkg] {
			t.Errorf("%s is linked", pkg)
		}
	}
	if !program[aws+"service/dynamodb"] {
		t.Error("the client of DynamoDB is not linked")
	}
	without := linked(bootstrapTags)
	for _, pkg := range queues {
		if without[pkg] || !program[pkg] {
			t.Errorf("%s is linked: %t, and %t without queues", pkg, program[pkg], without[pkg])
		}
	}
	if whole := linked("lambda.norpc"); !whole[aws+"config"] {
		t.Error("the loader is not linked without the tag either")
	}
}

// TestLambdaWithoutQueues: the program that Lambda starts, which has no client of a queue, does what needs none. As a
// worker, and as a sweep with a queue, it looks for the one that has one beside it (TestLambdaGate), and says so if
// there is none.
func TestLambdaWithoutQueues(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("Lambda is Linux")
	}
	bootstrap := build(t, "functions/aws/lambda", "-tags", bootstrapTags)
	db := dynamodbtest.Start(t, nil)
	openDynamo(t, dynamoClient(db.URL, http.DefaultTransport), "locks",
		awsdynamodb.Options{Due: []string{analysis.ExpiryField}}) // creates the table
	env := []string{"LEASEHOLD_TABLE=locks", "LEASEHOLD_ENDPOINT=" + db.URL}
	l := lambdatest.Start(t, bootstrap, "sweep", env...)
	if a := l.Invoke(t, lambdaFile(t, "schedule.json"), failAfter); a.Failed {
		t.Errorf("the sweep: %s", a.Body)
	}
	for handler, more := range map[string]string{
		"worker": "LEASEHOLD_TARGET_URL=https://worker.example", "sweep": "LEASEHOLD_QUEUE_URL=" + db.URL + "/1/q",
	} {
		l := lambdatest.Start(t, bootstrap, handler, append(env, more)...)
		select {
		case <-l.Ended():
		case <-time.After(failAfter):
			t.Fatal("the instance goes on")
		}
		missing := "start " + filepath.Join(filepath.Dir(bootstrap), "queues")
		if log := l.Log(); l.ExitCode() != 1 || !strings.Contains(log, missing) ||
			!strings.Contains(log, "make lambda builds") {
			t.Errorf("%s: exit code %d, %s", handler, l.ExitCode(), log)
		}
	}
}

// TestLambdaWithoutProfiles: the program for Lambda does not start with what only the SDK's loader would understand,
// and says which program does.
func TestLambdaWithoutProfiles(t *testing.T) {
	t.Parallel()
	bootstrap := build(t, "functions/aws/lambda", "-tags", lambdaTags)
	for _, c := range []struct {
		env  []string
		says string
	}{
		{[]string{"AWS_ACCESS_KEY_ID=AKIAFAKE", "AWS_SECRET_ACCESS_KEY=fake", "AWS_CONFIG_FILE=/x"},
			"does not understand AWS_CONFIG_FILE"},
		{[]string{"AWS_ACCESS_KEY_ID=AKIAFAKE", "AWS_SECRET_ACCESS_KEY=fake", "AWS_USE_FIPS_ENDPOINT=true"},
			"does not understand AWS_USE_FIPS_ENDPOINT"},
		{[]string{"AWS_PROFILE=default"}, "finds no credentials in AWS_ACCESS_KEY_ID"},
	} {
		p := exec.CommandContext(t.Context(), bootstrap)
		p.Env = slices.DeleteFunc(environment(), func(kv string) bool { return strings.HasPrefix(kv, "AWS_") })
		p.Env = append(p.Env, append(c.env, "_HANDLER=api", "AWS_LAMBDA_RUNTIME_API=127.0.0.1:1", "AWS_REGION=eu-north-1",
			"LEASEHOLD_TABLE=locks", "LEASEHOLD_FRONT_DOOR=url", "LEASEHOLD_AUTH_TENANT=acme")...)
		out, err := p.CombinedOutput()
		if exit, ok := errors.AsType[*exec.ExitError](err); !ok || exit.ExitCode() != 1 {
			t.Errorf("%v: %v", c.env, err)
		}
		if !bytes.Contains(out, []byte(c.says)) || !bytes.Contains(out, []byte("build it without the tag")) {
			t.Errorf("%v: %s, want %q", c.env, out, c.says)
		}
	}
}

// initialized is a line of GODEBUG=inittrace=1.
var initialized = regexp.MustCompile(`(?m)^init (\S+) @.* (\d+) bytes, (\d+) allocs$`)

// idle are packages with nothing to do before main, which a first read does not use: a variable that is computed there
// has 64 KiB of the program file mapped, and each of them is in a part of the file that nothing else wants.
var idle = []string{"cluster", "functions/direct", "functions/metrics", "functions/tasks", "functions/telemetry",
	"once", "repo/analysis", "repo/runs"}

// checkInits holds what the packages of this module do before main against bounds. What the SDKs do there is not ours
// to change. There is room for 18 kB of the runtime's own: its table of types behind interfaces is counted with the
// package during which it grows.
func checkInits(t *testing.T, log string, bytes, allocs int) {
	t.Helper()
	found := initialized.FindAllStringSubmatch(log, -1)
	all, ours := [2]int{}, [2]int{}
	for _, m := range found {
		for i, text := range m[2:] {
			n, err := strconv.Atoi(text)
			if err != nil {
				t.Fatal(err)
			}
			all[i] += n
			if strings.HasPrefix(m[1]+"/", module) {
				ours[i] += n
			}
		}
	}
	t.Logf("%d packages allocate %d bytes in %d pieces before main; those of this module %d in %d", len(found), all[0],
		all[1], ours[0], ours[1])
	if all[1] == 0 {
		t.Fatalf("no package says what it did:\n%s", log)
	}
	for _, pkg := range idle {
		if strings.Contains(log, "\ninit "+module+pkg+" @") {
			t.Errorf("package %s does something before main", pkg)
		}
	}
	if ours[0] > bytes || ours[1] > allocs {
		t.Errorf("this module's packages allocate %d bytes in %d pieces before main, more than %d in %d", ours[0],
			ours[1], bytes, allocs)
	}
}

// checkFirst holds the requests to a store until the first response to one of a kind. On a machine so busy that it took
// longer than a try may, it was sent once more for each such time.
func checkFirst(t *testing.T, got map[string]int, kind string, took time.Duration) {
	t.Helper()
	most := 1 + int(took/conns.TryTimeout)
	if len(got) != 1 || got[kind] < 1 || got[kind] > most {
		t.Errorf("requests until the first response, in %v: %v, want %d of %s at the most", took, got, most, kind)
	}
}

// TestLambdaColdStart: the first response of an instance is one request to the table, nothing of the control plane, and
// little is made before it.
func TestLambdaColdStart(t *testing.T) {
	t.Parallel()
	db := dynamodbtest.Start(t, nil)
	openDynamo(t, dynamoClient(db.URL, http.DefaultTransport), "locks", awsdynamodb.Options{}) // creates the table
	db.ResetCounts()
	l := lambdatest.Start(t, build(t, "functions/aws/lambda", "-tags", bootstrapTags), "api",
		"LEASEHOLD_TABLE=locks", "LEASEHOLD_ENDPOINT="+db.URL, "LEASEHOLD_FRONT_DOOR=url", "LEASEHOLD_AUTH_TENANT=acme",
		"GODEBUG=inittrace=1")
	begin := time.Now()
	if status, body := respond(t, l, lambdaFile(t, "url_iam.json")); status != http.StatusNotFound {
		t.Fatalf("%d %s", status, body)
	}
	checkFirst(t, db.Requests(), "GetItem", time.Since(begin))
	l.Kill()
	checkInits(t, l.Log(), 32<<10, 130)
}

// TestFunctionColdStart: little is made by this module before a Cloud Function's main, the first response is one
// request to the database, and the garbage collector does not run until then.
func TestFunctionColdStart(t *testing.T) {
	t.Parallel()
	emulator := firestoretest.Start(t, nil)
	f := startFunction(t, build(t, "functions/gcp/local"), "API", "GOOGLE_CLOUD_PROJECT=demo",
		"FIRESTORE_EMULATOR_HOST="+emulator.Addr(),
		"LEASEHOLD_DEVELOPMENT=1", "GODEBUG=inittrace=1,gctrace=1")
	begin := time.Now()
	if status, body := call(t, http.MethodGet, f.url+"/v1/tenants/acme/locks/deploy", "",
		""); status != http.StatusNotFound {
		t.Fatalf("%d %s", status, body)
	}
	checkFirst(t, emulator.Counts(), "BatchGetDocuments", time.Since(begin))
	for range 8 { // a collection says that it was when it has ended
		call(t, http.MethodGet, f.url+"/v1/tenants/acme/locks/deploy", "", "")
	}
	f.stop()
	log := f.stderr.String()
	f.stderr.Reset() // not all of it is JSON
	checkInits(t, log, 32<<10, 140)
	if at := strings.Index(log, "\ngc "); at >= 0 {
		t.Errorf("the garbage collector ran:\n%.300s", log[at:])
	}
}
