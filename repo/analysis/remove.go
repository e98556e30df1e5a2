package analysis

import (
	"fmt"
	"time"

	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/field"
	"github.com/leasehold-dev/leasehold/repo/rule"
)

// Remove makes the document of a run one that is kept no longer: its ID is a new one from then on. Its token and its
// last requests stay for [KeepGivenUp], so that the next run has a higher token, and no late request obtains anything.
// It is no command on analyses, whose documents are the user's.
type Remove struct {
	By        string // who wants it
	Reason    string // for the audit log; 1 to MaxRetryBytes
	RequestID string // the same for every delivery of the same intention

	In Document // what is removed
}

// State reads the document.
func (c Remove) State(d docstore.Doc) (State, error) { return c.In.State(d) }

// Validate reports whether the command is well formed. The error is a [field.Error].
func (c Remove) Validate() error {
	return first(c.In.Validate(), checkOwner(c.By), field.Text("request_id", c.RequestID, MaxRequestIDBytes),
		field.Text("reason", c.Reason, MaxRetryBytes))
}

func (c Remove) request() rule.Request {
	return rule.Identify("remove", c.By, c.RequestID).With(c.Reason)
}

// Write applies to a document without a lock, and not twice for one request.
func (c Remove) Write() docstore.Write { return c.write(docstore.Not{Cond: owned()}) }

func (c Remove) write(free docstore.Cond) docstore.Write {
	w := docstore.Write{
		Key: c.In.Key(),
		If: docstore.All{c.In.present(), docstore.Has{Field: fToken}, free, fRequests.Lacks(c.request()),
			c.In.comparesExpiry()},
		Set: map[string]docstore.Value{fKeptUntil: docstore.FormatTime(time.Unix(0, 0))},
		Unset: append(c.In.unlock(), fStatus, fResult, fReason, fFailures, fFailed, fFinishedAt, fFingerprint, fDueAt,
			fBegunAt),
		Keep: KeepGivenUp,
	}
	fRequests.Remember(w.Set, c.request())
	return w
}

// Fallback is Write for a lock that has certainly ended.
func (c Remove) Fallback(s State, w rule.When) (docstore.Write, bool) {
	again := c.write(c.In.asFound(s))
	return nullable(s, again), s.At(w.At).Exists && s.Owner != "" && s.Expiry.passed(w.At)
}

// Granted is nothing.
func (c Remove) Granted(_ State, w rule.When) Outcome { return Outcome{Code: OK, At: w.Latest()} }

// Refusal recognises the request that removed the document, whatever has come in its place.
func (c Remove) Refusal(s State, w rule.When) Outcome {
	position, same := s.Requests.Find(c.request())
	s = s.At(w.At)
	switch end, _ := s.ExpiresAt(); {
	case position >= 0 && same:
		return Outcome{Code: OK, Replayed: true, At: w.Latest()}
	case position >= 0:
		return Outcome{Code: RequestIDReused, At: w.Latest(),
			Detail: "this request_id was used before with another reason: use a new one"}
	case !s.Exists:
		return c.In.refused(s, NotFound, 0, w)
	default:
		return Outcome{Code: InProgress, At: w.Latest(), Grant: Grant{Owner: s.Owner, ExpiresAt: end},
			RetryAfter: max(0, end.Sub(w.Latest())), Due: s.Due,
			Detail: fmt.Sprintf("a worker runs the %s until %s at least", c.In.Thing, docstore.FormatTime(end))}
	}
}
