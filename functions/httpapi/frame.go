package httpapi

import (
	"context"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/leasehold-dev/leasehold/contracts"
)

// Route is one door of a [Handler].
type Route struct {
	Method string // GET answers HEAD too
	Path   string // a pattern of [http.ServeMux], without the method

	// Do handles a request. What it returns is answered as a problem: a [*contracts.Error] as it says, an error of a rule or a store
	// under its code, everything else as INTERNAL. It has written nothing then.
	Do func(http.ResponseWriter, *http.Request) error

	Timeout time.Duration // for the work of one request; 0 stands for Options.Timeout
}

// Handler returns a handler of other doors than the API's, with what all doors of this house have in common: a name and a log
// line for each exchange, panics that end one request only, a bound for its time, and problems with a code. The doors
// decide themselves whom they believe. Options.Routes are doors too; options may be nil.
func Handler(routes []Route, o *Options) http.Handler {
	if o != nil {
		routes = slices.Concat(routes, o.Routes)
	}
	return newFrame(o).handler(routes, false)
}

// frame is what all doors have in common.
type frame struct {
	log     *slog.Logger
	timeout time.Duration
}

func newFrame(o *Options) *frame {
	f := &frame{log: slog.New(slog.DiscardHandler), timeout: DefaultTimeout}
	if o != nil && o.Log != nil {
		f.log = o.Log
	}
	if o != nil && o.Timeout > 0 {
		f.timeout = o.Timeout
	}
	return f
}

func (f *frame) handler(routes []Route, development bool) http.Handler {
	h := f.wholeSegments(f.mux(routes))
	if development {
		h = f.fromThisMachine(h)
	}
	return named(f.logged(f.contained(h)))
}

// mux knows the doors. A path that exists answers METHOD_NOT_ALLOWED to other methods, and everything else is NOT_FOUND.
func (f *frame) mux(routes []Route) http.Handler {
	mux := http.NewServeMux()
	allowed := make(map[string][]string)
	for _, r := range routes {
		mux.Handle(r.Method+" "+r.Path, f.timed(r.Timeout, f.answer(r.Do)))
		allowed[r.Path] = append(allowed[r.Path], r.Method)
		if r.Method == http.MethodGet {
			allowed[r.Path] = append(allowed[r.Path], http.MethodHead)
		}
	}
	for path, methods := range allowed {
		slices.Sort(methods)
		allow := strings.Join(methods, ", ")
		mux.Handle(path, f.answer(func(w http.ResponseWriter, r *http.Request) error {
			w.Header().Set("Allow", allow)
			return contracts.Errorf(contracts.CodeMethodNotAllowed, "%s takes %s, not %s", r.Pattern, allow, r.Method)
		}))
	}
	mux.Handle("/", f.answer(func(http.ResponseWriter, *http.Request) error {
		return errNoPath
	}))
	return mux
}

var errNoPath = contracts.Errorf(contracts.CodeNotFound, "there is no such path; GET /openapi.yaml lists them")

// answer turns a handler's error into a problem document.
func (f *frame) answer(do func(http.ResponseWriter, *http.Request) error) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := do(w, r); err != nil {
			f.fail(w, r, err)
		}
	})
}

// timed bounds the time of a request's work, so that a store that hangs becomes an answer.
func (f *frame) timed(bound time.Duration, next http.Handler) http.Handler {
	if bound == 0 {
		bound = f.timeout
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), bound)
		defer cancel()
		next.ServeHTTP(w, r.WithContext(ctx))
	})
}
