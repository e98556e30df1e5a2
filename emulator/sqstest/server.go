package sqstest

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/leasehold-dev/leasehold/emulator/internal/awsjson"
	"github.com/leasehold-dev/leasehold/emulator/internal/loopback"
)

// Options are the settings of a server. The zero value works.
type Options struct {
	// Now is the server's clock. The default is time.Now. It is called with the server's mutex held and must not call
	// the server.
	Now func() time.Time

	// InsecureListenAnywhere lets other machines, and containers, use the server, which may do everything: a request may
	// name every host. Otherwise one whose Host header is not that of this machine is rejected, because it may come from a
	// page in a browser.
	InsecureListenAnywhere bool
}

// Server is an in-memory SQS. It is an [http.Handler] for the endpoint's root. Its methods may be called from several
// goroutines at once. Requests are applied one after the other.
type Server struct {
	// URL is the endpoint of a server that [Start] started, without a slash at the end; otherwise empty.
	URL string

	now      func() time.Time
	anywhere bool

	mu       sync.Mutex
	queues   map[string]*queue
	sequence int64
	changed  chan struct{} // closed when something may have become visible, and replaced
	book     *awsjson.Book[Fault]
}

var _ http.Handler = (*Server)(nil)

// New returns a server without queues that listens nowhere; opts may be nil.
func New(opts *Options) *Server {
	s := &Server{now: time.Now, queues: map[string]*queue{}, changed: make(chan struct{})}
	s.book = awsjson.NewBook[Fault](&s.mu)
	if opts != nil && opts.Now != nil {
		s.now = opts.Now
	}
	s.anywhere = opts != nil && opts.InsecureListenAnywhere
	return s
}

// CreateQueue makes a queue with the attributes that it has by default, a FIFO queue if its name ends like that of one.
// One that is there stays as it is.
func (s *Server) CreateQueue(name string) error {
	r := createQueue{QueueName: name}
	if strings.HasSuffix(name, ".fifo") {
		r.Attributes = map[string]string{"FifoQueue": "true"}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, err := r.run(s, call{}); err != nil {
		return fmt.Errorf("sqs: queue %q: %s", name, err.msg)
	}
	return nil
}

// call is what a request needs to know while it runs.
type call struct {
	base      string // URL of the server as the client knows it
	duplicate bool   // by a fault
}

// request is one operation's decoded request.
type request interface {
	// queue is the name of the queue that the request is about, as far as it says so.
	queue() string

	// run checks and applies the request. The server's mutex is held.
	run(s *Server, c call) (any, *apiError)
}

// operations make an empty request for each operation.
var operations map[string]func() request

func init() { //nolint:gochecknoinits // not in the declaration: fault rules, which requests lead to, look operations up
	operations = map[string]func() request{
		"ChangeMessageVisibility": func() request { return new(changeMessageVisibility) },
		"CreateQueue":             func() request { return new(createQueue) },
		"DeleteMessage":           func() request { return new(deleteMessage) },
		"GetQueueAttributes":      func() request { return new(getQueueAttributes) },
		"GetQueueUrl":             func() request { return new(getQueueURL) },
		"ReceiveMessage":          func() request { return new(receiveMessage) },
		"SendMessage":             func() request { return new(sendMessage) },
		"SetQueueAttributes":      func() request { return new(setQueueAttributes) },
	}
}

const (
	maxBody      = 2 << 20
	targetPrefix = "AmazonSQS."
)

// ServeHTTP handles one request of the protocol that the SDKs speak: a POST with JSON to the root. It must name this
// machine unless [Options].InsecureListenAnywhere is set.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !s.anywhere {
		if err := loopback.CheckHost(r); err != nil {
			awsjson.Write(w, http.StatusMisdirectedRequest,
				awsjson.Encode(map[string]any{"__type": "MisdirectedRequest", "message": err.Error()}))
			return
		}
	}
	s.serve(w, r)
}

// serve is ServeHTTP for every host.
func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		return // the client is gone, or sent far more than a message: MaxBytesReader closes the connection
	}
	op, req, refused := decode(r, body)
	s.mu.Lock()
	if op != "" {
		s.book.Add(op)
	}
	var p plan
	if refused == nil {
		p = s.plan(Request{Op: op, Queue: req.queue(), Body: body})
		refused = p.refusal
	}
	s.mu.Unlock()
	if !awsjson.Wait(r.Context(), p.delay) || p.dropBefore {
		panic(http.ErrAbortHandler) // closes the connection
	}
	var response any
	if refused == nil {
		response, refused = s.response(r.Context(), req, call{base: "http://" + r.Host, duplicate: p.duplicate})
	}
	if p.dropAfter || r.Context().Err() != nil {
		panic(http.ErrAbortHandler)
	}
	if p.lost {
		refused = internalError()
	}
	write(w, response, refused)
}

// decode finds the operation of an HTTP request and decodes its body. The operation is empty when there is none.
func decode(r *http.Request, body []byte) (string, request, *apiError) {
	op, ok := strings.CutPrefix(r.Header.Get("X-Amz-Target"), targetPrefix)
	media, _, _ := strings.Cut(r.Header.Get("Content-Type"), ";")
	switch {
	case !ok || r.Method != http.MethodPost:
		return "", nil,
			unsupported("%s without a header X-Amz-Target: %s and an operation: the older query protocol, perhaps",
				r.Method, targetPrefix)
	case operations[op] == nil:
		return op, nil, unsupported("the operation %s", op)
	case media != awsjson.ContentType:
		return op, nil, newError("SerializationException", "expected Content-Type %s, found %q", awsjson.ContentType, media)
	case r.Header.Get("Authorization") == "":
		return op, nil, newError("MissingAuthenticationToken", "Request is missing Authentication Token")
	}
	req := operations[op]()
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields()
	if err := d.Decode(req); err != nil {
		return op, nil, unsupported("this request: %v", err)
	}
	return op, req, nil
}

// response applies a request. One that waits for messages is retried when something changes.
func (s *Server) response(ctx context.Context, req request, c call) (any, *apiError) {
	poll, polls := req.(*receiveMessage)
	s.mu.Lock()
	began := s.now()
	s.mu.Unlock()
	for {
		s.mu.Lock()
		if ctx.Err() != nil {
			s.mu.Unlock()
			return nil, nil // no one is there any more: a message handed out now would be hidden for nothing
		}
		response, refused := req.run(s, c)
		if !polls || refused != nil || len(poll.found) > 0 {
			s.mu.Unlock()
			return response, refused
		}
		now, changed := s.now(), s.changed
		left := began.Add(poll.wait(s)).Sub(now)
		if left > 0 {
			left = min(left, poll.next(s, now))
		}
		s.mu.Unlock()
		if left <= 0 {
			return response, nil
		}
		timer := time.NewTimer(left)
		select {
		case <-timer.C:
		case <-changed:
		case <-ctx.Done():
		}
		timer.Stop()
	}
}

// Wake lets requests that wait for messages look at the clock again: call it after moving a clock of your own.
func (s *Server) Wake() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wake()
}

// wake is Wake with the mutex held.
func (s *Server) wake() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// write sends a response, or the error that took its place.
func write(w http.ResponseWriter, response any, refused *apiError) {
	status := http.StatusOK
	h := w.Header()
	if refused != nil {
		status, response = refused.status, refused.body()
		h.Set("X-Amzn-Query-Error", refused.header())
	}
	h.Set("X-Amzn-Requestid", rand.Text())
	awsjson.Write(w, status, awsjson.Encode(response))
}

// Count is the number of requests for an operation that reached the server since it began or since
// [Server.ResetCounts]: executed, rejected or lost by a fault, each attempt of an SDK by itself.
func (s *Server) Count(op string) int { return s.book.Count(op) }

// Requests is the count of every operation that was asked for.
func (s *Server) Requests() map[string]int { return s.book.Counts() }

// ResetCounts sets the counts of requests to zero.
func (s *Server) ResetCounts() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.book.Reset()
}
