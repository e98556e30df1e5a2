package tasks

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/leasehold-dev/leasehold/contracts"
	"github.com/leasehold-dev/leasehold/functions/httpapi"
	"github.com/leasehold-dev/leasehold/once"
	"github.com/leasehold-dev/leasehold/repo/docstore"
)

// Paths of the internal endpoints.
const (
	TaskPath  = "/internal/tasks/analysis"
	SweepPath = "/internal/sweep"
)

// Bounds of one delivery.
const (
	DefaultTimeout = 10 * time.Minute // as long as Cloud Tasks waits for a response unless the task says otherwise
	MaxTimeout     = 30 * time.Minute // as long as Cloud Tasks can be told to wait

	// Margin is how long before the end of a delivery's time the work is stopped, or a quarter of the time if that is
	// less: releasing the lock takes a moment, and the response must be sent by then. Let the queue wait this much longer
	// than Timeout.
	Margin = 15 * time.Second
)

// Endpoint is the worker's endpoint for a queue that pushes: POST /internal/tasks/analysis. An Endpoint without a
// Worker responds NOT_CONFIGURED.
//
//	2xx                  the message is done: ready, failed, already_finished, already_failed, locked with AckLocked. Or it is dead: malformed, unknown_analysis, damaged;
//	                     Cloud Tasks has no dead-letter queue, the log has it as an error
//	404 NOT_FOUND        retry, for Worker.Grace: the analysis does not exist yet
//	409 ANALYSIS_LOCKED  retry: another worker runs it. Neither 429 nor 503: Cloud Tasks slows the whole queue down on those
//	409 RUN_INTERRUPTED  retry: the lock was lost, the time ran out, the process ends, what was done could not be stored
//	424 ATTEMPT_FAILED   retry: the work failed
//	503 UNAVAILABLE      retry: the gate did not respond, or the target is away: here the whole queue is to slow down
//	500 DOCUMENT_DAMAGED retry, for Worker.Grace: the analysis' document must be repaired
//	409 LOCK_UNREADABLE  the same
type Endpoint struct {
	Worker *Worker
	Guard  Guard

	// Timeout bounds the work of one delivery; 0 means DefaultTimeout, at most MaxTimeout. A deadline that the request
	// itself has, such as that of a Cloud Function, counts if it is earlier.
	Timeout time.Duration
}

// Route returns the endpoint for [httpapi.Options] or [httpapi.Handler]. When ctx ends, which is the process's end,
// running work is stopped and its lock released.
func (d Endpoint) Route(ctx context.Context) (httpapi.Route, error) {
	d.Timeout = cmp.Or(d.Timeout, DefaultTimeout)
	route := httpapi.Route{Method: http.MethodPost, Path: TaskPath, Audit: auditAction, Timeout: d.Timeout + Margin}
	if d.Worker == nil {
		route.Do = notConfigured("this server runs no analyses: set LEASEHOLD_TARGET_URL to the URL that does")
		return route, nil
	}
	switch {
	case d.Guard == nil:
		return route, fmt.Errorf("tasks: %w", errNoGuard)
	case d.Timeout < time.Second || d.Timeout > MaxTimeout:
		return route, fmt.Errorf("tasks: Timeout is %v: it must be from 1s to %v, the longest that Cloud Tasks waits",
			d.Timeout, MaxTimeout)
	}
	if err := d.Worker.Validate(); err != nil {
		return route, err
	}
	route.Do = func(w http.ResponseWriter, r *http.Request) error { return d.deliver(ctx, w, r) }
	return route, nil
}

// notConfigured rejects every request with the missing setting.
func notConfigured(detail string) func(http.ResponseWriter, *http.Request) error {
	return func(http.ResponseWriter, *http.Request) error {
		return contracts.Errorf(contracts.CodeNotConfigured, "%s", detail)
	}
}

// errStopping is the cause with which work is stopped when the process ends.
var errStopping = errors.New("the server is shutting down")

// hungUp is the cause with which work is stopped whose response no one waits for any more. It counts as a failed run:
// work that never fits into the queue's time would be delivered for ever.
func hungUp() error {
	return fmt.Errorf("the queue hung up before the run ended: %w", context.DeadlineExceeded)
}

func (d Endpoint) deliver(life context.Context, w http.ResponseWriter, r *http.Request) error {
	if err := admit(d.Guard, r); err != nil {
		return err
	}
	// The server's own limit is for quick responses.
	writeWithin(w, d.Timeout+2*Margin)
	body, err := httpapi.ReadBody(w, r, MaxMessageBytes+1)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(r.Context()))
	defer cancel(nil)
	defer context.AfterFunc(life, func() { cancel(errStopping) })()
	defer context.AfterFunc(r.Context(), func() {
		if life.Err() != nil { // connections are closed then, too
			cancel(errStopping)
			return
		}
		cancel(hungUp())
	})()
	ctx, stop := context.WithTimeout(ctx, d.timeFor(r.Context()))
	defer stop()
	m := message(w, r, body)
	a := d.Worker.Deliver(ctx, m)
	*httpapi.AuditEvent(r) = eventOf(m, a)
	return reply(w, a)
}

// timeFor is how long the work may take: less than the request may.
func (d Endpoint) timeFor(ctx context.Context) time.Duration {
	end, ok := ctx.Deadline()
	if !ok {
		return d.Timeout
	}
	left := time.Until(end)
	return min(d.Timeout, left-min(Margin, left/4))
}

// writeWithin moves the time by which the response must be sent. A writer that has no such limit needs nothing.
func writeWithin(w http.ResponseWriter, d time.Duration) {
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(d))
}

// message names a delivery as Cloud Tasks does. The headers are as good as the guard: Cloud Tasks takes them off what
// comes from outside, but a request that did not come through it can have any. So they are names for people, and decide
// nothing but how long a message waits for its analysis.
func message(w http.ResponseWriter, r *http.Request, body []byte) Message {
	m := Message{Body: body, ID: "request/" + w.Header().Get("X-Request-Id")}
	if task := r.Header.Get(
		"X-CloudTasks-TaskName"); task != "" { //nolint:canonicalheader // net/http canonicalizes what arrives
		m.ID = r.Header.Get("X-CloudTasks-QueueName") + "/" + task //nolint:canonicalheader // see above
		m.Try = r.Header.Get("X-CloudTasks-TaskRetryCount") + "." + r.Header.Get("X-CloudTasks-TaskExecutionCount")
		// When this attempt was due: for the first one, the time of the task.
		if eta, err := strconv.ParseFloat(r.Header.Get("X-CloudTasks-TaskETA"), 64); err == nil && eta > 0 && eta < 1e11 {
			m.Sent = time.UnixMicro(int64(eta * 1e6))
		}
	}
	return m
}

// reply translates a result for the queue into HTTP.
func reply(w http.ResponseWriter, a Result) error {
	if err := retried(a); err != nil {
		return err
	}
	return httpapi.Send(w, contracts.TaskDone{Outcome: contracts.TaskOutcome(a.Outcome), AnalysisID: a.AnalysisID})
}

// retried says why a delivery is to be repeated; nil if it is not.
func retried(a Result) error {
	if a.Done || a.Dead {
		return nil
	}
	switch a.Outcome {
	case once.Unknown:
		e := contracts.Errorf(contracts.CodeNotFound, "there is no analysis %q yet; the message is retried for a while",
			a.AnalysisID)
		e.Field, e.RetryAfter = "analysis_id", a.RetryAfter
		return e
	case Damaged:
		return a.Err
	case once.Locked:
		e := contracts.Errorf(contracts.CodeAnalysisLocked, "another worker runs analysis %q", a.AnalysisID)
		e.RetryAfter = a.RetryAfter
		return e
	case TargetAway:
		e := contracts.Errorf(contracts.CodeUnavailable, "what runs analyses cannot be reached, or refuses them for now; "+
			"nothing was run")
		e.RetryAfter = a.RetryAfter
		return e
	case once.Retry:
		return contracts.Errorf(contracts.CodeAttemptFailed,
			"the run failed; the analysis' document or the server's log says why")
	case once.Lost:
		return contracts.Errorf(contracts.CodeRunInterrupted, "the lock was lost during the work")
	case once.NotStored:
		return contracts.Errorf(contracts.CodeRunInterrupted,
			"the work is done and could not be stored: it is done again with the next delivery")
	case once.Stopped:
		return contracts.Errorf(contracts.CodeRunInterrupted, "the delivery's time ran out, or the server is shutting down")
	default:
		if errors.Is(a.Err, contracts.CodeInvalidArgument) || errors.Is(a.Err, docstore.ErrClockSkew) {
			return a.Err
		}
		return contracts.Errorf(contracts.CodeUnavailable, "the gate did not respond; nothing was run")
	}
}
