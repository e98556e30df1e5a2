package analysis

import (
	"slices"
	"time"

	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/field"
	"github.com/leasehold-dev/leasehold/repo/rule"
)

// Retry makes a FAILED analysis PENDING, so that it runs again: an administrator's tool, for when the cause of the
// failures is gone.
type Retry struct {
	ID
	By        string // the administrator
	Reason    string // for later: it stays in the document until the next retry
	RequestID string // the same for every delivery of the same intention

	// FinishedAt is when the analysis became FAILED as far as the caller knows, in whole milliseconds. If it is not zero,
	// the analysis is retried only while it says so, so that no delivery lets a later failure run again, however late it
	// is.
	FinishedAt time.Time
}

// Validate reports whether the command is well formed. The error is a [field.Error].
func (c Retry) Validate() error {
	return first(c.ID.Validate(), checkOwner(c.By), field.Text("request_id", c.RequestID, MaxRequestIDBytes),
		field.Text("reason", c.Reason, MaxRetryBytes), checkFinishedAt(c.FinishedAt))
}

// request leaves FinishedAt out: it is no parameter of the effect.
func (c Retry) request() rule.Request {
	return rule.Identify("retry", c.By, c.RequestID).With(c.Reason)
}

// Write applies to a FAILED analysis, and not twice for one request. Failures and takeovers are counted from 0 again;
// the reason of the last failure stays, for those who look. It takes the next token, and the lock if there is one:
// FAILED may have been written by another writer, and a worker that has not learned that must not go on beside the next
// run.
//
// lockExpiresAt becomes the time of the retry, which makes the analysis due: a sweep queues it.
func (c Retry) Write() docstore.Write {
	w := nextToken(docstore.Write{
		Key: c.document().Key(),
		If: docstore.All{analyses.readable(), docstore.Eq{Field: fStatus, Value: docstore.String(Failed)},
			fRetries.Lacks(c.request())},
		Set: map[string]docstore.Value{
			fStatus:      docstore.String(Pending),
			fExpiresAt:   docstore.Now,
			fRetriedAt:   docstore.Now,
			fRetriedBy:   docstore.String(c.By),
			fRetryReason: docstore.String(c.Reason),
		},
		Unset: append(slices.DeleteFunc(analyses.unlock(), func(f string) bool { return f == fExpiresAt }),
			fFailures, fFailed, fFinishedAt),
	})
	if !c.FinishedAt.IsZero() {
		w.If = docstore.All{w.If, docstore.Eq{Field: fFinishedAt, Value: docstore.FormatTime(c.FinishedAt)}}
	}
	fRetries.Remember(w.Set, c.request())
	return w
}

// Granted is the analysis as it waits to run.
func (c Retry) Granted(s State, w rule.When) Outcome {
	o := s.ok(w)
	o.Retried = s.Retried
	return o
}

// Refusal recognises the last retries of the analysis, whatever has become of it since.
func (c Retry) Refusal(s State, w rule.When) Outcome {
	switch i, same := s.Retries.Find(c.request()); {
	case !s.Exists:
		return analyses.refused(s, NotFound, 0, w)
	case i >= 0 && !same:
		return Outcome{Code: RequestIDReused, At: w.Latest(),
			Detail: "this request_id retried the analysis with another reason: use a new one"}
	case i >= 0:
		o := s.replayed(w)
		o.Retried = s.Retried
		return o
	case s.Status == Failed:
		return Outcome{
			Code: Changed, At: w.Latest(), Grant: Grant{Status: s.Status},
			Detail: "the analysis is FAILED, but did not become so at this finished_at: look at it again before retrying it",
		}
	default:
		return Outcome{Code: NotFailed, At: w.Latest(), Grant: Grant{Status: s.Status}, Detail: s.notFailed()}
	}
}

// notFailed says why there is nothing to retry.
func (s State) notFailed() string {
	switch {
	case s.Status == Ready:
		return "the analysis is READY: it has succeeded, and does not run again"
	case s.Owner != "":
		return "the analysis is not FAILED: a worker runs it, or did until its lock expired"
	default:
		return "the analysis is not FAILED: it waits to run"
	}
}
