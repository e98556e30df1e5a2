package cloudtaskstest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"path"
	"slices"
	"sync"
	"time"

	pb "cloud.google.com/go/cloudtasks/apiv2/cloudtaskspb"
	"google.golang.org/api/option"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/leasehold-dev/leasehold/emulator/internal/grpcserver"
	"github.com/leasehold-dev/leasehold/emulator/internal/loopback"
)

// Options are the settings of a [Server]. The zero value works.
type Options struct {
	// Queues exist from the start, with the service's defaults: "projects/P/locations/L/queues/Q".
	Queues []string

	// Log gets a line for each delivery; nil means none.
	Log *slog.Logger

	// InsecureListenAnywhere lets other machines, and containers, use the emulator, which may do everything: [Listen]
	// takes every address, "0.0.0.0:8123", and tasks may go to every host.
	InsecureListenAnywhere bool

	// Now is the clock of the tokens; nil means time.Now. Waiting is not on this clock.
	Now func() time.Time
}

// A Server is a running emulator. Its methods may be called from several goroutines at once.
type Server struct {
	options Options
	api     *grpcserver.Server
	issuer  *issuer
	client  *http.Client
	life    context.Context //nolint:containedctx // of the deliveries: they outlive the calls that caused them
	end     context.CancelFunc
	running sync.WaitGroup // tasks
	stop    sync.Once

	mu       sync.Mutex
	changed  chan struct{} // closed, and replaced, whenever something changes that a goroutine may wait for
	queues   map[string]*queue
	counts   map[string]int
	faults   []*Injection
	attempts []Attempt
	lastID   int
}

// Listen starts an emulator on a loopback address, "127.0.0.1:8123"; port 0 or an empty address picks a free port.
// Options may be nil. Other addresses are rejected unless Options.InsecureListenAnywhere is set, because the emulator
// lets every caller do everything.
func Listen(addr string, o *Options) (*Server, error) {
	s := &Server{
		changed: make(chan struct{}), queues: make(map[string]*queue), counts: make(map[string]int),
		client: &http.Client{
			Transport:     &http.Transport{},
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}
	if o != nil {
		s.options = *o
	}
	if s.options.Log == nil {
		s.options.Log = slog.New(slog.DiscardHandler)
	}
	if s.options.Now == nil {
		s.options.Now = time.Now
	}
	for _, name := range s.options.Queues {
		q, err := newQueue(&pb.Queue{Name: name})
		if err != nil {
			return nil, fmt.Errorf("cloud tasks emulator: Queues: %s", status.Convert(err).Message())
		}
		s.queues[name] = q
	}
	var err error
	if s.issuer, err = startIssuer(s.options.Now); err != nil {
		return nil, err
	}
	s.life, s.end = context.WithCancel(context.Background())
	s.api, err = grpcserver.Listen("cloud tasks emulator", addr, s.options.InsecureListenAnywhere,
		func(r grpc.ServiceRegistrar) { pb.RegisterCloudTasksServer(r, &service{server: s}) },
		grpc.UnaryInterceptor(s.intercept))
	if err != nil {
		s.end()
		return nil, errors.Join(err, s.issuer.Close())
	}
	return s, nil
}

// TB is the part of testing.TB that [Start] needs.
type TB = loopback.TB

// Start starts an emulator on a free loopback port for a test and closes it when the test ends. Options may be nil.
func Start(t TB, o *Options) *Server {
	t.Helper()
	s, err := Listen("", o)
	return loopback.Start(t, s, err)
}

// Close cuts off all deliveries and calls, and waits for them. Closing twice is allowed.
func (s *Server) Close() error {
	var err error
	s.stop.Do(func() {
		err = s.api.Close()
		s.end()
		s.running.Wait()
		s.client.CloseIdleConnections()
		err = errors.Join(err, s.issuer.Close())
	})
	return err
}

// Addr is the address of the API, "127.0.0.1:41234": what CLOUD_TASKS_EMULATOR_HOST takes.
func (s *Server) Addr() string { return s.api.Addr() }

// Issuer is the issuer of the tokens, the URL in their claim iss: http://127.0.0.1:41235. It publishes its keys there.
func (s *Server) Issuer() string { return s.issuer.URL }

// Token is an ID token of a service account for an audience, as deliveries carry them: for a test that calls a worker
// itself, as Cloud Scheduler does.
func (s *Server) Token(account, audience string) (string, error) {
	return s.issuer.token(account, audience, nil)
}

// ClientOptions are what connects a client of cloud.google.com/go/cloudtasks with the server. Each call opens a
// connection: call it once for each client.
func (s *Server) ClientOptions() []option.ClientOption { return s.api.ClientOptions() }

// Count returns how many calls of a method the server has seen, "CreateTask": rejected, failed and retried ones too.
// "Dispatch" counts requests to workers.
func (s *Server) Count(method string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.counts[method]
}

// Counts returns the counts of all methods that were called.
func (s *Server) Counts() map[string]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.counts)
}

// Attempt is one delivery that has ended.
type Attempt struct {
	Task           string // its ID, the last part of the name
	RetryCount     int    // X-CloudTasks-TaskRetryCount: earlier deliveries
	ExecutionCount int    // X-CloudTasks-TaskExecutionCount: those of them with a response
	Status         int    // of the response; 0 if there was none
	Response       string // its body, up to 64 KiB
	Err            error  // why there was no response
	Begin, End     time.Time
}

// Attempts are all deliveries so far, in the order in which they ended.
func (s *Server) Attempts() []Attempt {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.attempts)
}

// Idle waits until no task is left in any queue that runs: each was acknowledged or given up.
func (s *Server) Idle(ctx context.Context) error {
	return s.waitFor(ctx, func() bool {
		for _, q := range s.queues {
			if len(q.tasks) > 0 && q.pb.GetState() == pb.Queue_RUNNING {
				return false
			}
		}
		return true
	})
}

// Attempted waits until at least n deliveries have ended.
func (s *Server) Attempted(ctx context.Context, n int) error {
	return s.waitFor(ctx, func() bool { return len(s.attempts) >= n })
}

// waitFor waits until done, which is called with s.mu held, says so.
func (s *Server) waitFor(ctx context.Context, done func() bool) error {
	for {
		s.mu.Lock()
		ok, changed := done(), s.changed
		s.mu.Unlock()
		if ok {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		case <-s.life.Done():
			return errors.New("cloud tasks emulator: closed")
		}
	}
}

// changedLocked wakes everyone who waits for something.
func (s *Server) changedLocked() {
	close(s.changed)
	s.changed = make(chan struct{})
}

func (s *Server) intercept(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any,
	error) {
	method := path.Base(info.FullMethod)
	msg := req.(proto.Message)
	s.mu.Lock()
	s.counts[method]++
	s.mu.Unlock()
	if len(msg.ProtoReflect().GetUnknown()) > 0 {
		return nil, status.Errorf(codes.Unimplemented, "cloud tasks emulator: %s has fields that the emulator does not know",
			method)
	}
	switch e := s.hit(method, msg).(type) {
	case Fail:
		return nil, failure(e.Code, e.Message)
	case ApplyThenFail:
		if _, err := handler(ctx, req); err != nil {
			return nil, err
		}
		return nil, failure(e.Code, e.Message)
	default:
		return handler(ctx, req)
	}
}
