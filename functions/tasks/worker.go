package tasks

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/leasehold-dev/leasehold/contracts"
	"github.com/leasehold-dev/leasehold/functions/httpapi"
	"github.com/leasehold-dev/leasehold/functions/metrics"
	"github.com/leasehold-dev/leasehold/functions/telemetry"
	"github.com/leasehold-dev/leasehold/once"
	"github.com/leasehold-dev/leasehold/repo/analysis"
)

// Worker takes the messages of a queue through the gate to the work. Its zero value does not work: Gate and Work are
// required.
type Worker struct {
	Gate        once.Gate
	Work        once.Work
	TTL         time.Duration // of the lock; 0 means 5 minutes
	Heartbeat   time.Duration // between refreshes, once.MinHeartbeat to half of TTL; 0 means a fifth of TTL
	MaxFailures int64         // runs that may fail before the analysis turns FAILED; 0 means DefaultMaxFailures
	// how long a message is retried whose analysis does not exist, or has a document that cannot be read; 0 means
	// DefaultGrace
	Grace time.Duration
	// acknowledge a message whose analysis another worker runs, instead of retrying it. If that run fails, there is no
	// retry
	AckLocked bool
	Log       *slog.Logger // a line for each delivery, and what fails beside it; nil means none

	Traces  *telemetry.Traces // makes a span of each delivery; nil means none
	Metrics *metrics.Metrics  // counts deliveries; nil counts nothing
	// where audit events of runs go, if a delivery is no request of HTTP: the event of an [Endpoint] is its request's.
	// nil means none
	Audit *slog.Logger

	waiting sightings
	away    away
}

// Defaults of [Worker].
const (
	DefaultMaxFailures = 5
	DefaultGrace       = 10 * time.Minute
)

// Message is one delivery of a queue.
type Message struct {
	Body []byte // JSON with the member analysisId; other members are the sender's own business
	ID   string // the queue's name for the message, in logs and in the lock's owner
	Try  string // tells the deliveries of one message apart; empty makes one up

	// Deliveries is how many of the message there were, with this one, if the queue drops what it has delivered too
	// often; 0 if it does not, or does not say.
	Deliveries int

	// Sent is when the queue got the message, or a later time at which it was known to have it; zero is unknown, and then
	// the time counts at which this process first saw the message's ID.
	Sent time.Time

	// Extend moves the queue's own time-out for this delivery along with the lock, to the time until from now: when the
	// work begins, and with each heartbeat, from different goroutines. nil if there is no such thing. An error is logged
	// and changes nothing else.
	Extend func(ctx context.Context, until time.Duration) error
}

// Result is what to do with a message.
type Result struct {
	Done bool // acknowledge: the message has nothing left to do
	// Dead: retries are of no use, and what the message asks for is not done. It belongs into the dead-letter queue;
	// where there is none, with Done it is deleted, and Cloud Tasks drops it in any case
	Dead       bool
	RetryAfter time.Duration // unless Done: deliver not before this; 0 leaves it to the queue
	Outcome    Outcome
	AnalysisID string // empty if the message names none
	Owner      string // of the run, if there was one
	Token      int64  // the fence of the run, 0 if there was none
	Err        error  // what went wrong; Worker.Log has it already
}

// Outcome says how a delivery ended. Beside the statuses of a run there are three of its own.
//
//	done             ready, failed, already_finished, already_failed; locked with Worker.AckLocked
//	to be retried    attempt_failed, not_stored, locked, lock_lost, stopped, gate_failed, target_away; unknown_analysis,
//	                 damaged for Worker.Grace
//	dead             malformed; unknown_analysis, damaged after that
//	done and dead    failed, already_failed, if the tries are used up, and no run has failed for good
type Outcome = once.Status

// The outcomes of a delivery that are not statuses of a run.
const (
	Malformed  Outcome = "malformed"   // the message names no analysis, and never will
	GateFailed Outcome = "gate_failed" // the gate did not respond
	Damaged    Outcome = "damaged"     // the analysis' document cannot be read, or does not say whether it is locked
	TargetAway Outcome = "target_away" // what does the work cannot be reached, or has refused it for now: [NotBegunError]
)

// errUnknown says for the log why there was no run.
var errUnknown = errors.New("there is no such analysis")

// Validate reports whether the settings can work. The error names the field.
func (w *Worker) Validate() error {
	ttl := cmp.Or(w.TTL, analysis.DefaultTTLSeconds*time.Second)
	switch {
	case w.Gate == nil:
		return errors.New("tasks: Gate is required: where analyses are locked")
	case w.Work == nil:
		return errors.New("tasks: Work is required: what runs an analysis")
	case ttl < time.Second || ttl > analysis.MaxTTLSeconds*time.Second || ttl%time.Second != 0:
		return fmt.Errorf("tasks: TTL is %v: it must be whole seconds, from 1 s to %d h", w.TTL, analysis.MaxTTLSeconds/3600)
	case w.Heartbeat != 0 && w.Heartbeat < once.MinHeartbeat || w.Heartbeat > ttl/2:
		return fmt.Errorf("tasks: Heartbeat is %v: it must be from %v to half of the ttl of %v, so that one may be lost",
			w.Heartbeat, once.MinHeartbeat, ttl)
	case w.Grace < 0:
		return fmt.Errorf("tasks: Grace is %v: it must not be negative; 0 means %v", w.Grace, DefaultGrace)
	case w.MaxFailures < 0:
		return fmt.Errorf("tasks: MaxFailures is %d: it must be at least 1, or 0 for %d", w.MaxFailures, DefaultMaxFailures)
	}
	return nil
}

// Deliver takes one message through the gate to the work and says what to do with it. It returns when the work has
// ended, which the end of ctx asks it to do: give ctx the time that the queue waits for a response, less some seconds
// for releasing the lock. Several messages may be delivered at once, and the same one several times.
func (w *Worker) Deliver(ctx context.Context, m Message) Result {
	begin := time.Now()
	ctx, end := w.Traces.Deliver(ctx, m.ID)
	a := w.deliver(ctx, m)
	end(string(a.Outcome), a.Err)
	w.Metrics.Delivered(ctx, string(a.Outcome))
	w.logLine(ctx, m, a, time.Since(begin))
	if w.Audit != nil && a.Token != 0 { // something ran
		e := eventOf(m, a)
		if p, ok := errors.AsType[*contracts.Error](retried(a)); ok {
			e.Outcome = string(p.Code)
		}
		httpapi.WriteAuditEvent(ctx, w.Audit, w.Metrics, e)
	}
	return a
}

// auditAction is the action of a delivery in its audit event.
const auditAction = "task.deliver"

// retryFor is how long a delivery asks for its analysis while the gate does not respond. A queue that delivers again
// waits longer than that.
const retryFor = 30 * time.Second

// settleTime is how long a delivery takes at most to release its lock or to write the end of its run, when its time is
// over: less than [Margin].
const settleTime = 10 * time.Second

// eventOf is the audit event of a delivery.
func eventOf(m Message, a Result) contracts.AuditEvent {
	return contracts.AuditEvent{
		Action: auditAction, Kind: "analysis", Key: a.AnalysisID, MessageID: m.ID, Result: string(a.Outcome),
		Owner: a.Owner, FencingToken: a.Token,
	}
}

func (w *Worker) deliver(ctx context.Context, m Message) Result {
	id, err := analysisID(m.Body)
	if err != nil {
		return Result{Dead: true, RetryAfter: retryUnknown, Outcome: Malformed, Err: err}
	}
	// Before the gate is asked: while the target is away, the store has no requests either.
	e := w.away.begin(time.Now())
	if e == nil {
		wait, _ := w.away.open(time.Now())
		return Result{Outcome: TargetAway, RetryAfter: returned(m, wait), AnalysisID: string(id), Err: errAway}
	}
	defer e.unused()
	ttl := cmp.Or(w.TTL, analysis.DefaultTTLSeconds*time.Second)
	warn := func(err error) {
		w.log().WarnContext(ctx, "warning", "message_id", m.ID, "analysis", string(id), "err", clip(err.Error()))
	}
	extend := func(ctx context.Context) {
		if m.Extend == nil {
			return
		}
		if err := m.Extend(ctx, ttl); err != nil {
			warn(fmt.Errorf("extend the queue's timeout: %w", err))
		}
	}
	work := func(ctx context.Context, l once.Lock) (string, error) {
		extend(ctx)
		return w.begun(context.WithValue(ctx, messageKey{}, m), e, l)
	}
	owner := m.owner()
	o, err := once.Run(ctx, w.Gate, string(id), work, &once.Options{
		// The request ID is made up for each delivery: a message that a queue hands out twice at once has one name, and
		// the second must not be taken for the first sent again.
		Owner: owner, TTL: ttl, Heartbeat: w.Heartbeat, MaxFailures: cmp.Or(w.MaxFailures, DefaultMaxFailures),
		OnRefresh: func(ctx context.Context, _ time.Time) { extend(ctx) },
		Warn:      warn,
		RetryFor:  retryFor,
		// A message that comes again must not find its analysis locked by the delivery before, which is about to release it:
		// with AckLocked no one would run it any more. And a function does nothing more after its response.
		SettleTime: settleTime,
		OnStoring:  extend, // what the work did is stored as soon as the gate is back, and no one else is to begin meanwhile
	})
	if o.Status == once.NotStored {
		w.log().ErrorContext(ctx, "the work is done and not stored: it is done again when the message comes again",
			"message_id", m.ID, "analysis", string(id), "fencing_token", o.Token, "err", clip(o.Err.Error()))
	}
	if p, ok := errors.AsType[*once.PanicError](o.Err); ok {
		w.log().ErrorContext(ctx, "panic", "message_id", m.ID, "analysis", string(id), "value", p.Value,
			"stack", string(p.Stack))
	}
	a := resultOf(o, err)
	if a.AnalysisID, a.Token = string(id), o.Token; a.Token != 0 {
		a.Owner = owner
	}
	if n, ok := errors.AsType[*NotBegunError](o.Err); ok && !a.Done {
		wait, _ := w.away.open(time.Now())
		a.Outcome, a.RetryAfter = TargetAway, returned(m, max(wait, n.RetryAfter))
	}
	if a.Outcome == once.Unknown || a.Outcome == Damaged {
		a.RetryAfter, a.Dead = w.grace(m)
	}
	if a.Outcome == once.Locked && w.AckLocked {
		a.Done, a.RetryAfter = true, 0
	}
	return a
}

// begun does the work, and learns from it whether the target is there.
func (w *Worker) begun(ctx context.Context, e *entry, l once.Lock) (string, error) {
	back := func() {
		if refused := e.begun(); refused > 0 {
			w.Metrics.Away(ctx, false)
			w.log().InfoContext(ctx, "the target responds again: messages begin", "refused", refused)
		}
	}
	taken := time.AfterFunc(probeTime, back)
	result, err := w.Work(ctx, l)
	taken.Stop()
	n, ok := errors.AsType[*NotBegunError](err)
	if !ok {
		back()
		return result, err
	}
	pause, refused := e.refused(n.RetryAfter, time.Now())
	if refused == 1 {
		w.Metrics.Away(ctx, true)
	}
	if refused > 0 {
		w.log().WarnContext(ctx, "the target is away: no message begins meanwhile, and nothing is counted as failed",
			"refused", refused, "pause_ms", pause.Milliseconds(), "err", clip(err.Error()))
	}
	return "", once.Uncounted(err)
}

// retryUnknown bounds the time between deliveries of a message that waits for its analysis' document, or for the
// dead-letter queue.
const retryUnknown = time.Minute

// grace says when to retry a message whose analysis cannot be run as it is: a task may overtake the document that it is
// about. After Grace it is dead.
func (w *Worker) grace(m Message) (retryAfter time.Duration, dead bool) {
	grace, now := cmp.Or(w.Grace, DefaultGrace), time.Now()
	since := w.waiting.first(m.ID, now, grace)
	if !m.Sent.IsZero() && m.Sent.Before(since) {
		since = m.Sent
	}
	left := grace - now.Sub(since)
	if left <= 0 { // each receive counts towards the dead-letter queue
		return retryUnknown, true
	}
	return min(left, max(grace/10, time.Second), retryUnknown), false
}

// sightings remembers when messages were first seen, of which some wait for their analysis.
type sightings struct {
	mu    sync.Mutex
	since map[string]time.Time
	full  time.Time // until then there is no room for another message
}

// maxSightings bounds what is remembered. When there are more, those that came long ago are forgotten, and a message
// for which there is still no room begins when there is: it waits longer, but none begins anew while it waits.
const maxSightings = 10_000

// first returns when a message was first seen. What was seen longer ago than twice the grace was told that it is dead.
func (s *sightings) first(id string, now time.Time, grace time.Duration) time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	if at, ok := s.since[id]; ok {
		return at
	}
	if len(s.since) >= maxSightings {
		if now.Before(s.full) {
			return now
		}
		s.full = now.Add(2 * grace)
		maps.DeleteFunc(s.since, func(_ string, at time.Time) bool {
			end := at.Add(2 * grace)
			if end.After(now) && end.Before(s.full) {
				s.full = end
			}
			return !end.After(now)
		})
		if len(s.since) >= maxSightings {
			return now
		}
	}
	if s.since == nil {
		s.since = map[string]time.Time{}
	}
	s.since[id] = now
	return now
}

// resultOf translates the end of a run. An error means that the gate did not say.
func resultOf(o once.Outcome, err error) Result {
	switch {
	case errors.Is(err, contracts.CodeDocumentDamaged), errors.Is(err, contracts.CodeLockUnreadable):
		return Result{Outcome: Damaged, Err: err}
	case err != nil:
		return Result{Outcome: GateFailed, Err: err}
	}
	a := Result{Outcome: o.Status, RetryAfter: o.RetryAfter, Err: o.Err}
	switch o.Status {
	case once.Ready, once.AlreadyFinished:
		a.Done = true
	case once.Failed, once.AlreadyFailed:
		a.Done, a.Dead = true, o.GivenUp
	case once.Unknown:
		a.Err = errUnknown
	default: // to be retried
	}
	return a
}

// messageKey is where the work finds the message that it is for.
type messageKey struct{}

func (w *Worker) log() *slog.Logger {
	if w.Log == nil {
		return slog.New(slog.DiscardHandler)
	}
	return w.Log
}

// maxLogged bounds the bytes of an error in the log: a target may send a reason of many kilobytes.
const maxLogged = 1 << 10

func clip(s string) string {
	if len(s) <= maxLogged {
		return s
	}
	return strings.ToValidUTF8(s[:maxLogged], "") + "… (" + strconv.Itoa(len(s)) + " bytes)"
}

// logLine writes what became of a delivery. Bodies are left out: they may hold more than the analysis' name.
func (w *Worker) logLine(ctx context.Context, m Message, a Result, took time.Duration) {
	level := slog.LevelInfo
	switch {
	case a.Dead, a.Outcome == GateFailed, a.Outcome == Damaged:
		level = slog.LevelError
	case slices.Contains([]Outcome{once.Failed, once.Retry, once.NotStored, once.Lost, once.Unknown, TargetAway},
		a.Outcome):
		level = slog.LevelWarn
	}
	line := []slog.Attr{
		slog.String("message_id", m.ID), slog.String("try", m.Try), slog.String("analysis", a.AnalysisID),
		slog.String("outcome", string(a.Outcome)), slog.Bool("done", a.Done), slog.Bool("dead", a.Dead),
		slog.Float64("took_ms", float64(took.Microseconds())/1000),
	}
	if a.Err != nil {
		line = append(line, slog.String("err", clip(a.Err.Error())))
	}
	w.log().LogAttrs(ctx, level, "delivery", line...)
}
