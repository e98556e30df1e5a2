package gcp

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/leasehold-dev/leasehold/adapters/gcpfirestore"
	"github.com/leasehold-dev/leasehold/contracts"
	"github.com/leasehold-dev/leasehold/functions/httpapi"
	"github.com/leasehold-dev/leasehold/functions/settings"
	"github.com/leasehold-dev/leasehold/functions/setup"
	"github.com/leasehold-dev/leasehold/functions/telemetry"
	"github.com/leasehold-dev/leasehold/internal/buildinfo"
	"github.com/leasehold-dev/leasehold/repo/analysis"
	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/machineid"
)

// Function is one of the functions over Firestore: an [http.Handler] that opens its store on the first request. From
// then on SIGTERM ends the process as the package comment says.
type Function struct {
	log  *slog.Logger
	life func() *life
	open func() (http.Handler, error)

	mu  sync.Mutex
	now *opening // nil: the next request starts one
}

// openFor is how long requests share one attempt to open the store. Later ones begin another: it may hang.
const openFor = 30 * time.Second

// opening is one attempt to open the store. handler and err are set when done is closed.
type opening struct {
	begun   time.Time
	done    chan struct{}
	handler http.Handler
	err     error
}

// opener opens the store, server makes the handler over it. The opener's ctx is the lifetime of what it opens; the
// server's ends when the instance is asked to end.
type (
	opener func(ctx context.Context, c *settings.Config) (docstore.Store, error)
	server func(ctx context.Context, c *settings.Config, store docstore.Store, log *slog.Logger,
		observed *observing) (http.Handler, error)
)

// New returns the HTTP API with the settings of an environment, such as that of [os.Environ]. Errors and one line for
// each request go to the log, from the level of the settings on; audit events always.
func New(environ func() []string, log *slog.Logger) *Function {
	return newFunction(settings.FunctionAPI, environ, log, processLife, openFirestore, api)
}

// NewTasks returns the endpoint that Cloud Tasks delivers to: POST /internal/tasks/analysis.
func NewTasks(environ func() []string, log *slog.Logger) *Function {
	return newFunction(settings.FunctionTasks, environ, log, processLife, openFirestore, taskEndpoint)
}

// NewSweep returns the endpoint that Cloud Scheduler calls: POST /internal/sweep.
func NewSweep(environ func() []string, log *slog.Logger) *Function {
	return newFunction(settings.FunctionSweep, environ, log, processLife, openFirestore, sweepEndpoint)
}

func openFirestore(ctx context.Context, c *settings.Config) (docstore.Store, error) {
	return gcpfirestore.Open(ctx, &gcpfirestore.Options{
		Project: c.Project, Database: c.Database, Root: c.Root, Due: []string{analysis.ExpiryField},
		IndexShards: int(c.FirestoreIndexShards),
	})
}

func newFunction(e settings.Entry, environ func() []string, log *slog.Logger, life func() *life, open opener,
	serve server) *Function {
	quietStart()
	chain := httpapi.ChainAudit(log.Handler())
	log = slog.New(chain)
	f := &Function{log: log, life: life}
	f.open = func() (http.Handler, error) {
		c, err := settings.Load(e, environ(), nil)
		if err != nil {
			return nil, err
		}
		store, err := open(context.Background(), c) // clients keep it for as long as they live
		if err != nil {
			return nil, fmt.Errorf("open the store: %w", err)
		}
		observed, err := observe(context.Background(), telemetry.AtLeast(c.Level(), log))
		if err != nil {
			return nil, errors.Join(err, store.Close())
		}
		h, err := serve(f.life().ctx, c, observed.store(store), log, observed)
		if err != nil {
			return nil, errors.Join(err, observed.end(context.Background()), store.Close())
		}
		f.life().atEnd(observed.end)
		f.life().atEnd(chain.End)
		telemetry.AtLeast(c.Level(), log).LogAttrs(context.Background(), slog.LevelInfo, "started",
			slog.String("version", this().Version), slog.String("commit", this().Commit), slog.String("store", "firestore"),
			slog.String("stored", "in the Firestore database "+c.Database), slog.String("listen", ":"+os.Getenv("PORT")),
			slog.String("authentication", authentication(c)))
		setup.NoSurvey(context.Background(), observed.metrics, telemetry.AtLeast(c.Level(), log))
		switch {
		case c.Development:
			h = f.fromThisMachine(h, "a function in development mode accepts callers on its own machine only")
		case c.TaskAuth == "platform" && !c.CloudRun:
			h = f.fromThisMachine(
				h, "LEASEHOLD_TASK_AUTH is platform: a function accepts callers from other machines on Cloud Run only, which verifies them")
		}
		return setup.BasePath(c.BasePath, h), nil
	}
	return f
}

// this is the build of the function.
var this = sync.OnceValue(func() buildinfo.Info { return buildinfo.This("") })

// authentication says who verifies callers of the function.
func authentication(c *settings.Config) string {
	switch {
	case c.Development:
		return "development mode"
	case c.Entry == settings.FunctionAPI:
		return c.Authentication("none: every caller is rejected")
	case c.TaskAuth == "platform":
		return "the platform"
	default:
		return "tokens of " + c.TaskIssuer
	}
}

func api(ctx context.Context, c *settings.Config, store docstore.Store, log *slog.Logger,
	observed *observing) (http.Handler, error) {
	var without httpapi.Identity = unconfigured{}
	if c.Development {
		without = httpapi.Development{}
	}
	// requests in flight at the end still need keys
	identity, err := setup.Identity(context.WithoutCancel(ctx), c, without)
	if err != nil {
		return nil, err
	}
	lines := telemetry.AtLeast(c.Level(), log)
	ids, err := machineid.New(store, c.IDServices, &machineid.Options{Log: lines, MaxLeases: int(c.IDMaxLeases),
		Closed: c.IDServicesClosed})
	if err != nil {
		return nil, err
	}
	o := setup.API(c, ids, lines)
	o.Stop, o.Audit, o.Build, o.Metrics, o.Traces = ctx.Done(), log, this(), observed.metrics, observed.traces
	return httpapi.New(store, identity, o), nil
}

func taskEndpoint(ctx context.Context, c *settings.Config, store docstore.Store, log *slog.Logger,
	observed *observing) (http.Handler, error) {
	lines := telemetry.AtLeast(c.Level(), log)
	route, err := setup.TaskRoute(ctx, c, IDToken, store, lines, observed.metrics, observed.traces)
	if err != nil {
		return nil, err
	}
	return httpapi.Handler([]httpapi.Route{route}, &httpapi.Options{Log: lines, Audit: log, Metrics: observed.metrics,
		Traces: observed.traces}), nil
}

func sweepEndpoint(ctx context.Context, c *settings.Config, store docstore.Store, log *slog.Logger,
	observed *observing) (http.Handler, error) {
	lines := telemetry.AtLeast(c.Level(), log)
	// the queue stays open for as long as the process lives
	route, _, err := SweepRoute(context.WithoutCancel(ctx), c, store, lines, observed.metrics, nil)
	if err != nil {
		return nil, err
	}
	return httpapi.Handler([]httpapi.Route{route}, &httpapi.Options{Log: lines, Audit: log, Metrics: observed.metrics,
		Traces: observed.traces}), nil
}

// ServeHTTP implements [http.Handler].
func (f *Function) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.life().serve(http.HandlerFunc(f.serve), w, r)
}

func (f *Function) serve(w http.ResponseWriter, r *http.Request) {
	h, err := f.handler(r.Context())
	if err != nil {
		f.log.ErrorContext(r.Context(), "cannot start", "err", err)
		f.problem(w, r, contracts.CodeUnavailable, "the function could not start; its log has the reason")
		return
	}
	h.ServeHTTP(w, r)
}

// handler returns the handler that all requests share, and waits while it is being made, for as long as a request may
// take. A failed attempt is forgotten.
func (f *Function) handler(ctx context.Context) (http.Handler, error) {
	ctx, cancel := context.WithTimeout(ctx, httpapi.DefaultTimeout)
	defer cancel()
	f.mu.Lock()
	o := f.now
	if o == nil || o.hangs() {
		setup.GrowStack()
		o = &opening{begun: time.Now(), done: make(chan struct{})}
		f.now = o
		go f.try(o)
	}
	f.mu.Unlock()
	select {
	case <-o.done:
		return o.handler, o.err
	case <-ctx.Done():
		return nil, fmt.Errorf("still opening the store: %w", ctx.Err())
	}
}

// hangs reports whether an attempt has not ended in the time that it has.
func (o *opening) hangs() bool {
	select {
	case <-o.done:
		return false
	default:
		return time.Since(o.begun) >= openFor
	}
}

func (f *Function) try(o *opening) {
	setup.GrowStack()
	defer close(o.done)
	o.handler, o.err = f.open()
	f.mu.Lock()
	defer f.mu.Unlock()
	if o.err != nil && f.now == o {
		f.now = nil
	}
}

// fromThisMachine restricts a function that verifies no callers to those on this machine, whatever address the
// framework listens on. The Host header, which the API checks, is what the caller says.
func (f *Function) fromThisMachine(next http.Handler, detail string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !httpapi.Loopback(r.RemoteAddr) {
			f.problem(w, r, contracts.CodePermissionDenied, detail)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// problem sends a problem document.
func (f *Function) problem(w http.ResponseWriter, r *http.Request, code contracts.Code, detail string) {
	if err := httpapi.WriteProblem(w, contracts.Errorf(code, "%s", detail)); err != nil {
		f.log.WarnContext(r.Context(), "cannot send a problem", "err", err)
	}
}
