package gcp

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"sync"

	"github.com/leasehold-dev/leasehold/adapters/firestore"
	"github.com/leasehold-dev/leasehold/contracts"
	"github.com/leasehold-dev/leasehold/functions/httpapi"
	"github.com/leasehold-dev/leasehold/repo/docstore"
)

// API is the HTTP API over Firestore: an [http.Handler] that opens its store with the first request.
type API struct {
	log  *slog.Logger
	open func() (http.Handler, error)

	mu  sync.Mutex
	now *opening // nil: the next request begins one
}

// opening is one attempt to open the store. handler and err are set when done is closed.
type opening struct {
	done    chan struct{}
	handler http.Handler
	err     error
}

// New returns the API with the settings of an environment. Faults and one line for each request go to the log.
func New(getenv func(string) string, log *slog.Logger) *API {
	return newAPI(getenv, log, func(ctx context.Context, s settings) (docstore.Store, error) {
		return firestore.Open(ctx, &firestore.Options{Project: s.project, Database: s.database, Root: s.root})
	})
}

func newAPI(getenv func(string) string, log *slog.Logger, open func(context.Context, settings) (docstore.Store, error)) *API {
	return &API{log: log, open: func() (http.Handler, error) {
		s, err := settingsFrom(getenv)
		if err != nil {
			return nil, err
		}
		ctx := context.Background() // of the instance: clients keep it for as long as they live
		identity, err := s.identity(ctx)
		if err != nil {
			return nil, err
		}
		store, err := open(ctx, s)
		if err != nil {
			return nil, fmt.Errorf("open the store: %w", err)
		}
		h := httpapi.New(store, identity, &httpapi.Options{Log: log})
		if s.development {
			h = fromThisMachine(h)
		}
		return h, nil
	}}
}

// ServeHTTP implements [http.Handler].
func (a *API) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h, err := a.handler(r.Context())
	if err != nil {
		a.log.ErrorContext(r.Context(), "cannot start", "err", err)
		problem(w, contracts.CodeUnavailable, "the function could not start; its log says why")
		return
	}
	h.ServeHTTP(w, r)
}

// handler is the one that all requests share. It waits while it is being made, for as long as a request may take. A
// failed attempt is forgotten.
func (a *API) handler(ctx context.Context) (http.Handler, error) {
	ctx, cancel := context.WithTimeout(ctx, httpapi.DefaultTimeout)
	defer cancel()
	a.mu.Lock()
	o := a.now
	if o == nil {
		o = &opening{done: make(chan struct{})}
		a.now = o
		go a.try(o)
	}
	a.mu.Unlock()
	select {
	case <-o.done:
		return o.handler, o.err
	case <-ctx.Done():
		return nil, fmt.Errorf("still opening the store: %w", ctx.Err())
	}
}

func (a *API) try(o *opening) {
	defer close(o.done)
	if o.handler, o.err = a.open(); o.err != nil {
		a.mu.Lock()
		a.now = nil
		a.mu.Unlock()
	}
}

// fromThisMachine keeps a function in development mode to callers on this machine, whatever address the framework
// listens on. The Host header, at which the API looks by itself, is the caller's word.
func fromThisMachine(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !httpapi.Loopback(r.RemoteAddr) {
			problem(w, contracts.CodePermissionDenied, "a function in development mode answers callers on its own machine only")
			return
		}
		next.ServeHTTP(w, r)
	})
}
