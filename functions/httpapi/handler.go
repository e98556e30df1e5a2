package httpapi

import (
	"context"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/leasehold-dev/leasehold/contracts"
	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/lock"
)

// Bounds of a request.
const (
	MaxBodyBytes   = 64 << 10         // of a body; more is PAYLOAD_TOO_LARGE
	MaxHeaderBytes = 16 << 10         // of a request's header lines; more is 431
	DefaultTimeout = 10 * time.Second // for a request's work
)

// Options are the settings of [New]. The zero value works.
type Options struct {
	Log     *slog.Logger  // one line for each request, and faults; nil stands for none
	Timeout time.Duration // for the work of one request; 0 stands for DefaultTimeout
}

// New returns the handler of the whole API over one store. Options may be nil.
func New(store docstore.Store, identity Identity, o *Options) http.Handler {
	a := &api{
		store: store, identity: identity, locks: lock.New(store, nil), guard: lock.NewGuard(store),
		log: slog.New(slog.DiscardHandler), timeout: DefaultTimeout,
	}
	if o != nil && o.Log != nil {
		a.log = o.Log
	}
	if o != nil && o.Timeout > 0 {
		a.timeout = o.Timeout
	}
	h := a.wholeSegments(a.routes())
	if identity == (Development{}) {
		h = a.fromThisMachine(h)
	}
	return named(a.logged(a.contained(a.timed(h))))
}

// Server returns an HTTP server with limits for clients that are slow, or never end: 5 s for the header, 15 s for the
// whole request, two minutes between requests. Its errors go to the log.
func Server(h http.Handler, log *slog.Logger) *http.Server {
	return &http.Server{
		Handler:           h,
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       15 * time.Second,
		WriteTimeout:      30 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    MaxHeaderBytes,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelWarn),
	}
}

type api struct {
	store    docstore.Store
	identity Identity
	locks    *lock.Locks
	guard    *lock.Guard
	log      *slog.Logger
	timeout  time.Duration
}

// routes is the table of doors. A path that exists answers METHOD_NOT_ALLOWED to other methods, and everything else is
// NOT_FOUND.
func (a *api) routes() http.Handler {
	type route struct {
		method, path string
		do           func(http.ResponseWriter, *http.Request) error
	}
	const one = "/v1/tenants/{tenant_id}/locks/{lock_key}"
	routes := []route{
		{"POST", one + "/acquire", a.withCaller(a.acquire)},
		{"POST", one + "/renew", a.withCaller(a.renew)},
		{"POST", one + "/release", a.withCaller(a.release)},
		{"POST", one + "/force-release", a.withCaller(a.forceRelease)},
		{"GET", one, a.withCaller(a.getLock)},
		{"GET", "/v1/tenants/{tenant_id}/locks", a.withCaller(a.listLocks)},
		{"POST", "/v1/tenants/{tenant_id}/fences/{resource}/check", a.withCaller(a.checkFence)},
		{"GET", "/healthz", a.healthz},
		{"GET", "/readyz", a.readyz},
		{"GET", "/openapi.yaml", openapi},
	}
	mux := http.NewServeMux()
	allowed := make(map[string][]string)
	for _, r := range routes {
		mux.Handle(r.method+" "+r.path, a.answer(r.do))
		allowed[r.path] = append(allowed[r.path], r.method)
		if r.method == http.MethodGet {
			allowed[r.path] = append(allowed[r.path], http.MethodHead)
		}
	}
	for path, methods := range allowed {
		slices.Sort(methods)
		allow := strings.Join(methods, ", ")
		mux.Handle(path, a.answer(func(w http.ResponseWriter, r *http.Request) error {
			w.Header().Set("Allow", allow)
			return refuse(contracts.CodeMethodNotAllowed, "%s takes %s, not %s", r.Pattern, allow, r.Method)
		}))
	}
	mux.Handle("/", a.answer(func(http.ResponseWriter, *http.Request) error {
		return refuse(contracts.CodeNotFound, "no such path; GET /openapi.yaml lists them")
	}))
	return mux
}

// answer turns a handler's error into a problem document.
func (a *api) answer(do func(http.ResponseWriter, *http.Request) error) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := do(w, r); err != nil {
			a.fail(w, r, err)
		}
	})
}

// withCaller finds out who sent the request, and keeps callers to their own tenant.
func (a *api) withCaller(do func(http.ResponseWriter, *http.Request, Caller) error) func(http.ResponseWriter, *http.Request) error {
	return func(w http.ResponseWriter, r *http.Request) error {
		c, err := a.identity.Identify(r)
		if err != nil {
			return &identityError{err, a.identity.Challenge()}
		}
		if tenant := r.PathValue("tenant_id"); c.Tenant != "" && c.Tenant != tenant {
			return refuse(contracts.CodePermissionDenied, "your token is for tenant %q, the path for tenant %q", c.Tenant, tenant)
		}
		return do(w, r, c)
	}
}

func (a *api) healthz(w http.ResponseWriter, _ *http.Request) error {
	return send(w, contracts.Health{Status: "ok"})
}

// readyz reads a document that need not exist: what counts is that the store answers.
func (a *api) readyz(w http.ResponseWriter, r *http.Request) error {
	if _, err := a.store.Get(r.Context(), docstore.Key{Kind: "health", ID: "ready"}); err != nil {
		return err
	}
	return send(w, contracts.Health{Status: "ok"})
}

func openapi(w http.ResponseWriter, _ *http.Request) error {
	w.Header().Set("Content-Type", "application/yaml")
	_, err := w.Write(contracts.OpenAPI)
	return err
}

// timed bounds the time of a request's work, so that a store that hangs becomes an answer.
func (a *api) timed(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), a.timeout)
		defer cancel()
		next.ServeHTTP(w, r.WithContext(ctx))
	})
}
