package aws

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"
	"time"

	"github.com/aws/aws-lambda-go/events"

	"github.com/leasehold-dev/leasehold/contracts"
)

const (
	// AnswerMargin is how long before the end of its invocation a request's work must end, so that the answer that says
	// so still gets out.
	AnswerMargin = 500 * time.Millisecond

	// MaxAnswerBytes is the largest answer that is handed to Lambda, which drops those beyond 6 MB.
	MaxAnswerBytes = 6_000_000
)

// Handler answers invocations with an [http.Handler]. It is a lambda.Handler of aws-lambda-go.
type Handler struct {
	http http.Handler
	log  *slog.Logger
}

// New returns the handler of the events of an HTTP API or a function URL. Faults go to the log.
func New(h http.Handler, log *slog.Logger) *Handler { return &Handler{http: h, log: log} }

// Invoke answers one event. An error means that the event is no HTTP request in payload format 2.0, and says so.
func (h *Handler) Invoke(ctx context.Context, payload []byte) ([]byte, error) {
	event, err := parse(payload)
	if err != nil {
		return nil, err
	}
	if deadline, ok := ctx.Deadline(); ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, deadline.Add(-AnswerMargin))
		defer cancel()
	}
	answer, err := h.serve(withEvent(ctx, event), event)
	if err != nil {
		return nil, err
	}
	encoded, err := json.Marshal(answer)
	if err != nil || len(encoded) <= MaxAnswerBytes {
		return encoded, err
	}
	h.log.ErrorContext(ctx, "the answer is too large for Lambda", "path", event.RawPath, "bytes", len(encoded))
	answer, err = problem(contracts.CodeInternal, "", fmt.Sprintf(
		"the answer has %d bytes, a Lambda function may answer %d: ask for a smaller page", len(encoded), MaxAnswerBytes))
	if err != nil {
		return nil, err
	}
	return json.Marshal(answer)
}

// serve lets the HTTP handler answer. Its panics end the request, not the instance.
func (h *Handler) serve(ctx context.Context, event *events.APIGatewayV2HTTPRequest) (
	answer events.LambdaFunctionURLResponse, err error,
) {
	r, err := request(ctx, event)
	if bad, ok := errors.AsType[*requestError](err); ok {
		h.log.InfoContext(ctx, "malformed request", "path", event.RawPath, "err", bad)
		return problem(contracts.CodeInvalidArgument, bad.field, bad.Error())
	}
	defer func() {
		if p := recover(); p != nil {
			h.log.ErrorContext(ctx, "panic", "value", p, "stack", string(debug.Stack()))
			answer, err = problem(contracts.CodeInternal, "", "the function's log has the details")
		}
	}()
	w := newRecorder()
	h.http.ServeHTTP(w, r)
	return w.event(r.Method), nil
}
