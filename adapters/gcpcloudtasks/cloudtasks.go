// Package gcpcloudtasks queues analyses in Google Cloud Tasks: it is the [analysis.Queue] of the sweep and of
// producers.
//
//	Enqueue(id, name) ──▶ CreateTask, named after name ──▶ Cloud Tasks ──▶ POST URL {"analysisId":"…"}
//	                                                                         with a token of the service account
//
// # Once, for each name
//
// A task is named after the message: a hash of its name, and as much of the name as a task's name may hold. Cloud Tasks
// rejects a second task of the same name, also for some time after the first is done, and that rejection means that
// the message is queued. So a request whose response was lost can be sent again, and the client does.
//
// # What can go wrong
//
// NOT_FOUND: the queue does not exist there. PERMISSION_DENIED: the caller lacks the role cloudtasks.enqueuer on the
// queue, or iam.serviceAccountUser on the account whose token the task is to carry. Both are errors of every call until
// that is changed.
package gcpcloudtasks

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"os"
	"regexp"
	"strings"
	"sync"
	"time"

	cloudtasks "cloud.google.com/go/cloudtasks/apiv2"
	"cloud.google.com/go/cloudtasks/apiv2/cloudtaskspb"
	"github.com/googleapis/gax-go/v2"
	"google.golang.org/api/option"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/leasehold-dev/leasehold/repo/analysis"
)

// EmulatorVariable names an emulator in the environment, host:port on this machine, to be spoken to in plain text.
const EmulatorVariable = "CLOUD_TASKS_EMULATOR_HOST"

// Bounds of [Options.Deadline], those of Cloud Tasks.
const (
	MinDeadline = 15 * time.Second
	MaxDeadline = 30 * time.Minute
)

// defaultTimeout bounds one call of Enqueue with all its tries.
const defaultTimeout = 20 * time.Second

// Options are the settings of [Open].
type Options struct {
	// Account is the email address of the service account whose ID token the tasks carry. It is required unless the URL
	// is on this machine.
	Account string

	// Audience is the claim aud of that token; empty means the URL.
	Audience string

	// Deadline is how long Cloud Tasks waits for a response before it delivers again, MinDeadline to MaxDeadline; 0
	// leaves it to Cloud Tasks, which waits 10 minutes. Make it longer than the worker's own limit.
	Deadline time.Duration

	// Emulator is the address of an emulator, host:port on this machine; empty means the environment's
	// CLOUD_TASKS_EMULATOR_HOST, and if that is empty too, Cloud Tasks itself.
	Emulator string

	// ClientOptions go to the client library.
	ClientOptions []option.ClientOption
}

// Queue is an [analysis.Queue] in Cloud Tasks. It may be used by several goroutines at once.
type Queue struct {
	client  *cloudtasks.Client
	queue   string
	url     string
	options Options
}

var _ analysis.Queue = (*Queue)(nil)

// Open returns the queue "projects/P/locations/L/queues/Q", whose tasks are delivered to a URL. It sends nothing. ctx
// is the lifetime of the credentials. Options may be nil. Settings that cannot work are rejected.
func Open(ctx context.Context, queue, target string, o *Options) (*Queue, error) {
	q := &Queue{queue: queue, url: target}
	if o != nil {
		q.options = *o
	}
	if err := q.check(); err != nil {
		return nil, fmt.Errorf("cloudtasks: %w", err)
	}
	options := q.options.ClientOptions
	release := func() error { return nil }
	if emulator := cmp.Or(q.options.Emulator, os.Getenv(EmulatorVariable)); emulator != "" {
		conn, err := dialEmulator(emulator)
		if err != nil {
			return nil, fmt.Errorf("cloudtasks: emulator %q: %w", emulator, err)
		}
		// until a client has the connection, and closes it
		release = conn.Close
		options = append([]option.ClientOption{option.WithGRPCConn(conn)}, options...) // the caller's come later and win
	}
	client, err := cloudtasks.NewClient(ctx, options...)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("cloudtasks: %w: run `gcloud auth application-default login`, set "+
			"GOOGLE_APPLICATION_CREDENTIALS to a key file, or set %s for an emulator", err, EmulatorVariable), release())
	}
	// The library sends a CreateTask once only, because it does not know that ours have names.
	client.CallOptions.CreateTask = []gax.CallOption{
		gax.WithTimeout(defaultTimeout),
		gax.WithRetry(func() gax.Retryer {
			return gax.OnCodes([]codes.Code{codes.Unavailable, codes.Aborted, codes.ResourceExhausted},
				gax.Backoff{Initial: 100 * time.Millisecond, Max: 5 * time.Second, Multiplier: 2})
		}),
	}
	q.client = client
	return q, nil
}

var queueName = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^projects/[^/ ]+/locations/[^/ ]+/queues/[A-Za-z0-9-]{1,100}$`)
})

func (q *Queue) check() error {
	if !queueName().MatchString(q.queue) {
		return fmt.Errorf("queue %q must be the full name projects/PROJECT/locations/LOCATION/queues/QUEUE", q.queue)
	}
	u, err := url.Parse(q.url)
	switch {
	case err != nil || u.Hostname() == "" || u.Scheme != "https" && u.Scheme != "http":
		return fmt.Errorf(
			"the URL is %q: it must be that of the worker's endpoint, such as https://worker.example.com/internal/tasks/analysis", q.url)
	case u.User != nil:
		return errors.New("the URL must not have a user or a password: set Account")
	case loopback(u.Hostname()):
	case u.Scheme == "http":
		return fmt.Errorf("URL %q must begin with https:// (http:// is accepted only for this machine itself)", q.url)
	case q.options.Account == "":
		return errors.New("the Account is required: the service account by which the worker knows the queue")
	}
	o := q.options
	if o.Account != "" && !strings.Contains(o.Account, "@") {
		return fmt.Errorf("the Account %q must be the email address of a service account", o.Account)
	}
	if o.Audience != "" && o.Account == "" {
		return errors.New("an Audience needs an Account: without one the tasks carry no token")
	}
	if o.Deadline != 0 && (o.Deadline < MinDeadline || o.Deadline > MaxDeadline) {
		return fmt.Errorf("the Deadline is %v: it must be from %v to %v", o.Deadline, MinDeadline, MaxDeadline)
	}
	return nil
}

func loopback(host string) bool {
	addr, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && addr.IsLoopback()
}

// dialEmulator opens a connection in plain text. It connects with the first request.
func dialEmulator(address string) (*grpc.ClientConn, error) {
	if _, host, ok := strings.Cut(address, "://"); ok {
		address = host
	}
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, errors.New("must be host:port, such as 127.0.0.1:8123")
	}
	if !loopback(host) {
		return nil, errors.New("must be on this machine: it is spoken to in plain text")
	}
	return grpc.NewClient("passthrough:///"+address, grpc.WithTransportCredentials(insecure.NewCredentials()))
}

// Close ends the connection.
func (q *Queue) Close() error { return q.client.Close() }

// Enqueue implements [analysis.Queue]: it creates a task, or finds that there was one of this name.
func (q *Queue) Enqueue(ctx context.Context, id analysis.ID, name string) error {
	body, err := json.Marshal(map[string]string{"analysisId": string(id)})
	if err != nil {
		return fmt.Errorf("cloudtasks: %w", err)
	}
	r := &cloudtaskspb.HttpRequest{
		Url: q.url, HttpMethod: cloudtaskspb.HttpMethod_POST, Body: body,
		Headers: map[string]string{"Content-Type": "application/json"},
	}
	if q.options.Account != "" {
		r.AuthorizationHeader = &cloudtaskspb.HttpRequest_OidcToken{OidcToken: &cloudtaskspb.OidcToken{
			ServiceAccountEmail: q.options.Account, Audience: cmp.Or(q.options.Audience, q.url),
		}}
	}
	task := &cloudtaskspb.Task{
		Name: q.queue + "/tasks/" + taskID(name), MessageType: &cloudtaskspb.Task_HttpRequest{HttpRequest: r},
	}
	if q.options.Deadline != 0 {
		task.DispatchDeadline = durationpb.New(q.options.Deadline)
	}
	_, err = q.client.CreateTask(ctx, &cloudtaskspb.CreateTaskRequest{Parent: q.queue, Task: task})
	if err != nil && status.Code(err) != codes.AlreadyExists {
		return fmt.Errorf("cloudtasks: create a task in %s: %w", q.queue, err)
	}
	return nil
}

// taskID is a message's name as that of a task: letters, digits, "-" and "_". The hash makes it unique whatever had to
// go, and comes first because Cloud Tasks is slow with names that begin alike.
func taskID(name string) string {
	const most = 200 // of the readable part
	readable := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '_' {
			return r
		}
		return '_'
	}, name)
	sum := sha256.Sum256([]byte(name))
	return hex.EncodeToString(sum[:16]) + "-" + readable[:min(len(readable), most)]
}
