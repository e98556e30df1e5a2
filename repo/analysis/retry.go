package analysis

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/field"
	"github.com/leasehold-dev/leasehold/repo/rule"
)

// Retry lets what has ended run again. For what is FAILED it is for when the cause of the failures is gone; with From
// [Ready] it is for work that has to be done once more although it succeeded.
type Retry struct {
	ID
	By        string // who wants it
	Reason    string // for later: it stays in the document until the next retry
	RequestID string // the same for every delivery of the same intention
	From      Status // Failed or Ready; empty means Failed

	// FinishedAt is when it ended as far as the caller knows, in whole milliseconds. If it is not zero, the retry has an
	// effect only while it says so, so that no delivery lets a later end run again, however late it is.
	FinishedAt time.Time

	in Document // what is retried, if it is not an analysis
}

// In is the command on a document of another shape.
func (c Retry) In(d Document) Retry {
	c.ID, c.in = ID(d.ID), d
	return c
}

func (c Retry) document() Document { return cmp.Or(c.in, c.ID.document()) }

func (c Retry) from() Status { return cmp.Or(c.From, Failed) }

// State reads the document.
func (c Retry) State(d docstore.Doc) (State, error) { return c.document().State(d) }

// Validate reports whether the command is well formed. The error is a [field.Error].
func (c Retry) Validate() error {
	return first(c.document().Validate(), checkOwner(c.By), field.Text("request_id", c.RequestID, MaxRequestIDBytes),
		field.Text("reason", c.Reason, MaxRetryBytes), checkFinishedAt(c.FinishedAt))
}

// request leaves FinishedAt out: it is no parameter of the effect.
func (c Retry) request() rule.Request {
	kind := "retry"
	if c.from() == Ready {
		kind = "again"
	}
	return rule.Identify(kind, c.By, c.RequestID).With(c.Reason)
}

// Write applies to what has ended so, and not twice for one request. Failures and takeovers are counted from 0 again;
// the reason of the last failure stays, for those who look, and a result does not. It takes the next token, and the
// lock if there is one: FAILED may have been written by another writer, and a worker that has not learned that must not
// go on beside the next run.
//
// lockExpiresAt of an analysis becomes the time of the retry, which makes it due: a sweep queues it. No sweep looks for
// runs: whoever begins one next does the work.
func (c Retry) Write() docstore.Write { return c.write(State{}) }

func (c Retry) write(s State) docstore.Write {
	d := c.document()
	holds := docstore.All{d.present(), docstore.Eq{Field: fStatus, Value: docstore.String(c.from())},
		fRetries.Lacks(c.request())}
	if !c.FinishedAt.IsZero() {
		holds = append(holds, docstore.Eq{Field: fFinishedAt, Value: docstore.FormatTime(c.FinishedAt)})
	}
	w := nextToken(docstore.Write{
		Key: d.Key(),
		If:  holds,
		Set: map[string]docstore.Value{
			fRetriedAt:   docstore.Now,
			fRetriedBy:   docstore.String(c.By),
			fRetryReason: docstore.String(c.Reason),
		},
		Unset: append(d.unlock(), fFailures, fFailed, fFinishedAt),
	})
	if c.from() == Ready {
		w.Unset = append(w.Unset, fResult)
	}
	if d.Made { // its documents say nothing until they have ended, and no sweep looks for them
		w.Unset = append(w.Unset, fStatus)
	} else {
		w.Set[fStatus], w.Set[d.ExpiryField] = docstore.String(Pending), docstore.Now
		w.Unset = slices.DeleteFunc(w.Unset, func(f string) bool { return f == d.ExpiryField })
	}
	fRetries.Remember(w.Set, c.request())
	return d.keep(s, 0, w)
}

// Fallback is Write for a document that is kept for as long as it says.
func (c Retry) Fallback(s State, w rule.When) (docstore.Write, bool) {
	return c.write(s), c.document().Shape.KeepSeconds > 0 && s.At(w.At).Status == c.from()
}

// Granted is the analysis, or the run, as it waits to run.
func (c Retry) Granted(s State, w rule.When) Outcome {
	o := s.ok(w)
	o.Retried = s.Retried
	return o
}

// Refusal recognises the last retries, whatever has become of it since.
func (c Retry) Refusal(s State, w rule.When) Outcome {
	d := c.document()
	s = s.At(w.At)
	switch i, same := s.Retries.Find(c.request()); {
	case !s.Exists:
		return d.refused(s, NotFound, 0, w)
	case i >= 0 && !same:
		return Outcome{Code: RequestIDReused, At: w.Latest(),
			Detail: "this request_id was used before with another reason: use a new one"}
	case i >= 0:
		o := s.replayed(w)
		o.Retried = s.Retried
		return o
	case s.Status == c.from():
		return Outcome{
			Code: Changed, At: w.Latest(), Grant: Grant{Status: s.Status},
			Detail: fmt.Sprintf("the %s is %s, but did not become so at this finished_at: look at it again first", d.Thing,
				s.Status),
		}
	case c.from() == Ready:
		return Outcome{Code: NotReady, At: w.Latest(), Grant: Grant{Status: s.Status}, Detail: d.not(c.from(), s)}
	default:
		return Outcome{Code: NotFailed, At: w.Latest(), Grant: Grant{Status: s.Status}, Detail: d.not(c.from(), s)}
	}
}

// not says why there is nothing to retry.
func (d Document) not(from Status, s State) string {
	what := "the " + d.Thing
	switch {
	case s.Status == Ready:
		return what + " is READY: it has succeeded, and does not run again"
	case s.Status == Failed:
		return what + " is FAILED: retry it"
	case s.Owner != "":
		return fmt.Sprintf("%s is not %s: a worker runs it, or did until its lock expired", what, from)
	default:
		return fmt.Sprintf("%s is not %s: it waits to run", what, from)
	}
}
