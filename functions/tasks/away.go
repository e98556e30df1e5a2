package tasks

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/leasehold-dev/leasehold/internal/backoff"
	"github.com/leasehold-dev/leasehold/internal/lease"
	"github.com/leasehold-dev/leasehold/repo/analysis"
)

// NotBegunError is the error of a [once.Work] that has not begun: what does it cannot be reached, or has refused it for
// now. That says nothing about the job. It is not counted as a run that failed, and until what does the work is back,
// its worker begins no other message either: see [Worker.DeliverHeld].
type NotBegunError struct {
	RetryAfter time.Duration // not before this; 0 leaves it to the worker
	Err        error
}

// Error is that of Err.
func (e *NotBegunError) Error() string { return e.Err.Error() }

// Unwrap returns Err.
func (e *NotBegunError) Unwrap() error { return e.Err }

// maxRetryAfter bounds how long a target can ask to be left alone: longer, and a mistake in one header stops a queue
// for as long as its messages are kept.
const maxRetryAfter = time.Hour

// asked is the time that a response asks for in its header Retry-After, in seconds or as a date; 0 if it does not.
func asked(header string, now time.Time) time.Duration {
	if seconds, err := strconv.ParseInt(strings.TrimSpace(header), 10, 64); err == nil {
		return min(max(0, time.Duration(min(seconds, int64(maxRetryAfter/time.Second)))*time.Second), maxRetryAfter)
	}
	if at, err := http.ParseTime(header); err == nil {
		return min(max(0, at.Sub(now)), maxRetryAfter)
	}
	return 0
}

// unreached reports whether an error of a request to a target says that it has no connection to it: none was made, or
// TLS was not agreed on. connected says whether the request had one, if that is known.
func unreached(err error, known, connected bool) bool {
	if known {
		return !connected
	}
	return lease.NeverSent(err)
}

// away is what a worker knows about a target that is away: a circuit breaker. While it is open, no message begins. When
// its pause is over, one begins, the probe. If that is refused, too, the next pause is longer; otherwise all begin.
type away struct {
	mu      sync.Mutex
	refused int           // probes in a row that were, with the one that opened it; 0: the target is there
	until   time.Time     // when the next probe may begin
	probing bool          // one is under way
	round   int           // counts what opens it or makes the pause longer
	turn    chan struct{} // closed with the next change; nil: no one waits for it
}

// pauses are the times between two probes, if the target does not ask for longer ones.
var pauses = backoff.Policy{First: time.Second, Max: time.Minute, EqualJitter: true}

// probeTime is how long a probe can last until it counts as begun: what does the work has taken it then. It is longer
// than a target takes to be connected to, see [NewTarget].
const probeTime = 10 * time.Second

// entry is a message that has begun.
type entry struct {
	of    *away
	round int
	probe bool
}

// begin lets a message begin; nil: it has to wait, see open.
func (a *away) begin(now time.Time) *entry {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.wait(now) > 0 {
		return nil
	}
	a.probing = a.refused > 0
	return &entry{of: a, round: a.round, probe: a.probing}
}

// wait is for how long no message begins, at least; 0: one may begin.
func (a *away) wait(now time.Time) time.Duration {
	switch {
	case a.refused == 0:
		return 0
	case a.probing:
		return probeTime
	default:
		return max(0, a.until.Sub(now))
	}
}

// open is for how long no message begins, at least, and what is closed when that may have changed; 0: one may begin.
func (a *away) open(now time.Time) (wait time.Duration, changed <-chan struct{}) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if wait = a.wait(now); wait == 0 {
		return 0, nil
	}
	if a.turn == nil {
		a.turn = make(chan struct{})
	}
	return wait, a.turn
}

// changed tells those who wait.
func (a *away) changed() {
	if a.turn != nil {
		close(a.turn)
		a.turn = nil
	}
}

// begun says that the target has taken the message. It returns whether it was away before, and for how many probes.
func (e *entry) begun() (refused int) {
	a := e.of
	a.mu.Lock()
	defer a.mu.Unlock()
	if e.round != a.round { // begun before the target went away: that it went then is the news
		return 0
	}
	refused = a.refused
	a.refused, a.probing = 0, false
	if refused > 0 {
		a.round++
		a.changed()
	}
	return refused
}

// unused says that the message came to its end without the target.
func (e *entry) unused() {
	a := e.of
	a.mu.Lock()
	defer a.mu.Unlock()
	if e.probe && e.round == a.round {
		a.probing = false
		a.changed()
	}
}

// refused says that the target did not take the message. It returns how long no other one begins, and how many were
// refused in a row: 0 if that was known, because another one was refused while this one was under way.
func (e *entry) refused(retryAfter time.Duration, now time.Time) (pause time.Duration, refused int) {
	a := e.of
	a.mu.Lock()
	defer a.mu.Unlock()
	if e.round == a.round {
		a.round++
		a.refused++
		a.probing = false
		refused = a.refused
		a.until = now.Add(pauses.Delay(a.refused - 1))
	}
	if end := now.Add(retryAfter); a.refused > 0 && end.After(a.until) {
		a.until = end
	}
	a.changed()
	return max(0, a.until.Sub(now)), refused
}

// errAway says for the log why a message did not begin.
var errAway = errors.New("the target is away: the message waits until it responds again")

// maxReturned is the longest time for which a message is returned because the target is away, if the target does not
// ask for more.
const maxReturned = 10 * time.Minute

// returned is for how long a message is returned to its queue whose target is away: longer with each delivery, because
// each counts towards the dead-letter queue.
func returned(m Message, pause time.Duration) time.Duration {
	if m.Deliveries <= 0 {
		return max(pause, time.Second)
	}
	p := backoff.Policy{First: 2 * time.Second, Max: maxReturned, EqualJitter: true}
	return max(pause, p.Delay(m.Deliveries-1))
}

// Hold is how a receiver holds its messages that can, see [Worker.DeliverHeld].
type Hold struct {
	Timeout  time.Duration   // of the work, without the time that the message waits
	Stopping <-chan struct{} // closed when the process is about to end: a message that waits is returned
}

// DeliverHeld is [Worker.Deliver] for a receiver that can hold a message for as long as it likes, with Message.Extend.
// While the target is away it waits, and the message stays hidden: no delivery of it is used up, and no other message
// is received in its place. It returns with [TargetAway] only when the process stops, or the message cannot be held.
func (w *Worker) DeliverHeld(ctx context.Context, m Message, h Hold) Result {
	for {
		if err := w.await(ctx, m, h.Stopping); err != nil {
			return Result{Outcome: TargetAway, RetryAfter: time.Second, Err: err}
		}
		work, cancel := context.WithTimeout(ctx, h.Timeout)
		a := w.Deliver(work, m)
		cancel()
		if a.Outcome != TargetAway {
			return a
		}
	}
}

// await waits until the message may begin.
func (w *Worker) await(ctx context.Context, m Message, stopping <-chan struct{}) error {
	ttl := cmp.Or(w.TTL, analysis.DefaultTTLSeconds*time.Second)
	for held := (time.Time{}); ; {
		wait, changed := w.away.open(time.Now())
		if wait == 0 {
			return nil
		}
		if m.Extend != nil && time.Since(held) >= ttl/2 {
			if err := m.Extend(ctx, ttl); err != nil {
				return fmt.Errorf("hold the message while the target is away: %w", err)
			}
			held = time.Now()
		}
		timer := time.NewTimer(min(wait, ttl/2))
		select {
		case <-timer.C:
		case <-changed:
		case <-stopping:
			timer.Stop()
			return errAway
		case <-ctx.Done():
			timer.Stop()
			return context.Cause(ctx)
		}
		timer.Stop()
	}
}
