package analysis

import (
	"fmt"
	"time"

	"github.com/leasehold-dev/leasehold/repo/docstore"
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
	fRequest     = "lockRequestId"
	fRuns        = "lockRuns"
	fFailures    = "lockFailures"
	fRequeuedAt  = "lockRequeuedAt"
	fRequeueID   = "lockRequeueId"
	fResult      = "result"
	fReason      = "failureReason"
)

// counts are the fields that hold numbers from 0 on.
var counts = []string{fToken, fRuns, fFailures}

// ExpiryField is the field that holds when a lock ends. Only locked analyses have it, so that an index on it is small and
// finds the stale ones.
const ExpiryField = fExpiresAt

// State is what an analysis' document says. The zero State is an analysis that does not exist.
type State struct {
	Exists    bool
	Status    Status
	Owner     string // empty: no one runs it
	Expiry    string // lockExpiresAt as it stands; empty if there is none, or none that is text
	Token     int64  // of the latest acquire; 0 before the first
	Request   string // request ID of the acquire that holds the lock
	Runs      int64  // runs begun since the last that ended with a release or finish
	Failures  int64  // releases of runs that failed
	Requeued  string // when the sweep queued it again, as it stands; empty if it has not since the lock went stale
	RequeueID string // of the sweep that did
	Result    string
	Reason    string // of the last failure
}

// Locked reports whether a worker runs the analysis at the time now: there is an owner, and its lock has not expired.
func (s State) Locked(now time.Time) bool {
	if s.Owner == "" {
		return false
	}
	end, ok := s.ExpiresAt()
	return ok && now.Before(end)
}

// ExpiresAt is when the lock ends. ok is false if the document does not say: there is no time, or nothing that is one.
//
// Beside the form that the gate writes, any number of digits after the second will do, as long as the time is in UTC and
// every part stands where it belongs: the store compares bytes, and must never find such a time in the past that is yet to
// come.
func (s State) ExpiresAt() (end time.Time, ok bool) {
	e := s.Expiry
	if len(e) < len("2026-01-01T00:00:00Z") || e[13] != ':' || e[16] != ':' || e[19] != '.' && e[19] != 'Z' || e[len(e)-1] != 'Z' {
		return time.Time{}, false
	}
	end, err := time.Parse(time.RFC3339Nano, e)
	return docstore.TruncateMilli(end), err == nil
}

// Takeovers is how many runs were taken over since the last that ended by itself, including those that a worker has not
// begun yet: a stale lock of the first run counts as none.
func (s State) Takeovers() int64 { return max(0, s.Runs-1) }

// State reads an analysis' document; nil is the zero State. The error is [docstore.ErrDamaged] and names the field.
//
// Other writers may have written anything into the lock's text fields, and it is taken as it is. A status or a number that
// cannot be read is an error: an analysis that may be finished must not be run again.
func (id ID) State(d docstore.Doc) (State, error) {
	if d == nil {
		return State{}, nil
	}
	s := State{
		Exists: true, Status: Status(text(d, fStatus)), Owner: text(d, fOwner), Expiry: text(d, fExpiresAt),
		Request: text(d, fRequest), Requeued: text(d, fRequeuedAt), RequeueID: text(d, fRequeueID),
		Result: text(d, fResult), Reason: text(d, fReason),
	}
	if v := d[fOwner]; v != nil && s.Owner == "" && v != docstore.String("") {
		s.Owner = unreadable
	}
	if v := d[fStatus]; v != nil && (s.Status == "" && v != docstore.String("") || s.Status > Status(lastText)) {
		return State{}, fmt.Errorf("%w: %s: field %q is not text: it must say whether the analysis is finished", docstore.ErrDamaged, id.key(), fStatus)
	}
	for i, n := range []*int64{&s.Token, &s.Runs, &s.Failures} {
		v, ok := d[counts[i]].(docstore.Int)
		if v < 0 || !ok && d[counts[i]] != nil {
			return State{}, fmt.Errorf("%w: %s: field %q is not a whole number from 0 on", docstore.ErrDamaged, id.key(), counts[i])
		}
		*n = int64(v)
	}
	return s, nil
}

// unreadable is the owner in the State if the document's owner is not text.
const unreadable = "(unreadable)"

// text is a field's text; empty if there is none or it is something else.
func text(d docstore.Doc, field string) string {
	s, _ := d[field].(docstore.String)
	return string(s)
}
