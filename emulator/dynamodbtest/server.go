package dynamodbtest

import (
	"cmp"
	"crypto/rand"
	"errors"
	"hash/crc32"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/leasehold-dev/leasehold/emulator/dynamodbtest/internal/attr"
	"github.com/leasehold-dev/leasehold/emulator/internal/awsjson"
	"github.com/leasehold-dev/leasehold/emulator/internal/loopback"
)

// Options are the settings of a server. The zero value works.
type Options struct {
	// Now is the server's clock: of the Date header, of idempotency tokens, of time to live and of creation times. The
	// default is time.Now. It is called with the server's mutex held and must not call the server.
	Now func() time.Time

	// InsecureListenAnywhere lets other machines, and containers, use the server, which may do everything: a request may
	// name every host. Otherwise one whose Host header is not that of this machine is rejected, because it may come from a
	// page in a browser.
	InsecureListenAnywhere bool
}

// Server is an in-memory DynamoDB. It is an [http.Handler] for the endpoint's root. Its methods may be called from
// several goroutines at once. Requests are applied one after the other, so everything is serializable.
type Server struct {
	// URL is the endpoint of a server that [Start] started, without a slash at the end; otherwise empty.
	URL string

	now      func() time.Time
	anywhere bool

	mu       sync.Mutex
	tables   map[string]*table
	replays  map[string]replay // transactions that were done, by ClientRequestToken
	tokens   []string          // of replays, oldest first
	book     *awsjson.Book[Fault]
	consumed Units
}

var _ http.Handler = (*Server)(nil)

// New returns an empty server that listens nowhere; opts may be nil.
func New(opts *Options) *Server {
	s := &Server{now: time.Now, tables: map[string]*table{}, replays: map[string]replay{}}
	s.book = awsjson.NewBook[Fault](&s.mu)
	if opts != nil && opts.Now != nil {
		s.now = opts.Now
	}
	s.anywhere = opts != nil && opts.InsecureListenAnywhere
	return s
}

// request is one operation's decoded request.
type request interface {
	// targets are the items that the request names, for faults to choose by.
	targets() []target

	// run checks and applies the request. The server's mutex is held.
	run(s *Server, m mode) (any, *apiError)
}

// target is an item that a request names: by its key, or by the whole item.
type target struct {
	table string
	attrs map[string]any
}

// operations make an empty request for each operation.
var operations map[string]func() request

func init() { //nolint:gochecknoinits // not in the declaration: fault rules, which requests lead to, look operations up
	operations = map[string]func() request{
		"CreateTable":        func() request { return new(createTable) },
		"DeleteItem":         func() request { return new(deleteItem) },
		"DescribeTable":      func() request { return new(describeTable) },
		"DescribeTimeToLive": func() request { return new(describeTimeToLive) },
		"GetItem":            func() request { return new(getItem) },
		"ListTables":         func() request { return new(listTables) },
		"PutItem":            func() request { return new(putItem) },
		"Query":              func() request { return new(query) },
		"Scan":               func() request { return new(scan) },
		"TransactGetItems":   func() request { return new(transactGetItems) },
		"TransactWriteItems": func() request { return new(transactWriteItems) },
		"UpdateItem":         func() request { return new(updateItem) },
		"UpdateTable":        func() request { return new(updateTable) },
		"UpdateTimeToLive":   func() request { return new(updateTimeToLive) },
	}
}

const (
	maxBody      = 16 << 20
	targetPrefix = "DynamoDB_20120810."
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
		if _, tooLarge := errors.AsType[*http.MaxBytesError](err); tooLarge {
			w.WriteHeader(http.StatusRequestEntityTooLarge)
		}
		return // or the client is gone: no one to respond to
	}
	op, req, refused := decode(r, body)
	s.mu.Lock()
	if op != "" {
		s.book.Add(op)
	}
	var p plan
	if refused == nil {
		p = s.plan(Request{Op: op, Items: s.items(req), Body: body})
		refused = p.refusal
	}
	s.mu.Unlock()
	if !awsjson.Wait(r.Context(), p.delay) || p.dropBefore {
		panic(http.ErrAbortHandler) // closes the connection
	}
	var response any
	if refused == nil {
		response, refused = s.run(req, p.mode)
	}
	if !awsjson.Wait(r.Context(), p.delayAnswer) || p.dropAfter {
		panic(http.ErrAbortHandler)
	}
	if p.lost != nil {
		refused = p.lost
	}
	s.write(w, response, refused, p.skew)
}

// decode finds the operation of an HTTP request and decodes its body. The operation is empty when there is none.
func decode(r *http.Request, body []byte) (string, request, *apiError) {
	op, ok := strings.CutPrefix(r.Header.Get("X-Amz-Target"), targetPrefix)
	media, _, _ := strings.Cut(r.Header.Get("Content-Type"), ";")
	switch {
	case r.Method != http.MethodPost || r.URL.Path != "/" && r.URL.Path != "":
		return "", nil, newError(prefixService+"UnknownOperationException", "expected POST /, found %s %s",
			r.Method, r.URL.Path)
	case !ok:
		return "", nil, newError(prefixService+"UnknownOperationException",
			"expected a header X-Amz-Target: %s and an operation, found %q", targetPrefix, r.Header.Get("X-Amz-Target"))
	case operations[op] == nil:
		return op, nil, newError(prefixService+"UnknownOperationException",
			"emulator/dynamodbtest does not support the operation %s", op)
	case media != awsjson.ContentType:
		return op, nil, badShape("expected Content-Type %s, found %q", awsjson.ContentType, media)
	case r.Header.Get("Authorization") == "":
		return op, nil, newError(prefixService+"MissingAuthenticationTokenException",
			"Request is missing Authentication Token")
	}
	req := operations[op]()
	if err := decodeRequest(body, req); err != nil {
		return op, nil, err
	}
	return op, req, nil
}

// run applies a request.
func (s *Server) run(req request, m mode) (any, *apiError) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return req.run(s, m)
}

// items names the items that a request touches, as far as they can be known: keys need a table that exists and values
// that can be read.
func (s *Server) items(req request) []Item {
	var out []Item
	for _, at := range req.targets() {
		item := Item{Table: at.table}
		if t := s.tables[at.table]; t != nil && at.attrs != nil {
			item.Key = map[string]string{}
			for _, a := range t.key.attrs() {
				if v, err := attr.Decode(at.attrs[a.name]); err == nil {
					item.Key[a.name] = keyText(v)
				}
			}
		}
		out = append(out, item)
	}
	return out
}

// write sends a response, or the error that took its place.
func (s *Server) write(w http.ResponseWriter, response any, refused *apiError, skew time.Duration) {
	status := http.StatusOK
	if refused != nil {
		status, response = refused.status, refused.body()
	}
	body := awsjson.Encode(response)
	s.mu.Lock()
	date := s.now().Add(skew)
	s.mu.Unlock()
	h := w.Header()
	h.Set("Date", date.UTC().Format(http.TimeFormat))
	h.Set("Server", "Server")
	h.Set("X-Amzn-Requestid", strings.ToUpper(rand.Text()+rand.Text()))
	h.Set("X-Amz-Crc32", strconv.FormatUint(uint64(crc32.ChecksumIEEE(body)), 10))
	awsjson.Write(w, status, body)
}

// Count is the number of requests for an operation that reached the server since it began or since
// [Server.ResetCounts]: executed, rejected or lost by a fault, each attempt of an SDK by itself.
func (s *Server) Count(op string) int { return s.book.Count(op) }

// Requests is the count of every operation that was asked for.
func (s *Server) Requests() map[string]int { return s.book.Counts() }

// Consumed is the capacity that all requests have consumed since the server began or since [Server.ResetCounts].
// Unlike the responses, it includes rejected conditional writes: the service charges for them, too.
func (s *Server) Consumed() Units {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.consumed
}

// ResetCounts sets the counts of requests and the consumed capacity to zero.
func (s *Server) ResetCounts() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.book.Reset()
	s.consumed = Units{}
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

func compareNames(a, b string) int { return cmp.Compare(a, b) }
