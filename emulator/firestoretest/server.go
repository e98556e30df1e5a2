package firestoretest

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	pb "cloud.google.com/go/firestore/apiv1/firestorepb"
	"google.golang.org/api/option"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/leasehold-dev/leasehold/emulator/internal/grpcserver"
	"github.com/leasehold-dev/leasehold/emulator/internal/loopback"
)

// Options are the settings of a [Server]. The zero value behaves like the official emulator.
type Options struct {
	// Now is the clock behind the server's times; nil means time.Now. Waiting is not on this clock: a lock
	// timeout is real time.
	Now func() time.Time

	// Mode is that of read-write transactions which do not ask for one themselves, as the Go client never does.
	Mode Mode

	// LockTimeout is how long a commit waits for locks before it is ABORTED; 0 means 2 s.
	LockTimeout time.Duration

	// InsecureListenAnywhere lets other machines, and containers, use the emulator, which may do everything: [Listen]
	// takes every address, "0.0.0.0:8081", and a request may name every host.
	InsecureListenAnywhere bool

	// Databases, if not empty, are the only ones that exist: "projects/P/databases/(default)". Requests for others are
	// NOT_FOUND. Empty means that every database exists.
	Databases []string
}

func (o *Options) complete() (Options, error) {
	var c Options
	if o != nil {
		c = *o
	}
	c.Databases = slices.Clone(c.Databases)
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Mode != Pessimistic && c.Mode != Optimistic {
		return c, fmt.Errorf("firestore emulator: Mode %d is neither Pessimistic nor Optimistic", c.Mode)
	}
	if c.LockTimeout < 0 {
		return c, fmt.Errorf("firestore emulator: LockTimeout %v is negative: give a positive duration, or 0 for 2 s",
			c.LockTimeout)
	}
	c.LockTimeout = cmp.Or(c.LockTimeout, 2*time.Second)
	for _, name := range c.Databases {
		if err := checkDatabase(name); err != nil {
			return c, fmt.Errorf("firestore emulator: Databases: %s", status.Convert(err).Message())
		}
	}
	return c, nil
}

// A Server is a running emulator. Its methods may be called from several goroutines at once.
type Server struct {
	options  Options
	clock    *clock
	api      *grpcserver.Server
	stopping chan struct{}
	stop     sync.Once
	late     sync.WaitGroup // applications that faults have put off
	lastTx   atomic.Uint64

	mu        sync.Mutex
	databases map[string]*database
	counts    map[string]int
	reads     int // documents, see Billed
	writes    int
	faults    []*Injection

	unitsRead, unitsWritten int // see Units
}

// Listen starts an emulator on a loopback address, "127.0.0.1:8080"; port 0 or an empty address picks a free port.
// Options may be nil. Other addresses are rejected unless Options.InsecureListenAnywhere is set, because the emulator
// lets every caller do everything.
func Listen(addr string, o *Options) (*Server, error) {
	options, err := o.complete()
	if err != nil {
		return nil, err
	}
	s := &Server{
		options:   options,
		clock:     &clock{now: options.Now},
		stopping:  make(chan struct{}),
		databases: make(map[string]*database),
		counts:    make(map[string]int),
	}
	s.api, err = grpcserver.Listen("firestore emulator", addr, options.InsecureListenAnywhere,
		func(r grpc.ServiceRegistrar) { pb.RegisterFirestoreServer(r, &service{server: s}) },
		grpc.UnaryInterceptor(s.interceptUnary),
		grpc.StreamInterceptor(s.interceptStream),
		grpc.MaxRecvMsgSize(4*maxRequestBytes), // the limit itself is checked like any other
	)
	if err != nil {
		return nil, err
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

// Close ends all requests and waits for them. Writes that a fault has put off and not yet applied are dropped. Closing
// twice is allowed.
func (s *Server) Close() error {
	var err error
	s.stop.Do(func() {
		close(s.stopping)
		err = s.api.Close()
		s.late.Wait()
	})
	return err
}

// Addr is the address of the server, "127.0.0.1:41234": what FIRESTORE_EMULATOR_HOST takes.
func (s *Server) Addr() string { return s.api.Addr() }

// ClientOptions are what connects a client of cloud.google.com/go/firestore with the server, also when
// FIRESTORE_EMULATOR_HOST names another. Each call opens a connection: call it once for each client.
func (s *Server) ClientOptions() []option.ClientOption { return s.api.ClientOptions() }

// database returns a database, making it if there is none yet.
func (s *Server) database(name string) (*database, error) {
	if err := checkDatabase(name); err != nil {
		return nil, err
	}
	if len(s.options.Databases) > 0 && !slices.Contains(s.options.Databases, name) {
		parts := strings.Split(name, "/")
		return nil, status.Errorf(codes.NotFound, "The database %s does not exist for project %s", parts[3], parts[1])
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	db := s.databases[name]
	if db == nil {
		db = newDatabase(name, s.clock, s.options, &s.lastTx)
		s.databases[name] = db
	}
	return db, nil
}

func (s *Server) all() []*database {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Values(s.databases))
}

// SetClockOffset sets how far the server's times are ahead of the clock behind them. Times never go back: after a step
// back, they stand (but for a microsecond for each commit) until the clock has caught up.
func (s *Server) SetClockOffset(d time.Duration) { s.clock.setOffset(d) }

// DropListeners ends all Listen streams with a status and returns how many there were. The Go client comes back after
// most codes, with its resume token; see the table in the package's documentation.
func (s *Server) DropListeners(code codes.Code, message string) int {
	n := 0
	for _, db := range s.all() {
		n += db.dropListeners(status.Error(code, message))
	}
	return n
}

// Count returns how many requests of a method the server has seen, "Commit": rejected, failed and retried ones too.
// A stream counts once.
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

// Waiting returns how many commits are waiting for locks, so that a test can bring about a conflict without
// sleeping.
func (s *Server) Waiting() int {
	n := 0
	for _, db := range s.all() {
		n += db.waiting()
	}
	return n
}

// ResetCounts sets all counts to zero.
func (s *Server) ResetCounts() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.counts)
	s.reads, s.writes, s.unitsRead, s.unitsWritten = 0, 0, 0, 0
}

// Billed returns how many documents were read and written since the counts were reset, as the service bills them: a
// document that is missing counts as one read, and so does a query that finds none; a write counts whatever it changes.
// What listeners read is not counted.
func (s *Server) Billed() (reads, writes int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.reads, s.writes
}

// Units returns what the Enterprise edition bills for the same: a unit for each 4 KiB of a document that is read and
// for each KiB of one that is written, the larger of before and after, and one at least. Entries of indexes, which it
// bills as well, are not counted.
func (s *Server) Units() (reads, writes int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.unitsRead, s.unitsWritten
}

func (s *Server) billReads(docs []*pb.Document) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reads += max(1, len(docs))
	s.unitsRead += readUnits(docs)
}

func (s *Server) billWrites(done committed) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.writes += len(done.results)
	s.unitsWritten += done.units
}

func (s *Server) count(method string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.counts[method]++
}

func (s *Server) interceptUnary(
	ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler,
) (any, error) {
	method := path.Base(info.FullMethod)
	s.count(method)
	msg := req.(proto.Message)
	if err := checkMessage(msg); err != nil {
		return nil, err
	}
	hit := s.hit(method, msg, true)
	if hit == nil {
		return handler(ctx, req)
	}
	if late, ok := hit.fault.Effect.(ApplyLate); ok {
		return nil, late.run(ctx, s, hit, func(ctx context.Context) error {
			_, err := handler(ctx, req)
			return err
		})
	}
	if err := hit.fault.Effect.before(ctx); err != nil {
		return nil, err
	}
	res, err := handler(ctx, req)
	if err := hit.fault.Effect.after(err); err != nil {
		return nil, err
	}
	return res, nil
}

func (s *Server) interceptStream(
	srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler,
) error {
	method := path.Base(info.FullMethod)
	s.count(method)
	w := &faultStream{ServerStream: stream, server: s, method: method}
	err := handler(srv, w)
	if w.hit != nil {
		return w.hit.fault.Effect.after(err)
	}
	return err
}

// A faultStream looks for faults when it receives its first message, because only that says what the request is.
type faultStream struct {
	grpc.ServerStream
	server   *Server
	method   string
	received bool
	hit      *Injection
}

func (w *faultStream) RecvMsg(m any) error {
	if err := w.ServerStream.RecvMsg(m); err != nil {
		return err
	}
	msg := m.(proto.Message)
	if err := checkMessage(msg); err != nil {
		return err
	}
	if w.received {
		return nil
	}
	w.received = true
	if w.hit = w.server.hit(w.method, msg, false); w.hit == nil {
		return nil
	}
	return w.hit.fault.Effect.before(w.Context())
}

// checkMessage rejects requests that are too large or say something that this server does not know.
func checkMessage(m proto.Message) error {
	if proto.Size(m) > maxRequestBytes {
		return invalid("Request payload size exceeds the limit: %d bytes.", maxRequestBytes)
	}
	r := m.ProtoReflect()
	if fd := r.Descriptor().Fields().ByName("request_options"); fd != nil && r.Has(fd) {
		return unimplemented("request_options")
	}
	return checkUnknown(r)
}

func checkUnknown(m protoreflect.Message) error {
	if len(m.GetUnknown()) > 0 {
		return unimplemented(fmt.Sprintf("(unknown to this protocol version) in %s", m.Descriptor().FullName()))
	}
	var err error
	m.Range(func(fd protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case fd.IsMap() && fd.MapValue().Message() != nil:
			v.Map().Range(func(_ protoreflect.MapKey, v protoreflect.Value) bool {
				err = checkUnknown(v.Message())
				return err == nil
			})
		case fd.IsList() && fd.Message() != nil:
			for i := range v.List().Len() {
				if err = checkUnknown(v.List().Get(i).Message()); err != nil {
					break
				}
			}
		case !fd.IsMap() && !fd.IsList() && fd.Message() != nil:
			err = checkUnknown(v.Message())
		}
		return err == nil
	})
	return err
}
