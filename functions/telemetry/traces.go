package telemetry

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"unicode"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/leasehold-dev/leasehold/repo/analysis"
	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/lock"
	"github.com/leasehold-dev/leasehold/repo/placement"
)

// Scope is the name of the tracer.
const Scope = "github.com/leasehold-dev/leasehold"

// Attributes of spans that no semantic convention has.
const (
	// ok, or the code of the rejection; of a store call applied, refused or ok
	outcomeKey   = attribute.Key("leasehold.outcome")
	replayedKey  = attribute.Key("leasehold.replayed")  // the command had been carried out before
	tenantKey    = attribute.Key("leasehold.tenant")    // that the path names
	requestKey   = attribute.Key("leasehold.request")   // the ID of the request, as in the log
	documentsKey = attribute.Key("leasehold.documents") // that were read, written or removed
)

// Traces makes spans of what a process does: one for each request, one for each command of a rule within it, and one
// for each call of the store within that. A nil *Traces makes none.
type Traces struct {
	tracer trace.Tracer
	system attribute.KeyValue
}

var _ Observer = (*Traces)(nil)

// NewTraces returns what makes spans with a provider. system is the store, as the semantic conventions name it: memory,
// sqlite, redis, gcp.firestore, aws.dynamodb. A nil provider returns nil.
func NewTraces(provider trace.TracerProvider, system string) *Traces {
	if provider == nil {
		return nil
	}
	return &Traces{tracer: provider.Tracer(Scope), system: semconv.DBSystemNameKey.String(system)}
}

// Observers are those of a [Store]: the traces, or none.
func (t *Traces) Observers() []Observer {
	if t == nil {
		return nil
	}
	return []Observer{t}
}

// begin begins a span within that of the context. The caller ends it.
func (t *Traces) begin(ctx context.Context, name string, kind trace.SpanKind,
	attrs ...attribute.KeyValue) (context.Context, trace.Span) {
	//nolint:spancheck // see above
	return t.tracer.Start(ctx, name, trace.WithSpanKind(kind), trace.WithAttributes(attrs...))
}

// Served is how a request ended.
type Served struct {
	Route   string // pattern of the path; empty if no endpoint has it
	Tenant  string // that the path names
	Request string // its ID
	Status  int
	Outcome string // ok, or a code
}

// Serve begins the span of a request, within the trace that its headers name; see [Incoming], which has been called.
// The context is that of the work; end is called when it has ended.
func (t *Traces) Serve(ctx context.Context, r *http.Request) (_ context.Context, end func(Served)) {
	if t == nil {
		return ctx, func(Served) {}
	}
	ctx, span := t.begin(ctx, r.Method, trace.SpanKindServer)
	return ctx, func(s Served) {
		if !span.IsRecording() {
			return
		}
		span.SetAttributes(semconv.HTTPRequestMethodKey.String(method(r.Method)), semconv.URLPath(r.URL.EscapedPath()),
			semconv.HTTPResponseStatusCode(s.Status), outcomeKey.String(s.Outcome), requestKey.String(s.Request))
		if s.Route != "" {
			span.SetName(r.Method + " " + s.Route)
			span.SetAttributes(semconv.HTTPRoute(s.Route))
		} else {
			span.SetName(method(r.Method))
		}
		if s.Tenant != "" {
			span.SetAttributes(tenantKey.String(s.Tenant))
		}
		if s.Status >= http.StatusInternalServerError {
			span.SetStatus(codes.Error, "")
			span.SetAttributes(semconv.ErrorTypeKey.String(s.Outcome))
		}
		span.End()
	}
}

// method is a method of HTTP, if it is one: anyone can send others.
func method(m string) string {
	switch m {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodDelete, http.MethodOptions,
		http.MethodPatch:
		return m
	default:
		return "_OTHER"
	}
}

// Send begins the span of a request to another server, such as the target of a task, and adds the headers that name its
// trace. Without traces it adds those of the trace that the context is part of. end is called with the response's
// status, 0 if there is none, and the error.
func (t *Traces) Send(r *http.Request) (_ *http.Request, end func(status int, err error)) {
	ctx := r.Context()
	if t == nil {
		Outgoing(ctx, r.Header)
		return r, func(int, error) {}
	}
	ctx, span := t.begin(ctx, r.Method, trace.SpanKindClient,
		semconv.HTTPRequestMethodKey.String(r.Method), semconv.ServerAddress(r.URL.Hostname()))
	Outgoing(ctx, r.Header)
	return r.WithContext(ctx), func(status int, err error) {
		if status != 0 {
			span.SetAttributes(semconv.HTTPResponseStatusCode(status))
		}
		if err != nil || status >= http.StatusBadRequest {
			span.SetStatus(codes.Error, "")
			kind := strconv.Itoa(status)
			if status == 0 {
				kind = ErrorType(err)
			}
			span.SetAttributes(semconv.ErrorTypeKey.String(kind))
		}
		span.End()
	}
}

// Deliver begins the span of a message of a queue that is worked on. end is called with the outcome of the delivery.
func (t *Traces) Deliver(ctx context.Context, messageID string) (_ context.Context,
	end func(outcome string, err error)) {
	if t == nil {
		return ctx, func(string, error) {}
	}
	ctx, span := t.begin(ctx, "process analysis", trace.SpanKindConsumer, semconv.MessagingOperationTypeProcess,
		semconv.MessagingMessageID(messageID))
	return ctx, func(outcome string, err error) {
		span.SetAttributes(outcomeKey.String(outcome))
		if err != nil {
			span.SetStatus(codes.Error, "")
			span.SetAttributes(semconv.ErrorTypeKey.String(outcome))
		}
		span.End()
	}
}

// Observe implements [rule.Observer] by a span for each command, named after it: lock.acquire.
func (t *Traces) Observe(ctx context.Context, command any) (context.Context, func(outcome any, err error)) {
	ctx, span := t.begin(ctx, commandName(command), trace.SpanKindInternal)
	return ctx, func(outcome any, err error) {
		code, replayed := Outcome(outcome)
		switch {
		case err != nil:
			fail(span, err)
		case code != "":
			span.SetAttributes(outcomeKey.String(code), replayedKey.Bool(replayed))
		}
		span.End()
	}
}

// Call implements [Observer] by a span for each call: write locks.
func (t *Traces) Call(ctx context.Context, c Call) (context.Context, func(Answer)) {
	ctx, span := t.begin(ctx, strings.TrimSpace(string(c.Operation)+" "+c.Kind), trace.SpanKindClient,
		t.system, semconv.DBOperationName(string(c.Operation)), semconv.DBCollectionName(c.Kind))
	return ctx, func(a Answer) {
		outcome, documents := "ok", a.Documents
		switch {
		case a.Refused:
			outcome = "refused"
		case c.Operation == Write && a.Err == nil:
			outcome, documents = "applied", c.Documents
		}
		if a.Err != nil {
			fail(span, a.Err)
		} else {
			span.SetAttributes(outcomeKey.String(outcome), documentsKey.Int(documents))
		}
		span.End()
	}
}

// fail ends a span as one of an error. The error's text stays in the log: it names keys, and may be long.
func fail(span trace.Span, err error) {
	span.SetStatus(codes.Error, "")
	span.SetAttributes(semconv.ErrorTypeKey.String(ErrorType(err)))
}

// ErrorType is a word for an error of a store, of metrics and spans. The cases are in order: an error can be several.
func ErrorType(err error) string {
	switch is := func(target error) bool { return errors.Is(err, target) }; {
	case is(docstore.ErrFull):
		return "full"
	case is(docstore.ErrBlocked):
		return "blocked"
	case is(docstore.ErrClockSkew):
		return "clock_skew"
	case is(docstore.ErrDamaged):
		return "damaged"
	case is(docstore.ErrInvalid):
		return "invalid"
	case is(docstore.ErrUnsupported):
		return "unsupported"
	case is(docstore.ErrNoIndex):
		return "no_index"
	case is(docstore.ErrClosed):
		return "closed"
	case is(context.Canceled):
		return "canceled"
	case is(context.DeadlineExceeded):
		return "timeout"
	case is(docstore.ErrUnavailable):
		return "unavailable"
	default:
		return "_OTHER"
	}
}

// Outcome is the code of a command's outcome, and whether it had been carried out before; empty for what has no code.
func Outcome(outcome any) (code string, replayed bool) {
	switch o := outcome.(type) {
	case lock.Outcome:
		return word(string(o.Code)), o.Replayed
	case lock.SetOutcome:
		return word(string(o.Code)), o.Replayed
	case analysis.Outcome:
		return word(string(o.Code)), o.Replayed
	case placement.Outcome:
		return word(string(o.Code)), o.Replayed
	case placement.MemberOutcome:
		return word(string(o.Code)), o.Replayed
	case lock.FenceOutcome:
		return passed(o.Passed), false
	case lock.FenceResetOutcome:
		return passed(o.Reset || o.Replayed), o.Replayed
	default:
		return "", false
	}
}

// word is a code as outcomes in logs and spans have it.
func word(code string) string {
	if code == "OK" {
		return "ok"
	}
	return code
}

func passed(ok bool) string {
	if ok {
		return "ok"
	}
	return "STALE_TOKEN"
}

// commandName is lock.force_release for a lock.ForceRelease.
func commandName(command any) string {
	var b strings.Builder
	for i, r := range cmp.Or(strings.TrimPrefix(fmt.Sprintf("%T", command), "*"), "command") {
		if unicode.IsUpper(r) {
			if i > 0 && !strings.HasSuffix(b.String(), ".") {
				b.WriteByte('_')
			}
			r = unicode.ToLower(r)
		}
		b.WriteRune(r)
	}
	return b.String()
}
