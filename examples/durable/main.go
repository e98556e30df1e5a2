// Command durable starts Lambda durable functions from a queue, each once, however often its message is delivered. Run
// it with
//
//	go run -C examples/durable .
//
// It needs no account: Leasehold and the API of Lambda run in the process. On Lambda, behind a queue of SQS with
// partial batch responses, the same program is the dispatcher: LEASEHOLD_SERVER and LEASEHOLD_AUTH_TOKEN name the
// server, DURABLE_FUNCTION the function with its version or alias.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/aws/aws-lambda-go/events"
	runtime "github.com/aws/aws-lambda-go/lambda"
	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/lambda"

	"github.com/leasehold-dev/leasehold/client"
	"github.com/leasehold-dev/leasehold/functions/aws"
	"github.com/leasehold-dev/leasehold/functions/httpapi"
	"github.com/leasehold-dev/leasehold/functions/tasks"
	"github.com/leasehold-dev/leasehold/once"
	"github.com/leasehold-dev/leasehold/repo/docstore"
)

func main() {
	run := func() error { return show(context.Background(), os.Stdout) }
	if os.Getenv("AWS_LAMBDA_RUNTIME_API") != "" {
		run = dispatch
	}
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "durable:", err)
		os.Exit(1)
	}
}

// dispatch is the program on Lambda.
func dispatch() error {
	c, err := config.LoadDefaultConfig(context.Background())
	if err != nil {
		return err
	}
	token := func(context.Context) (string, error) { return os.Getenv("LEASEHOLD_AUTH_TOKEN"), nil }
	server, err := client.New(os.Getenv("LEASEHOLD_SERVER"), &client.Options{Token: token})
	if err != nil {
		return err
	}
	w, err := worker(server.Analyses(), dispatcher{lambda.NewFromConfig(c), os.Getenv("DURABLE_FUNCTION")})
	if err != nil {
		return err
	}
	runtime.Start(w)
	return nil
}

// worker takes batches of SQS through the gate to the dispatcher. To start an execution takes a second, so that the
// lock of a dispatcher that died need not last longer than half a minute.
func worker(gate once.Gate, d dispatcher) (*aws.Worker, error) {
	return aws.NewWorker(&tasks.Worker{Gate: gate, Work: d.start, TTL: 30 * time.Second}, nil)
}

// show is the demonstration.
func show(ctx context.Context, out io.Writer) error {
	server := httptest.NewServer(httpapi.New(docstore.NewMemory(nil), httpapi.Development{}, nil))
	defer server.Close()
	leasehold, err := client.New(server.URL, nil)
	if err != nil {
		return err
	}
	api := newFake()
	defer api.Close()
	function := lambda.New(lambda.Options{
		BaseEndpoint: &api.URL, Region: "eu-west-1", Credentials: credentials.NewStaticCredentialsProvider("id", "secret",
			""), RetryMaxAttempts: 1,
	})
	d := dispatcher{function, "orders:live"}
	w, err := worker(leasehold.Analyses(), d)
	if err != nil {
		return err
	}
	for _, id := range []string{"order-1", "order-2", "order-3", "order-4"} {
		if _, err := leasehold.Analyses().Create(ctx, id); err != nil {
			return err
		}
	}

	// The queue delivers each of three messages four times, at once.
	var deliveries sync.WaitGroup
	for range 4 {
		deliveries.Go(func() { _, _ = deliver(ctx, w, "order-1", "order-2", "order-3") })
	}
	deliveries.Wait()
	if _, err := deliver(ctx, w, "order-1", "order-2", "order-3"); err != nil { // what was locked then is finished by now
		return err
	}
	fmt.Fprintf(out, "3 messages, 5 deliveries of each: %d executions\n", api.executions())

	// The execution begins, and the dispatcher never learns of it.
	api.loseAnswers(1)
	failed, err := deliver(ctx, w, "order-4")
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "the answer is lost: %d message stays in the queue, %d executions\n", failed, api.executions())
	if failed, err = deliver(ctx, w, "order-4"); err != nil {
		return err
	}
	a, err := leasehold.Analyses().Get(ctx, "order-4")
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "it is delivered again: %d stays, %d executions, the analysis is %s\n", failed,
		api.executions(), a.Status)

	// Lambda forgets names when it removes the history of an execution, after 14 days unless it is told otherwise.
	api.forget()
	if _, err = deliver(ctx, w, "order-4"); err != nil {
		return err
	}
	fmt.Fprintf(out, "an old message, when Lambda has forgotten the name: %d executions\n", api.executions())
	if _, err := d.start(ctx, once.Lock{RunID: "order-4"}); err != nil {
		return err
	}
	fmt.Fprintf(out, "the same without the gate: %d executions\n", api.executions())

	// A name is for one payload: a token in it would make every takeover an error.
	name, payload := "order-4", []byte(`{"analysis_id":"order-4","fencing_token":"8"}`)
	_, err = function.Invoke(ctx, &lambda.InvokeInput{FunctionName: sdk.String("orders:live"), DurableExecutionName: &name,
		Payload: payload})
	if err == nil {
		return fmt.Errorf("another payload was accepted under the name %s", name)
	}
	_, err = fmt.Fprintln(out, "another payload under the same name: refused")
	return err
}

// receipts makes message IDs.
var receipts struct {
	sync.Mutex

	n int
}

// deliver hands messages to the worker as Lambda's poller does, and returns how many of them stay in the queue.
func deliver(ctx context.Context, w *aws.Worker, analyses ...string) (failed int, err error) {
	var e events.SQSEvent
	for _, id := range analyses {
		receipts.Lock()
		receipts.n++
		n := strconv.Itoa(receipts.n)
		receipts.Unlock()
		e.Records = append(e.Records, events.SQSMessage{
			MessageId: n, EventSource: "aws:sqs", EventSourceARN: "arn:aws:sqs:eu-west-1:123456789012:orders", ReceiptHandle: n,
			Body: fmt.Sprintf(`{"analysisId":%q}`, id), Attributes: map[string]string{"ApproximateReceiveCount": "1"},
		})
	}
	event, err := json.Marshal(e)
	if err != nil {
		return 0, err
	}
	body, err := w.Invoke(ctx, event)
	if err != nil {
		return 0, err
	}
	var r events.SQSEventResponse
	if err := json.Unmarshal(body, &r); err != nil {
		return 0, err
	}
	return len(r.BatchItemFailures), nil
}

// fake is the part of Lambda's API that starts durable executions.
type fake struct {
	*httptest.Server

	mu       sync.Mutex
	payloads map[string]string // of executions, by their names
	started  int
	lost     int // answers to lose
}

func newFake() *fake {
	f := &fake{payloads: map[string]string{}}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /2015-03-31/functions/{function}/invocations", f.invoke)
	f.Server = httptest.NewServer(mux)
	return f
}

// invoke starts an execution, or finds the one of that name: the rules are those of
// docs.aws.amazon.com/lambda/latest/dg/durable-execution-idempotency.html.
func (f *fake) invoke(w http.ResponseWriter, r *http.Request) {
	payload, err := io.ReadAll(r.Body)
	name := r.Header.Get("X-Amz-Durable-Execution-Name")
	if err != nil || name == "" {
		http.Error(w, "the execution needs a name here", http.StatusBadRequest)
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	switch before, there := f.payloads[name]; {
	case !there:
		f.payloads[name] = string(payload)
		f.started++
	case before != string(payload):
		w.Header().Set("X-Amzn-Errortype", "DurableExecutionAlreadyStartedException")
		w.WriteHeader(http.StatusConflict)
		_, _ = io.WriteString(w, `{"Type":"User","message":"the execution exists with another payload"}`)
		return
	}
	if f.lost > 0 {
		f.lost--
		panic(http.ErrAbortHandler) // the connection ends without a response
	}
	w.Header().Set("X-Amz-Durable-Execution-Arn",
		fmt.Sprintf("arn:aws:lambda:eu-west-1:123456789012:function:%s/durable-execution/%s/1", r.PathValue("function"),
			name))
	w.WriteHeader(http.StatusAccepted)
}

func (f *fake) executions() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.started
}

func (f *fake) loseAnswers(n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.lost = n
}

func (f *fake) forget() {
	f.mu.Lock()
	defer f.mu.Unlock()
	clear(f.payloads)
}
