package httpapi

import (
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/leasehold-dev/leasehold/contracts"
	"github.com/leasehold-dev/leasehold/functions/metrics"
	"github.com/leasehold-dev/leasehold/functions/telemetry"
)

// Route is one endpoint of a [Handler].
type Route struct {
	Method string // GET handles HEAD too
	Path   string // a pattern of [http.ServeMux], without the method

	// Do handles a request. An error that it returns is sent as a problem: a [*contracts.Error] as it says, an error of a
	// rule or a store under its code, everything else as INTERNAL. It has written nothing then.
	Do func(http.ResponseWriter, *http.Request) error

	Timeout time.Duration // for the work of one request; 0 means Options.Timeout
	Audit   string        // name of the action if success is an audit event, see AuditMessage; empty if it is none

	// Routine says that success is nothing to remember, see Options.Outcomes: renewals, heartbeats and the like are most
	// of all requests.
	Routine bool

	// Operation is what requests are counted as, see package metrics; empty means Audit, or that they are not counted as
	// an operation.
	Operation string
}

// Handler returns a handler of other endpoints than the API's, with what all endpoints have in common: a request ID and
// a log line for each request, panics that end one request only, a time limit, and problems with a code. The endpoints
// authenticate callers themselves. Options.Routes are added; options may be nil.
func Handler(routes []Route, o *Options) http.Handler {
	if o != nil {
		routes = slices.Concat(routes, o.Routes)
	}
	return newFrame(o).handler(routes, false)
}

// frame is what all endpoints have in common.
type frame struct {
	log   *slog.Logger
	audit *slog.Logger
	// auditUnknown is the log of audit events about senders who are not known; see Options.AuditUnknown.
	auditUnknown *slog.Logger
	rejections   *rejections
	sample       int // see Options.LogSample
	traces       *telemetry.Traces
	timeout      time.Duration
	bodies       *bound // that are read; nil: no bound
	anyHost      bool   // see Options.InsecureAnyHost
	origins      []string
	outcomes     *outcomes // nil: none are remembered
	metrics      *metrics.Metrics
	damage       *metrics.Damage // see Options.Damage
	leaving      <-chan struct{} // see Options.Leaving
	home         string          // see Options.Home
	folders      map[string]bool // paths of routes that end in a slash
	routes       []Route
	caller       func(*http.Request) (Caller, error) // who sent a request, where that decides how its path is read
}

func newFrame(o *Options) *frame {
	f := &frame{log: slog.New(slog.DiscardHandler), timeout: DefaultTimeout, sample: LogAll}
	if o != nil && o.Log != nil {
		f.log = o.Log
	}
	if f.audit = f.log; o != nil && o.Audit != nil {
		f.audit = o.Audit
	}
	if f.auditUnknown = f.audit; o != nil && o.AuditUnknown != nil {
		f.auditUnknown = o.AuditUnknown
	}
	if f.damage = new(metrics.Damage); o != nil && o.Damage != nil {
		f.damage = o.Damage
	}
	f.rejections = &rejections{tell: f.tellRejections}
	if o != nil && o.LogSample != 0 {
		f.sample = o.LogSample
	}
	if o != nil && o.Timeout > 0 {
		f.timeout = o.Timeout
	}
	if o != nil {
		f.traces, f.leaving = o.Traces, o.Leaving
		f.anyHost, f.origins, f.home = o.InsecureAnyHost, o.Origins, o.Home
		f.outcomes, f.metrics = newOutcomes(o.Outcomes, o.Now), o.Metrics
	}
	if o != nil && o.Limits.BodyBytes > 0 {
		f.bodies = newBound(bodies, o.Limits.BodyBytes, maxWaitingBodies, min(maxWait, f.timeout/4))
	}
	return f
}

func (f *frame) handler(routes []Route, unverified bool) http.Handler {
	f.folders, f.routes = map[string]bool{}, routes
	for _, r := range routes {
		if folder, ok := strings.CutSuffix(r.Path, "{$}"); ok {
			f.folders[folder] = true
		}
	}
	h := f.wholeSegments(f.mux(routes))
	if unverified {
		h = f.fromThisMachine(h)
	}
	return withRequestID(f.withLog(f.recoverPanics(f.withOrigins(h))))
}

// mux routes requests. Other methods of an existing path are METHOD_NOT_ALLOWED, everything else is NOT_FOUND. A
// function that starts makes it before its first request, so that little is made: there is a mux for each part of the
// API, made with the first request to it, and it knows paths only: a pattern for each method takes twice as many.
func (f *frame) mux(routes []Route) http.Handler {
	paths := make(map[string]*endpoint, len(routes))
	parts := map[string]map[string]*endpoint{"": {}}
	for _, r := range routes {
		e := paths[r.Path]
		if e == nil {
			e = &endpoint{}
			paths[r.Path] = e
			p := part(r.Path)
			if parts[p] == nil {
				parts[p] = map[string]*endpoint{}
			}
			parts[p][r.Path] = e
		}
		e.add(r.Method, withTimeout(r.Timeout, f.respond(r.named())))
	}
	muxes := make(map[string]func() http.Handler, len(parts))
	for p, its := range parts {
		muxes[p] = sync.OnceValue(func() http.Handler { return f.muxOf(its) })
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mux, ok := muxes[part(r.URL.EscapedPath())]
		if !ok {
			mux = muxes[""]
		}
		mux().ServeHTTP(w, r)
	})
}

// muxOf routes the requests of one part.
func (f *frame) muxOf(paths map[string]*endpoint) http.Handler {
	mux := http.NewServeMux()
	for path, e := range paths {
		mux.Handle(path, f.respond(e.serve))
	}
	mux.Handle("/", f.respond(func(w http.ResponseWriter, r *http.Request) error {
		if f.home != "" && r.URL.Path == "/" && asksForPage(r) {
			w.Header().Set("Location", f.home)
			w.Header().Set("Vary", "Accept")
			w.WriteHeader(http.StatusFound)
			return nil
		}
		return f.noPath(r)
	}))
	return mux
}

// asksForPage reports whether a browser asks for a page: it accepts HTML by its name, which other programs do not.
func asksForPage(r *http.Request) bool {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		return false
	}
	for accepted := range strings.SplitSeq(r.Header.Get("Accept"), ",") {
		if kind, _, _ := strings.Cut(accepted, ";"); strings.EqualFold(strings.TrimSpace(kind), "text/html") {
			return true
		}
	}
	return false
}

// part is the part of the API that a path belongs to, escaped or a pattern: what is named behind a tenant, such as
// "locks"; empty for all other paths.
func part(path string) string {
	var head [4]string
	path = strings.TrimPrefix(path, "/")
	for i := range head {
		head[i], path, _ = strings.Cut(path, "/")
		if strings.Contains(head[i], "%") {
			head[i], _ = url.PathUnescape(head[i]) // the path is well formed
		}
	}
	if head[0] != "v1" || head[1] != "tenants" {
		return ""
	}
	return head[3]
}

// endpoint is the routes of one path.
type endpoint struct {
	methods  []string
	handlers []http.Handler // of the methods
}

func (e *endpoint) add(method string, h http.Handler) {
	if slices.Contains(e.methods, method) {
		panic("httpapi: two routes have one path and one method: " + method)
	}
	e.methods, e.handlers = append(e.methods, method), append(e.handlers, h)
}

func (e *endpoint) serve(w http.ResponseWriter, r *http.Request) error {
	i := slices.Index(e.methods, r.Method)
	if i < 0 && r.Method == http.MethodHead {
		i = slices.Index(e.methods, http.MethodGet)
	}
	if i >= 0 {
		e.handlers[i].ServeHTTP(w, r)
		return nil
	}
	methods := slices.Clone(e.methods)
	if slices.Contains(methods, http.MethodGet) && !slices.Contains(methods, http.MethodHead) {
		methods = append(methods, http.MethodHead)
	}
	slices.Sort(methods)
	allow := strings.Join(methods, ", ")
	w.Header().Set("Allow", allow)
	return contracts.Errorf(contracts.CodeMethodNotAllowed, "%s takes %s, not %s", r.Pattern, allow, r.Method)
}

// named is Do for a request whose log knows the action.
func (route Route) named() func(http.ResponseWriter, *http.Request) error {
	return func(w http.ResponseWriter, r *http.Request) error {
		n := noteOf(r)
		n.request, n.route, n.action, n.tenant = r, &route, route.Audit, r.PathValue("tenant_id")
		return route.Do(w, r)
	}
}

var errNoPath = contracts.Errorf(contracts.CodeNotFound, "there is no such path; GET /openapi.yaml lists them")

// respond turns a handler's error into a problem document.
func (f *frame) respond(do func(http.ResponseWriter, *http.Request) error) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := do(w, r); err != nil {
			f.fail(w, r, err)
		}
	})
}

// withTimeout bounds the time of a request's work by another time than that of all requests; 0: it is bounded like all.
func withTimeout(bound time.Duration, next http.Handler) http.Handler {
	if bound == 0 {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := noteOf(r).within(bound)
		defer cancel()
		next.ServeHTTP(w, r.WithContext(ctx))
	})
}
