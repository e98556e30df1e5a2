package analysis

import (
	"fmt"
	"strconv"
	"time"

	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/field"
	"github.com/leasehold-dev/leasehold/repo/rule"
)

// Round is for a job that comes round again: it says which of the job's runs an acquire is for. One document serves all
// of them, so that no two are at work at once, and its token rises from one to the next. The zero Round is none: what
// has finished does not run again.
//
// A run that is due at a time is judged by the store's time: from Due on, and before Next. The time is read in one
// request and the lock taken in the next, so that a run which is due no longer may begin as late as that takes.
type Round struct {
	// Due is the time for which the run is due, and Next that of the run after it, in whole milliseconds. A document of an
	// earlier Due begins anew; one of the same, or of a later one, is that of this run. A Due that the store's time has
	// not reached was written by a wrong clock, and counts as none.
	Due, Next time.Time

	// EverySeconds, without Due, is after how many seconds, counted from the beginning of a run, another one begins anew
	// when that has finished; 1 to MaxKeepSeconds.
	EverySeconds int64
}

// MaxKeepSeconds is the longest time between two runs of a job, and for which a run can be kept: ten years.
const MaxKeepSeconds = 3660 * 86_400

func (r Round) validate() error {
	switch {
	case r.Due.IsZero() && r.Next.IsZero() && r.EverySeconds == 0:
		return nil
	case r.Due.IsZero() && r.Next.IsZero():
		return field.Range("every_seconds", r.EverySeconds, 1, MaxKeepSeconds)
	case r.EverySeconds != 0:
		return field.Errorf("every_seconds", "cannot be together with due_at: send one of them")
	case r.Due.IsZero():
		return field.Errorf("due_at", "is missing: next_due_at belongs to it")
	case r.Next.IsZero():
		return field.Errorf("next_due_at", "is missing: due_at needs it")
	case !r.Next.After(r.Due):
		return field.Errorf("next_due_at", "must be later than due_at")
	case r.Next.Sub(r.Due) > MaxKeepSeconds*time.Second:
		return field.Errorf("next_due_at", "must be within ten years of due_at")
	default:
		return nil
	}
}

// Seconds is the time from a run to the next, in whole seconds, rounded up; 0 for the zero Round.
func (r Round) Seconds() int64 {
	return r.EverySeconds + int64((r.Next.Sub(r.Due)+time.Second-1)/time.Second)
}

// key is what tells requests for different runs of a job apart.
func (r Round) key() string {
	switch {
	case !r.Due.IsZero():
		return " due " + string(docstore.FormatTime(r.Due))
	case r.EverySeconds != 0:
		return " every " + strconv.FormatInt(r.EverySeconds, 10)
	default:
		return ""
	}
}

// notDue reports whether the store's time is before Due, or not before Next.
func (r Round) notDue(w rule.When) bool {
	return !r.Due.IsZero() && (w.At.Before(r.Due) || !w.At.Before(r.Next))
}

// refusal is the outcome of an acquire that is not due.
func (r Round) refusal(s State, w rule.When) Outcome {
	o := Outcome{Code: NotDue, At: w.At, Due: s.Due, RetryAfter: max(0, r.Due.Sub(w.At)),
		Detail: fmt.Sprintf("it is due at %s, and the store's time is %s", docstore.FormatTime(r.Due),
			docstore.FormatTime(w.At))}
	if o.RetryAfter == 0 {
		o.Detail = fmt.Sprintf("the next run was due at %s, and the store's time is %s", docstore.FormatTime(r.Next),
			docstore.FormatTime(w.At))
	}
	return o
}

// over is the outcome of an acquire of what has finished, and says when it may run again.
func (r Round) over(s State, w rule.When) Outcome {
	o := s.over(w.At)
	if r.EverySeconds > 0 {
		o.RetryAfter = max(0, s.begun().Add(time.Duration(r.EverySeconds)*time.Second).Sub(w.At))
	}
	return o
}

// begun is when the latest run began, or if that is not known ended.
func (s State) begun() time.Time {
	if s.Begun.IsZero() {
		end, _ := docstore.ParseTime(docstore.String(s.Finished))
		return end
	}
	return s.Begun
}

// renews reports whether the document is that of the run before, and no one runs it.
func (c Acquire) renews(s State, w rule.When) bool {
	if position, _ := s.Requests.Find(c.request()); position >= 0 || s.Locked(w.At) {
		return false
	}
	every, begun := time.Duration(c.Round.EverySeconds)*time.Second, s.begun()
	switch {
	case !c.Round.Due.IsZero():
		return s.Due.Before(c.Round.Due) || s.Due.After(w.Latest())
	case every > 0 && s.Status.Finished():
		return !begun.Add(every).After(w.At) || begun.After(w.Latest())
	default:
		return false
	}
}

// renew is the write of the next run of a job, or of its first, in the document that was found.
func (c Acquire) renew(s State) docstore.Write {
	d := c.document()
	return c.fresh(docstore.All{d.present(), sameToken(s.Token), sameText(fOwner, s.Owner),
		sameText(d.ExpiryField, s.Expiry.Text), sameText(fStatus, string(s.Status))}, s)
}

// mark writes which run of a job begins.
func (r Round) mark(w *docstore.Write) {
	if r == (Round{}) {
		w.Unset = append(w.Unset, fBegunAt)
	}
	if r.Due.IsZero() {
		w.Unset = append(w.Unset, fDueAt)
	} else {
		w.Set[fDueAt] = docstore.FormatTime(r.Due)
	}
}
