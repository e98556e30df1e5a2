package tests

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/aws/aws-lambda-go/events"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	sdk "github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/leasehold-dev/leasehold/adapters/awsdynamodb"
	"github.com/leasehold-dev/leasehold/adapters/sqlitestore"
	"github.com/leasehold-dev/leasehold/emulator/dynamodbtest"
	"github.com/leasehold-dev/leasehold/emulator/sqstest"
	"github.com/leasehold-dev/leasehold/emulator/sqstest/moto"
	"github.com/leasehold-dev/leasehold/proof/lambdatest"
	"github.com/leasehold-dev/leasehold/repo/analysis"
	"github.com/leasehold-dev/leasehold/repo/docstore"
)

// gate is a queue, a store in a file and a target, for workers in processes of their own.
type gate struct {
	t      *testing.T
	dir    string
	store  docstore.Store
	client *sdk.Client
	queue  string // its URL
	target *httptest.Server

	mu   sync.Mutex
	runs []string      // "analysis#token" in the order of their begin
	ran  chan struct{} // a run has begun
}

// newGate has the analyses a, b and c. respond is the target's handler.
func newGate(t *testing.T, endpoint string, respond http.HandlerFunc) *gate {
	t.Helper()
	g := &gate{t: t, dir: t.TempDir(), ran: make(chan struct{}, 100)}
	store, err := sqlitestore.Open(t.Context(), filepath.Join(g.dir, "leasehold.db"), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	g.store = store
	for _, id := range []string{"a", "b", "c"} {
		// counted up: short numbers are easier to read
		g.put(id, docstore.Doc{"title": docstore.String(id), "lockToken": docstore.Int(0)})
	}
	g.client = sqsClient(endpoint)
	g.queue = createQueue(t, g.client, "tasks", nil)
	g.target = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var run struct {
			AnalysisID string `json:"analysis_id"`
			LockToken  int64  `json:"fencing_token"`
		}
		if err := json.NewDecoder(r.Body).Decode(&run); err != nil {
			t.Error(err)
		}
		g.mu.Lock()
		g.runs = append(g.runs, fmt.Sprintf("%s#%d", run.AnalysisID, run.LockToken))
		g.mu.Unlock()
		g.ran <- struct{}{}
		respond(w, r)
	}))
	t.Cleanup(g.target.Close)
	return g
}

func sqsClient(endpoint string) *sdk.Client {
	return sdk.New(sdk.Options{
		Region: "us-east-1", Credentials: credentials.NewStaticCredentialsProvider("key", "secret", ""),
		BaseEndpoint: aws.String(endpoint),
	})
}

func createQueue(t *testing.T, c *sdk.Client, name string, attributes map[string]string) string {
	t.Helper()
	out, err := c.CreateQueue(t.Context(), &sdk.CreateQueueInput{QueueName: aws.String(name), Attributes: attributes})
	if err != nil {
		t.Fatal(err)
	}
	return aws.ToString(out.QueueUrl)
}

func (g *gate) put(id string, fields docstore.Doc) {
	g.t.Helper()
	if _, err := g.store.Write(g.t.Context(), docstore.Write{Key: docstore.Key{Kind: analysis.Kind, ID: id},
		Set: fields}); err != nil {
		g.t.Fatal(err)
	}
}

func (g *gate) send(bodies ...string) {
	g.t.Helper()
	for _, b := range bodies {
		if _, err := g.client.SendMessage(g.t.Context(), &sdk.SendMessageInput{QueueUrl: aws.String(g.queue),
			MessageBody: aws.String(b)}); err != nil {
			g.t.Fatal(err)
		}
	}
}

// received are the bodies that a queue has to give at once.
func (g *gate) received(url string) string {
	g.t.Helper()
	out, err := g.client.ReceiveMessage(g.t.Context(), &sdk.ReceiveMessageInput{QueueUrl: aws.String(url),
		MaxNumberOfMessages: 10})
	if err != nil {
		g.t.Fatal(err)
	}
	var all []string
	for _, m := range out.Messages {
		all = append(all, aws.ToString(m.Body))
	}
	return strings.Join(all, " ")
}

// hidden is how many messages the queue has that are invisible for now.
func (g *gate) hidden() string {
	g.t.Helper()
	const name = types.QueueAttributeNameApproximateNumberOfMessagesNotVisible
	out, err := g.client.GetQueueAttributes(g.t.Context(), &sdk.GetQueueAttributesInput{
		QueueUrl: aws.String(g.queue), AttributeNames: []types.QueueAttributeName{name},
	})
	if err != nil {
		g.t.Fatal(err)
	}
	return out.Attributes[string(name)]
}

// want compares the runs and an analysis: its status, or who has its lock.
func (g *gate) want(id, state string, runs ...string) {
	g.t.Helper()
	s, _, err := analysis.New(g.store, nil).Get(g.t.Context(), analysis.ID(id))
	if err != nil {
		g.t.Fatal(err)
	}
	got := string(s.Status)
	if s.Owner != "" {
		got = "locked"
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if got != state || strings.Join(g.runs, " ") != strings.Join(runs, " ") {
		g.t.Errorf("%s is %q after the runs %v, want %q after %v", id, got, g.runs, state, runs)
	}
}

// failures is how often the work of an analysis has failed.
func (g *gate) failures(id string) int64 {
	g.t.Helper()
	snapshot, err := g.store.Get(g.t.Context(), docstore.Key{Kind: analysis.Kind, ID: id})
	if err != nil {
		g.t.Fatal(err)
	}
	n, _ := snapshot.Docs[0]["lockFailures"].(docstore.Int)
	return int64(n)
}

// args are the command line of a worker.
func (g *gate) args(more ...string) []string {
	return append([]string{"worker", "--queue-url", g.queue, "--target-url", g.target.URL, "--data", g.dir,
		"--log", "json"}, more...)
}

// region is what moto_server wants to know; the queue's URL does not say it.
var region = []string{"AWS_REGION=us-east-1"}

func ready(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }

// TestWorker takes messages of a queue on both servers: each has the outcome of the table. Those that are done leave
// the queue; what has no analysis yet runs as soon as there is one; what names none stays for the dead-letter queue.
func TestWorker(t *testing.T) {
	t.Parallel()
	for name, start := range map[string]func(t *testing.T) string{
		"emulator": func(t *testing.T) string { return sqstest.Start(t, nil).URL },
		"moto":     func(t *testing.T) string { return moto.Start(t) },
	} {
		t.Run(name, func(t *testing.T) {
			g := newGate(t, start(t), ready)
			g.put("b", docstore.Doc{"status": docstore.String("FAILED")})
			// worker runs until the queue is empty or one message was delivered. A grace of 20 s retries after 2 s.
			worker := func(until string, code int, outcomes ...string) {
				t.Helper()
				env := append([]string{"LEASEHOLD_TASK_GRACE=20s"}, region...)
				got, stdout, stderr := run(t, env, g.args(until, "--concurrency", "1")...)
				log, _, _ := strings.Cut(stderr, "leasehold: ") // the error of the command follows
				checkLog(t, log)
				if got != code || stdout != "" {
					t.Errorf("%d %q\n%s", got, stdout, stderr)
				}
				if ran := slices.Contains(outcomes, "ready"); ran != strings.Contains(stderr, `"result":"ready"`) {
					t.Errorf("of a run there is an audit event: %v\n%s", outcomes, stderr)
				}
				if n := strings.Count(stderr, `"msg":"delivery"`); n != len(outcomes) {
					t.Errorf("%d deliveries, want %v:\n%s", n, outcomes, stderr)
				}
				for _, outcome := range outcomes {
					if !strings.Contains(stderr, `"outcome":"`+outcome+`"`) {
						t.Errorf("no message had the outcome %s:\n%s", outcome, stderr)
					}
				}
			}
			g.send(`{"analysisId":"a"}`, `{"analysisId":"b"}`, `{"analysisId":"a"}`)
			worker("--drain", 0, "ready", "already_failed", "already_finished")
			g.want("a", "READY", "a#1")
			if got := g.hidden(); got != "0" {
				t.Errorf("the queue still hides %s messages", got)
			}
			g.send("not JSON")
			worker("--once", 1, "malformed")
			g.send(`{"analysisId":"late"}`)
			worker("--once", 1, "unknown_analysis")
			if got := g.hidden(); got != "2" {
				t.Errorf("the queue hides %s messages, want 2", got)
			}
			g.put("late", docstore.Doc{"lockToken": docstore.Int(0)})
			worker("--once", 0, "ready")
			g.want("late", "READY", "a#1", "late#1")
			if got := g.hidden(); got != "1" {
				t.Errorf("the queue hides %s messages, want the one that is malformed", got)
			}
			if got := g.received(g.queue); got != "" {
				t.Errorf("the queue shows %s", got)
			}
		})
	}
}

// TestWorkerDuplicates: a message that is delivered twice at once runs once, and is done after that.
func TestWorkerDuplicates(t *testing.T) {
	t.Parallel()
	s := sqstest.Start(t, nil)
	again := make(chan struct{})
	g := newGate(t, s.URL, func(w http.ResponseWriter, r *http.Request) {
		<-again // the other delivery has been told to come again
		ready(w, r)
	})
	g.send(`{"analysisId":"a"}`)
	s.Inject(sqstest.Fault{Kind: sqstest.Duplicate, Times: 1})
	var changes int // of visibility: the first is that of the run, the second that of the other delivery
	s.Inject(sqstest.Fault{Kind: sqstest.Delay, Delay: time.Nanosecond, Op: "ChangeMessageVisibility",
		Match: func(sqstest.Request) bool {
			if changes++; changes == 2 {
				close(again)
			}
			return true
		}})
	code, _, stderr := run(t, region, g.args("--drain", "--ttl", "12s", "--heartbeat", "3s")...)
	// Only the receipt of the latest delivery deletes a message. If that delivery was rejected, the message is delivered a
	// third time.
	finished := 0
	if strings.Contains(stderr, `"try":"2","analysis":"a","outcome":"locked"`) {
		finished = 1
	}
	if code != 0 || strings.Count(stderr, `"outcome":"ready"`) != 1 || strings.Count(stderr, `"outcome":"locked"`) != 1 ||
		strings.Count(stderr, `"outcome":"already_finished"`) != finished {
		t.Errorf("%d, want %d times finished\n%s", code, finished, stderr)
	}
	g.want("a", "READY", "a#1")
	if got := g.received(g.queue); got != "" {
		t.Errorf("the queue still has %s", got)
	}
}

// TestWorkerKilled: kill -9 in the middle of a run. The message comes back, and when the dead worker's lock is over
// another one takes over, with the next token.
func TestWorkerKilled(t *testing.T) {
	t.Parallel()
	var first sync.Once
	g := newGate(t, sqstest.Start(t, nil).URL, func(w http.ResponseWriter, r *http.Request) {
		hang := false
		first.Do(func() { hang = true })
		if hang {
			<-r.Context().Done() // until the worker is gone
			return
		}
		ready(w, r)
	})
	g.send(`{"analysisId":"a"}`)
	p := g.background("--ttl", "10s")
	g.begun(p)
	p.kill(t)
	g.want("a", "locked", "a#1")
	if got := g.received(g.queue); got != "" {
		t.Errorf("the message of a run is visible: %s", got)
	}
	code, _, stderr := run(t, nil, g.args("--drain", "--ttl", "10s")...)
	if code != 0 {
		t.Errorf("%d\n%s", code, stderr)
	}
	g.want("a", "READY", "a#1", "a#2")
}

// TestWorkerStops: SIGTERM during a run that does not end in time. The run is cancelled, its lock released and its
// message handed back to be seen at once.
func TestWorkerStops(t *testing.T) {
	t.Parallel()
	cut := make(chan struct{})
	g := newGate(t, sqstest.Start(t, nil).URL, func(_ http.ResponseWriter, r *http.Request) {
		<-r.Context().Done()
		close(cut)
	})
	g.send(`{"analysisId":"a"}`)
	p := g.background("--shutdown-timeout", "200ms")
	g.begun(p)
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := <-p.ended; err != nil {
		t.Errorf("ended with %v\n%s", err, p.stderr.Bytes())
	}
	<-cut
	checkLog(t, p.stderr.String())
	g.want("a", "", "a#1")
	if got := g.received(g.queue); got != `{"analysisId":"a"}` {
		t.Errorf("the queue has %q\n%s", got, p.stderr.Bytes())
	}
}

// background starts a worker that goes on.
func (g *gate) background(more ...string) *process {
	g.t.Helper()
	path := binary(g.t)
	p := &process{cmd: exec.Command(path, g.args(more...)...), ended: make(chan error, 1)}
	p.cmd.Env, p.cmd.Stderr = environment(), &p.stderr
	if err := p.cmd.Start(); err != nil {
		g.t.Fatal(err)
	}
	go func() { p.ended <- p.cmd.Wait() }()
	g.t.Cleanup(func() { _ = p.cmd.Process.Kill() })
	return p
}

// begun waits until a run has begun.
func (g *gate) begun(p *process) {
	g.t.Helper()
	select {
	case <-g.ran:
	case err := <-p.ended:
		g.t.Fatalf("the worker ended with %v\n%s", err, p.stderr.Bytes())
	case <-time.After(failAfter):
		g.t.Fatal("no run has begun")
	}
}

// TestPoison: work that fails always turns its analysis FAILED, and its message is in the dead-letter queue. Where the
// queue gives up before that, it is there, too, and the worker has warned of it.
func TestPoison(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name          string
		failures      string
		state, letter string
		runs          []string
	}{
		{"the analysis fails first", "2", "FAILED", `{"analysisId":"a"}`, []string{"a#1", "a#2"}},
		{"the queue gives up first", "5", "", `{"analysisId":"a"}`, []string{"a#1", "a#2", "a#3"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var ahead atomic.Int64 // of the queue's clock
			server := sqstest.Start(t, &sqstest.Options{Now: func() time.Time {
				return time.Now().Add(time.Duration(ahead.Load()))
			}})
			g := newGate(t, server.URL, func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(http.StatusInternalServerError)
			})
			dead := createQueue(t, g.client, "dead", nil)
			g.queue = createQueue(t, g.client, "alive", map[string]string{
				"RedrivePolicy": `{"deadLetterTargetArn":"arn:aws:sqs:us-east-1:000000000000:dead","maxReceiveCount":3}`,
			})
			g.send(`{"analysisId":"a"}`)
			const ttl = 5 * time.Minute // a failed message stays hidden for as long, by the queue's clock
			p := g.background("--drain", "--ttl", ttl.String(), "--max-failures", c.failures)
			for failures, ended := int64(0), false; !ended; {
				select {
				case <-p.ended:
					ended = true
				case <-time.After(10 * time.Millisecond): // of another process: no event tells when it changes
				}
				if n := g.failures("a"); n > failures {
					failures = n
					if strconv.FormatInt(n, 10) != c.failures { // the last one hides nothing: its message is on its way
						ahead.Add(int64(ttl))
						server.Wake()
					}
				}
			}
			code, stderr := p.cmd.ProcessState.ExitCode(), p.stderr.String()
			if code != 0 || strings.Contains(stderr, "drops a message after 3 deliveries") != (c.state == "") {
				t.Errorf("%d\n%s", code, stderr)
			}
			g.want("a", c.state, c.runs...)
			if got := g.received(dead); got != c.letter {
				t.Errorf("dead letters: %q, want %q", got, c.letter)
			}
		})
	}
}

// TestWorkerOnce: one message and its exit code, for scripts.
func TestWorkerOnce(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		status int
		doc    docstore.Doc
		code   int
		says   string
	}{
		"done":    {http.StatusOK, nil, 0, `"outcome":"ready"`},
		"unknown": {http.StatusOK, nil, 1, "there is no analysis new; its message is retried"},
		"created": {http.StatusOK, nil, 0, `"outcome":"ready"`},
		"failed":  {http.StatusBadGateway, nil, 1, "analysis a: attempt_failed"},
		"locked": {http.StatusOK, docstore.Doc{
			"lockOwner": docstore.String("other"), "lockExpiresAt": docstore.FormatTime(time.Now().Add(time.Hour)),
		}, 3, "another worker runs analysis a"},
	} {
		t.Run(name, func(t *testing.T) {
			g := newGate(t, sqstest.Start(t, nil).URL, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(c.status) })
			g.put("a", c.doc)
			args, id := g.args("--once"), "a"
			switch name {
			case "unknown":
				id = "new"
			case "created":
				args, id = g.args("--once", "--create-analyses"), "new"
			}
			g.send(`{"analysisId":"` + id + `"}`)
			if code, _, stderr := run(t, nil, args...); code != c.code || !strings.Contains(stderr, c.says) {
				t.Errorf("%d, want %d with %q\n%s", code, c.code, c.says, stderr)
			}
		})
	}
}

// TestWorkerUsage: what cannot work is rejected, and the message says what to change.
func TestWorkerUsage(t *testing.T) {
	t.Parallel()
	s := sqstest.Start(t, nil)
	queue := createQueue(t, sqsClient(s.URL), "q", nil)
	dir := t.TempDir()
	for _, c := range []struct {
		args string
		code int
		says string
	}{
		{"--target-url http://127.0.0.1:1", 2, "--queue-url"},
		{"--queue-url " + queue, 2, "--target-url"},
		{"--queue-url " + queue + " --target-url http://worker.example/run", 2, "https://"},
		{"--queue-url " + queue + " --target-url http://127.0.0.1:1 --store memory", 2, "--store memory has no analyses"},
		{"--queue-url " + queue + " --target-url http://127.0.0.1:1 --once --drain", 2, "--once"},
		{"--queue-url " + queue + " --target-url http://127.0.0.1:1 --ttl 1500ms --data " + dir, 2, "whole seconds"},
		{"--queue-url " + queue + " --target-url http://127.0.0.1:1 --heartbeat 4m --data " + dir, 2, "--heartbeat"},
		{"--queue-url " + queue + " --target-url http://127.0.0.1:1 --concurrency 0", 2, "--concurrency"},
		{"--queue-url analyses --target-url http://127.0.0.1:1 --data " + dir, 1, "must be its URL"},
		{"--queue-url " + queue + "-missing --target-url http://127.0.0.1:1 --data " + dir, 1, "there is no queue"},
	} {
		if code, _, stderr := run(t, nil, append([]string{"worker"}, strings.Fields(c.args)...)...); code != c.code ||
			!strings.Contains(stderr, c.says) {
			t.Errorf("%s: %d, want %d with %q\n%s", c.args, code, c.code, c.says, stderr)
		}
	}
	says := "taking messages from " + queue + " to http://127.0.0.1:1/run\n"
	code, stdout, stderr := run(t, nil, "worker", "--queue-url", queue, "--target-url",
		"http://127.0.0.1:1/run?key=secret", "--data", dir, "--drain")
	if code != 0 || !strings.HasPrefix(stdout, says) || strings.Contains(stdout+stderr, "secret") {
		t.Errorf("a target with a key: %d %q\n%s", code, stdout, stderr)
	}
}

// mapping is the platform's event source mapping, as far as it matters: it hands a batch to the function, and deletes
// what is not named as failed.
func mapping(t *testing.T, l *lambdatest.Instance, c *sdk.Client, queue string) (failed []string) {
	t.Helper()
	out, err := c.ReceiveMessage(t.Context(), &sdk.ReceiveMessageInput{
		QueueUrl: aws.String(queue), MaxNumberOfMessages: 10, WaitTimeSeconds: 20,
		MessageSystemAttributeNames: []types.MessageSystemAttributeName{types.MessageSystemAttributeNameAll},
	})
	if err != nil {
		t.Fatal(err)
	}
	var e events.SQSEvent
	for _, m := range out.Messages {
		e.Records = append(e.Records, events.SQSMessage{
			MessageId: *m.MessageId, ReceiptHandle: *m.ReceiptHandle, Body: *m.Body, Md5OfBody: *m.MD5OfBody,
			Attributes:  m.Attributes,
			EventSource: "aws:sqs", EventSourceARN: "arn:aws:sqs:us-east-1:000000000000:tasks", AWSRegion: "us-east-1",
		})
	}
	payload, err := json.Marshal(e)
	if err != nil {
		t.Fatal(err)
	}
	a := l.Invoke(t, payload, failAfter)
	var response events.SQSEventResponse
	if err := json.Unmarshal(a.Body, &response); err != nil || a.Failed || response.BatchItemFailures == nil {
		t.Fatalf("failed: %v, %v: %s", a.Failed, err, a.Body)
	}
	again := map[string]bool{}
	for _, f := range response.BatchItemFailures {
		again[f.ItemIdentifier] = true
	}
	for _, m := range out.Messages {
		if again[*m.MessageId] {
			failed = append(failed, *m.Body)
			continue
		}
		if _, err := c.DeleteMessage(t.Context(), &sdk.DeleteMessageInput{QueueUrl: aws.String(queue),
			ReceiptHandle: m.ReceiptHandle}); err != nil {
			t.Fatal(err)
		}
	}
	return failed
}

// TestLambdaGate runs the worker's and the sweep's functions as Lambda does, over emulators of DynamoDB and SQS: a
// batch with a message of each kind, and an analysis whose worker died, from the sweep to READY.
func TestLambdaGate(t *testing.T) {
	t.Parallel()
	db := dynamodbtest.Start(t, nil)
	store := openDynamo(t, dynamoClient(db.URL, http.DefaultTransport), "analyses",
		awsdynamodb.Options{Indexes: []string{analysis.ExpiryField}})
	q := sqstest.Start(t, nil)
	g := newGate(t, q.URL, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer secret-token" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"result":"s3://results/x"}`)
	})
	g.store = store
	stale := docstore.Doc{
		"lockOwner": docstore.String("dead"), "lockToken": docstore.Int(1), "lockRuns": docstore.Int(1),
		"lockExpiresAt": docstore.FormatTime(time.Now().Add(-time.Hour)),
	}
	locked := docstore.Doc{"lockOwner": docstore.String("other"),
		"lockExpiresAt": docstore.FormatTime(time.Now().Add(2 * time.Hour))}
	for id, doc := range map[string]docstore.Doc{"a": {"title": docstore.String("x"), "lockToken": docstore.Int(0)},
		"b": locked, "c": stale} {
		g.put(id, doc)
	}
	env := []string{
		"LEASEHOLD_TABLE=analyses", "LEASEHOLD_ENDPOINT=" + db.URL, "AWS_ENDPOINT_URL_SQS=" + q.URL,
		"LEASEHOLD_TARGET_URL=" + g.target.URL, "LEASEHOLD_TARGET_TOKEN=secret-token", "LEASEHOLD_QUEUE_URL=" + g.queue,
	}
	if runtime.GOOS != "linux" {
		t.Skip("Lambda is Linux")
	}
	bootstrap := deployed(t)
	worker := lambdatest.Start(t, bootstrap, "worker", env...)
	g.send(`{"analysisId":"a"}`, `{"analysisId":"b"}`, `{"analysisId":7}`, `{"analysisId":"missing"}`)
	if got := fmt.Sprint(mapping(t, worker, g.client,
		g.queue)); got != `[{"analysisId":"b"} {"analysisId":7} {"analysisId":"missing"}]` {
		t.Errorf("failed: %s", got)
	}
	g.want("a", "READY", "a#1")
	g.want("b", "locked", "a#1")
	// When the run began, until the lock in the way ends, and for a while where no retry helps yet, or at all.
	if n := q.Count("ChangeMessageVisibility"); n != 4 {
		t.Errorf("%d changes of visibility", n)
	}
	for _, name := range []string{"not_json.txt", "apigw_jwt.json", "sns.json", "schedule.json"} {
		if a := worker.Invoke(t, lambdaFile(t, name), failAfter); !a.Failed {
			t.Errorf("%s: %s", name, a.Body)
		}
	}

	sweep := lambdatest.Start(t, bootstrap, "sweep", env...)
	if a := sweep.Invoke(t, lambdaFile(t, "schedule.json"), failAfter); a.Failed {
		t.Fatalf("sweep: %s", a.Body)
	}
	if got := mapping(t, worker, g.client, g.queue); len(got) != 0 {
		t.Errorf("failed after the sweep: %v", got)
	}
	g.want("c", "READY", "a#1", "c#2")
	if a := sweep.Invoke(t, lambdaFile(t, "sqs.json"), failAfter); !a.Failed ||
		!strings.Contains(string(a.Body), "schedule") {
		t.Errorf("a batch at the sweep: %s", a.Body)
	}
	q.Inject(sqstest.Fault{Kind: sqstest.Throttle})
	g.put("c", docstore.Doc{"status": docstore.String("RUNNING"), "lockOwner": docstore.String("dead"),
		"lockExpiresAt": stale["lockExpiresAt"]})
	if a := sweep.Invoke(t, lambdaFile(t, "schedule.json"), failAfter); !a.Failed ||
		!strings.Contains(string(a.Body), "RequestThrottled") {
		t.Errorf("a sweep without a queue: %s", a.Body)
	}
	if log := worker.Log(); strings.Count(log, `"action":"task.deliver","outcome":"ok"`) != 2 {
		t.Errorf("a run that was delivered has an audit event:\n%s", log)
	}
	for _, l := range []*lambdatest.Instance{worker, sweep} {
		l.Kill()
		checkLog(t, l.Log(), "fake-secret-key", "AKIAFAKE", "secret-token")
	}
}

// TestLambdaGateSettings: functions that cannot work do not start, and say why.
func TestLambdaGateSettings(t *testing.T) {
	t.Parallel()
	bootstrap := build(t, "functions/aws/lambda", "-tags", lambdaTags)
	for function, says := range map[string]string{
		"api": "LEASEHOLD_TABLE is required", "worker": "LEASEHOLD_TABLE is required", "sweep": "LEASEHOLD_TABLE is required",
		"bootstrap": "it must be api, worker or sweep",
	} {
		l := lambdatest.Start(t, bootstrap, function)
		select {
		case <-l.Ended():
		case <-time.After(failAfter):
			t.Fatal("the instance goes on")
		}
		if l.ExitCode() != 1 || !strings.Contains(l.Log(), says) {
			t.Errorf("%s: exit code %d, %s; want 1, %q", function, l.ExitCode(), l.Log(), says)
		}
	}
}
