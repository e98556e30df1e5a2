package analysis

import (
	"time"

	"github.com/leasehold-dev/leasehold/repo/docstore"
	"github.com/leasehold-dev/leasehold/repo/rule"
)

// Kind is the kind of document that an analysis is: one for each analysis ID, without a tenant.
const Kind = "analyses"

// Status is the status of an analysis. Anything that is not Ready or Failed is unfinished; users have their own words.
type Status string

// The statuses that end an analysis.
const (
	Ready  Status = "READY"
	Failed Status = "FAILED"
)

// Finished reports whether nothing is left to do.
func (s Status) Finished() bool { return s == Ready || s == Failed }

// Names of the fields that the gate uses in an analysis' document.
const (
	fStatus      = "status"
	fOwner       = "lockOwner"
	fExpiresAt   = "lockExpiresAt"
	fHeartbeatAt = "lockHeartbeatAt"
	fToken       = "lockToken"
	fRuns        = "lockRuns"
	fFailures    = "lockFailures"
	fFailed      = "lockFailedToken"
	fRequeuedAt  = "lockRequeuedAt"
	fRequeueID   = "lockRequeueId"
	fFinishedAt  = "lockFinishedAt"
	fRetriedAt   = "lockRetriedAt"
	fRetriedBy   = "lockRetriedBy"
	fRetryReason = "lockRetryReason"
	fResult      = "result"
	fReason      = "failureReason"
	fFingerprint = "lockFingerprint"
	fKeepSeconds = "keepSeconds"
	fKeptUntil   = "keptUntil"
	fDueAt       = "dueAt"
	fBegunAt     = "begunAt"
)

// fRequests are the fields in which the last acquires are remembered, to recognise a late duplicate.
var fRequests = rule.Register{"lockRequest1", "lockRequest2", "lockRequest3", "lockRequest4"}

// fRetries are the fields in which the last retries are remembered: by themselves, because acquires follow a retry.
var fRetries = rule.Register{"lockRetry1", "lockRetry2", "lockRetry3", "lockRetry4"}

// RememberedRequests is how many acquires, and how many retries, an analysis remembers.
const RememberedRequests = rule.Remembered

// counts are the fields that hold numbers from 0 on.
var counts = []string{fToken, fRuns, fFailures}

// ExpiryField is the field that holds when a lock ends. Only locked analyses have it, and retried ones that no worker
// has begun, so that an index on it is small and finds what is due.
const ExpiryField = fExpiresAt

// State is what an analysis' document says. The zero State is an analysis that does not exist.
type State struct {
	Exists    bool
	Status    Status
	Owner     string        // empty: no one runs it
	Expiry    Expiry        // when the lock ends
	Heartbeat time.Time     // when the gate wrote the end of the lock; zero if the document does not say, or not readably
	Token     int64         // of the latest acquire; 0 before the first
	Requests  rule.Requests // the last acquires
	Runs      int64         // runs begun since the last that ended with a release or finish
	Failures  int64         // runs that failed
	Failed    int64         // token of the run whose failure was counted last
	Requeued  string        // when the sweep queued it again, as it stands; empty if it has not since the lock went stale
	RequeueID string        // of the sweep that did
	Result    string
	Reason    string // of the last failure
	Finished  string // when the gate wrote READY or FAILED, as it stands; empty if it did not
	Retried   Retried
	Retries   rule.Requests // the last retries

	// Due is for which time the latest run of a job is due, or was; zero if it came without one. Begun is when that run
	// began, or was begun again; zero for a run without a [Round].
	Due, Begun time.Time

	// Fingerprint says what the run is about, see [Acquire]; empty if no acquire said so.
	Fingerprint string

	keepSeconds int64           // how long the document is kept after its lock has ended; 0 if it does not say
	until       docstore.String // until when it is kept as it stands; empty for ever

	nullStatus   bool // a condition cannot tell it from a status that is no text
	strangeOwner bool // the owner is not text
}

// Retried is how an administrator made a FAILED analysis PENDING, the last time.
type Retried struct {
	At     string // as it stands; empty if none did
	By     string
	Reason string
}

// awaitsRetry reports whether the analysis is to be queued again because it was retried, and no worker has begun it
// since.
func (s State) awaitsRetry() bool {
	return s.Owner == "" && s.Expiry.Text != "" && s.Expiry.Text == s.Retried.At
}

// Locked reports whether a worker runs the analysis at the time now, or whether that cannot be ruled out.
func (s State) Locked(now time.Time) bool { return s.Owner != "" && !s.Expiry.passed(now) }

// ExpiresAt is when the lock has certainly ended. ok is false if the document does not say.
func (s State) ExpiresAt() (end time.Time, ok bool) {
	return s.Expiry.Latest, !s.Expiry.Latest.IsZero()
}

// Takeovers is how many runs were taken over since the last that ended by itself, including those that a worker has not
// begun yet: a stale lock of the first run counts as none.
func (s State) Takeovers() int64 { return max(0, s.Runs-1) }

// State reads an analysis' document, see [Document.State]; nil is the zero State.
func (id ID) State(d docstore.Doc) (State, error) { return id.document().State(d) }

// isText reports whether a condition finds a field missing or with text that it can compare.
func isText(v docstore.Value) bool {
	s, ok := v.(docstore.String)
	return v == nil || ok && s <= lastText
}

func null(v docstore.Value) bool {
	o, ok := v.(docstore.Opaque)
	return ok && o.Null
}

// unreadable is the owner in the State if the document's owner is not text, and the fingerprint if that is none.
const unreadable = "(unreadable)"

// text is a field's text; empty if there is none or it is something else.
func text(d docstore.Doc, field string) string {
	s, _ := d[field].(docstore.String)
	return string(s)
}
