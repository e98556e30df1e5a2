package aws

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"runtime/debug"
	"slices"
	"time"

	"github.com/leasehold-dev/leasehold/contracts"
	"github.com/leasehold-dev/leasehold/functions/httpapi"
)

const (
	// ResponseMargin is how long before the end of its invocation a request is cancelled, so that the response is still
	// sent.
	ResponseMargin = 500 * time.Millisecond

	// MaxResponseBytes is the size of the largest response that Lambda accepts, less a little: it drops those beyond 6 MB.
	MaxResponseBytes = 6_000_000

	// MaxBalancedBytes is the size of the largest response that an Application Load Balancer accepts: 1 MB, less a little.
	MaxBalancedBytes = 1_000_000
)

// Handler serves invocations with an [http.Handler]. It is a lambda.Handler of aws-lambda-go.
type Handler struct {
	http     http.Handler
	log      *slog.Logger
	basePath string
	fronts   []FrontDoor
}

// Options are the settings of [New]. The zero value works.
type Options struct {
	Log *slog.Logger // errors; nil means none

	// BasePath is removed from the front of paths, such as /leasehold: what a custom domain maps to the API. Paths without
	// it stay as they are.
	BasePath string

	// FrontDoors are the front ends of the deployment: events of others are rejected with PERMISSION_DENIED. nil accepts
	// all. It must name them where an [Authorizer] believes events, so that no more of them than necessary are believed.
	FrontDoors []FrontDoor
}

// New returns the handler of the events of function URLs, HTTP APIs, REST APIs and Application Load Balancers. Options
// may be nil.
func New(h http.Handler, o *Options) *Handler {
	if o == nil {
		o = &Options{}
	}
	return &Handler{http: h, log: cmp.Or(o.Log, slog.New(slog.DiscardHandler)), basePath: o.BasePath, fronts: o.FrontDoors}
}

// Invoke serves one event. An error means that the event is not an HTTP request.
func (h *Handler) Invoke(ctx context.Context, payload []byte) ([]byte, error) {
	e, err := parse(payload, h.basePath)
	if err != nil {
		return nil, err
	}
	if h.fronts != nil && !slices.Contains(h.fronts, e.front) {
		h.log.ErrorContext(
			ctx, "rejected an event of a front end that this deployment does not have: who may invoke the function directly?",
			"front", e.front, "accepted", h.fronts, "path", e.path, "remote", e.remote)
		return problem(e, contracts.Errorf(contracts.CodePermissionDenied,
			"this function does not accept events of the kind %s: LEASEHOLD_FRONT_DOOR names those that it does", e.front))
	}
	if deadline, ok := ctx.Deadline(); ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, deadline.Add(-ResponseMargin))
		defer cancel()
	}
	ctx = withEvent(ctx, e)
	if e.front == HTTPAPI {
		ctx = httpapi.Unescaped(ctx, "the HTTP API in front of this function")
	}
	encoded, err := h.serve(ctx, e)
	most := MaxResponseBytes
	if e.front == LoadBalancer {
		most = MaxBalancedBytes
	}
	if err != nil || len(encoded) <= most {
		return encoded, err
	}
	h.log.ErrorContext(ctx, "the response is too large for Lambda", "path", e.path, "bytes", len(encoded))
	return problem(e, contracts.Errorf(contracts.CodeInternal,
		"the response has %d bytes, at most %d can be sent: request a smaller page", len(encoded), most))
}

// serve calls the HTTP handler. A panic ends the request, not the instance.
func (h *Handler) serve(ctx context.Context, e *event) (response []byte, err error) {
	r, err := e.request(ctx)
	if bad, ok := errors.AsType[*requestError](err); ok {
		h.log.InfoContext(ctx, "malformed request", "path", e.path, "err", bad)
		wrong := contracts.Errorf(contracts.CodeInvalidArgument, "%s", bad)
		wrong.Field = bad.field
		return problem(e, wrong)
	}
	defer func() {
		if p := recover(); p != nil {
			h.log.ErrorContext(ctx, "panic", "value", p, "stack", string(debug.Stack()))
			response, err = problem(e, contracts.Errorf(contracts.CodeInternal, "the function's log has the details"))
		}
	}()
	w := newRecorder()
	h.http.ServeHTTP(w, r)
	return w.encode(e)
}
