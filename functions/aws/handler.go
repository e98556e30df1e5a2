package aws

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"runtime/debug"
	"time"

	"github.com/aws/aws-lambda-go/events"

	"github.com/leasehold-dev/leasehold/contracts"
)

const (
	// ResponseMargin is how long before the end of its invocation a request is cancelled, so that the response is still sent.
	ResponseMargin = 500 * time.Millisecond

	// MaxResponseBytes is the size of the largest response that Lambda accepts, less a little: it drops those beyond 6 MB.
	MaxResponseBytes = 6_000_000
)

// Handler serves invocations with an [http.Handler]. It is a lambda.Handler of aws-lambda-go.
type Handler struct {
	http     http.Handler
	log      *slog.Logger
	basePath string
}

// Options are the settings of [New]. The zero value works.
type Options struct {
	Log *slog.Logger // errors; nil means none

	// BasePath is removed from the front of paths, such as /leasehold: what a custom domain maps to the API. Paths without it
	// stay as they are.
	BasePath string
}

// New returns the handler of the events of an HTTP API or a function URL. Options may be nil.
func New(h http.Handler, o *Options) *Handler {
	if o == nil {
		o = &Options{}
	}
	return &Handler{http: h, log: cmp.Or(o.Log, slog.New(slog.DiscardHandler)), basePath: o.BasePath}
}

// Invoke serves one event. An error means that the event is not an HTTP request in payload format 2.0.
func (h *Handler) Invoke(ctx context.Context, payload []byte) ([]byte, error) {
	event, err := parse(payload)
	if err != nil {
		return nil, err
	}
	if deadline, ok := ctx.Deadline(); ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, deadline.Add(-ResponseMargin))
		defer cancel()
	}
	response, err := h.serve(withEvent(ctx, event), event)
	if err != nil {
		return nil, err
	}
	encoded, err := json.Marshal(response)
	if err != nil || len(encoded) <= MaxResponseBytes {
		return encoded, err
	}
	h.log.ErrorContext(ctx, "the response is too large for Lambda", "path", event.RawPath, "bytes", len(encoded))
	response, err = problem(contracts.Errorf(contracts.CodeInternal,
		"the response has %d bytes, Lambda accepts %d: request a smaller page", len(encoded), MaxResponseBytes))
	if err != nil {
		return nil, err
	}
	return json.Marshal(response)
}

// serve calls the HTTP handler. A panic ends the request, not the instance.
func (h *Handler) serve(ctx context.Context, event *events.APIGatewayV2HTTPRequest) (
	response events.LambdaFunctionURLResponse, err error,
) {
	r, err := request(ctx, event, h.basePath)
	if bad, ok := errors.AsType[*requestError](err); ok {
		h.log.InfoContext(ctx, "malformed request", "path", event.RawPath, "err", bad)
		e := contracts.Errorf(contracts.CodeInvalidArgument, "%s", bad)
		e.Field = bad.field
		return problem(e)
	}
	defer func() {
		if p := recover(); p != nil {
			h.log.ErrorContext(ctx, "panic", "value", p, "stack", string(debug.Stack()))
			response, err = problem(contracts.Errorf(contracts.CodeInternal, "the function's log has the details"))
		}
	}()
	w := newRecorder()
	h.http.ServeHTTP(w, r)
	return w.event(r.Method), nil
}
