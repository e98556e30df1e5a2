package placement

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/field"
	"github.com/leasehold-dev/leasehold/repo/rule"
)

const (
	// Refused is what an [Event] has in To for claims that were refused: nothing changed. Its reason is the code, and how
	// many were refused since the event before.
	Refused = "REFUSED"

	// AlarmFailed is what an [Event] has in To where the owner says that the call for an alarm failed, and its reason why.
	AlarmFailed = "ALARM_FAILED"
)

const (
	mostRefusals      = 10_000           // claims of which it is known that they were refused, by identity and code
	firstRefusal      = time.Second      // the pause after the first event of one
	lastRefusal       = 10 * time.Minute // and after many
	refusalWindow     = 10 * time.Second // in which a cluster has so many of these events at most
	mostRefusalEvents = 10
	lockedLong        = 10 * time.Second // that an activation takes before it counts as a refusal to wait for it
)

// refusals say which refused claims are events: those of an identity after longer and longer pauses, and few at a time
// of a cluster, whatever callers ask for. The others are counted in the next one.
type refusals struct {
	mu       sync.Mutex
	all      map[refusal]*refused
	clusters map[Cluster]*refusedOf
}

// refusal is what is told of together.
type refusal struct {
	of   subject
	code Code
}

type refused struct {
	times int // since the last event
	until time.Time
	pause time.Duration
}

// refusedOf is what a cluster was told since a time.
type refusedOf struct {
	since time.Time
	told  int
}

// count counts a refused claim, and returns how many are to be told of; 0 for none.
func (r *refusals) count(of refusal, now time.Time) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.all == nil || len(r.all) >= mostRefusals && r.all[of] == nil {
		r.forget(now)
	}
	known := r.all[of]
	if known == nil {
		known = &refused{}
		r.all[of] = known
	}
	known.times++
	c := r.clusters[of.of.Cluster]
	if c == nil || now.Sub(c.since) >= refusalWindow {
		c = &refusedOf{since: now}
		r.clusters[of.of.Cluster] = c
	}
	if now.Before(known.until) || c.told >= mostRefusalEvents {
		return 0
	}
	if now.Sub(known.until) > lastRefusal {
		known.pause = 0
	}
	c.told++
	known.pause = min(max(firstRefusal, 2*known.pause), lastRefusal)
	known.until = now.Add(known.pause)
	times := known.times
	known.times = 0
	return times
}

// forget makes room: of what is over, or of all.
func (r *refusals) forget(now time.Time) {
	for of, known := range r.all {
		if now.Sub(known.until) > lastRefusal {
			delete(r.all, of)
		}
	}
	for c, known := range r.clusters {
		if now.Sub(known.since) >= refusalWindow {
			delete(r.clusters, c)
		}
	}
	if r.all == nil || len(r.all) >= mostRefusals*9/10 {
		r.all, r.clusters = map[refusal]*refused{}, map[Cluster]*refusedOf{}
	}
}

// tellRefused writes an event of a claim that was refused, if it is due. That an identity is active, is being
// activated, or is placed on another member refuses no one: it says where. What there is no cluster for leaves nothing.
// A write that fails is none of the caller's business.
func (s *Service) tellRefused(ctx context.Context, c Claim, o Outcome) {
	switch o.Code {
	case Undetermined, NoEligibleMember:
	case MemberIneligible:
		if o.Ineligible == PlacedOnOther {
			return
		}
	case Locking:
		if o.At.Sub(o.Activation.ClaimedAt) < lockedLong {
			return
		}
	default:
		return
	}
	if o.Epoch == 0 {
		return
	}
	times := s.refusals.count(refusal{c.subject(), o.Code}, s.now())
	if times == 0 {
		return
	}
	e := Event{Member: c.By, Identity: c.Identity, From: string(o.Activation.Phase), To: Refused, Epoch: o.Epoch,
		Token: o.Activation.Token, Reason: string(o.Code)}
	if times > 1 {
		e.Reason += fmt.Sprintf(", %d times since the event before", times)
	}
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	_, _ = s.store.Write(ctx, e.write(c.Cluster, o.At))
}

// ReportAlarm says that the call for an alarm failed: an event, beside the alarm, which stays as it is.
type ReportAlarm struct {
	Hold

	Version int64  // of the alarm
	Reason  string // required
}

// Validate reports whether the command is well formed. The error is a [field.Error].
func (c ReportAlarm) Validate() error {
	return first(c.validate(), AlarmChange{Version: c.Version}.validate(), field.Text("failed", c.Reason, MaxReasonBytes))
}

// Write applies while the alarm is of the version that was named.
func (c ReportAlarm) Write() docstore.Write {
	return docstore.Write{Key: c.key(), If: append(c.held(Active), counted(fAlarmVersion, c.Version))}
}

// Known is what is known of the document beforehand.
func (c ReportAlarm) Known() docstore.Doc {
	return alarmStep{}.known(c.Hold, AlarmChange{Version: c.Version})
}

// Granted is the activation, as far as it is known.
func (c ReportAlarm) Granted(a Activation, w rule.When) Outcome { return c.ok(a, w) }

// Refusal says why it is not the owner's to report.
func (c ReportAlarm) Refusal(a Activation, w rule.When) Outcome {
	o := c.refused(a, w, false)
	if o.Code == WrongPhase && a.Phase == Active {
		o.Code, o.Detail = StateChanged, "the alarm has version "+strconv.FormatInt(a.AlarmVersion, 10)
	}
	return o
}

// ReportAlarm writes the event of a call for an alarm that failed; see [ReportAlarm]. One request to the store, a step
// of two. The codes of rejections are those of [Service.SetAlarm].
func (s *Service) ReportAlarm(ctx context.Context, c ReportAlarm) (Outcome, error) {
	return own(ctx, s, c, c.Hold, Event{From: string(Active), To: AlarmFailed, Reason: c.Reason})
}
